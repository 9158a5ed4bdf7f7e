"""Newton's method for a group lasso, on the non-zero rows, where the penalty is smooth."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from discreg.linalg.types import Array, Indices

from .group_gram import WorkingGram
from .rows import row_dots
from .systems import conjugate_gradients

__all__ = ["newton_step"]

# Unknowns times targets up to which a factorisation is used: its cost relative to that of conjugate
# gradients is proportional to this number.
SMALL_SYSTEM = 1_500
SHIFT = 1e-10  # relative, of the diagonal: with more rows than samples, the Hessian is singular
MAX_CG_STEPS = 50
CG_ACCURACY = 0.01
VANISHING = (63, 31, 15, 7, 3, 1, 0)  # numbers of rows to set to zero besides the first to vanish
SHORTER = (0.5, 0.2, 0.05, 0.01)  # lengths relative to a step without zeros
TINY = 1e-14  # relative norm below which a row counts as zero


@np.errstate(over="ignore", invalid="ignore")  # a trial that overflows has no smaller objective
def newton_step(
    gram: WorkingGram,
    moments: Array,
    coef: Array,
    correlations: Array,
    square: float,
    beta: float,
    rounding: Array,
) -> bool:
    """Do a Newton step, in place, that sets rows to zero whose direction it would reverse.

    The whole step may reverse many rows that a shorter one would keep. Shorter steps end where a
    row vanishes, or before. The arguments are those of `duality_gap`, for a working set, and the
    rounding errors of the correlations, within which the objective may increase.

    Returns
    -------
    shortened : bool
        Whether the objective decreased, but not by a whole step that keeps all rows.
    """
    norms = np.linalg.norm(coef, axis=1)
    used = np.flatnonzero(norms > TINY * norms.max(initial=0.0))
    curvature = beta / norms[used]
    if not len(used) or not np.all(curvature > 0):  # the penalty underflows
        return False
    units = coef[used] / norms[used, None]
    step = _direction(gram, used, units, curvature, beta * units - 2 * correlations[used])
    along = row_dots(units, step)
    vanish = np.divide(-norms[used], along, out=np.full(len(used), np.inf), where=along < 0)
    ends = np.sort(vanish[vanish <= 1])
    lengths = [1.0, *(ends[k] for k in VANISHING if k < len(ends))]
    lengths += [lengths[-1] * part for part in SHORTER]
    smallest = _objective(coef, moments, correlations, square, beta) + float(norms @ rounding)
    found, reached = None, 0.0
    for length in lengths:
        trial = np.zeros_like(coef)
        trial[used] = np.where((vanish > length)[:, None], coef[used] + length * step, 0.0)
        left = moments - gram.matmul(trial)
        objective = _objective(trial, moments, left, square, beta)
        if objective < smallest:
            smallest, found, reached = objective, (trial, left), length
        elif found is not None:
            break
    if found is None:
        return False
    coef[...], correlations[...] = found
    return reached < 1 or len(ends) > 0


def _direction(
    gram: WorkingGram, used: Indices, units: Array, curvature: Array, gradient: Array
) -> Array:
    """Solve for the Newton step: the Hessian is 2G + β(I − uu')/‖a_j‖, u the direction of a row."""
    n_rows, n_targets = units.shape
    if units.size * n_targets <= SMALL_SYSTEM:
        hessian = np.zeros((n_rows, n_targets, n_rows, n_targets))
        own = np.arange(n_targets)
        hessian[:, own, :, own] = 2 * gram.rows(used)
        flat = np.eye(n_targets) - units[:, :, None] * units[:, None, :]
        hessian[np.arange(n_rows), :, np.arange(n_rows)] += curvature[:, None, None] * flat
        matrix = hessian.reshape(units.size, units.size)
        matrix[np.diag_indices_from(matrix)] *= 1 + SHIFT
        factor, failed = linalg.lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
        if not failed:
            step, _ = linalg.lapack.dpotrs(factor, -gradient.reshape(-1, 1), lower=1)
            return np.asarray(step.reshape(units.shape))

    def hessp(step: Array) -> Array:
        across = step - row_dots(units, step)[:, None] * units
        return np.asarray(2 * gram.matmul_rows(used, step) + curvature[:, None] * across)

    # The preconditioner 2G + βI/‖a_j‖ is the matrix of a reweighted ridge regression.
    precondition = gram.solver(used, curvature)
    return conjugate_gradients(
        hessp, -gradient, precondition, tol=CG_ACCURACY, max_iter=MAX_CG_STEPS
    )


def _objective(
    coef: Array, moments: Array, correlations: Array, square: float, beta: float
) -> float:
    residual = square - float(np.vdot(coef, moments + correlations))
    return max(residual, 0.0) + beta * float(np.linalg.norm(coef, axis=1).sum())
