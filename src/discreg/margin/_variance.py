"""LDM as a soft-margin SVM in a metric that includes the variance of the margins.

For scores f = Xw + b of samples with weights s, m = Σ s, twice λ1 times the variance of the margins
y f is the quadratic form fᵀ A f with A = (2 λ1/m) (S − rrᵀ/m) and r = s y. So ½‖w‖² + λ1 var is
half the squared norm of (w, b) in the metric

    M = diag(1, …, 1, 0) + ZᵀAZ,        Z = [X, 1],

which is positive definite with an intercept if λ1 > 0. With M = L Lᵀ, the dual (14) is that of an
SVM on the rows Z L⁻ᵀ. With a kernel matrix G instead of rows, N = G (I + A G)⁻¹ replaces G. An
intercept adds v vᵀ/σ to N, where v = 1 − NA1 and σ = 1ᵀA1 − 1ᵀANA1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from discreg.linalg.rows import centred_gram, weighted_mean
from discreg.linalg.types import Array

OVERFLOW = (
    "The objective of LDM overflows with lambda1={:g}. Lower lambda1, or scale the features, for "
    "example with sklearn.preprocessing.StandardScaler."
)


@dataclass(frozen=True)
class VarianceRows:
    """Rows Z L⁻ᵀ, and the conversion of their coefficients to those of the features."""

    rows: Array
    factor: Array  # L
    mean: Array | None  # of the features, if there is an intercept

    def coefficients(self, coef: Array) -> tuple[Array, float]:
        """Compute the coefficients of the features and the intercept."""
        both = linalg.solve_triangular(self.factor, coef, lower=True, trans="T", check_finite=False)
        if self.mean is None:
            return both, 0.0
        return both[:-1], float(both[-1] - self.mean @ both[:-1])


@dataclass(frozen=True)
class VarianceGram:
    """Matrix N + v vᵀ/σ, and the vector v/σ that gives the intercept."""

    damped: Array  # shared by all classes
    updates: Array  # one or two columns u; the matrix is the shared part plus all u uᵀ
    intercept_row: Array | None  # v/σ

    def gram(self) -> Array:
        """Compute the matrix."""
        gram = self.updates @ self.updates.T
        gram += self.damped
        return np.asarray(gram)

    def intercept(self, signed: Array) -> float:
        """Compute the intercept for signed multipliers y (α + t)."""
        return 0.0 if self.intercept_row is None else float(self.intercept_row @ signed)


def variance_rows(
    X: Any, y: Array, weights: Array, lambda1: float, *, fit_intercept: bool
) -> VarianceRows:
    """Compute the rows on which LDM is an SVM, for at most as many features as samples."""
    rows = np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    mean_of_rows = None
    if fit_intercept:
        mean_of_rows = weighted_mean(rows, weights)
        rows -= mean_of_rows
        rows = np.column_stack([rows, np.ones(len(y))])
    signed = rows * y[:, None]
    mean = weights @ signed / weights.sum()
    metric = (2.0 * lambda1 / weights.sum()) * centred_gram(signed, weights, mean)
    n_features = X.shape[1]
    metric[np.arange(n_features), np.arange(n_features)] += 1.0
    factor = _cholesky(metric)
    white = linalg.solve_triangular(factor, rows.T, lower=True, check_finite=False)
    return VarianceRows(np.ascontiguousarray(white.T), factor, mean_of_rows)


def damped_gram(gram: Array, weights: Array, lambda1: float) -> Array:
    """Compute the part of N that all classes share: G (I + BG)⁻¹ with B = (2 λ1/m) S.

    It is G − VᵀV with V = C⁻¹ B^½ G and the Cholesky factorisation C Cᵀ = I + B^½ G B^½.
    """
    root = np.sqrt(2.0 * lambda1 / float(weights.sum()) * weights)
    half = root[:, None] * gram
    inner = half * root
    inner[np.diag_indices_from(inner)] += 1.0
    factor = _cholesky(inner)
    half = linalg.solve_triangular(factor, half, lower=True, overwrite_b=True, check_finite=False)
    return np.asarray(gram - half.T @ half)


@np.errstate(over="ignore", invalid="ignore")  # the objective is checked for overflow
def variance_gram(
    damped: Array, y: Array, weights: Array, lambda1: float, *, fit_intercept: bool
) -> VarianceGram:
    """Compute the kernel matrix with which LDM is an SVM, from the result of `damped_gram`.

    A is B − κ rrᵀ with κ = 2 λ1/m², so that N differs from the shared part P by a matrix of rank
    one: N = P + κ (Pr)(Pr)ᵀ / (1 − κ rᵀPr).
    """
    signed = weights * y
    factor = 2.0 * lambda1 / float(weights.sum()) ** 2
    image = damped @ signed
    rest = 1.0 - factor * float(signed @ image)
    if not rest > 0.0:
        raise ValueError(OVERFLOW.format(lambda1))
    update = image * np.sqrt(factor / rest)
    if not fit_intercept:
        return VarianceGram(damped, update[:, None], None)
    # A1, without the difference 1 − y ȳ, which is inaccurate for a class of tiny weight
    shares = np.where(y > 0, weights[y < 0].sum(), weights[y > 0].sum()) / weights.sum()
    ones = 4.0 * lambda1 / float(weights.sum()) * weights * shares
    moved = damped @ ones + update * float(update @ ones)
    row = 1.0 - moved
    sigma = float(ones.sum() - ones @ moved)
    return VarianceGram(damped, np.column_stack([update, row / np.sqrt(sigma)]), row / sigma)


def variance_term(scores: Array, y: Array, weights: Array, lambda1: float) -> Array:
    """Compute A f, half the gradient of 2 λ1 var with respect to the scores."""
    mean = float(weights @ (y * scores)) / float(weights.sum())
    return (2.0 * lambda1 / float(weights.sum())) * weights * (scores - y * mean)


def _cholesky(matrix: Array) -> Array:
    """Compute the lower Cholesky factor; raise if rounding makes the matrix indefinite."""
    try:
        return np.asarray(linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError as error:
        raise ValueError(
            "The variance of the margins cannot be computed: values of the kernel or of the "
            "features are so large that their differences are lost to rounding. Scale the "
            "features, for example with sklearn.preprocessing.StandardScaler, or lower gamma, "
            "degree or lambda1."
        ) from error
