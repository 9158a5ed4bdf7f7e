"""From scores of the classes to labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from discreg.blocks.lazy import DaskScoreMixin, lazily

__all__ = ["LargestScoreClassifier"]


class LargestScoreClassifier(DaskScoreMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base of classifiers with a kernel whose largest decision value wins."""

    kernel: Any
    classes_: NDArray[Any]

    @abstractmethod
    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Scores of the classes; for two classes one number, positive for the second."""

    @lazily
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Label of the class with the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        winners = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[winners]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
