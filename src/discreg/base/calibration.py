"""Probabilities and prediction sets from decision values, calibrated on held-out samples.

Probabilities are the softmax of the scores of a sample times a positive number, so that predictions
do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from discreg.linalg.types import Array, Indices, RealArray

__all__ = [
    "Calibration",
    "Temperature",
    "check_set_params",
    "class_columns",
    "fit_temperature",
    "log_loss",
    "log_probabilities",
    "probabilities",
]

LOWEST, HIGHEST = 1e-3, 1e3  # bounds of the inverse temperature, per mean spread of the scores
MAX_STEPS = 100
SMALL_STEP = 1e-7  # relative, of Newton's method: the next one would be its square
ROUNDING = 1e-12
TINY = 1e-290
SMALLEST_SPREAD = 1e-300  # with a smaller spread τ would overflow
LARGEST_SPREAD = 1e300  # in medians
FEWEST = 10  # with fewer held-out samples the inverse temperature is `PRIOR`
PRIOR = 2.5  # inverse temperature per mean spread of the scores


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
    """

    inverse: float
    spread: float = np.inf

    def factors(self, spreads: Array) -> Array:
        """Compute the numbers by which the scores of samples with these spreads are multiplied."""
        return self.inverse * _damping(spreads, self.spread)

    def logits(self, scores: RealArray) -> Array:
        """Compute the logits of scores whose last axis are the classes."""
        scores = scores.astype(np.float64)
        with np.errstate(over="ignore"):
            spreads = scores.max(axis=-1, keepdims=True) - scores.min(axis=-1, keepdims=True)
        return np.asarray(self.factors(spreads) * scores)


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
    weights, units : ndarray of shape (n_samples,)
        Weights, and the weight of one copy of each sample.
    n_classes : int
    """

    temperature: Temperature
    nonconformity: Array
    y: Indices
    weights: Array
    units: Array
    n_classes: int

    @classmethod
    def of(
        cls,
        scores: Array,
        y: Indices,
        weights: Array,
        units: Array,
        n_classes: int,
        temperature: Temperature | None = None,
    ) -> Calibration:
        """Calibrate on the scores of held-out samples.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_classes)
        y : ndarray of shape (n_samples,)
            Class indices.
        weights : ndarray of shape (n_samples,)
        units : ndarray of shape (n_samples,)
            Weight of one copy of each sample.
        n_classes : int
        temperature : Temperature, optional
            If given, it is not fitted to the scores.
        """
        if temperature is None:
            temperature = _temperature(scores, y, weights, weights / units)
        shares = probabilities(scores, temperature)
        nonconformity: Array = 1.0 - shares[np.arange(len(y)), y].astype(np.float64)
        order = np.argsort(nonconformity, kind="stable")
        known = nonconformity[order], y[order], weights[order], units[order]
        return cls(temperature, *known, n_classes)

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
        """Return the quantile of some scores, one more of which is the new sample's."""
        weights = self.weights[samples]
        if not len(weights):
            return np.inf
        reached, total = np.cumsum(weights), float(weights.sum())
        unit = float(weights @ self.units[samples]) / total  # of the new sample
        wanted = confidence_level * (total + unit)
        place = int(np.searchsorted(reached, wanted * (1 - ROUNDING)))
        return float(self.nonconformity[samples][place]) if place < len(reached) else np.inf


def _temperature(scores: Array, y: Indices, weights: Array, copies: Array) -> Temperature:
    """Fit the temperature; for few samples it depends on the spread of the scores only."""
    if float(copies.sum()) < FEWEST * (1 - ROUNDING):
        spread = float(np.average(np.ptp(scores, axis=1), weights=weights)) if len(y) else 0.0
        return Temperature(PRIOR / spread if spread > SMALLEST_SPREAD else 1.0)
    return fit_temperature(scores, y, weights, copies)


def check_set_params(
    confidence_level: float, method: str, class_conditional: bool, allow_empty: bool
) -> None:
    """Check the parameters of `predict_set`."""
    if not isinstance(confidence_level, Real) or not 0 < confidence_level < 1:
        raise ValueError(
            f"confidence_level must be a number between 0 and 1, got {confidence_level!r}."
        )
    if method not in ("loo", "full"):
        raise ValueError(f"method must be 'loo' or 'full', got {method!r}.")
    for name, value in (("class_conditional", class_conditional), ("allow_empty", allow_empty)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {value!r}.")


def class_columns(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return decision values with one column per class; one number of two classes gets a zero."""
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def fit_temperature(
    scores: Array, y: Indices, weights: Array, copies: Array | None = None
) -> Temperature:
    """Find the τ for which the probabilities have the smallest log-loss on held-out samples.

    Targets are smoothed: of n samples, each has the target (n + 1) / (n + 2) for its own class, and
    the other classes share the rest. Platt scaling does so with the samples of each class, which
    makes the probabilities of small classes too small. The loss is convex in τ. Newton's method
    minimises it over an interval of positive numbers: perfect separation does not send τ to
    infinity, and uninformative scores do not send it to zero.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Decision values of held-out samples.
    y : ndarray of shape (n_samples,)
        Class indices.
    weights : ndarray of shape (n_samples,)
    copies : ndarray of shape (n_samples,), default=None
        How many samples each one counts for; None means the weights.

    Returns
    -------
    Temperature
    """
    copies = weights if copies is None else copies
    weights = weights / weights.max()  # the scale of all weights does not matter
    below = _below_largest(scores)
    spreads = -below.min(axis=0)
    typical = _weighted_median(spreads, weights)
    if not typical > SMALLEST_SPREAD:
        typical = np.inf
    damping = _damping(spreads, typical)
    below, spreads = below * damping, spreads * damping
    spread = float((weights / weights.sum()) @ spreads)  # the sum of large spreads could overflow
    if not spread > SMALLEST_SPREAD:
        return Temperature(1.0)
    below = below / spread
    of_other = 1 / ((copies.sum() + 2) * (len(below) - 1))  # target of each other class
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
    return Temperature(float(tau / spread), typical)


def log_loss(scores: Array, y: Indices, weights: Array, temperature: Temperature) -> float:
    """Compute the weighted mean log-loss of the probabilities."""
    own = log_softmax(temperature.logits(scores), axis=1)[np.arange(len(y)), y]
    return float(-(weights @ own) / weights.sum())


def probabilities(
    scores: RealArray, temperature: Temperature, dtype: type = np.float64
) -> RealArray:
    """Compute probabilities from scores; rounding never ties the class of the largest score."""
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
