"""Scores of LDM for held-out training samples, from one fit.

In the metric of `_variance` LDM is a support vector machine with tilts λ2 s/m. A unit u of the
weight of one sample leaves, and the costs of all other samples stay what they are. Every sample is
beyond the kink (with the multiplier α = 0), at the kink (margin 1) or below it (α at its limit).
While these places are known, everything is linear.

Let G be the responses of scores to forces without hinges: the matrix of that support vector
machine. Exchanging the roles of force and score for the samples E at the kink gives a matrix T,

    Δf = (G − G_E N G_Eᵀ) φ + G_E N x,      Δθ_E = −N G_Eᵀ φ + N x,      N = (G_EE)⁻¹,

for forces φ on the other samples and displacements x of those at the kink. A refit without a unit
of a sample is a system of the rows and columns of T that belong to the sample and to those whose
place changes: a new place at the kink gives the score, another new place gives the force.

Without the unit, the variance of the margins loses ½ω d², where d is the margin minus the mean
margin and ω = 2 λ1 u/(m − u): a force ψ = ω d' on the margin of the sample and −ψ on the mean. So
the mean is one more sample without a loss.

Equal samples count as one of their total weight. In large problems only the place of the sample
itself changes, and with few features the hinge is smoothed. Then the responses v of its margin z
and of d, with the other samples at the kink fixed, are enough:

    d' = (d − v_dz a + v_dz a')/(1 − ω v_dd),      z' = z − v_zz a + v_zz a' + ω v_zd d',

where a is the multiplier plus the tilt and a' that of what is left of the sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.rows import batches
from discreg.linalg.types import Array, Indices

from ._hinge_paths import KINK, LIMIT, ZERO, Paths, Rates
from ._hinge_samples import HingeResponses, HingeSamples
from ._problem import BinaryFit, BinaryProblem
from ._refits import (
    EXACT_GAP,
    MOST_CHANGES,
    Refits,
    cholesky,
    in_columns,
    inverse_factor,
    solve_all,
    triangular,
    with_changed,
)

__all__ = ["without_hinges"]

Pieces = NDArray[np.int8]
BATCH = 128  # paths that are followed together
MOST_STEPS = 200  # most places that change on a path
ROUNDING = 1e-9  # of margins at the kink, and of multipliers relative to their limits
SEEN = 1e-12  # smallest share of the other samples that determines a held-out score


def without_hinges(
    problem: BinaryProblem, fit: BinaryFit, rows: Indices, units: Array
) -> tuple[Array, bool]:
    """Compute held-out scores of LDM, and whether they are exact."""
    samples = HingeSamples.of(problem, fit, rows)
    places = samples.places_of(rows)
    shares = units / samples.weights[places]
    deviations = _deviations(problem, fit, samples)
    responses = HingeResponses.of(problem, fit, samples)
    if not samples.is_complete:
        return _on_own_places(problem, samples, responses, deviations, places, shares), False
    refits = _HingeRefits(problem, samples, responses, deviations)
    found, solved = refits.without(places, shares)
    left = np.flatnonzero(~solved)
    for part in batches(len(left), BATCH):
        some = left[part]
        scores, done = refits.along_paths(places[some], shares[some])
        found[some[done]], solved[some[done]] = scores[done], True
    penalised = problem.loss.lambda1 > 0 or not problem.fit_intercept  # else approximately free
    return found, penalised and bool(solved.all()) and fit.gap <= EXACT_GAP


def _deviations(problem: BinaryProblem, fit: BinaryFit, samples: HingeSamples) -> Array:
    """Compute the margins minus their mean over all samples."""
    mean = fit.margins.mean
    return np.asarray(samples.y * samples.scores - mean)


def _omega(problem: BinaryProblem, units: Array) -> Array:
    """Compute ω, the loss of curvature of the variance without units of samples."""
    total = float(problem.training.weights.sum())
    return np.asarray(2.0 * problem.loss.lambda1 * units / (total - units))


def _on_own_places(
    problem: BinaryProblem,
    samples: HingeSamples,
    responses: HingeResponses,
    deviations: Array,
    places: Indices,
    shares: Array,
) -> Array:
    """Compute held-out scores if only the sample itself changes its place."""
    if responses.matrix is None:
        own, mixed, variance = _smoothed_responses(samples, responses.rows, places)
    else:
        own, mixed, variance = _responses_at_kink(samples, responses, places)
    y, margins = samples.y[places], (samples.y * samples.scores)[places]
    pulls = (samples.multipliers + samples.tilts)[places]
    omega = _omega(problem, shares * samples.weights[places])
    of_deviation, mixed = own - 2.0 * y * mixed + variance, own - y * mixed
    left = 1.0 - omega * of_deviation
    bare = margins - own * pulls
    bare += omega * mixed * (deviations[places] - mixed * pulls) / left
    own = own + omega * mixed**2 / left
    bare += own * (1.0 - shares) * samples.tilts[places]
    limited = bare + own * (1.0 - shares) * samples.limits[places]
    found = y * np.where(bare >= 1.0, bare, np.minimum(limited, 1.0))
    return np.where((left > SEEN) & np.isfinite(found), found, np.nan)


def _responses_at_kink(
    samples: HingeSamples, responses: HingeResponses, places: Indices
) -> tuple[Array, Array, Array]:
    """Compute responses of scores, of the mean to forces on them, and of the mean.

    The other samples at the kink stay there.
    """
    kinks = np.flatnonzero(samples.places == KINK)
    mean = responses.of_mean()
    inverse = inverse_factor(cholesky(responses.among(kinks)))
    half = inverse @ responses.between(kinks, places)
    of_mean = inverse @ mean[kinks]
    own = responses.own(places) - np.square(half).sum(axis=0)
    mixed = mean[places] - of_mean @ half
    variance = np.full(len(places), mean[-1] - float(of_mean @ of_mean))
    fixed = np.flatnonzero(samples.places[places] == KINK)
    at = np.searchsorted(kinks, places[fixed])
    own[fixed] = 1.0 / np.square(inverse).sum(axis=0)[at]
    slopes = (of_mean @ inverse)[at]
    mixed[fixed] = slopes * own[fixed]
    variance[fixed] += slopes**2 * own[fixed]
    return own, mixed, variance


def _smoothed_responses(
    samples: HingeSamples, rows: Array, places: Indices
) -> tuple[Array, Array, Array]:
    """Compute the same responses for a smoothed hinge, without the hinge of the sample itself.

    With few features as many samples as features are at the kink: if these stay there, nothing
    moves. Among many samples others replace them all the time, as for a smooth loss.
    """
    curvatures = samples.curvatures
    near = np.flatnonzero(curvatures)
    hessian = rows[near].T @ (curvatures[near, None] * rows[near])
    hessian[np.diag_indices_from(hessian)] += 1.0
    factor = cholesky(hessian)
    half, of_mean = triangular(factor, rows[places].T), triangular(factor, rows[-1])
    own, mixed, variance = np.square(half).sum(axis=0), of_mean @ half, float(of_mean @ of_mean)
    curved = curvatures[places]
    left = 1.0 - curved * own
    return own / left, mixed / left, variance + curved * mixed**2 / left


class _HingeRefits(Refits):
    """Refits of LDM without units of samples."""

    rounds = 10  # paths are better than more rounds

    def __init__(
        self,
        problem: BinaryProblem,
        samples: HingeSamples,
        responses: HingeResponses,
        deviations: Array,
    ) -> None:
        super().__init__(samples.places)
        self.problem, self.samples, self._deviations = problem, samples, deviations
        self._kinks = np.append(samples.places == KINK, False)
        matrix = responses.everything()
        # The transpose, whose rows are the effects of single inputs.
        self._effects = _exchanged(matrix, np.flatnonzero(self._kinks)).T.copy()

    def _step(
        self,
        rows: Indices,
        shares: Array,
        pieces: Pieces,
        samples: Indices,
        spare: NDArray[np.bool_],
    ) -> tuple[Array, Pieces]:
        ours, which = self.samples, np.arange(len(rows))
        limits, tilts = (
            np.repeat(each[None], len(rows), axis=0) for each in (ours.limits, ours.tilts)
        )
        limits[which, rows] *= 1.0 - shares
        tilts[which, rows] *= 1.0 - shares
        gone = shares >= 1.0
        listed = np.take_along_axis(pieces, samples, axis=1)
        listed[gone, 0] = ZERO
        inputs, columns = self._inputs(rows, shares, samples, spare, listed, limits, tilts)

        scores, forces, _ = self._outcome(columns, inputs)
        scores = ours.scores + scores
        multipliers = ours.multipliers + ours.tilts - tilts + ours.y * forces
        multipliers[which, rows] += inputs[:, -1]
        following = _following(pieces, ours.y * scores, multipliers, limits)
        following[which[gone], rows[gone]] = pieces[which[gone], rows[gone]]
        return scores[which, rows], following

    def _inputs(
        self,
        rows: Indices,
        shares: Array,
        samples: Indices,
        spare: NDArray[np.bool_],
        listed: Pieces,
        limits: Array,
        tilts: Array,
    ) -> tuple[Array, Indices]:
        """Compute the inputs of T for the listed samples at their new places, and for the mean."""
        ours, y = self.samples, self.samples.y[rows]
        omega = _omega(self.problem, shares * ours.weights[rows])
        matrix, columns = self._listed(samples)
        at_kink, to_kink = self._kinks[samples], listed == KINK

        pulls = np.where(listed == LIMIT, np.take_along_axis(limits, samples, axis=1), 0.0)
        pulls += np.take_along_axis(tilts, samples, axis=1)
        forces = ours.y[samples] * (pulls - (ours.multipliers + ours.tilts)[samples])
        apart = np.where(at_kink, 0.0, ours.y[samples] - ours.scores[samples])
        right = np.where(spare, 0.0, np.where(to_kink, apart, forces))
        right = np.column_stack([right, -omega * self._deviations[rows]])

        system = _system(matrix, (at_kink != to_kink) & ~spare)
        own_score = np.where(at_kink[:, :1], np.eye(1, columns.shape[1]), matrix[:, 0])
        system[:, 0, -1] += np.where(to_kink[:, 0], 0.0, y)
        system[:, -1] += omega[:, None] * (y[:, None] * own_score - matrix[:, -1])
        return solve_all(system, right), columns

    def along_paths(self, rows: Indices, shares: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Follow the solutions while shares of samples leave; return scores and where it worked."""
        ours, found = self.samples, np.full(len(rows), np.nan)
        paths = Paths(
            rows,
            shares,
            _omega(self.problem, shares * ours.weights[rows]),
            self._deviations[rows],
            ours.places,
            ours.y * ours.scores,
            ours.multipliers,
            ours.limits,
        )
        for _ in range(MOST_STEPS):
            changed = (paths.places == KINK) != self._kinks[:-1]
            changed[paths.own] = False
            paths.keep(np.count_nonzero(changed, axis=1) < MOST_CHANGES)
            if not len(paths.rows):
                break
            try:
                ended, margins = paths.advance(self._rates(paths))
            except np.linalg.LinAlgError:
                break
            found[ended] = ours.y[rows[ended]] * margins
        return found, np.isfinite(found)

    def _rates(self, paths: Paths) -> Rates:
        """Compute the derivatives along paths."""
        ours, rows, own = self.samples, paths.rows, paths.own
        y, tilts, shares = ours.y[rows], ours.tilts[rows], paths.shares
        second = paths.signs != 0
        limits = np.where(second, 0.0, -shares * ours.limits[rows])
        pulls = limits * (paths.places[own] == LIMIT) - shares * tilts
        pulls = np.where(second, paths.signs, pulls)
        changed = (paths.places == KINK) != self._kinks[:-1]
        changed[own] = False
        samples, spare = with_changed(rows, changed)
        to_kink = np.take_along_axis(paths.places == KINK, samples, axis=1)
        right = np.zeros((len(rows), samples.shape[1] + 1))
        right[:, 0] = np.where(to_kink[:, 0], 0.0, y * pulls)
        right[:, -1] = -paths.signs
        matrix, columns = self._listed(samples)
        system = _system(matrix, (self._kinks[samples] != to_kink) & ~spare)
        inputs = solve_all(system, right)
        scores, forces, mean = self._outcome(columns, inputs)
        margins, multipliers = ours.y * scores, ours.y * forces
        multipliers[own] += np.where(second, -paths.signs, shares * tilts)
        return Rates(margins, multipliers, limits, margins[own] - mean)

    def _listed(self, samples: Indices) -> tuple[Array, Indices]:
        """Return the part of T of listed samples and of the mean, and its columns."""
        mean = np.full(len(samples), len(self.samples.y))
        columns = np.column_stack([samples, mean])
        return self._effects[columns[:, None, :], columns[:, :, None]], columns

    def _outcome(self, columns: Indices, inputs: Array) -> tuple[Array, Array, Array]:
        """Compute the changes of all scores, of the forces on them, and of the mean margin."""
        all_inputs = in_columns(columns, inputs, len(self._kinks))
        outputs, given = np.asarray(all_inputs @ self._effects), all_inputs.toarray()
        scores = np.where(self._kinks, given, outputs)
        forces = np.where(self._kinks, outputs, given)
        return scores[:, :-1], forces[:, :-1], scores[:, -1]


def _system(matrix: Array, by_output: NDArray[np.bool_]) -> Array:
    """Return rows of T where the output is given, and rows of the identity elsewhere."""
    system = np.zeros_like(matrix)
    places = np.arange(matrix.shape[1])
    system[:, places, places] = 1.0
    refits, rows = np.nonzero(by_output)
    system[refits, rows] = matrix[refits, rows]
    return system


def _following(pieces: Pieces, margins: Array, multipliers: Array, limits: Array) -> Pieces:
    """Return the places of samples; at an edge, up to rounding, a place does not change."""
    following, slack = pieces.copy(), ROUNDING * limits
    following[(pieces == ZERO) & (margins < 1.0 - ROUNDING)] = KINK
    following[(pieces == LIMIT) & (margins > 1.0 + ROUNDING)] = KINK
    following[(pieces == KINK) & (multipliers < -slack)] = ZERO
    following[(pieces == KINK) & (multipliers > limits + slack)] = LIMIT
    return following


def _exchanged(responses: Array, kinks: Indices) -> Array:
    """Compute T, with the roles of force and score exchanged for the samples at the kink."""
    inverse = inverse_factor(cholesky(responses[np.ix_(kinks, kinks)]))
    half = inverse @ responses[kinks]
    exchanged, mixed = responses - half.T @ half, inverse.T @ half
    exchanged[:, kinks], exchanged[kinks] = mixed.T, -mixed
    exchanged[np.ix_(kinks, kinks)] = inverse.T @ inverse
    return exchanged
