"""Refits without single samples, all at once: equations on the samples whose piece changes.

The losses are piecewise quadratic. If the pieces of all samples are known, the optimality
conditions are linear, and few of them differ from those of the fit. Each refit starts from the
pieces of the fit. Its equations lead to new pieces, and so on until these do not change; then the
optimality conditions hold, and the refit is exact. After some rounds only the first piece that is
wrong changes, which ends most cycles (Murty's rule for linear complementarity problems).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from discreg.linalg.factorisation import EPS
from discreg.linalg.rows import batches
from discreg.linalg.types import Array, Indices

__all__ = [
    "EXACT_GAP",
    "Refits",
    "cholesky",
    "in_columns",
    "inverse_factor",
    "solve_all",
    "triangular",
    "with_changed",
]

Pieces = NDArray[np.int8]
FULL_ROUNDS = 10  # later only one piece changes in a round
MOST_CHANGES = 100  # most pieces that change with one sample
BATCH = 128  # refits whose equations are solved together
EXACT_GAP = 1e-10  # largest gap of a fit that is exact up to rounding


class Refits(ABC):
    """Refits without units of samples.

    Parameters
    ----------
    pieces : ndarray of shape (n_samples,)
        Pieces of the fit.
    """

    rounds = 100

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces

    @abstractmethod
    def _step(
        self,
        rows: Indices,
        shares: Array,
        pieces: Pieces,
        samples: Indices,
        spare: NDArray[np.bool_],
    ) -> tuple[Array, Pieces]:
        """Solve the equations of some refits and return the scores left out and the new pieces.

        Parameters
        ----------
        rows, shares : ndarray of shape (n_refits,)
            Samples of which a share is left out.
        pieces : ndarray of shape (n_refits, n_samples)
        samples : ndarray of shape (n_refits, n_changed)
            Sample left out, then those whose piece differs from that of the fit.
        spare : ndarray of shape (n_refits, n_changed)
            True for further samples, which only make the lists equally long.
        """

    def without(self, rows: Indices, shares: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the scores of samples without shares of them, and whether they are solutions.

        Scores that are not are those of the first equations, with the pieces of the fit.
        """
        parts = [self._batch(rows[part], shares[part]) for part in batches(len(rows), BATCH)]
        scores, solved = zip(*parts, strict=True) if parts else ([rows], [rows])
        return np.concatenate(scores).astype(float), np.concatenate(solved).astype(bool)

    def _batch(self, rows: Indices, shares: Array) -> tuple[Array, NDArray[np.bool_]]:
        found, solved = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
        pieces = np.repeat(self.pieces[None], len(rows), axis=0)
        left = np.arange(len(rows))
        for turn in range(self.rounds):
            changed = pieces != self.pieces
            changed[np.arange(len(left)), rows[left]] = False
            few = np.count_nonzero(changed, axis=1) < MOST_CHANGES
            left, pieces, changed = left[few], pieces[few], changed[few]
            if not len(left):
                break
            try:
                scores, following = self._step(
                    rows[left], shares[left], pieces, *with_changed(rows[left], changed)
                )
            except np.linalg.LinAlgError:
                break
            done = (following == pieces).all(axis=1) & np.isfinite(scores)
            keep = done if turn > 0 else np.isfinite(scores)
            found[left[keep]] = scores[keep]
            solved[left[done]] = True
            if turn >= FULL_ROUNDS:
                wrong = following != pieces
                following = np.where(wrong & (np.cumsum(wrong, axis=1) == 1), following, pieces)
            left, pieces = left[~done], following[~done]
        return found, solved


def with_changed(rows: Indices, changed: NDArray[np.bool_]) -> tuple[Indices, NDArray[np.bool_]]:
    """List each sample and those that change with it; mark entries that are too many."""
    width = int(np.count_nonzero(changed, axis=1).max())
    others = np.argsort(~changed, axis=1, kind="stable")[:, :width]
    spare = ~np.take_along_axis(changed, others, axis=1)
    return np.column_stack([rows, others]), np.column_stack([np.zeros_like(rows, bool), spare])


def solve_all(systems: Array, right: Array) -> Array:
    """Solve systems, one for each row of `right`; raise LinAlgError if one is singular."""
    return np.asarray(np.linalg.solve(systems, right[:, :, None])[:, :, 0], dtype=np.float64)


def in_columns(columns: Indices, values: Array, n_columns: int) -> sparse.csr_array:
    """Return a sparse matrix with given values in given columns of each row."""
    n_rows, width = columns.shape
    starts = width * np.arange(n_rows + 1)
    return sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(n_rows, n_columns))


def cholesky(matrix: Array) -> Array:
    """Compute the lower Cholesky factor; a second attempt adds what rounding may have removed."""
    if not len(matrix):
        return matrix
    try:
        return np.asarray(linalg.cholesky(matrix, lower=True, check_finite=False))
    except linalg.LinAlgError:
        matrix = matrix.copy()
        largest = float(matrix.diagonal().max())
        matrix[np.diag_indices_from(matrix)] += 10 * len(matrix) * EPS * largest
        return np.asarray(linalg.cholesky(matrix, lower=True, check_finite=False))


def triangular(factor: Array, right: Array) -> Array:
    """Solve a lower triangular system."""
    if not len(factor):
        return np.zeros(right.shape)
    return np.asarray(linalg.solve_triangular(factor, right, lower=True, check_finite=False))


def inverse_factor(factor: Array) -> Array:
    """Compute the inverse of a lower triangular matrix."""
    return np.asarray(linalg.lapack.dtrtri(factor, lower=1)[0]) if len(factor) else factor
