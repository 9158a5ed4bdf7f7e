"""Newton's linear systems for linear ODM: by a factored Hessian, or by conjugate gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.factorisation import psd_solver
from discreg.linalg.rows import centred_gram, rmatmul, weighted_mean
from discreg.linalg.threads import one_blas_thread, run_in_threads

__all__ = ["ConjugateGradients", "FactoredHessian"]

Array = NDArray[np.float64]
MAX_CG_STEPS = 500
FEW_ROWS = 5_000  # whose products are done before a thread would have started
CG_ACCURACY = 0.1


class FactoredHessian:
    """I + XᵀHX, formed once and then changed for the rows alone whose curvature has changed.

    An intercept is eliminated by centring the rows at their mean with weights H.
    """

    def __init__(self, X: Any, *, centred: bool) -> None:
        self._X, self._centred = X, centred
        n_rows, n_features = X.shape
        self._curvature = np.zeros(n_rows)
        self._gram = np.zeros((n_features, n_features))
        self._moment = np.zeros(n_features)
        # Moments about a point amidst the rows lose no digits to the distance of the origin.
        dense_centre = centred and not sparse.issparse(X)
        self._origin = weighted_mean(X, np.ones(n_rows)) if dense_centre else None

    def step(self, curvature: Array, gradient: Array, gap: float) -> Array:
        self._update(curvature)
        hessian = self._gram.copy()
        if self._centred:
            total = float(curvature.sum())
            if total > 0:
                hessian -= np.outer(self._moment / total, self._moment)
        hessian[np.diag_indices_from(hessian)] += 1.0
        with one_blas_thread():  # two would wait for each other longer than this takes
            return -psd_solver(hessian)(gradient[:, None])[:, 0]

    def _update(self, curvature: Array) -> None:
        changed = np.flatnonzero(curvature != self._curvature)
        if not len(changed):
            return
        rows = self._X if len(changed) == len(curvature) else self._X[changed]
        change = curvature[changed] - self._curvature[changed]
        self._gram += self._weighted_gram(rows, change)
        if self._centred:
            self._moment += rmatmul(rows, change[:, None])[:, 0]
            if self._origin is not None:
                self._moment -= change.sum() * self._origin
        self._curvature = curvature

    def _weighted_gram(self, rows: Any, change: Array) -> Array:
        """Σ change · x xᵀ over the rows; the changes may be negative."""
        if sparse.issparse(rows):
            half = _outer_products(rows, change)
            return half + half.T - np.diag(half.diagonal())
        total = np.zeros_like(self._gram)
        for sign in (1.0, -1.0):
            those = np.flatnonzero(sign * change > 0)
            if len(those):
                some = rows if len(those) == len(change) else rows[those]
                total += sign * centred_gram(some, np.abs(change[those]), self._origin)
        return total


def _outer_products(rows: Any, factors: Array) -> Array:
    """Σ factor · x xᵀ over CSR rows, each pair of entries once; two halves for two threads."""
    from . import _primal_loops

    halves = np.array_split(np.arange(len(factors)), 2 if len(factors) > FEW_ROWS else 1)
    totals = np.zeros((len(halves), rows.shape[1], rows.shape[1]))

    def add(number: int) -> None:
        those = halves[number]
        _primal_loops.add_outer_products(
            totals[number], rows.data, rows.indices, rows.indptr, those, factors[those]
        )

    run_in_threads(add, range(len(halves)))
    return np.asarray(totals.sum(axis=0))


class ConjugateGradients:
    """The same for many features, to the accuracy that the gap asks for.

    Preconditioned by the diagonal of the Hessian.
    """

    def __init__(self, X: Any, *, centred: bool) -> None:
        self._X, self._centred = X, centred
        self._squares = X.multiply(X).tocsr() if sparse.issparse(X) else X * X

    def step(self, curvature: Array, gradient: Array, gap: float) -> Array:
        active = np.flatnonzero(curvature)
        X, squares, weights = self._X[active], self._squares[active], curvature[active]
        inverse = 1.0 / (1.0 + np.asarray(squares.T @ weights).ravel())
        transposed = X.T.tocsr() if sparse.issparse(X) else X.T
        total = float(weights.sum())

        def hessian(v: Array) -> Array:
            moved = np.asarray(X @ v)
            if self._centred and total > 0:
                moved -= (weights @ moved) / total
            moved *= weights
            return v + np.asarray(transposed @ moved)

        return _conjugate_gradients(hessian, -gradient, inverse, min(CG_ACCURACY, gap**0.25))


def _conjugate_gradients(hessian: Any, right: Array, inverse: Array, accuracy: float) -> Array:
    """Solve a positive definite system to a relative accuracy in the norm of the preconditioner."""
    solution = np.zeros_like(right)
    residual = right
    preconditioned = inverse * residual
    search = preconditioned
    energy = float(residual @ preconditioned)
    enough = accuracy**2 * energy
    for _ in range(MAX_CG_STEPS):
        if energy <= 0:
            break
        image = hessian(search)
        length = energy / float(search @ image)
        solution = solution + length * search
        residual = residual - length * image
        preconditioned = inverse * residual
        energy, previous = float(residual @ preconditioned), energy
        if energy <= enough:
            break
        search = preconditioned + (energy / previous) * search
    return solution
