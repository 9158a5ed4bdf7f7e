r"""Calibration of each candidate, the pool of candidates, and honest estimates of both.

With L the held-out log-probabilities of a candidate, centred by row, its calibration is
:math:`\mathrm{softmax}(L W + b)`, where W and b minimise the log-loss plus
:math:`(\rho / n) (|W - I|^2 + |b|^2)`. The pool is :math:`\mathrm{softmax}(\sum_k w_k L_k)` of the
calibrated candidates, where :math:`w \ge 0` minimises the log-loss plus
:math:`(\lambda / n) |w - 1/m|^2`. Both are convex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from discreg.base.calibration import Temperature
from discreg.linalg.types import Array, Indices

# Chosen in benchmarks/auto_families.py.
MATRIX_PENALTY = 3.0  # rho
POOL_PENALTY = 100.0  # lambda
MOST_MEMBERS = 6
SMALLEST_WEIGHT = 0.01
MOST_FULL = 15  # classes up to which W is a full matrix; otherwise it is diagonal
FLOOR = np.log(1e-12)  # of log-probabilities
N_PARTS = 5  # of cross-fitting


@dataclass(frozen=True)
class JudgedRows:
    """Labels of the judged samples, as the calibration needs them."""

    y: Indices
    weights: Array
    units: Indices
    shares: Array  # of the classes in all samples

    @property
    def n_effective(self) -> float:
        """Number of samples of equal weight that are as precise."""
        return float(self.weights.sum() ** 2 / (self.weights @ self.weights))

    def take(self, rows: Indices) -> JudgedRows:
        """Return some of the samples."""
        return JudgedRows(self.y[rows], self.weights[rows], self.units[rows], self.shares)


@dataclass(frozen=True)
class Calibrator:
    """From scores of a model to log-probabilities."""

    temperature: Temperature
    matrix: Array
    offset: Array

    def __call__(self, scores: Array) -> Array:
        """Compute log-probabilities."""
        return self.of_logs(log_softmax(self.temperature.logits(scores), axis=1))

    def of_logs(self, logs: Array) -> Array:
        """Compute log-probabilities from those after the temperature."""
        logs = np.maximum(logs, FLOOR)
        logs = logs - logs.mean(axis=1, keepdims=True)
        return np.asarray(log_softmax(logs @ self.matrix + self.offset, axis=1))


def fit_calibrator(
    logs: Array, judged: JudgedRows, temperature: Temperature, start: Calibrator | None = None
) -> Calibrator:
    """Fit the matrix and the offset to held-out log-probabilities after the temperature."""
    n_classes = logs.shape[1]
    L = np.maximum(logs, FLOOR)
    L = L - L.mean(axis=1, keepdims=True)
    shares = judged.weights / judged.weights.sum()
    rho = MATRIX_PENALTY / judged.n_effective
    full = n_classes <= MOST_FULL
    size = n_classes**2 if full else n_classes
    identity = np.eye(n_classes) if full else np.ones(n_classes)
    rows = np.arange(len(L))

    def loss(unknowns: Array) -> tuple[float, Array]:
        W, b = unknowns[:size].reshape(identity.shape), unknowns[size:]
        logits = (L @ W if full else L * W) + b
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        totals = p.sum(axis=1)
        value = shares @ (np.log(totals) - logits[rows, judged.y])
        p *= (shares / totals)[:, None]
        p[rows, judged.y] -= shares
        gradient = L.T @ p if full else (L * p).sum(axis=0)
        D = W - identity
        value += rho * ((D * D).sum() + b @ b)
        gradient = gradient + 2 * rho * D
        return float(value), np.concatenate([gradient.ravel(), p.sum(axis=0) + 2 * rho * b])

    first = np.concatenate([identity.ravel(), np.zeros(n_classes)])
    if start is not None:
        matrix = start.matrix if full else start.matrix.diagonal()
        first = np.concatenate([matrix.ravel(), start.offset])
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    W = found[:size].reshape(identity.shape)
    return Calibrator(temperature, W if full else np.diag(W), found[size:])


def pool_logs(logs: Sequence[Array], weights: Array) -> Array:
    """Compute the log-probabilities of a pool."""
    total = sum(weight * each for weight, each in zip(weights, logs, strict=True))
    return np.asarray(log_softmax(total, axis=1))


def fit_weights(logs: Sequence[Array], judged: JudgedRows) -> Array:
    """Find the weights of a pool of calibrated log-probabilities, at most six positive."""
    members = np.arange(len(logs))
    weights = _best_weights(logs, judged)
    if len(members) > MOST_MEMBERS:
        members = np.argsort(-weights, kind="stable")[:MOST_MEMBERS]
        weights = _best_weights([logs[k] for k in members.tolist()], judged)
    if (weights < SMALLEST_WEIGHT).any() and (weights >= SMALLEST_WEIGHT).any():
        members = members[weights >= SMALLEST_WEIGHT]
        weights = _best_weights([logs[k] for k in members.tolist()], judged)
    found = np.zeros(len(logs))
    found[members] = weights
    return found


def _best_weights(logs: Sequence[Array], judged: JudgedRows) -> Array:
    L = np.stack(logs)  # (n_candidates, n_judged, n_classes)
    shares, n_members = judged.weights / judged.weights.sum(), len(L)
    rows = np.arange(L.shape[1])
    of_own = L[:, rows, judged.y] @ shares
    penalty = POOL_PENALTY / judged.n_effective
    flat = L.reshape(n_members, -1)

    def loss(w: Array) -> tuple[float, Array]:
        logits = (w @ flat).reshape(L.shape[1:])
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        totals = p.sum(axis=1)
        value = shares @ (np.log(totals) - logits[rows, judged.y])
        p *= (shares / totals)[:, None]
        apart = w - 1 / n_members
        return float(value + penalty * (apart @ apart)), flat @ p.ravel() - of_own + (
            2 * penalty * apart
        )

    start = np.full(n_members, 1 / n_members)
    bounds = [(0.0, None)] * n_members
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


@dataclass(frozen=True)
class Pool:
    """Members of a pool: their places among the candidates, calibrations and weights."""

    members: list[int]
    calibrators: list[Calibrator]
    weights: Array

    def of_logs(self, logs: Sequence[Array]) -> Array:
        """Compute the log-probabilities of the pool from those of all candidates."""
        own = [
            calibrator.of_logs(logs[k])
            for k, calibrator in zip(self.members, self.calibrators, strict=True)
        ]
        return pool_logs(own, self.weights)


def fit_pool(
    logs: Sequence[Array],
    temperatures: Sequence[Temperature],
    judged: JudgedRows,
    starts: Sequence[Calibrator] | None = None,
) -> tuple[Pool, list[Calibrator]]:
    """Calibrate candidates and find their weights; return the calibrations of all, too."""
    calibrators = [
        fit_calibrator(each, judged, temperature, None if starts is None else starts[k])
        for k, (each, temperature) in enumerate(zip(logs, temperatures, strict=True))
    ]
    calibrated = [c.of_logs(each) for c, each in zip(calibrators, logs, strict=True)]
    weights = fit_weights(calibrated, judged)
    members = np.argsort(-weights, kind="stable")[: max(1, np.count_nonzero(weights))].tolist()
    return Pool(members, [calibrators[k] for k in members], weights[members]), calibrators


def cross_fitted(
    logs: Sequence[Array],
    temperatures: Sequence[Temperature],
    judged: JudgedRows,
    calibrators: Sequence[Calibrator],
) -> Array:
    """Compute held-out log-probabilities of the pool, fitted without each fifth of the units."""
    found = np.empty_like(logs[0])
    parts = np.unique(judged.units, return_inverse=True)[1] % N_PARTS
    for part in np.unique(parts):
        inside, outside = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        if not len(inside):
            found[outside] = np.log(np.maximum(judged.shares, np.exp(FLOOR)))
            continue
        given = [each[inside] for each in logs], temperatures, judged.take(inside), calibrators
        found[outside] = fit_pool(*given)[0].of_logs([each[outside] for each in logs])
    return found


def gain_over_shares(logs: Array, judged: JudgedRows) -> tuple[float, float]:
    """Compute how far the log-loss is below that of the class frequencies, and its standard error.

    The error is that of the mean over units.
    """
    prior = np.log(np.maximum(judged.shares, np.exp(FLOOR)))
    gain = logs[np.arange(len(logs)), judged.y] - prior[judged.y]
    of_units = np.bincount(judged.units, judged.weights * gain) / judged.weights.sum()
    return float(of_units.sum()), float(np.sqrt(of_units @ of_units))
