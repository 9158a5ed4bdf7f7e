"""A classifier that answers by the best estimator of its search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.blocks.lazy import lazily
from discreg.blocks.validation import (
    is_dask,
)

__all__ = ["BestClassifier"]


class BestClassifier(ClassifierMixin, BaseEstimator):
    """Base of the ...CV classifiers: predictions and fitted attributes of `best_estimator_`."""

    kernel: Any
    best_estimator_: Any

    def _adopt(self) -> None:
        """Take over the fitted attributes; those of an earlier search are forgotten first."""
        for name in self.__dict__.pop("_adopted", ()):
            self.__dict__.pop(name, None)
        fitted = {k: v for k, v in vars(self.best_estimator_).items() if k.endswith("_")}
        self.__dict__.update(fitted)
        self._adopted = [name for name in fitted if not name.endswith("_in_")]
        if hasattr(self, "feature_names_in_"):  # it has seen the bare array
            self.best_estimator_.feature_names_in_ = self.feature_names_in_

    def _require_rows_in_memory(self, X: Any) -> None:
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} holds rows out and needs them in memory. On Dask use "
                "discreg.penalty_path for LSRClassifier and LRRRClassifier, or search on "
                "a sample of the rows and fit the best classifier to all."
            )

    @lazily
    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Scores of the classes by the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column a class; for two classes the score of the second minus that of the first.
        """
        self._check_new(X)
        return self.best_estimator_.decision_function(X)

    @lazily
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels by the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        self._check_new(X)
        return self.best_estimator_.predict(X)

    def _check_new(self, X: ArrayLike) -> None:
        """Check new samples in the name of this estimator."""
        check_is_fitted(self)
        validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
