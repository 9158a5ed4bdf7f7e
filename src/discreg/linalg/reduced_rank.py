"""Reduced-rank regression: the best coefficients of every rank from those of full rank.

Let Φ be the features, S the weights, T the targets and W = (ΦᵀSΦ + βI)⁻¹ΦᵀST. Let V be the
eigenvectors of M = (ΦᵀST)ᵀW in descending order of the eigenvalues, and V_s its first s columns.
Then W V_s V_sᵀ minimises the penalised squared error over all coefficients B of rank at most s.
This error is a constant plus tr((W − B)ᵀ(ΦᵀSΦ + βI)(W − B)). By the Eckart-Young theorem, the best
B of rank s keeps the s largest singular values of (ΦᵀSΦ + βI)^½ W, whose right singular vectors are
the columns of V.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import linalg

from discreg.linalg.types import Array

__all__ = ["RankedCoefficients", "rank_coefficients"]

ZERO = 1e-13  # relative size below which an eigenvalue is a rounding error
TIED = 1e-9  # relative difference below which eigenvalues count as equal


class RankedCoefficients(NamedTuple):
    """Coefficients of every rank, from directions of the targets in order of importance."""

    projected: Array  # W V; the coefficients of rank s use its first s columns
    directions: Array  # V
    explained: Array  # eigenvalues of M in descending order

    def of_rank(self, rank: int) -> Array:
        """Return the best coefficients of at most this rank."""
        return self.projected[:, :rank] @ self.directions[:, :rank].T


def rank_coefficients(full: Array, moments: Array) -> RankedCoefficients:
    """Compute the directions of the targets in descending order of their eigenvalues.

    Directions with equal eigenvalues are ordered by the norm of their coefficients, the smallest
    first. This order is the limit of a vanishing additional penalty.

    Parameters
    ----------
    full : ndarray of shape (n_features, n_targets)
        W, the solution of (ΦᵀSΦ + βI) W = moments.
    moments : ndarray of shape (n_features, n_targets)
        ΦᵀST.

    Examples
    --------
    >>> import numpy as np
    >>> moments = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> rank_coefficients(moments / 2, moments).of_rank(1)
    array([[1., 0.],
           [0., 0.]])
    """
    explained = moments.T @ full
    values, vectors = linalg.eigh((explained + explained.T) / 2, check_finite=False)
    values, vectors = values[::-1].clip(min=0.0), np.ascontiguousarray(vectors[:, ::-1])
    projected = full @ vectors
    for tied in _ties(values):
        _, turned = linalg.eigh(projected[:, tied].T @ projected[:, tied], check_finite=False)
        vectors[:, tied] = vectors[:, tied] @ turned
        projected[:, tied] = projected[:, tied] @ turned
    return RankedCoefficients(projected, vectors, values)


def _ties(values: Array) -> list[slice]:
    """Return runs of two or more eigenvalues that differ only by rounding.

    Eigenvalues that are zero up to rounding are left out.
    """
    values = values[values > ZERO * values[0]]
    if len(values) < 2:
        return []
    steps = np.flatnonzero(-np.diff(values) > TIED * values[0]) + 1
    ends = [0, *steps.tolist(), len(values)]
    runs = [slice(start, stop) for start, stop in pairwise(ends)]
    return [run for run in runs if run.stop - run.start > 1]
