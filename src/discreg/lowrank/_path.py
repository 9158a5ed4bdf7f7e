"""The models of all ranks that one fit gives."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score

__all__ = ["RankPath", "scores_by_rank"]


class RankPath:
    """Coefficients and scores of every rank.

    It is what :meth:`LRRRClassifier.rank_path <discreg.LRRRClassifier.rank_path>` returns.

    Parameters
    ----------
    estimator : LRLRClassifier or LRRRClassifier
        Fitted with the largest rank.

    Attributes
    ----------
    ranks : ndarray of shape (n_ranks,)
        From 1 to the largest rank.
    classes : ndarray of shape (n_classes,)
        Class labels, the columns of the scores.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self.ranks = np.arange(1, estimator.rank_ + 1)
        self.classes = estimator.classes_
        self._shift = estimator._shift

    def coef(self, rank: int) -> NDArray[Any]:
        """Coefficients of a rank, one row a class: of the features, or of the kernel functions.

        Parameters
        ----------
        rank : int
            One of `ranks`.

        Returns
        -------
        coef : ndarray of shape (n_classes, n_features) or (n_classes, n_samples)
        """
        self._check(rank)
        fitted = self._estimator
        return fitted.directions_[:, :rank] @ fitted.scalings_[:, :rank].T

    def intercept(self, rank: int) -> NDArray[Any]:
        """Intercepts of a rank.

        Parameters
        ----------
        rank : int
            One of `ranks`.

        Returns
        -------
        intercept : ndarray of shape (n_classes,)
        """
        self._check(rank)
        fitted = self._estimator
        return self._shift - fitted.directions_[:, :rank] @ fitted._means[:rank]

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Scores of all classes by the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_ranks, n_samples, n_classes)
            A column for each class, for two classes too.
        """
        projected = self._estimator.transform(X)
        by_rank = scores_by_rank(projected, self._estimator.directions_, self._shift)
        return np.array(list(by_rank))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels by the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_ranks, n_samples)
        """
        return self.classes[self.decision_function(X).argmax(axis=2)]

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Accuracies of the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        accuracies : ndarray of shape (n_ranks,)
        """
        return np.array(
            [accuracy_score(y, labels, sample_weight=sample_weight) for labels in self.predict(X)]
        )

    def _check(self, rank: int) -> None:
        if not isinstance(rank, Integral) or rank not in self.ranks:
            raise ValueError(f"rank must be one of 1 to {self.ranks[-1]}, got {rank!r}.")


def scores_by_rank(
    projected: NDArray[Any], directions: NDArray[Any], shift: NDArray[Any]
) -> Iterator[NDArray[Any]]:
    """Scores of projected samples by the first column, the first two columns, and so on."""
    scores = np.repeat(shift[None], len(projected), axis=0)
    for column, direction in zip(projected.T, directions.T, strict=True):
        scores = scores + np.outer(column, direction)
        yield scores
