"""Probabilities and prediction sets from decision values, calibrated on held-out samples.

Probabilities are the softmax of the scores of a sample times a positive number, so that predictions
do not change. Scores that do not know how frequent the classes are also get an offset per class, as
do others where offsets are needed for good probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from discreg.linalg.types import Array, Indices, RealArray

LOWEST, HIGHEST = 1e-3, 1e3  # bounds of the inverse temperature, per mean spread of the scores
MAX_STEPS = 100
SMALL_STEP = 1e-7  # relative, of Newton's method: the next one would be its square
ROUNDING = 1e-12
TINY = 1e-290
SMALLEST_SPREAD = 1e-300  # with a smaller spread τ would overflow
LARGEST_SPREAD = 1e300  # in medians
FEWEST = 10  # with fewer held-out samples the inverse temperature is `PRIOR`
PRIOR = 2.5  # inverse temperature per mean spread of the scores
# Chosen by the simulated tables of benchmarks/probabilities.py.
SHRINKAGE = 1.0  # weight, in samples, of the squared distance of the offsets from their prior
NEEDED = 0.5  # gain in log-likelihood per offset, that of an offset whose true value is zero
MATERIAL = 0.0016  # gain per sample: mean probabilities that are off by 0.03 lose about as much
TIE = 1e-6  # by which capped logits are below that of the largest score
LARGEST_STEP = 5.0  # of an offset in one step of Newton's method


@dataclass(frozen=True)
class Temperature:
    """Conversion of scores to logits, which damps large differences.

    The spread of a sample is the difference between its largest and its smallest score. With x, the
    spread in units of `spread`, the logits are the scores times τ asinh(x) / x: the spread of the
    logits grows as x for small x and as log x for large x. Scores far from those of the other
    samples are not trusted as much as they claim.

    Attributes
    ----------
    inverse : float
        τ.
    spread : float
        Median of the spreads of held-out samples; infinity means no damping.
    offsets : ndarray of shape (n_classes,) or None
        What is added to the logits of the classes; None means nothing.
    prior : ndarray of shape (n_classes,) or None
        Logarithms of the shares of the classes if the scores do not depend on them.
    agrees : bool
        Whether the class of the largest score has the largest probability, or with `prior` the
        largest one relative to the share of the class.
    """

    inverse: float
    spread: float = np.inf
    offsets: Array | None = None
    prior: Array | None = None
    agrees: bool = True

    @classmethod
    def constant(cls, shares: Array) -> Temperature:
        """Create the conversion of any scores to these probabilities."""
        return cls(0.0, np.inf, np.log(shares))

    @property
    def is_capped(self) -> bool:
        """Whether offsets could make a class more probable than that of the largest score."""
        return self.agrees and self.offsets is not None and self.inverse > 0

    def factors(self, spreads: Array) -> Array:
        """Compute the numbers by which the scores of samples with these spreads are multiplied."""
        return self.inverse * _damping(spreads, self.spread)

    def logits(self, scores: RealArray) -> Array:
        """Compute the logits of scores whose last axis are the classes."""
        scores = scores.astype(np.float64)
        with np.errstate(over="ignore"):
            spreads = scores.max(axis=-1, keepdims=True) - scores.min(axis=-1, keepdims=True)
        logits = np.asarray(self.factors(spreads) * scores)
        if self.offsets is None:
            return logits
        logits = logits + self.offsets
        if not self.is_capped:
            return logits
        prior = 0.0 if self.prior is None else self.prior
        logits -= prior
        winners = scores.argmax(axis=-1)[..., None]
        largest = np.take_along_axis(logits, winners, -1)
        return np.asarray(np.where(logits > largest, largest - TIE, logits) + prior)


@dataclass(frozen=True)
class Calibration:
    """Temperature and nonconformity scores of held-out samples.

    The nonconformity score of a sample is one minus the probability of its class.

    Attributes
    ----------
    temperature : Temperature
    nonconformity : ndarray of shape (n_samples,)
    y : ndarray of shape (n_samples,)
        Class indices.
    weights : ndarray of shape (n_samples,)
    n_classes : int
    """

    temperature: Temperature
    nonconformity: Array
    y: Indices
    weights: Array
    n_classes: int

    @classmethod
    def of(
        cls, scores: Array, y: Indices, weights: Array, n_classes: int, temperature: Temperature
    ) -> Calibration:
        """Compute the nonconformity scores of held-out samples from their decision values."""
        shares = probabilities(scores, temperature)
        nonconformity: Array = 1.0 - shares[np.arange(len(y)), y].astype(np.float64)
        order = np.argsort(nonconformity, kind="stable")
        return cls(temperature, nonconformity[order], y[order], weights[order], n_classes)

    def log_loss(self) -> float:
        """Compute the log-loss of the held-out samples, where probabilities are at least 1e-16."""
        own = np.maximum(1.0 - self.nonconformity, 1e-16)
        return float(-(self.weights @ np.log(own)) / self.weights.sum())

    def sets(
        self,
        shares: Array,
        confidence_level: float,
        *,
        class_conditional: bool = False,
        allow_empty: bool = False,
    ) -> NDArray[np.bool_]:
        """Return which classes conform as well as that share of the held-out samples.

        Parameters
        ----------
        shares : ndarray of shape (n_samples, n_classes)
            Probabilities of new samples.
        confidence_level : float
        class_conditional : bool, default=False
            Whether to compare with the held-out samples of the same class only.
        allow_empty : bool, default=False
            Whether sets may be empty; otherwise they contain the most probable class.
        """
        if class_conditional:
            each = [self._limit(self.y == k, confidence_level) for k in range(self.n_classes)]
            limits = np.array(each)
        else:
            limits = np.full(self.n_classes, self._limit(slice(None), confidence_level))
        sets = 1 - shares <= limits
        if not allow_empty:
            sets[np.arange(len(sets)), shares.argmax(axis=1)] = True
        return np.asarray(sets)

    def _limit(self, samples: Any, confidence_level: float) -> float:
        """Return the quantile of some scores, one more of which is the new sample's.

        The new sample weighs as much as one of the effective number of samples.
        """
        weights = self.weights[samples]
        if not len(weights):
            return np.inf
        reached, total = np.cumsum(weights), float(weights.sum())
        wanted = confidence_level * (total + total / effective_number(weights))
        place = int(np.searchsorted(reached, wanted * (1 - ROUNDING)))
        return float(self.nonconformity[samples][place]) if place < len(reached) else np.inf


def check_set_params(confidence_level: float, class_conditional: bool, allow_empty: bool) -> None:
    """Check the parameters of `predict_set`."""
    if not isinstance(confidence_level, Real) or not 0 < confidence_level < 1:
        raise ValueError(
            f"confidence_level must be a number between 0 and 1, got {confidence_level!r}."
        )
    for name, value in (("class_conditional", class_conditional), ("allow_empty", allow_empty)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {value!r}.")


def class_columns(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return decision values with one column per class; one number of two classes gets a zero."""
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def one_column_if_binary(scores: Array) -> Array:
    """Convert to scikit-learn's shape of decision values: one number for two classes."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def effective_number(weights: Array) -> float:
    """Return the number of samples of equal weight whose mean is as precise (Kish)."""
    shares = weights / weights.sum()
    return float(1.0 / (shares @ shares))


def fit_temperature(
    scores: Array,
    y: Indices,
    weights: Array,
    offsets: Array | None = None,
    *,
    agrees: bool = True,
) -> Temperature:
    """Find the τ for which the probabilities have the smallest log-loss on held-out samples.

    Targets are smoothed: of n samples, each has the target (n + 1) / (n + 2) for its own class, and
    the other classes share the rest. Platt scaling does so with the samples of each class, which
    makes the probabilities of small classes too small. The loss is convex in τ. Newton's method
    minimises it over an interval of positive numbers: perfect separation does not send τ to
    infinity, and uninformative scores do not send it to zero. With few samples, τ depends on the
    spread of the scores only.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Decision values of held-out samples.
    y : ndarray of shape (n_samples,)
        Class indices.
    weights : ndarray of shape (n_samples,)
        Their scale does not matter.
    offsets : ndarray of shape (n_classes,), default=None
        Prior of the class offsets, to which these are drawn on few samples. None means zero, and
        that there are no offsets unless they lower the loss materially and by more than chance
        would: then probabilities cannot agree with the shares of the classes without them.
    agrees : bool, default=True
        As in `Temperature`. Scores of a model with class weights need not agree.

    Returns
    -------
    Temperature
    """
    prior = offsets
    if len(y) < FEWEST:
        spread = float(np.average(np.ptp(scores, axis=1), weights=weights)) if len(y) else 0.0
        inverse = PRIOR / spread if spread > SMALLEST_SPREAD else 1.0
        return Temperature(inverse, np.inf, offsets, prior, agrees)
    weights = weights / weights.max()
    below = _below_largest(scores)
    spreads = -below.min(axis=0)
    typical = _weighted_median(spreads, weights)
    if not typical > SMALLEST_SPREAD:
        typical = np.inf
    damping = _damping(spreads, typical)
    below, spreads = below * damping, spreads * damping
    spread = float((weights / weights.sum()) @ spreads)  # the sum of large spreads could overflow
    if not spread > SMALLEST_SPREAD:
        return Temperature(1.0, np.inf, offsets, prior, agrees)
    below = below / spread
    if offsets is None:
        tau = _best_inverse(below, y, weights)
        least = max(NEEDED * (len(below) - 1), MATERIAL * effective_number(weights))
        if _gain_of_offsets(tau, below, y, weights) > least:
            offsets = np.zeros(len(below))
    if offsets is not None:
        tau, offsets = _best_offsets(below, y, weights, offsets)
    return Temperature(float(tau / spread), typical, offsets, prior, agrees)


def _best_inverse(below: Array, y: Indices, weights: Array) -> float:
    """Minimise the log-loss over τ; `below` has one row per class."""
    of_other = 1 / ((effective_number(weights) + 2) * (len(below) - 1))  # target of each other
    own = below[y, np.arange(len(y))]
    wanted = float((of_other * below.sum(axis=0) + (1 - len(below) * of_other) * own) @ weights)
    low, high, tau = LOWEST, HIGHEST, PRIOR
    for _ in range(MAX_STEPS):
        shares = np.exp(tau * below)
        totals = shares.sum(axis=0)
        shares *= below
        means = shares.sum(axis=0) / totals
        shares *= below
        slope = float(means @ weights) - wanted
        low, high = (tau, high) if slope < 0 else (low, tau)
        curvature = float((shares.sum(axis=0) / totals - means**2) @ weights)
        following = tau - slope / curvature if curvature > 0 else np.inf
        if not low < following < high:
            following = np.sqrt(low * high)
        change, tau = abs(following - tau), following
        if change <= SMALL_STEP * tau:
            break
    return tau


def _best_offsets(below: Array, y: Indices, weights: Array, prior: Array) -> tuple[float, Array]:
    """Minimise the log-loss over τ and class offsets, which are drawn to a prior.

    A τ that is not positive becomes the smallest one.
    """
    targets, weights = _smoothed_targets(y, weights, len(prior))
    prior = prior - prior.mean()
    unknowns, free = np.concatenate([[PRIOR], prior]), slice(0, None)

    def losses(at: Array) -> tuple[float, Array]:
        """Compute the loss and the logarithms of the probabilities."""
        logits = at[0] * below + at[1:, None]
        logits -= logits.max(axis=0)
        logits -= np.log(np.exp(logits).sum(axis=0))
        distance = 0.5 * SHRINKAGE * float(np.sum((at[1:] - prior) ** 2))
        return distance - float((logits * targets).sum(axis=0) @ weights), logits

    current, logs = losses(unknowns)
    for _ in range(MAX_STEPS):
        shares = np.exp(logs)
        slope, curvature = _derivatives(shares, shares - targets, below, weights)
        slope[1:] += SHRINKAGE * (unknowns[1:] - prior)
        curvature[1:, 1:] += SHRINKAGE * np.eye(len(prior))
        if unknowns[0] <= LOWEST and slope[0] > 0:
            free = slice(1, None)
        step = np.zeros_like(unknowns)
        matrix = curvature[free, free]
        matrix = matrix + ROUNDING * np.trace(matrix) * np.eye(len(matrix))
        step[free] = -np.linalg.solve(matrix, slope[free])
        step *= min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), TINY))
        for _ in range(MAX_STEPS):
            trial = unknowns + step
            trial[0] = min(max(trial[0], LOWEST), HIGHEST)
            value, logs = losses(trial)
            if value <= current + ROUNDING * abs(current):
                break
            step = step / 2
        change = float(np.abs(trial - unknowns).max())
        unknowns, current = trial, value
        if change <= SMALL_STEP:
            break
    return float(unknowns[0]), unknowns[1:]


def _gain_of_offsets(tau: float, below: Array, y: Indices, weights: Array) -> float:
    """Estimate by how much offsets lower the sum of the losses: one step of Newton's method."""
    targets, weights = _smoothed_targets(y, weights, len(below))
    shares = softmax(tau * below, axis=0)
    slope, curvature = _derivatives(shares, shares - targets, below, weights)
    slope[0] = 0.0  # τ is the best one
    curvature[1:, 1:] += SHRINKAGE * np.eye(len(below))
    curvature[0, 0] += TINY
    return 0.5 * float(slope @ np.linalg.solve(curvature, slope))


def _smoothed_targets(y: Indices, weights: Array, n_classes: int) -> tuple[Array, Array]:
    """Return targets, and weights whose sum is the effective number of samples.

    Targets are smoothed as in `fit_temperature`, but towards the shares of the classes, so that
    the mean probabilities stay these shares.
    """
    number = effective_number(weights)
    weights = weights * (number / weights.sum())
    sizes = np.bincount(y, weights, n_classes)
    targets = np.repeat(sizes[:, None] / number / (number + 2), len(y), axis=1)
    targets[y, np.arange(len(y))] += (number + 1) / (number + 2)
    return targets, weights


def _derivatives(shares: Array, excess: Array, below: Array, weights: Array) -> tuple[Array, Array]:
    """Compute the gradient and the Hessian of the log-loss in τ and the offsets."""
    slope = np.append((excess * below).sum(axis=0) @ weights, excess @ weights)
    weighted = shares * weights
    centred = below - (shares * below).sum(axis=0)
    curvature = np.empty((len(below) + 1, len(below) + 1))
    curvature[0, 0] = (weighted * centred**2).sum()
    curvature[0, 1:] = curvature[1:, 0] = (weighted * centred).sum(axis=1)
    curvature[1:, 1:] = np.diag(weighted.sum(axis=1)) - weighted @ shares.T
    return slope, curvature


def log_loss(scores: Array, y: Indices, weights: Array, temperature: Temperature) -> float:
    """Compute the weighted mean log-loss of the probabilities."""
    own = log_softmax(temperature.logits(scores), axis=1)[np.arange(len(y)), y]
    return float(-(weights @ own) / weights.sum())


def probabilities(
    scores: RealArray, temperature: Temperature, dtype: type = np.float64
) -> RealArray:
    """Compute probabilities from scores.

    Rounding never ties the class of the largest score with another.
    """
    if temperature.offsets is not None:
        shares = softmax(temperature.logits(scores), axis=1).astype(dtype)
        if not temperature.is_capped or temperature.prior is not None:
            return np.asarray(shares)
    else:
        below = _below_largest(scores.astype(np.float64))
        shares = np.exp(temperature.factors(-below.min(axis=0)) * below)
        shares /= shares.sum(axis=0)
        shares = np.ascontiguousarray(shares.T, dtype=dtype)
    rows = np.arange(len(shares))
    winners = scores.argmax(axis=1)
    tied = shares.argmax(axis=1) != winners
    shares[rows[tied], winners[tied]] = np.nextafter(shares[tied].max(axis=1), dtype(2))
    return np.asarray(shares)


def log_probabilities(
    scores: RealArray, temperature: Temperature, dtype: type = np.float64
) -> RealArray:
    """Compute the logarithms of `probabilities`, also where those are zero."""
    shares = probabilities(scores, temperature)
    logs = np.log(np.maximum(shares, TINY))
    tiny = np.flatnonzero((shares <= TINY).any(axis=1))
    if len(tiny):
        exact = log_softmax(temperature.logits(scores[tiny]), axis=1)
        logs[tiny] = np.where(shares[tiny] > TINY, logs[tiny], exact)
    return np.asarray(logs.astype(dtype))


def _below_largest(scores: Array) -> Array:
    """Subtract the largest score of each sample; one row per class, which makes sums faster."""
    by_class = np.ascontiguousarray(scores.T)
    return np.asarray(by_class - by_class.max(axis=0))


def _damping(spreads: Array, typical: float) -> Array:
    """Compute asinh(x) / x for spreads in units of the typical one."""
    if np.isinf(typical):
        return np.ones_like(spreads)
    with np.errstate(over="ignore"):
        x = np.minimum(spreads / typical, LARGEST_SPREAD)
    return np.divide(np.arcsinh(x), x, out=np.ones_like(x), where=x > 0)


def _weighted_median(values: Array, weights: Array) -> float:
    """Find the smallest value that at least half of the weight does not exceed."""
    order = np.argsort(values)
    reached = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2 * (1 - 1e-12))
    return float(values[order[min(reached, len(order) - 1)]])
