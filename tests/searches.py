"""Searches by their class and mixed parameters."""

from inspect import signature


def make_search(search, **params):
    """Create a search; parameters that it does not have are those of its model."""
    own = signature(search).parameters
    of_model = {name: value for name, value in params.items() if name not in own}
    of_search = {name: value for name, value in params.items() if name in own}
    return search(search._classifier(**of_model) if of_model else None, **of_search)
