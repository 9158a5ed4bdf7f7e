"""Calibration of the probabilities of ODM and LDM on held-out scores.

If the systems of `_left_out` are too large, some samples are left out together: one more fit, which
starts from the solution, does not contain them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from discreg.base.calibration import class_columns
from discreg.base.left_out import LeftOut, calibrate, leavable_rows
from discreg.blocks.kept_rows import KeptRows
from discreg.linalg.rows import class_sums, matmul
from discreg.linalg.types import Array

from ._hinge_refits import without_hinges
from ._hinge_samples import is_linear
from ._left_out import without, without_squares
from ._losses import MarginLoss
from ._newton import FEW_FEATURES
from ._problem import BinaryFit, BinaryProblem

__all__ = ["calibrate_on_blocks", "calibrate_on_rows"]

LARGEST_SYSTEM = 2_000  # most support vectors of ODM, or samples of LDM, whose matrix is factored
FEWEST_TOGETHER = 300  # samples that are left out together
SHARE_TOGETHER = 0.1  # of all samples
MOST_OF_CLASS = 0.5  # largest share of a class that is left out together
ROUNDING = 1e-9

Solve = Callable[[BinaryProblem], BinaryFit]


def calibrate_on_rows(
    estimator: Any, data: Any, problems: list[BinaryProblem], fits: list[BinaryFit]
) -> None:
    """Calibrate a classifier fitted to rows in memory.

    Parameters
    ----------
    estimator : MarginClassifier
    data : MarginData
        With rows to hold out.
    problems : list of BinaryProblem
    fits : list of BinaryFit
    """
    kept = leavable_rows(data.kept, data.class_weights, data.classes)
    assert kept.places is not None
    with np.errstate(all="ignore"):  # scores that are not finite are not used
        fits = [
            _with_multipliers(*each, estimator._solve) for each in zip(problems, fits, strict=True)
        ]
        if all(map(_can_leave_out, problems, fits)):
            rows = np.searchsorted(data.seen, kept.places)
            found = [
                _left_out_scores(problem, fit, rows, kept.units)
                for problem, fit in zip(problems, fits, strict=True)
            ]
            exact = all(is_exact for _, is_exact in found)
            left_out = LeftOut(_columns([scores for scores, _ in found]), exact)
        else:
            kept = _few(kept, len(data.seen), data.class_weights)
            assert kept.places is not None
            rows = np.searchsorted(data.seen, kept.places)
            left_out = _left_out_together(estimator._solve, problems, fits, rows, kept.units)
    calibrate(
        estimator,
        kept,
        left_out,
        seen=np.isin(np.arange(len(data.indices)), data.seen),
        scores_of=lambda rows: _columns(list(estimator._training_scores(data, rows).T)),
    )


def calibrate_on_blocks(
    estimator: Any, loss: MarginLoss, class_weights: Array, kept: KeptRows, fits: list[BinaryFit]
) -> None:
    """Calibrate a linear classifier fitted to rows in blocks, of which some were kept.

    Parameters
    ----------
    estimator : MarginClassifier
    loss : MarginLoss
        A smooth one.
    class_weights : ndarray of shape (n_classes,)
        Sum of the weights of each class.
    kept : KeptRows
    fits : list of BinaryFit
        With responses of scores to forces.
    """
    kept = leavable_rows(kept, class_weights, estimator.classes_)
    losses = loss.scaled(kept.units / float(class_weights.sum()))
    positives = [1] if len(fits) == 1 else range(len(fits))
    found = []
    with np.errstate(all="ignore"):
        for fit, positive in zip(fits, positives, strict=True):
            assert fit.coef is not None
            scores = matmul(kept.X, fit.coef[:, None])[:, 0] + fit.intercept
            y = np.where(kept.y == positive, 1.0, -1.0)
            _, multipliers, curvatures = losses.evaluate(y * scores)
            found.append(without(scores, y * multipliers, curvatures, fit.response()(kept.X)))
    calibrate(estimator, kept, LeftOut(_columns(found), is_exact=False))


def _can_leave_out(problem: BinaryProblem, fit: BinaryFit) -> bool:
    """Return whether the system for held-out scores is small enough to be factored."""
    training, multipliers = problem.training, fit.multipliers
    few_features = is_linear(problem) and training.X.shape[1] <= FEW_FEATURES
    if problem.loss.is_smooth:
        assert multipliers is not None
        return few_features or int(np.count_nonzero(multipliers)) <= LARGEST_SYSTEM
    return multipliers is not None and (few_features or training.n_samples <= LARGEST_SYSTEM)


def _with_multipliers(problem: BinaryProblem, fit: BinaryFit, solve: Solve) -> BinaryFit:
    """Solve a small problem by its dual if stochastic gradients have not found multipliers."""
    if fit.multipliers is not None or problem.training.n_samples > LARGEST_SYSTEM:
        return fit
    return solve(replace(problem, solver="dcd"))


def _left_out_scores(
    problem: BinaryProblem, fit: BinaryFit, rows: Any, units: Array
) -> tuple[Array, bool]:
    """Compute the scores of samples, each from the model without a unit of its weight.

    They are NaN where the other samples do not determine them. The second value says whether they
    are known to equal those of refits up to rounding.
    """
    compute = without_squares if problem.loss.is_smooth else without_hinges
    try:
        return compute(problem, fit, rows, units)
    except linalg.LinAlgError:  # values so large that rounding makes the system singular
        return np.full(len(rows), np.nan), False


def _few(kept: KeptRows, n_samples: int, class_weights: Array) -> KeptRows:
    """Return a tenth of all rows, at least 300, which contain at most half of each class."""
    number = max(FEWEST_TOGETHER, int(SHARE_TOGETHER * n_samples))
    if len(kept) > number:
        kept = kept.take(np.linspace(0, len(kept) - 1, number).astype(np.intp))
    shares = class_sums(kept.y, kept.units, len(class_weights)) / class_weights
    return kept.take(np.flatnonzero(shares[kept.y] <= MOST_OF_CLASS))


def _left_out_together(
    solve: Solve, problems: list[BinaryProblem], fits: list[BinaryFit], rows: Any, units: Array
) -> LeftOut:
    """Compute the scores of some samples from a model without a unit of all of them."""
    training = problems[0].training
    weights = training.weights.copy()
    weights[rows] -= units
    used = np.flatnonzero(weights > ROUNDING * training.weights)
    precomputed = training.kernel is not None and training.kernel.kernel == "precomputed"
    X = training.X[np.ix_(used, used)] if precomputed else training.X[used]
    others = replace(training, X=X, weights=weights[used])
    factor = float(others.weights.sum()) / float(training.weights.sum())
    found = []
    for problem, fit in zip(problems, fits, strict=True):
        start = fit.warm
        if problem.solver not in ("newton", "svrg"):
            n_samples = training.n_samples
            start = tuple(part[used] if np.size(part) == n_samples else part for part in start)
        refit = solve(
            replace(
                problem,
                training=others,
                y=problem.y[used],
                loss=problem.loss.times(factor),
                exact=False,
                start=start,
            )
        )
        if refit.coef is not None:
            scores = matmul(training.X[rows], refit.coef[:, None])[:, 0]
        else:
            assert training.kernel is not None
            assert refit.theta is not None
            new, X_fit = (
                (training.X[np.ix_(rows, used)], None) if precomputed else (training.X[rows], X)
            )
            scores = training.kernel.scores(new, X_fit, refit.theta[None], np.zeros(1))[:, 0]
        found.append(scores + refit.intercept)
    return LeftOut(_columns(found), is_exact=False)


def _columns(scores: list[Array]) -> Array:
    """Return one column per class; two classes have one score, that of the second."""
    return np.asarray(class_columns(scores[0] if len(scores) == 1 else np.column_stack(scores)))
