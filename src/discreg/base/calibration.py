"""Temperature scaling: probabilities from decision values, with unchanged predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from discreg.linalg.types import Array

__all__ = ["fit_inverse_temperature", "log_loss", "probabilities"]

LOWEST, HIGHEST = 1e-3, 1e3  # bounds of the inverse temperature, per mean spread of the scores
MAX_STEPS = 100
MOST_SPREAD = 10.0  # largest spread of a row's scores, in medians
SMALLEST_SPREAD = 1e-300  # with a smaller spread τ would overflow


def fit_inverse_temperature(scores: Array, y: NDArray[np.intp], weights: Array) -> float:
    """Find the τ for which softmax(τ · scores) has the smallest log-loss on held-out samples.

    Targets are smoothed as in Platt scaling: a sample of a class of weight n has the target
    (n + 1) / (n + 2) for its own class, and the other classes share the rest. The loss is convex in
    τ. Newton's method minimises it over an interval of positive numbers: perfect separation does
    not send τ to infinity, and uninformative scores do not send it to zero. To limit the influence
    of outliers, rows whose spread exceeds ten times the median are scaled down to that spread.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Decision values of held-out samples.
    y : ndarray of shape (n_samples,)
        Class indices.
    weights : ndarray of shape (n_samples,)

    Returns
    -------
    float
    """
    spreads = np.ptp(scores, axis=1)
    limit = MOST_SPREAD * _weighted_median(spreads, weights)
    if limit > 0:
        shrink = np.minimum(1.0, limit / np.maximum(spreads, limit))
        scores, spreads = scores * shrink[:, None], spreads * shrink
    spread = float((weights / weights.sum()) @ spreads)  # the sum of large spreads could overflow
    if not spread > SMALLEST_SPREAD:
        return 1.0
    targets = _smoothed_targets(y, weights, scores.shape[1])
    scaled = scores / spread
    wanted = float(weights @ np.einsum("ij,ij->i", targets, scaled))
    low, high = LOWEST, HIGHEST
    tau = 1.0
    for _ in range(MAX_STEPS):
        shares = softmax(tau * scaled, axis=1)
        means = np.einsum("ij,ij->i", shares, scaled)
        slope = float(weights @ means) - wanted
        low, high = (tau, high) if slope < 0 else (low, tau)
        squares = np.einsum("ij,ij,ij->i", shares, scaled, scaled)
        curvature = float(weights @ (squares - means**2))
        following = tau - slope / curvature if curvature > 0 else np.inf
        if not low < following < high:
            following = np.sqrt(low * high)
        if abs(following - tau) <= 1e-12 * tau:
            break
        tau = following
    return float(tau / spread)


def log_loss(scores: Array, y: NDArray[np.intp], weights: Array, tau: float) -> float:
    """Compute the weighted mean log-loss of softmax(τ · scores)."""
    own = log_softmax(tau * scores, axis=1)[np.arange(len(y)), y]
    return float(-(weights @ own) / weights.sum())


def probabilities(scores: Array, tau: float, dtype: type = np.float64) -> NDArray[np.floating]:
    """Compute softmax(τ · scores); rounding never ties the class of the largest score."""
    shares = softmax(tau * scores, axis=1).astype(dtype)
    rows = np.arange(len(shares))
    winners = scores.argmax(axis=1)
    tied = shares.argmax(axis=1) != winners
    shares[rows[tied], winners[tied]] = np.nextafter(shares[tied].max(axis=1), dtype(2))
    return np.asarray(shares)


def _smoothed_targets(y: NDArray[np.intp], weights: Array, n_classes: int) -> Array:
    totals = np.bincount(y, weights=weights, minlength=n_classes)
    others = 1 / ((totals[y] + 2) * (n_classes - 1))
    targets = np.repeat(others[:, None], n_classes, axis=1)
    targets[np.arange(len(y)), y] = (totals[y] + 1) / (totals[y] + 2)
    return targets


def _weighted_median(values: Array, weights: Array) -> float:
    """Find the smallest value that at least half of the weight does not exceed."""
    order = np.argsort(values)
    reached = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2 * (1 - 1e-12))
    return float(values[order[min(reached, len(order) - 1)]])
