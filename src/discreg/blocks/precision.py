"""When products of float32 rows are formed in float32, and what this does to a certificate.

The rule: the Gram matrix G of a block of float32 rows is formed in float32 if G plus the block's
share of a relative penalty exceeds the rounding error E of the products by a factor of 1,000 in
every direction. Otherwise the same rows are multiplied in float64. Sums are always in float64.

If every block satisfies ±E ≤ error · (G + share), so do sums of blocks with positive weights. The
rule therefore holds for all rows together, for folds, classes and merged models, and no rank has to
be decided at the precision of float32. Penalties in the units of the features have no share, and
`partial_fit` uses none, because the penalty may be changed later. The scatters of DRM have a
stricter rule, `scatter_may_be_single`, because DRM has no certificate that includes their error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from discreg.linalg.types import Array

__all__ = [
    "LARGEST_ERROR",
    "SMALLEST_SQUARE",
    "gap_with_error",
    "relative_penalty",
    "scatter_may_be_single",
    "single_error",
]

LARGEST_ERROR = 1e-3
ERRORS = (1e-4, LARGEST_ERROR)  # bounds that `single_error` tries
LARGEST_SHARE = 0.9  # of the trace of a class scatter that one direction may have
# Times √p for p features of unit variance, a bound of the norm of the error of products in float32:
# twice what one-hot features reach, and eight times what most features reach.
ROUNDING = 32 * 2.0**-24
SMALLEST_SQUARE = 1e-30  # below this, squares in float32 are inaccurate


def relative_penalty(estimator: Any) -> float:
    """Return the penalty of a linear model in units of tr(G) / n_features; 0 if unknown."""
    return float(estimator.beta) if getattr(estimator, "scale_beta", False) else 0.0


@np.errstate(over="ignore", invalid="ignore")  # a factorisation with infinities fails
def single_error(gram: NDArray[Any], penalty: float, errors: tuple[float, ...] = ERRORS) -> float:
    """Bound the relative error of a Gram matrix whose products were formed in float32.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features)
        Centred Gram matrix G. Features whose squares are below SMALLEST_SQUARE are left out.
    penalty : float
        Penalty relative to tr(G) / n_features.
    errors : tuple of float
        The values to try, in ascending order.

    Returns
    -------
    error : float
        The first of `errors` with ±E ≤ error · (G + share), infinity if there is none.
    """
    squares = np.asarray(gram.diagonal(), dtype=np.float64)
    if not np.isfinite(squares).all():
        return np.inf
    used = np.flatnonzero(squares >= SMALLEST_SQUARE)
    if not len(used):
        return 0.0
    scale = 1 / np.sqrt(squares[used])
    unit = gram if len(used) == len(gram) else gram[np.ix_(used, used)]
    unit = (unit * scale * scale[:, None]).astype(np.float32)
    diagonal = 1.0 + penalty * squares.mean() * scale**2
    for error in errors:
        least = ROUNDING * np.sqrt(len(gram)) / error
        unit[np.diag_indices_from(unit)] = diagonal - least
        if least < diagonal.min() and not linalg.lapack.spotrf(unit, clean=0)[1]:
            return error
    return np.inf


def scatter_may_be_single(scatter: Array) -> bool:
    """Return whether products in float32 are accurate enough for a class scatter S of DRM.

    DRM computes (I − νS)⁻¹ S with ν tr(S) ≤ 1. If S changes by at most `error` in every direction,
    relative to itself, this changes by at most error / (1 − ν‖S‖).
    """
    squares = scatter.diagonal()
    if not (squares.min() >= SMALLEST_SQUARE and np.isfinite(squares).all()):
        return False
    in_one_direction = float(np.linalg.norm(scatter) / squares.sum())  # at least ν‖S‖
    return in_one_direction <= LARGEST_SHARE and single_error(scatter, 0.0) <= ERRORS[0]


def gap_with_error(gap: float, size: float, error: float) -> float:
    """Bound the gap of a problem with the Gram matrix G from that with G + E.

    Let P(W) be the objective with G, and P(W) + ⟨W, EW⟩ the one that was solved. Half its Hessian
    is at least A = G + βI, and ±E ≤ error · A. With the minimum W* of P and D = W* − W, convexity
    bounds P(W) − P(W*) by gap − (‖D‖ − √gap)² + 2 error ‖D‖ ‖W‖ + error ‖D‖² for ‖D‖ ≥ √gap, in the
    norm of A. Its maximum over ‖D‖ is at most the value returned.

    Parameters
    ----------
    gap : float
        Bound of the objective minus its minimum for G + E.
    size : float
        ‖W‖ in the norm of A.
    error : float
    """
    if error == 0:
        return gap
    root = np.sqrt(gap)
    return float((root + error * (size + root)) ** 2 / (1 - error))
