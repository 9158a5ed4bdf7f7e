"""How much each training row contributes to the difference of two scores of a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreg.linalg.kernels import kernel_matrix
from discreg.linalg.types import Array, Indices

__all__ = ["Contributions", "contributions_of", "keeps_rows"]


@dataclass(frozen=True)
class Contributions:
    """Parts of the score of one class minus that of another, which is their sum.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Training rows of the classifier that contribute.
    values : ndarray of shape (n_rows,)
        Their contributions, positive if they speak for the first class.
    constant : float
        What does not depend on the sample: the difference of the intercepts.
    """

    rows: Indices
    values: Array
    constant: float


def keeps_rows(classifier: Any) -> bool:
    """Return whether the scores of a classifier are sums over training rows that it keeps."""
    if hasattr(classifier, "n_components_"):
        return False
    is_regression = hasattr(classifier, "dual_coef_") and classifier.kernel != "linear"
    return is_regression or hasattr(classifier, "fit_order_")


def contributions_of(
    classifier: Any, point: Any, y: Indices, first: int, second: int
) -> Contributions:
    """Split the score of class `first` minus that of class `second` into parts of training rows.

    Parameters
    ----------
    classifier : classifier
        It was fitted to class indices, and `keeps_rows`.
    point : ndarray or CSR matrix of shape (1, n_features)
        The sample.
    y : ndarray of shape (n_samples,)
        Class indices of the classifier's training data.
    first, second : int
        Class indices.
    """
    if hasattr(classifier, "fit_order_"):
        return _of_representation(classifier, point, y, first, second)
    return _of_regression(classifier, point, len(y), first, second)


def _kernel(classifier: Any, X: Any, Y: Any) -> Array:
    gamma = None if classifier.kernel == "linear" else classifier.gamma
    return kernel_matrix(X, Y, kernel=classifier.kernel, gamma=gamma)


def _of_regression(
    classifier: Any, point: Any, n_rows: int, first: int, second: int
) -> Contributions:
    """Split Σᵢ aᵢ k(x, xᵢ) + b, where a and b are differences of coefficients of two classes."""
    rows = np.asarray(getattr(classifier, "support_", np.arange(n_rows)), dtype=np.intp)
    kept = classifier.X_fit_ if hasattr(classifier, "X_fit_") else classifier.support_vectors_
    coef, intercept = (
        _difference(np.asarray(each, dtype=np.float64), first, second)
        for each in (classifier.dual_coef_, classifier.intercept_)
    )
    return Contributions(rows, coef * _kernel(classifier, point, kept)[0], float(intercept))


def _difference(of_classes: Array, first: int, second: int) -> Array:
    """Return the entry of a class minus that of another; two classes have one, the second's."""
    if len(of_classes) > 1:
        return np.asarray(of_classes[first] - of_classes[second])
    return np.asarray(of_classes[0] if first == 1 else -of_classes[0])


def _of_representation(
    classifier: Any, point: Any, y: Indices, first: int, second: int
) -> Contributions:
    """Split the difference of two residuals of DRM.

    With the representation v of x and the projections ψ_c = Σ vᵢ φ(xᵢ) over the rows of a class c,
    the residual of c is a number that all classes share minus 2 ⟨ψ_c, φ(x) + Σ_{d≠c} ψ_d⟩. The part
    of a row of class c is 2 vᵢ (k(x, xᵢ) + Σⱼ vⱼ k(xᵢ, xⱼ)), where j are the rows of other classes.
    Rows of classes other than the two have none.
    """
    order = np.asarray(classifier.fit_order_)
    kept, labels = classifier.X_fit_, y[order]
    coef = np.asarray(classifier.representation(point)[0, order], dtype=np.float64)
    rows, values = [], []
    for label, sign in ((first, 2.0), (second, -2.0)):
        own = np.flatnonzero(labels == label)
        along = _kernel(classifier, kept[own], point)[:, 0]
        others = np.where(labels == label, 0.0, coef)
        values.append(sign * coef[own] * (along + _kernel(classifier, kept[own], kept) @ others))
        rows.append(order[own])
    return Contributions(np.concatenate(rows), np.concatenate(values), 0.0)
