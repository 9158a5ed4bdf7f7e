"""Regression of reduced rank: the best coefficients of every rank from those of full rank.

With the features Φ, weights S, targets T and W = (ΦᵀSΦ + βI)⁻¹ΦᵀST, let V hold the eigenvectors of
M = (ΦᵀST)ᵀW, the largest eigenvalue first. Then W V_s V_sᵀ, V_s the first s columns, minimises the
penalised squares over all coefficients of rank at most s: they are a constant plus
tr((W − B)ᵀ(ΦᵀSΦ + βI)(W − B)), and by Eckart and Young the best B of rank s keeps the s largest
singular values of (ΦᵀSΦ + βI)^½ W, whose right singular vectors are V.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import linalg

from discreg.linalg.types import Array

__all__ = ["RankedCoefficients", "rank_coefficients"]

ZERO = 1e-13  # relative size of an eigenvalue that is rounding
TIED = 1e-9  # relative difference of eigenvalues that rounding may have made


class RankedCoefficients(NamedTuple):
    """Coefficients of full rank, the directions of the targets in order, what each explains."""

    projected: Array  # W V: the columns of a rank come first
    directions: Array  # V
    explained: Array  # eigenvalues of M, the largest first

    def of_rank(self, rank: int) -> Array:
        """The best coefficients of at most that rank."""
        return self.projected[:, :rank] @ self.directions[:, :rank].T


def rank_coefficients(full: Array, moments: Array) -> RankedCoefficients:
    """Order the directions of the targets for coefficients of full rank.

    Directions that explain equally much are ordered by the size of their coefficients, the smallest
    first, which is the limit of a vanishing further penalty.

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
    """Runs of two or more eigenvalues that differ by rounding only.

    Those that are rounding themselves explain nothing and stay behind.
    """
    values = values[values > ZERO * values[0]]
    if len(values) < 2:
        return []
    steps = np.flatnonzero(-np.diff(values) > TIED * values[0]) + 1
    ends = [0, *steps.tolist(), len(values)]
    runs = [slice(start, stop) for start, stop in pairwise(ends)]
    return [run for run in runs if run.stop - run.start > 1]
