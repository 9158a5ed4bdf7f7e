"""What storing coefficients in float32 adds to the gap of a solution in float64.

Let F be the objective and W a solution with F(W) − min F ≤ gap. Half the Hessian of F is at most
H = (1 + ω)ΦᵀSΦ + diag(c), where c is the curvature of the penalty and ω the weight of the scatter
within classes, which is at most ΦᵀSΦ. So ‖∇F/2‖² ≤ gap in the norm of H⁻¹,
and the stored W + D has F(W + D) − min F ≤ (√gap + ‖D‖)² in the norm of H.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreg.blocks.moment_ridge import MomentRegression
from discreg.linalg.rows import matmul
from discreg.linalg.types import Array, RealArray

__all__ = ["gap_of_stored", "group_curvature"]


def gap_of_stored(
    gap: float,
    unit: float,
    prepared: Any,
    stored: tuple[RealArray, RealArray],
    exact: tuple[RealArray, RealArray],
    curvature: float | Array,
) -> float:
    """Bound the relative gap of stored coefficients.

    Parameters
    ----------
    gap : float
        Relative gap of the solution.
    unit : float
        Denominator of relative gaps.
    prepared : Prepared
    stored : tuple of ndarray
        Coefficients, one row per class or one for two classes, and intercepts.
    exact : tuple of ndarray
        Coefficients of the solution, one column per class, and intercepts.
    curvature : float or ndarray of shape (n_features,)
        Half the second derivative of the penalty.
    """
    if prepared.dtype == np.float64:
        return gap
    rows, intercept = exact[0].T, exact[1]
    share = 1.0
    if len(stored[0]) < len(rows):  # the columns of W are multiples of their difference
        difference = rows[1:] - rows[:1]
        share = float(np.vdot(rows, rows)) / max(float(np.vdot(difference, difference)), 1e-300)
        rows, intercept = difference, intercept[1:] - intercept[:1]
    square = _square(prepared, (stored[0] - rows).T, stored[1] - intercept, curvature)
    # Of numbers so large that the result is NaN, nothing is known.
    return float(np.fmin((np.sqrt(gap) + np.sqrt(share * square / unit)) ** 2, 1.0))


def group_curvature(beta: float, coef: Array) -> Array:
    """Compute half the largest second derivative of β Σ ‖w_j‖ in each row; zero for zero rows."""
    norms = np.linalg.norm(coef, axis=1)
    return np.asarray(np.divide(beta / 2, norms, out=np.zeros_like(norms), where=norms > 0))


def _square(prepared: Any, change: Array, offset: Array, curvature: float | Array) -> float:
    """Compute ‖D‖² in the norm of H, with the scores that the intercepts change."""
    regression = prepared.regression
    growth = 1.0 + regression.within_class
    penalised = np.vdot(change, np.reshape(curvature, (-1, 1)) * change)
    if isinstance(regression, MomentRegression):
        mean = 0.0 if regression.mean is None else regression.mean @ change
        fitted = growth * np.vdot(change, regression.gram @ change)
        return float(fitted + penalised + regression.total * np.sum((mean + offset) ** 2))
    if prepared.kernel is None:
        scores = matmul(prepared.X, change) + offset
    else:
        image = regression.kernel_product(change)
        scores, penalised = image + offset, curvature * np.vdot(change, image)
    fitted = growth * np.vdot(scores, regression.weights[:, None] * scores)
    return float(fitted + max(penalised, 0.0))
