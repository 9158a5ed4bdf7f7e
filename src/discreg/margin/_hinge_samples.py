"""Distinct samples of a problem of LDM, and the responses of their scores to forces on them.

The responses are those without hinges: in the metric of `_variance`, the matrix of a support vector
machine. The mean of the margins counts as one more sample, the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.rows import weighted_mean
from discreg.linalg.types import Array, Indices

from ._hinge_paths import KINK
from ._ldm_solvers import groups_of_copies, is_solved_in_factor
from ._problem import SMALL, BinaryFit, BinaryProblem
from ._variance import VarianceMetric, variance_gram, variance_rows

__all__ = ["HingeResponses", "HingeSamples", "is_linear"]

NEAR, MORE = 0.05, 10  # samples near the kink: share of all, and number relative to the features
SMALLEST_WIDTH = 1e-9
AT_LIMIT = 1e-9  # distance of a multiplier from its limits due to rounding, relative to them
PROXIMAL = 1e-12  # added to the responses of samples to forces on them, relative to their mean
FREE = 1e7  # response of an intercept without penalty, relative to the same mean


@dataclass(frozen=True)
class HingeSamples:
    """Distinct samples: all of a small problem, else those to hold out and those near the kink."""

    groups: Indices  # of all samples
    chosen: Indices  # groups, in ascending order
    firsts: Indices  # first sample of each chosen group
    y: Array
    weights: Array
    multipliers: Array
    limits: Array
    tilts: Array
    scores: Array
    places: NDArray[np.int8]
    is_complete: bool
    curvatures: Array  # of a smoothed hinge, for many samples with few features

    @classmethod
    def of(cls, problem: BinaryProblem, fit: BinaryFit, rows: Indices) -> HingeSamples:
        assert fit.multipliers is not None
        assert fit.scores is not None
        training, loss = problem.training, problem.loss
        groups = _in_order(groups_of_copies(training.X, problem.y))
        weights, multipliers = (
            np.bincount(groups, each).astype(np.float64)
            for each in (training.weights, fit.multipliers)
        )
        share = weights / float(training.weights.sum())
        limits = loss.upper * share
        # Without samples at their limits, multipliers are small compared with the largest one.
        above = multipliers > AT_LIMIT * np.minimum(limits, multipliers.max())
        places = above.astype(np.int8) + (multipliers >= (1.0 - AT_LIMIT) * limits)
        chosen, curvatures = np.arange(len(weights)), np.zeros(len(weights))
        firsts = np.unique(groups, return_index=True)[1]
        is_complete = problem.exact and training.n_samples <= SMALL
        if not is_complete:
            near = np.flatnonzero(places == KINK)
            if is_linear(problem):
                margins = (problem.y * fit.scores)[firsts]
                near, width = _nearest(np.abs(margins - 1.0), training.X.shape[1])
                curvatures[near] = 0.5 * limits[near] / width
            chosen = np.union1d(groups[rows], near)
        firsts = firsts[chosen]
        return cls(
            groups,
            chosen,
            firsts,
            problem.y[firsts],
            weights[chosen],
            multipliers[chosen],
            limits[chosen],
            loss.lambda2 * share[chosen],
            fit.scores[firsts],
            places[chosen].astype(np.int8),
            is_complete,
            curvatures[chosen],
        )

    def places_of(self, rows: Indices) -> Indices:
        """Return the places of samples among the chosen ones."""
        return np.searchsorted(self.chosen, self.groups[rows])


@dataclass(frozen=True)
class HingeResponses:
    """Responses between samples and the mean: products of rows, plus a matrix if there is one."""

    rows: Array  # of the samples and of the mean
    matrix: Array | None = None  # between the samples
    mean: Array | None = None  # between the mean and the samples, and of the mean
    free: float = 0.0  # part that is the response of an intercept without penalty

    @classmethod
    def of(cls, problem: BinaryProblem, fit: BinaryFit, samples: HingeSamples) -> HingeResponses:
        training, y, some = problem.training, problem.y, samples.firsts
        lambda1 = problem.loss.lambda1
        pull = training.weights * y / float(training.weights.sum())  # of the mean margin
        linear = is_linear(problem)
        if lambda1 == 0:
            return cls._without_variance(problem, some, linear=linear)
        if linear or is_solved_in_factor(problem):
            X = training.X if linear else training.factor
            metric: VarianceMetric = fit.response
            if metric is None:
                metric = variance_rows(
                    X, y, training.weights, lambda1, fit_intercept=problem.fit_intercept
                ).metric
            rows = metric.rows(X[some])
            mean_row = pull @ X  # of rows about their mean, with an intercept
            if metric.mean is not None:
                mean_row = np.append(mean_row - pull.sum() * metric.mean, pull.sum())
            return cls(np.vstack([rows, metric.whitened(mean_row[None])]))
        damped = training.damped_gram(lambda1, rough=not samples.is_complete)
        updates = variance_gram(
            damped, y, training.weights, lambda1, fit_intercept=problem.fit_intercept
        ).updates
        mean = damped @ pull
        shared = damped if len(some) == len(damped) else damped[np.ix_(some, some)]
        rows = np.vstack([updates[some], pull @ updates])
        return cls(rows, shared, np.append(mean[some], pull @ mean))

    @classmethod
    def _without_variance(
        cls, problem: BinaryProblem, some: Indices, *, linear: bool
    ) -> HingeResponses:
        """Create the responses of a support vector machine; the mean does not matter."""
        training = problem.training
        if linear:
            X: Any = training.X[some]
            rows = np.zeros((len(some) + 1, X.shape[1] + 1))
            rows[:-1, :-1] = X.toarray() if sparse.issparse(X) else X
            free = 0.0
            if problem.fit_intercept:
                rows[:-1, :-1] -= weighted_mean(training.X, training.weights)
                free = FREE * float(np.square(rows).sum(axis=1).mean())
                rows[:-1, -1] = np.sqrt(free)
            return cls(rows, free=free)
        matrix = training.kernel_of(some)
        free = FREE * float(matrix.diagonal().mean()) if problem.fit_intercept else 0.0
        rows = np.sqrt(free) * np.append(np.ones(len(some)), 0.0)[:, None]
        return cls(rows, matrix, np.zeros(len(some) + 1), free)

    def between(self, one: Indices, other: Indices) -> Array:
        """Return the responses between different samples."""
        found = self.rows[one] @ self.rows[other].T
        if self.matrix is not None:
            part = self.matrix[one]  # faster than both indices at once if `other` are all samples
            found += part if np.array_equal(other, np.arange(len(self.matrix))) else part[:, other]
        return np.asarray(found)

    def of_mean(self) -> Array:
        """Return the responses between the mean and the samples, and of the mean."""
        found = self.rows @ self.rows[-1]
        return np.asarray(found if self.mean is None else found + self.mean)

    def everything(self) -> Array:
        """Return all responses, those of the mean last, with a positive definite matrix."""
        found = self.rows @ self.rows.T
        if self.matrix is not None:
            found[:-1, :-1] += self.matrix
            found[-1] = found[:, -1] = self.of_mean()
        return self._definite(found)

    def among(self, some: Indices) -> Array:
        """Return the responses between the same samples, with a positive definite matrix."""
        return self._definite(self.between(some, some))

    def _definite(self, matrix: Array) -> Array:
        unit = max(float(matrix.diagonal().mean()) - self.free, 0.0) if len(matrix) else 0.0
        matrix[np.diag_indices_from(matrix)] += PROXIMAL * unit
        return matrix

    def own(self, some: Indices) -> Array:
        """Return the responses of samples to forces on themselves."""
        found = np.square(self.rows[some]).sum(axis=1)
        return np.asarray(found if self.matrix is None else found + self.matrix.diagonal()[some])


def is_linear(problem: BinaryProblem) -> bool:
    """Return whether the responses are products of rows with fewer features than samples."""
    training = problem.training
    return training.kernel is None and training.X.shape[1] < training.n_samples


def _nearest(distances: Array, n_features: int) -> tuple[Indices, float]:
    """Return samples near the kink, more than features, and the largest of their distances."""
    wanted = max(int(NEAR * len(distances)), MORE * (n_features + 1))
    number = min(wanted, len(distances) // 2)
    near = np.argpartition(distances, number - 1)[:number]
    return near, max(float(distances[near].max()), SMALLEST_WIDTH)


def _in_order(groups: Indices) -> Indices:
    """Number groups in the order of their first samples."""
    firsts = np.unique(groups, return_index=True)[1]
    numbers = np.empty(len(firsts), dtype=np.intp)
    numbers[np.argsort(firsts)] = np.arange(len(firsts))
    return numbers[groups]
