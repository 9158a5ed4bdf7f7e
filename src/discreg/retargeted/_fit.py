"""Parameter checks, fitting and fitted attributes shared by the four estimators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreg.base.caller import warn_of_convergence
from discreg.base.components import COMPONENT_CONSTRAINTS
from discreg.base.regression import Prepared
from discreg.base.stored import gap_of_stored, group_curvature
from discreg.blocks.validation import (
    CLASS_WEIGHT,
    KERNEL_CONSTRAINTS,
    Boolean,
    Choice,
    Number,
    check_params,
)
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.iterations import Report, unreported
from discreg.linalg.kernel_rows import KernelRows
from discreg.linalg.resources import (
    threads_for,
)
from discreg.linalg.ridge import KernelRegression, Regression, linear_regression
from discreg.linalg.rows import has_distinct_rows, within_class_scatter
from discreg.linalg.types import Array

from ._losses import TargetLoss
from ._solvers import (
    EXACT,
    ArrayProblem,
    Solution,
    minimise,
    objective_unit,
)

__all__ = [
    "ITERATIVE_CONSTRAINTS",
    "LARGEST_WITHIN_CLASS",
    "RIDGE_CONSTRAINTS",
    "check_iterative_params",
    "deciding_penalties",
    "few_threads",
    "fit_path",
    "kernel_features",
    "previous_solution",
    "set_penalty",
    "set_within_class",
    "solve",
    "store",
    "training_features",
    "warn_if_stopped_early",
    "why_rows_in_memory",
]

LARGEST_WITHIN_CLASS = 1e6
FEW_COEFFICIENTS = 200
FEW_SAMPLES = 300  # up to this number, Newton's method with a kernel is fast and compiles nothing
MEGABYTE = 1 << 20
SCORES = 200  # how often a fit computes the scores of all training samples, about

EXACT_KERNEL = (
    "solver='dcd' is for exact kernels, but the kernel is approximated. Set n_components=None, or "
    "use solver='auto'."
)

RIDGE_CONSTRAINTS: dict[str, Any] = {
    "beta": Number(0, closed="left"),
    "scale_beta": Boolean(),
    "within_class": Number(0, LARGEST_WITHIN_CLASS),
    "fit_intercept": Boolean(),
    "class_weight": CLASS_WEIGHT,
    "probability": Boolean(),
    **KERNEL_CONSTRAINTS,
    **COMPONENT_CONSTRAINTS,
}
ITERATIVE_CONSTRAINTS = RIDGE_CONSTRAINTS | {
    "solver": Choice(("auto", "newton", "dcd", "alternating")),
    "cache_size": Number(0, closed="neither"),
    "tol": Number(0, closed="left"),
    "max_iter": Number(1, closed="left", integer=True),
    "warm_start": Boolean(),
    "penalty": Choice(("l2", "l21")),
    "rank": Choice((None,), others=(Number(1, closed="left", integer=True),)),
}


def check_iterative_params(estimator: Any) -> None:
    """Check the parameters of DLSR, ReLSR or GReLSR, and their combinations."""
    check_params(estimator, estimator._constraints)
    if estimator.penalty == "l21" and estimator.kernel != "linear":
        raise ValueError(
            "penalty='l21' selects features and needs kernel='linear'. Use penalty='l2' with "
            "other kernels."
        )
    if estimator.penalty == "l21" and estimator.beta == 0:
        raise ValueError("penalty='l21' needs beta > 0. Use penalty='l2' for beta=0.")
    if estimator.penalty == "l21" and estimator.within_class > 0:
        raise ValueError("penalty='l21' needs within_class=0. Use penalty='l2' with within_class.")
    if _is_structured(estimator) and estimator.solver == "newton":
        raise ValueError("solver='newton' needs penalty='l2' and rank=None. Use solver='auto'.")
    if estimator.solver == "dcd":
        if estimator.n_components not in (None, "auto"):
            raise ValueError(EXACT_KERNEL)
        needs = {
            "a kernel other than 'linear'": estimator.kernel != "linear",
            "beta > 0": estimator.beta > 0,
            "within_class=0": estimator.within_class == 0,
            "penalty='l2' and rank=None": not _is_structured(estimator),
            "a target rule with a compiled loop": estimator._loss().descent_rule is not None,
        }
        missing = [need for need, is_met in needs.items() if not is_met]
        if missing:
            raise ValueError(f"solver='dcd' needs {' and '.join(missing)}. Use solver='auto'.")


def _is_structured(estimator: Any) -> bool:
    """Return whether the coefficients are row-sparse or of limited rank."""
    return estimator.penalty != "l2" or estimator.rank is not None


def why_rows_in_memory(estimator: Any) -> str | None:
    """Return the reason why an iterative model needs rows in memory, or None if it does not."""
    if not _is_structured(estimator):
        return None
    what = "rank" if estimator.rank is not None else "penalty='l21'"
    return (
        f"{what} needs the rows in memory. On Dask use penalty='l2' without a rank, or "
        "SLRRClassifier or LRRRClassifier."
    )


def training_features(estimator: Any, X: Any, weights: Array) -> Regression:
    """Create the regression of a linear model; penalty="l21" needs it in the original features."""
    if estimator.penalty == "l21":
        return FeatureRegression(X, weights, centre=estimator.fit_intercept)
    return linear_regression(X, weights, centre=estimator.fit_intercept)


def kernel_features(
    estimator: Any, kernel: FittedKernel, X: Any, weights: Array
) -> KernelRows | None:
    """Create the kernel matrix for dual coordinate descent; None if another solver is used."""
    automatic = (
        estimator.solver == "auto"
        and X.shape[0] > FEW_SAMPLES
        and estimator.beta > 0
        and estimator.within_class == 0
        and not _is_structured(estimator)
        and estimator._loss().descent_rule is not None
    )
    if estimator.solver != "dcd" and not automatic:
        return None
    memory = estimator.cache_size * MEGABYTE
    return KernelRows(kernel, X, weights, centre=estimator.fit_intercept, cache_bytes=memory)


def previous_solution(estimator: Any, prepared: Prepared) -> Array | None:
    """Return the solution of the previous fit if `warm_start` is set and its shape fits."""
    previous = vars(estimator).get("_previous")
    if not estimator.warm_start or not isinstance(previous, tuple):  # an array in older models
        return None
    solver, theta = estimator._previous
    # The unknowns of dual coordinate descent are residuals, not coefficients.
    if (solver == "dcd") != isinstance(prepared.regression, KernelRows):
        return None
    if theta.shape != (prepared.regression.size + 1, len(prepared.classes)):
        return None
    if estimator.rank is not None and np.linalg.matrix_rank(theta[:-1]) > estimator.rank:
        return None
    offset = theta[-1:] if estimator.fit_intercept else 0 * theta[-1:]
    return np.vstack([theta[:-1], offset])


@np.errstate(over="ignore", invalid="ignore")  # coefficients that overflow are refused
def solve(
    estimator: Any,
    prepared: Prepared,
    loss: TargetLoss,
    start: Array | None,
    *,
    largest_rank: int,
    to_rounding: bool,
    report: Report = unreported,
) -> Solution:
    """Solve the problem of DLSR, ReLSR or GReLSR with the estimator's current parameters.

    Parameters
    ----------
    estimator : DLSRClassifier, ReLSRClassifier or GReLSRClassifier
    prepared : Prepared
    loss : TargetLoss
    start : ndarray of shape (size + 1, n_classes) or None
        Starting point; None means the regression onto the zero-one targets.
    largest_rank : int
        Largest possible rank of the coefficients for this number of classes.
    to_rounding : bool
        Whether to continue below `tol` where the extra cost is small.
    report : callable, optional
        Called after each iteration.
    """
    most = len(prepared.classes)
    if prepared.kernel is None:
        most = min(most, prepared.regression.n_features or prepared.regression.size)
    if estimator.rank is not None and estimator.rank > most:
        raise ValueError(
            f"rank={estimator.rank} is too large: the largest rank of these data is "
            f"{most}. Use a rank from 1 to {most}, or None."
        )
    largest_rank = min(most, largest_rank)
    if estimator.solver == "dcd" and not isinstance(prepared.regression, KernelRows):
        raise ValueError(EXACT_KERNEL)
    solver = "newton" if estimator.solver == "auto" else estimator.solver
    tol = estimator.tol
    options = {"max_iter": estimator.max_iter, "start": start, "report": report}
    if isinstance(prepared.regression, KernelRows):
        from ._descent import descend

        set_penalty(estimator, prepared)
        n_classes = len(prepared.classes)
        return descend(prepared.regression, loss, prepared.y, n_classes, tol=tol, **options)
    if prepared.source is not None:
        from ._block_problem import BlockProblem

        set_penalty(estimator, prepared)
        n_rows, size = prepared.source.n_rows, prepared.regression.size
        blocks: Any = BlockProblem(prepared.regression, loss, prepared.source)
        if n_rows <= size:  # the rows take less memory than the Gram matrix
            blocks = blocks.in_memory()
        exact = solver == "newton" and (n_rows <= size or _has_few_coefficients(prepared))
        solution = minimise(blocks, solver, tol=min(EXACT, tol) if exact else tol, **options)
        solution = replace(solution, targets=None)
    else:
        problem = ArrayProblem(prepared.regression, loss, prepared.y, len(prepared.classes))
        with few_threads(problem):
            if _is_structured(estimator):
                solution = _solve_structured(estimator, prepared, problem, largest_rank, options)
            else:
                set_penalty(estimator, prepared)
                exact = to_rounding and solver == "newton" and _is_solved_to_rounding(prepared)
                tol = min(EXACT, tol) if exact else tol
                solution = minimise(problem, solver, tol=tol, **options)
    return solution


def few_threads(problem: ArrayProblem) -> Any:
    """Return a context that limits BLAS to one thread for a small problem."""
    return threads_for(SCORES * problem.work)


def set_within_class(estimator: Any, prepared: Prepared) -> None:
    """Set the weight of the within-class scatter, which is computed when it is first needed."""
    regression = prepared.regression
    if estimator.within_class > 0 and regression.scatter is None:
        totals, weights = regression.class_totals(prepared.y, len(prepared.classes))
        regression.scatter = within_class_scatter(regression.gram, totals, weights)
    regression.within_class = estimator.within_class


def set_penalty(estimator: Any, prepared: Prepared) -> None:
    """Set the penalty of the regression and factor its normal equations."""
    regression = prepared.regression
    beta = estimator.beta * (regression.scale if estimator.scale_beta else 1.0)
    if not np.isfinite(beta):
        raise ValueError(
            f"beta={estimator.beta:g} times the mean square of the features, {regression.scale:g}, "
            "overflows. Use a smaller beta, or scale_beta=False."
        )
    set_within_class(estimator, prepared)
    regression.at(beta)


def _solve_structured(
    estimator: Any,
    prepared: Prepared,
    problem: ArrayProblem,
    largest_rank: int,
    options: dict[str, Any],
) -> Solution:
    from ._structured import LowRankRidge, SparseRows, Structure, minimise_structured

    regression = problem.regression
    rank: Any = None if estimator.rank is None else min(estimator.rank, largest_rank)
    structure: Structure
    if isinstance(regression, FeatureRegression):
        unit = np.sqrt(regression.scale * regression.total) if estimator.scale_beta else 1.0
        regression.beta = estimator.beta * float(unit)
        binding = rank is not None and rank < min(largest_rank, regression.size)
        structure = SparseRows(regression, rank if binding else None)
    else:
        set_penalty(estimator, prepared)
        structure = LowRankRidge(regression, rank)
    return minimise_structured(problem, structure, tol=estimator.tol, **options)


def _has_few_coefficients(prepared: Prepared) -> bool:
    return bool(prepared.regression.size * len(prepared.classes) <= FEW_COEFFICIENTS)


def _is_solved_to_rounding(prepared: Prepared) -> bool:
    """Return whether Newton's method continues below `tol`.

    Sample weights must give the same result as repeating rows. With more distinct samples than
    features both take the same steps. Otherwise, and with a kernel, rounding makes the steps
    differ, so the solution must be exact. There the factorisation takes most of the time anyway.
    Problems with few coefficients are always solved to rounding, at little cost.
    """
    regression = prepared.regression
    if isinstance(regression, KernelRegression) or _has_few_coefficients(prepared):
        return True
    weighted = regression.weights > 0
    X = regression.X if weighted.all() else regression.X[weighted]
    return not has_distinct_rows(X, regression.size + 1)


def warn_if_stopped_early(estimator: Any, solution: Solution) -> None:
    """Warn, at the line that calls `fit`, if the solver stopped before it reached `tol`."""
    gap = max(solution.gap, estimator.gap_)
    if gap <= estimator.tol or estimator.tol == 0:
        return
    advice = "Increase max_iter, tol or beta, or standardise the features."
    if solution.gap <= estimator.tol:
        advice = (
            "Coefficients in float32, the type of X, are too inaccurate. Standardise the features, "
            "or pass X in float64."
        )
    elif len(solution.objective_history) < estimator.max_iter:
        other = "Use solver='newton', or increase" if solution.solver == "dcd" else "Increase"
        advice = f"More iterations do not help. {other} beta or tol, or standardise the features."
    elif solution.solver != "newton" and not _is_structured(estimator):
        advice = "Use solver='newton', or increase max_iter, tol or beta."
    warn_of_convergence(
        f"{type(estimator).__name__} stopped at a relative optimality gap of "
        f"{gap:.2g} after {len(solution.objective_history)} iterations; tol is "
        f"{estimator.tol:g}. {advice}"
    )


def store(
    estimator: Any, prepared: Prepared, solution: Solution, *, unit_sum: bool = False
) -> float:
    """Set the fitted attributes from a solution.

    With `unit_sum` the objective does not change if a constant is added to all scores. The constant
    is chosen so that the mean training scores of the classes sum to 1, and returned. In ReLSR the
    coefficients of the classes sum to zero, so that the intercepts sum to 1, as in Algorithm 1.
    """
    coef, mean_score = prepared.regression.predictor(solution.theta[:-1])
    intercept = solution.theta[-1] - mean_score
    shift = 0.0
    if unit_sum and estimator.fit_intercept:
        shift = float(1.0 - solution.theta[-1].sum()) / len(intercept)
    estimator._set_coefficients(prepared, coef, intercept + shift, sparse=True)
    estimator.__dict__.pop("targets_", None)
    if solution.targets is not None:
        estimator.targets_ = (solution.targets + shift).astype(prepared.dtype)
    estimator.objective_history_ = np.array(solution.objective_history)
    estimator.gap_ = solution.gap
    if prepared.dtype != np.float64:
        estimator.gap_ = _gap_of_stored(estimator, prepared, solution, coef, intercept + shift)
    estimator.n_iter_ = len(solution.objective_history)
    estimator.solver_ = solution.solver
    return shift


def _gap_of_stored(
    estimator: Any, prepared: Prepared, solution: Solution, coef: Array, intercept: Array
) -> float:
    """Compute the gap of the coefficients in single precision, which differ from the solution."""
    regression = prepared.regression
    stored: Any
    if prepared.kernel is None:
        stored = estimator.coef_
    else:
        stored = np.zeros((len(estimator.dual_coef_), len(coef)))
        stored[:, estimator.support_] = estimator.dual_coef_
    is_sparse = getattr(estimator, "penalty", "l2") == "l21"
    return gap_of_stored(
        solution.gap,
        objective_unit(solution.objective_history[-1], regression.total),
        prepared,
        (stored, estimator.intercept_),
        (coef, intercept),
        group_curvature(regression.beta, coef) if is_sparse else regression.beta,
    )


def deciding_penalties(estimator: Any, grid: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the penalties of a path that decide which solver serves all of its settings."""
    within = [params.get("within_class", estimator.within_class) for params in grid]
    return {"beta": min(params["beta"] for params in grid), "within_class": max(within)}


def fit_path(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    grid: Iterable[dict[str, float]],
) -> Iterator[Any]:
    """Fit an estimator for each setting of its penalties, starting from the previous solution.

    Parameters
    ----------
    estimator : LSRClassifier, DLSRClassifier, ReLSRClassifier or GReLSRClassifier
        The same object is refitted and yielded each time.
    X, y, sample_weight
        Training data as for `fit`.
    grid : iterable of dict
        Values of `beta` and of the other penalties.
    """
    grid = list(grid)
    estimator.set_params(**deciding_penalties(estimator, grid))
    prepared = estimator._prepare(X, y, sample_weight)
    start = None
    for params in grid:
        check_params(estimator.set_params(**params), estimator._constraints)
        start = estimator._fit_prepared(prepared, start, to_rounding=False).theta
        yield estimator
