"""Collaborative representation classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import normalize
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data


class CollaborativeClassifier(ClassifierMixin, BaseEstimator):
    r"""Collaborative representation with regularised least squares (CRC-RLS).

    All training samples together, the rows of X, represent a new sample q,

    .. math:: w = \arg\min_w \|q - X^\top w\|^2 + \beta \|w\|^2 = (X X^\top + \beta I)^{-1} X q,

    and it gets the class k whose share :math:`X_k^\top w_k` leaves the least residual for its
    coefficients: :math:`\|q - X_k^\top w_k\| / \|w_k\|`. Training samples are scaled to norm 1
    first; the length of q cancels.

    Parameters
    ----------
    beta : float, default=1e-3
        Weight of the squares of the coefficients, above 0.

    References
    ----------
    L. Zhang, M. Yang, X. Feng, "Sparse Representation or Collaborative Representation: Which Helps
    Face Recognition?", ICCV 2011.
    """

    def __init__(self, *, beta: float = 1e-3) -> None:
        self.beta = beta

    def fit(self, X: ArrayLike, y: ArrayLike) -> CollaborativeClassifier:
        """Store the samples and the matrix that computes representations."""
        samples, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, self._classes_of_rows = np.unique(labels, return_inverse=True)
        self._rows = normalize(samples)
        penalty = self.beta * np.eye(len(samples))
        self._representer = np.linalg.solve(self._rows @ self._rows.T + penalty, self._rows)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class with the smallest regularised residual."""
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=np.float64, reset=False)
        residuals = [self._residual(samples, k) for k in range(len(self.classes_))]
        return np.asarray(self.classes_[np.argmin(residuals, axis=0)])

    def _residual(self, samples: NDArray[np.float64], k: int) -> NDArray[np.float64]:
        members = self._classes_of_rows == k
        weights = samples @ self._representer[members].T
        left = np.linalg.norm(samples - weights @ self._rows[members], axis=1)
        # Coefficients of a class are zero only for samples orthogonal to the class.
        return np.asarray(
            left / np.maximum(np.linalg.norm(weights, axis=1), np.finfo(np.float64).tiny)
        )
