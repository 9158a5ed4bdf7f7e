"""ODM_svrg: stochastic variance reduced gradients for linear models, section 4.2 of the ODM paper.

An epoch computes the full gradient at a snapshot and then takes steps along the gradients of random
samples. Samples are drawn with probabilities proportional to their weights, so that weights are
equivalent, in distribution, to repeating rows. The gradients are those of one sample (24) for ODM
and of a pair (23) for LDM. The intercept of a snapshot is optimal for its w.

Optimality gap. ODM's objective P is smooth and 1-strongly convex in w, and its derivative by b is
zero at a snapshot. So P − ½‖∇P‖² is a lower bound, which is also the value of the dual (19) at the
multipliers −ℓ'(z). The hinge of LDM has no derivative at 1, so that margins of 1 do not determine
their multipliers. For LDM the bound is the dual value of a convex combination of the feasible
multipliers of all snapshots. Every snapshot improves it by a Frank-Wolfe step. Without λ2, zero is
a bound as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreg.linalg.rows import matmul, rmatmul, row_norms, weighted_mean
from discreg.linalg.types import Array, Indices

from ._problem import BinaryFit, BinaryProblem
from ._variance import variance_term

Coefficients = tuple[Array, float]

# Factor of the step after an accepted epoch. Near the optimum of LDM, which is not smooth, some
# epochs fail by chance, and halving alone would stop the progress.
GROWTH = 1.2
ROUNDING = 1e-13  # relative increase of the objective due to rounding
PATIENCE = 50  # epochs without progress before stopping
TINY = float(np.finfo(np.float64).tiny)


class Snapshot(NamedTuple):
    """Point with its objective, gradient and optimality gap."""

    coef: Array
    intercept: float
    margins: Array
    multipliers: Array  # −ℓ'(z), not multiplied by the sample weights
    gradient: Array
    objective: float
    unit: float  # denominator of the relative gap: the objective without the term of the mean
    gap: float  # upper bound of the objective minus its minimum


@np.errstate(over="ignore", invalid="ignore")
def svrg(problem: BinaryProblem) -> BinaryFit:
    """Minimise the objective of ODM or LDM by Algorithm 2 until the relative gap is at most `tol`.

    `svrg_step` is in units of one over the largest smoothness constant of a sample's gradient. That
    of ODM is 0.5 by benchmarks/results/svrg_step.md; the paper uses the setup of Johnson and Zhang,
    0.1, as LDM does here.

    An epoch that increases the objective is rejected, and the step is halved. The step grows again
    with every accepted epoch, up to its first value. If neither objective nor gap decreases in many
    epochs, rounding prevents it, and the epochs end.
    """
    epochs, options = _Epochs(problem), problem.options
    step = longest = options.svrg_step / epochs.smoothness
    zero = np.zeros(problem.training.X.shape[1]), 0.0
    point = epochs.snapshot(*(problem.start or zero))
    bound = max(0.0 if problem.loss.lambda2 == 0 else -np.inf, point.objective - point.gap)
    n_iter = stalled = 0
    smallest = lowest = np.inf
    while (gap := _relative_gap(point, bound)) > options.tol and n_iter < options.max_iter:
        stalled = 0 if gap < smallest or point.objective < lowest else stalled + 1
        smallest, lowest = min(gap, smallest), min(point.objective, lowest)
        if stalled == PATIENCE:
            break
        trial = epochs.snapshot(*epochs.run(point, step))
        bound = max(
            bound, trial.objective - trial.gap
        )  # in this order, max ignores a bound that is NaN
        if trial.objective <= point.objective + ROUNDING * point.unit:
            point, step = trial, min(GROWTH * step, longest)
        else:
            step /= 2
        n_iter += 1
    if not np.isfinite(gap):
        raise ValueError(
            "The gradients of solver='svrg' overflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler, or use another solver."
        )
    limited = gap > options.tol and stalled < PATIENCE
    y, losses, scores = problem.y, problem.losses, problem.y * point.margins
    variance = variance_term(scores, y, problem.training.weights, problem.loss.lambda1)
    return BinaryFit(
        point.intercept,
        point.objective,
        gap,
        n_iter,
        problem.statistics(scores),
        point.coef,
        theta=y * (losses.multipliers(point.margins) + losses.tilt) - variance,
        warm=(point.coef, point.intercept),
        limited=limited,
    )


def _relative_gap(point: Snapshot, bound: float) -> float:
    gap = min(point.objective - bound, point.gap)
    relative = max(gap, 0.0) / max(point.unit, TINY)
    return relative if np.isfinite(relative) else np.inf


class _Epochs:
    """Snapshots and epochs of one problem, in the variables w and b + w·mean of the rows."""

    def __init__(self, problem: BinaryProblem) -> None:
        from ._loops import compiled_rows

        X, y, weights = problem.training.X, problem.y, problem.training.weights
        self._X, self._y, self._loss = X, y, problem.loss
        self._random = np.random.RandomState(problem.options.seed)
        self._fit_intercept = fit_intercept = problem.fit_intercept
        self._shares = shares = weights / weights.sum()
        self._losses, loss = problem.losses, problem.loss
        self._unweighted = loss.scaled(np.ones(len(y)))
        self._mean = weighted_mean(X, shares) if fit_intercept else np.zeros(X.shape[1])
        square = self._mean @ self._mean
        self._offsets = matmul(X, self._mean[:, None])[:, 0] - square  # mean·(x_i − mean)
        distances = np.maximum(row_norms(X) - 2 * self._offsets - square, 0.0)
        # Ratio of the steps of b + w·mean and of w: the mean squared distance of the rows.
        self._intercept_scale = float(shares @ distances) if fit_intercept else 0.0
        self._rows = compiled_rows(X)
        self._mixture: _DualPoint | None = None
        # The gradient of a pair is Lipschitz with 4 λ1 times the reach; C bounds the hinge's jump.
        smoothness = 4 * loss.lambda1 + (
            1 / min(loss.ridge_low, loss.ridge_high) if loss.is_smooth else loss.upper
        )
        reach = float(distances.max()) + self._intercept_scale
        self.smoothness = 1 + smoothness * reach

    def snapshot(self, coef: Array, intercept: float) -> Snapshot:
        """Compute the snapshot at given coefficients, with the optimal intercept for them."""
        y, shares, loss = self._y, self._shares, self._loss
        margins = y * (matmul(self._X, coef[:, None])[:, 0] + intercept)
        if self._fit_intercept:
            step = self._intercept_step(margins)
            intercept, margins = intercept + step, margins + step * y
        mean = float(shares @ margins)
        deviations = margins - mean
        tilt = loss.lambda2 - 2 * loss.lambda1 * deviations
        multipliers = self._unweighted.multipliers(margins)
        excess = 0.0
        if self._fit_intercept and not loss.is_smooth:
            excess = _balance(multipliers, margins, y, shares, tilt, loss.upper)
        combined = rmatmul(self._X, (shares * (multipliers + tilt) * y)[:, None])[:, 0]
        gradient = coef - combined
        variance = shares @ deviations**2 if loss.lambda1 > 0 else 0.0
        convex = float(0.5 * coef @ coef + loss.lambda1 * variance) + self._losses.value(margins)
        objective = convex - loss.lambda2 * mean
        if loss.is_smooth:
            gap = float(0.5 * gradient @ gradient)
        else:
            if excess != 0 and loss.lambda1 > 0:  # the multipliers of the variance have no limits
                sums = shares[y > 0].sum(), shares[y < 0].sum()
                extra = np.where(y > 0, excess / (2 * sums[0]), -excess / (2 * sums[1]))
                combined = combined - rmatmul(self._X, (shares * extra * y)[:, None])[:, 0]
                deviations = deviations + extra / (2 * loss.lambda1)
                excess = 0.0
            if excess == 0:
                scaled = deviations * np.sqrt(2 * loss.lambda1 * shares)
                found = _DualPoint(float(shares @ multipliers), np.concatenate([combined, scaled]))
                self._mixture = self._mixture.best_towards(found) if self._mixture else found
            gap = objective - self._mixture.value if self._mixture else np.inf
        return Snapshot(coef, intercept, margins, multipliers, gradient, objective, convex, gap)

    def _intercept_step(self, margins: Array) -> float:
        """Compute the step from the current intercept to the optimal one."""
        y, shares, loss = self._y, self._shares, self._loss
        mean, mean_y = shares @ margins, shares @ y
        slope = 2 * loss.lambda1 * (shares @ (y * margins) - mean * mean_y) - loss.lambda2 * mean_y
        curvature = 2 * loss.lambda1 * (1 - mean_y**2)
        return self._losses.intercept_step(margins, y, float(slope), float(curvature))

    def run(self, point: Snapshot, step: float) -> Coefficients:
        """Run an epoch from a snapshot and return the new coefficients and intercept."""
        from . import _loops

        size = self._random.randint(1, len(self._y) + 1)
        samples = self._draw(size)
        partners = samples if self._loss.is_smooth else self._draw(size)
        v = np.zeros_like(point.coef)
        shrink, pull, drift, shift = _loops.epoch(
            self._rows, self._y, self._mean, self._offsets, samples, partners,
            point.margins, point.multipliers, point.gradient,
            step, step * self._intercept_scale, self._loss.numbers(), self._loss.lambda1, v,
        )  # fmt: skip
        change = shrink * (v - drift * self._mean) - pull * point.gradient
        return point.coef + change, point.intercept + shift - float(self._mean @ change)

    def _draw(self, size: int) -> Indices:
        """Draw samples independently with probabilities proportional to their weights."""
        equal = self._shares.min() == self._shares.max()
        probabilities = None if equal else self._shares
        return self._random.choice(len(self._y), size=size, p=probabilities)


class _DualPoint(NamedTuple):
    """Feasible point of LDM's dual with the value total − ½‖square‖².

    `total` is Σ α_i. `square` holds Σ y_i a_i x_i, then r_i √(p_i/2λ1), with the multipliers r of
    the variance, λ1 var(z) = max Σ p_i (r_i z_i − r_i²/4λ1) over Σ p_i r_i = 0, and
    a_i = α_i + p_i (λ2 − r_i).
    """

    total: float
    square: Array

    @property
    def value(self) -> float:
        return self.total - float(0.5 * self.square @ self.square)

    def best_towards(self, other: _DualPoint) -> _DualPoint:
        """Compute the best point of the line segment to another point."""
        direction = other.square - self.square
        curvature = float(direction @ direction)
        slope = other.total - self.total - float(self.square @ direction)
        if not slope > 0:
            return self
        length = min(slope / curvature, 1.0) if curvature > 0 else 1.0
        total = self.total + length * (other.total - self.total)
        return _DualPoint(total, self.square + length * direction)


def _balance(
    multipliers: Array, margins: Array, y: Array, shares: Array, tilt: Array, C: float
) -> float:
    """Change multipliers in [0, C] so that Σ p_i y_i (a_i + tilt_i) = 0, or closest to zero.

    Returns the sum that remains. The samples closest to the kink of the hinge are changed first,
    because they decrease the dual least.
    """
    excess = float(shares @ (y * (multipliers + tilt)))
    falls = y * excess > 0
    room = shares * np.where(falls, multipliers, C - multipliers)
    order = np.argsort(np.abs(1 - margins))
    taken = np.cumsum(room[order])
    change = np.clip(abs(excess) - (taken - room[order]), 0.0, room[order]) / shares[order]
    multipliers[order] += np.where(falls[order], -change, change)
    return float(np.sign(excess) * max(abs(excess) - taken[-1], 0.0))
