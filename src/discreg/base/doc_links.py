"""Where the pages of the estimators are, for the links in their HTML representation."""

__all__ = ["DOC_LINK_MODULE", "DOC_LINK_TEMPLATE"]

DOC_LINK_MODULE = "discreg"
DOC_LINK_TEMPLATE = "https://discreg.github.io/discreg/api/discreg.{estimator_name}.html"
