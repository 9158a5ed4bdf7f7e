"""Scores of ODM and LDM for held-out training samples, from one fit.

A unit u of the weight of one sample leaves, and the costs of all other samples stay what they are.
The losses are piecewise quadratic: while no other sample changes its piece, the scores respond
linearly to a force on the score of the sample, and its new score is known exactly.

ODM. A sample with the multiplier a has the force θ = y a = (e − f)/Λ on its score f, where e is the
signed edge of the band and Λ is its ridge m/(2 C s). Let v be the response of f to a force, with
the losses of all samples. Without the share ρ = u/s of the loss of the sample

    f' = f − ρ θ v / (1 − ρ v/Λ).

With a kernel v/Λ = 1 − Λ (A⁻¹)_ii, where A is K + Λ on the samples with non-zero multipliers,
bordered by ones for the intercept; for ρ = 1 this is f + Λθ − θ/(A⁻¹)_ii. With features z, which
include the intercept, v = zᵀH⁻¹z with the Hessian H of the objective. Samples inside the band do
not move.

Small problems are then solved exactly, for all held-out samples at once. With the responses V
between all samples (the covariances of a Gaussian process) and forces φ on the samples whose piece
has changed, f' = f + Vφ. On a piece with edge e' and ridge Λ', φ = (e' − f')/Λ' − (e − f')/Λ, which
are few linear equations for each held-out sample. They are repeated with the pieces that they lead
to. If these do not change, the optimality conditions of the refit hold.

LDM. In the metric of `_variance`, LDM is a support vector machine with tilts λ2 s/m: f responds to
forces y (α + tilt) on the samples, and samples at the kink have z = 1. So v is the response with
the other samples at the kink fixed: v = V_ii − V_iE V_EE⁻¹ V_Ei, and 1/(V_EE⁻¹)_ii for a sample at
the kink. Without the unit the variance loses ½ω d², where d is the margin minus the mean margin and
ω = 2 λ1 u/(m − u). So, with the joint responses v of f and d,

    d' = (d − v_df θ + v_df θ')/(1 − ω v_dd),      f' = f − v_ff θ + v_ff θ' + ω v_fd d',

and θ' = y (α' + tilt') is the force of what is left of the sample: f' is linear in α', and α' is 0,
at its limit, or such that the margin is 1. Other samples keep their piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from discreg.linalg.factorisation import EPS
from discreg.linalg.rows import batches, centred_gram, weighted_mean
from discreg.linalg.types import Array

from ._ldm_solvers import groups_of_copies, is_solved_in_factor
from ._losses import SampleLosses
from ._problem import SMALL, BinaryFit, BinaryProblem
from ._variance import variance_gram, variance_rows

__all__ = ["FeatureResponse", "can_leave_out", "left_out_scores", "quadratic_losses", "without"]

Indices = NDArray[np.intp]
LARGEST_SYSTEM = 5_000  # most samples, or features, of ODM whose system is factored
LARGEST_DENSE = 2_000  # most samples of LDM with a kernel, whose system has all of them
SEEN = 1e-12  # smallest share of the other samples that determines a held-out score
ROUNDS = 20  # most rounds of equations on changed pieces
MOST_CHANGES = 100  # most pieces that change with one sample
BATCH = 128  # held-out samples whose equations are solved together
EXACT_GAP = 1e-12  # largest gap of a fit that is exact up to rounding
EDGE_ROUNDING = 1e-12  # of margins at an edge of the band
AT_LIMIT = 1e-7  # distance of a multiplier from its limits due to rounding, relative to them
PROXIMAL = 1e-12  # added to the diagonal of samples at the kink, relative to it


def can_leave_out(problem: BinaryProblem, fit: BinaryFit) -> bool:
    """Return whether the system for held-out scores is small enough to be factored."""
    training, multipliers = problem.training, fit.multipliers
    width = training.X.shape[1] if training.kernel is None else training.n_samples
    if problem.loss.is_smooth:
        assert multipliers is not None
        return min(width, np.count_nonzero(multipliers)) <= LARGEST_SYSTEM
    in_features = width < training.n_samples and width <= SMALL
    return multipliers is not None and (in_features or training.n_samples <= LARGEST_DENSE)


def left_out_scores(
    problem: BinaryProblem, fit: BinaryFit, rows: Indices, units: Array
) -> tuple[Array, bool]:
    """Compute the scores of some training samples, each from the model without a unit of it.

    Parameters
    ----------
    problem : BinaryProblem
    fit : BinaryFit
    rows : ndarray of shape (n_rows,)
        Indices of the samples.
    units : ndarray of shape (n_rows,)
        Weight of each sample that is left out.

    Returns
    -------
    scores : ndarray of shape (n_rows,)
        NaN if the other samples do not determine a score.
    is_exact : bool
        Whether the scores are known to equal those of refits up to rounding.
    """
    try:
        if problem.loss.is_smooth:
            return _without_squares(problem, fit, rows, units)
        return _without_hinges(problem, fit, rows, units), False
    except linalg.LinAlgError:  # values so large that rounding makes the system singular
        return np.full(len(rows), np.nan), False


def _without_squares(
    problem: BinaryProblem, fit: BinaryFit, rows: Indices, units: Array
) -> tuple[Array, bool]:
    """Compute held-out scores of ODM, exact ones for small problems."""
    assert fit.scores is not None
    assert fit.multipliers is not None
    y, pieces = problem.y, np.sign(fit.multipliers).astype(np.int8)
    edges, curvatures = quadratic_losses(problem.losses, y, pieces)
    shares = units / problem.training.weights[rows]
    forces, curved = shares * (y * fit.multipliers)[rows], shares * curvatures[rows]
    if problem.training.n_samples > SMALL:
        responses = _responses(problem, curvatures, rows)
        return without(fit.scores[rows], forces, curved, responses), False
    refits = _Refits(problem, fit.scores, pieces, edges, curvatures)
    found = without(fit.scores[rows], forces, curved, refits.responses.diagonal()[rows])
    exact = fit.gap <= EXACT_GAP
    known = np.flatnonzero(np.isfinite(found))
    for part in batches(len(known), BATCH):
        some = known[part]
        scores, solved = refits.without(rows[some], shares[some])
        found[some[solved]] = scores[solved]
        exact = exact and bool(solved.all())
    return found, exact


def without(scores: Array, forces: Array, curvatures: Array, responses: Array) -> Array:
    """Compute scores without quadratic losses of given forces and curvatures.

    `responses` are those of the scores to forces, with the losses.
    """
    leverages = curvatures * responses
    moved = np.where(forces == 0, 0.0, forces * responses / (1.0 - leverages))
    return np.where(leverages < 1.0 - SEEN, scores - moved, np.nan)


def quadratic_losses(losses: SampleLosses, y: Array, pieces: Array) -> tuple[Array, Array]:
    """Return signed edges e and curvatures k of losses ½ k (e − f)² on given pieces.

    The pieces are 1 for margins below the band, 0 inside, where the curvature is zero, and -1
    above it.
    """
    below = pieces > 0
    ridges = np.where(below, losses.ridge_low, losses.ridge_high)
    return y * np.where(below, losses.low, losses.high), np.abs(pieces) / ridges


@dataclass(frozen=True)
class FeatureResponse:
    """Response of scores to forces for linear models: zᵀH⁻¹z, with the intercept eliminated."""

    factor: Array  # lower Cholesky factor of the Hessian for centred features
    centre: Array | float
    of_intercept: float

    @classmethod
    def of(
        cls, gram: Array, moment: Array, curvature: float, origin: Array, *, fit_intercept: bool
    ) -> FeatureResponse:
        """Create it from Σ k, Σ k (x − origin) and Σ k (x − origin)(x − origin)ᵀ."""
        hessian, centre, of_intercept = gram.copy(), origin, 0.0
        if fit_intercept and curvature > 0:
            hessian -= np.outer(moment / curvature, moment)
            centre, of_intercept = origin + moment / curvature, 1.0 / curvature
        hessian[np.diag_indices_from(hessian)] += 1.0
        return cls(_cholesky(hessian), centre, of_intercept)

    def half(self, X: Any) -> Array:
        """Compute the factor with which halfᵀ half + `of_intercept` are the responses."""
        dense = X.toarray() if sparse.issparse(X) else X
        return _triangular(self.factor, (dense - self.centre).T)

    def __call__(self, X: Any) -> Array:
        """Compute the response of the score of each row to a force on it."""
        return np.asarray(np.square(self.half(X)).sum(axis=0) + self.of_intercept)


def _feature_response(problem: BinaryProblem, curvatures: Array) -> FeatureResponse:
    """Create the response of a linear model in memory."""
    training, used = problem.training, np.flatnonzero(curvatures)
    X, weights = training.X[used], curvatures[used]
    total, origin = float(weights.sum()), np.zeros(training.X.shape[1])
    if problem.fit_intercept and total > 0 and not sparse.issparse(X):
        origin = weighted_mean(X, weights)
    moment = np.asarray(X.T @ weights).ravel() - total * origin
    gram = centred_gram(X, weights, origin if origin.any() else None)
    return FeatureResponse.of(gram, moment, total, origin, fit_intercept=problem.fit_intercept)


def _responses(problem: BinaryProblem, curvatures: Array, rows: Indices) -> Array:
    """Compute the responses of the scores of some samples, zero without curvature."""
    training, used = problem.training, np.flatnonzero(curvatures)
    if not len(used):
        return np.zeros(len(rows))
    if training.kernel is None and training.X.shape[1] <= len(used):
        return _feature_response(problem, curvatures)(training.X[rows])
    ridges = 1.0 / curvatures[used]
    matrix = training.kernel_of(used)
    matrix[np.diag_indices_from(matrix)] += ridges
    inverse = _inverse_factor(_cholesky(matrix))
    diagonal = np.einsum("ij,ij->j", inverse, inverse)
    if problem.fit_intercept:
        ones = inverse.sum(axis=1)
        diagonal -= np.square(ones @ inverse) / float(ones @ ones)
    found = np.zeros(training.n_samples)
    found[used] = ridges - ridges**2 * diagonal
    return found[rows]


class _Refits:
    """Refits of ODM without units of samples, on the few samples whose piece changes."""

    def __init__(
        self,
        problem: BinaryProblem,
        scores: Array,
        pieces: NDArray[np.int8],
        edges: Array,
        curvatures: Array,
    ) -> None:
        self.problem, self.scores, self.pieces = problem, scores, pieces
        self.edges, self.curvatures = edges, curvatures
        self.responses = self._responses_between()

    def _responses_between(self) -> Array:
        """Compute the responses of all scores to forces on all samples."""
        problem, training = self.problem, self.problem.training
        if training.kernel is None and training.X.shape[1] < training.n_samples:
            response = _feature_response(problem, self.curvatures)
            half = response.half(training.X)
            return np.asarray(half.T @ half + response.of_intercept)
        used = np.flatnonzero(self.curvatures)
        matrix = training.gram
        inner = matrix[np.ix_(used, used)]
        inner[np.diag_indices_from(inner)] += 1.0 / self.curvatures[used]
        factor = _cholesky(inner)
        half = _triangular(factor, matrix[used])
        responses = matrix - half.T @ half
        if problem.fit_intercept and len(used):
            ones = _triangular(factor, np.ones(len(used)))
            rest = 1.0 - ones @ half
            responses += np.outer(rest / float(ones @ ones), rest)
        return np.asarray(responses)

    def without(self, rows: Indices, shares: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the scores of held-out samples and whether their equations were solved."""
        found, solved = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
        pieces = np.repeat(self.pieces[None], len(rows), axis=0)
        left = np.arange(len(rows))
        for _ in range(ROUNDS):
            changed = pieces[left] != self.pieces
            changed[np.arange(len(left)), rows[left]] = True
            few = np.count_nonzero(changed, axis=1) <= MOST_CHANGES
            left, changed = left[few], changed[few]
            if not len(left):
                break
            try:
                scores = self._scores(rows[left], shares[left], pieces[left], changed)
            except np.linalg.LinAlgError:
                break
            following = self._following(pieces[left], scores)
            gone = np.flatnonzero(shares[left] >= 1.0)
            following[gone, rows[left[gone]]] = self.pieces[rows[left[gone]]]
            done = (following == pieces[left]).all(axis=1)
            pieces[left] = following
            found[left[done]] = scores[done, rows[left[done]]]
            solved[left[done]] = True
            left = left[~done]
        return found, solved

    def _scores(
        self, rows: Indices, shares: Array, pieces: NDArray[np.int8], changed: NDArray[np.bool_]
    ) -> Array:
        """Compute the scores of all samples, one row per held-out sample, for given pieces."""
        width = int(np.count_nonzero(changed, axis=1).max())
        samples = np.argsort(~changed, axis=1, kind="stable")[:, :width]
        which = np.arange(len(rows))[:, None]
        edges, curvatures = quadratic_losses(
            self.problem.losses.take(samples), self.problem.y[samples], pieces[which, samples]
        )
        curvatures *= np.where(samples == rows[:, None], 1.0 - shares[:, None], 1.0)
        slopes = curvatures - self.curvatures[samples]
        forces = curvatures * edges - (self.curvatures * self.edges)[samples]
        forces -= slopes * self.scores[samples]
        spare = ~changed[which, samples]
        slopes[spare] = forces[spare] = 0.0
        system = slopes[:, :, None] * self.responses[samples[:, :, None], samples[:, None, :]]
        system[:, np.arange(width), np.arange(width)] += 1.0
        forces = np.linalg.solve(system, forces[:, :, None])[:, :, 0]
        starts = width * np.arange(len(rows) + 1)
        shape = (len(rows), len(self.scores))
        sparse_forces = sparse.csr_array((forces.ravel(), samples.ravel(), starts), shape=shape)
        return np.asarray(self.scores + sparse_forces @ self.responses)

    def _following(self, pieces: NDArray[np.int8], scores: Array) -> NDArray[np.int8]:
        """Return the pieces of scores; at an edge, up to rounding, the piece does not change."""
        margins, losses = self.problem.y * scores, self.problem.losses
        slack = EDGE_ROUNDING * (1.0 + np.abs(margins))
        low, high = losses.low + slack * pieces, losses.high + slack * pieces
        inside = pieces == 0
        low, high = low - slack * inside, high + slack * inside
        return (margins < low).astype(np.int8) - (margins > high).astype(np.int8)


def _without_hinges(problem: BinaryProblem, fit: BinaryFit, rows: Indices, units: Array) -> Array:
    """Compute held-out scores of LDM; equal samples count as one of their total weight."""
    assert fit.scores is not None
    assert fit.multipliers is not None
    training, loss = problem.training, problem.loss
    total = float(training.weights.sum())
    groups = groups_of_copies(training.X, problem.y)
    weights = np.bincount(groups, training.weights)
    multipliers = np.bincount(groups, fit.multipliers)
    limits, tilts = loss.upper * weights / total, loss.lambda2 * weights / total
    at_kink = np.flatnonzero(
        (multipliers > AT_LIMIT * limits) & (multipliers < (1.0 - AT_LIMIT) * limits)
    )
    places = np.full(len(weights), -1)
    places[at_kink] = np.arange(len(at_kink))
    firsts = np.unique(groups, return_index=True)[1]
    of_rows = groups[rows]
    responses = _HingeResponses.of(problem, rows, firsts[at_kink], places[of_rows])

    y, margins = problem.y[rows], problem.y * fit.scores
    pulls = multipliers[of_rows] + tilts[of_rows]  # on the margins
    response, mixed, of_deviation = responses.own, responses.mixed, responses.of_deviation
    omega = 2.0 * loss.lambda1 * units / (total - units)
    left = 1.0 - omega * of_deviation
    deviations = (margins - float(training.weights @ margins) / total)[rows] - mixed * pulls
    bare = margins[rows] - response * pulls + omega * mixed * deviations / left
    response = response + omega * mixed**2 / left
    rest = 1.0 - units / weights[of_rows]
    bare = bare + response * rest * tilts[of_rows]
    found = np.where(
        bare >= loss.low, bare, np.minimum(bare + response * rest * limits[of_rows], loss.low)
    )
    return np.where((left > SEEN) & np.isfinite(found), y * found, np.nan)


@dataclass(frozen=True)
class _HingeResponses:
    """Responses of the margin z and of its deviation d from the mean, to forces on either."""

    own: Array  # of z to a force on it
    mixed: Array  # of d to a force on z
    of_deviation: Array  # of d to a force on it

    @classmethod
    def of(
        cls, problem: BinaryProblem, rows: Indices, at_kink: Indices, places: Indices
    ) -> _HingeResponses:
        """Compute them for some samples; `places` are theirs in `at_kink`, or -1."""
        prior = _Prior.of(problem, rows, at_kink)
        inner = prior.inner
        inner[np.diag_indices_from(inner)] *= 1.0 + PROXIMAL
        inverse = _inverse_factor(_cholesky(inner))
        half = inverse @ prior.cross.T
        own = prior.own - np.square(half).sum(axis=0)
        precision = np.square(inverse).sum(axis=0)  # diagonal of the inverse
        if prior.is_bordered:
            ones = inverse.sum(axis=1)
            own += np.square(1.0 - ones @ half) / float(ones @ ones)
            precision -= np.square(ones @ inverse) / float(ones @ ones)
        fixed = places >= 0
        released = 1.0 / precision[places[fixed]]
        own[fixed] = released
        if prior.mean_of_rows is None:
            return cls(own, np.zeros(len(rows)), np.zeros(len(rows)))
        half_mean = inverse @ prior.mean_at_kink
        with_mean = prior.mean_of_rows - half_mean @ half
        of_mean = np.full(len(rows), prior.of_mean - float(half_mean @ half_mean))
        slopes = (half_mean @ inverse)[places[fixed]]
        with_mean[fixed] = slopes * released
        of_mean[fixed] += slopes**2 * released
        y = problem.y[rows]
        return cls(own, own - y * with_mean, own - 2.0 * y * with_mean + of_mean)


@dataclass(frozen=True)
class _Prior:
    """Responses of scores without hinges, between some samples, those at the kink and the mean."""

    cross: Array
    inner: Array
    own: Array
    is_bordered: bool  # whether an intercept without penalty comes on top
    mean_of_rows: Array | None = None
    mean_at_kink: Any = None
    of_mean: float = 0.0

    @classmethod
    def of(cls, problem: BinaryProblem, rows: Indices, at_kink: Indices) -> _Prior:
        training, y, lambda1 = problem.training, problem.y, problem.loss.lambda1
        pull = training.weights * y / float(training.weights.sum())  # of the mean margin
        linear = training.kernel is None and training.X.shape[1] < training.n_samples
        if lambda1 == 0:
            bordered = problem.fit_intercept
            if not linear:
                matrix = training.gram
                cross, inner = matrix[np.ix_(rows, at_kink)], matrix[np.ix_(at_kink, at_kink)]
                return cls(cross, inner, matrix.diagonal()[rows], bordered)
            centre = weighted_mean(training.X, training.weights) if bordered else 0.0
            ours, fixed = (_dense(training.X[some]) - centre for some in (rows, at_kink))
            return cls(ours @ fixed.T, fixed @ fixed.T, np.square(ours).sum(axis=1), bordered)
        options: dict[str, Any] = {"fit_intercept": problem.fit_intercept}
        if linear or is_solved_in_factor(problem):
            X = training.X if linear else training.factor
            Z = variance_rows(X, y, training.weights, lambda1, **options).rows
            ours, fixed, mean = Z[rows], Z[at_kink], pull @ Z
            products = ours @ fixed.T, fixed @ fixed.T, np.square(ours).sum(axis=1)
            return cls(*products, False, ours @ mean, fixed @ mean, float(mean @ mean))
        damped = training.damped_gram(lambda1)
        matrix = variance_gram(damped, y, training.weights, lambda1, **options).gram
        mean = matrix @ pull
        products = matrix[np.ix_(rows, at_kink)], matrix[np.ix_(at_kink, at_kink)]
        own = matrix.diagonal()[rows]
        return cls(*products, own, False, mean[rows], mean[at_kink], float(pull @ mean))


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _cholesky(matrix: Array) -> Array:
    """Compute the lower Cholesky factor; a second attempt adds what rounding may have removed."""
    if not len(matrix):
        return matrix
    try:
        return np.asarray(linalg.cholesky(matrix, lower=True, check_finite=False))
    except linalg.LinAlgError:
        matrix = matrix.copy()
        largest = float(matrix.diagonal().max())
        matrix[np.diag_indices_from(matrix)] += 10 * len(matrix) * EPS * largest
        return np.asarray(linalg.cholesky(matrix, lower=True, check_finite=False))


def _triangular(factor: Array, right: Array) -> Array:
    if not len(factor):
        return np.zeros(right.shape)
    return np.asarray(linalg.solve_triangular(factor, right, lower=True, check_finite=False))


def _inverse_factor(factor: Array) -> Array:
    """Compute the inverse of a lower triangular matrix."""
    if not len(factor):
        return factor
    return np.asarray(linalg.lapack.dtrtri(factor, lower=1)[0])
