"""Scores of ODM for held-out training samples, from one fit.

A unit u of the weight of one sample leaves, and the costs of all other samples stay what they are.
The losses are piecewise quadratic: while no other sample changes its piece, the scores respond
linearly to a force on the score of the sample, and its new score is known exactly.

A sample with the multiplier a has the force θ = y a = (e − f)/Λ on its score f, where e is the
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
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.types import Array, Indices

from ._losses import SampleLosses
from ._newton import FactoredHessian
from ._odm_solvers import on_factor_if_large
from ._problem import SMALL, BinaryFit, BinaryProblem
from ._refits import EXACT_GAP, Refits, cholesky, in_columns, inverse_factor, solve_all

__all__ = ["quadratic_losses", "without", "without_squares"]

SEEN = 1e-12  # smallest share of the other samples that determines a held-out score
EDGE_ROUNDING = 1e-11  # of margins at an edge of the band
# Signs of the slack of the lower and the upper edge for the pieces 0, 1 and -1.
SLACKS = np.array([[-1.0, 1.0, -1.0], [1.0, 1.0, -1.0]])


def without_squares(
    problem: BinaryProblem, fit: BinaryFit, rows: Indices, units: Array
) -> tuple[Array, bool]:
    """Compute held-out scores of ODM, exact ones for small problems, and whether they are exact."""
    assert fit.scores is not None
    assert fit.multipliers is not None
    problem = on_factor_if_large(problem)
    y, pieces = problem.y, np.sign(fit.multipliers).astype(np.int8)
    edges, curvatures = quadratic_losses(problem.losses, y, pieces)
    shares = units / problem.training.weights[rows]
    forces, curved = shares * (y * fit.multipliers)[rows], shares * curvatures[rows]
    if problem.training.n_samples > SMALL or not problem.exact:
        responses = _responses(problem, fit, curvatures, rows)
        return without(fit.scores[rows], forces, curved, responses), False
    refits = _SquareRefits(problem, fit.scores, pieces, edges, curvatures)
    found = without(fit.scores[rows], forces, curved, refits.responses.diagonal()[rows])
    moving = np.flatnonzero((forces != 0) & np.isfinite(found))
    scores, solved = refits.without(rows[moving], shares[moving])
    found[moving[solved]] = scores[solved]
    return found, bool(solved.all()) and fit.gap <= EXACT_GAP


def without(scores: Array, forces: Array, curvatures: Array, responses: Array) -> Array:
    """Compute scores without quadratic losses of given forces and curvatures.

    `responses` are those of the scores to forces, with the losses.
    """
    leverages = curvatures * responses
    moved = np.where(forces == 0, 0.0, forces * responses / (1.0 - leverages))
    return np.where(leverages < 1.0 - SEEN, scores - moved, np.nan)


def quadratic_losses(
    losses: SampleLosses, y: Array, pieces: NDArray[np.int8]
) -> tuple[Array, Array]:
    """Return signed edges e and curvatures k of losses ½ k (e − f)² on given pieces.

    The pieces are 1 for margins below the band, 0 inside, where the curvature is zero, and -1
    above it.
    """
    below = pieces > 0
    ridges = np.where(below, losses.ridge_low, losses.ridge_high)
    return y * np.where(below, losses.low, losses.high), np.abs(pieces) / ridges


def _responses(problem: BinaryProblem, fit: BinaryFit, curvatures: Array, rows: Indices) -> Array:
    """Compute the responses of the scores of some samples, zero without curvature."""
    training, used = problem.training, np.flatnonzero(curvatures)
    if not len(used):
        return np.zeros(len(rows))
    if training.kernel is None and training.X.shape[1] <= len(used):
        response = fit.response() if fit.response is not None else None
        if response is None:
            hessian = FactoredHessian(training.X, centred=problem.fit_intercept)
            response = hessian.response(curvatures)
        return response(training.X[rows])
    ridges = 1.0 / curvatures[used]
    matrix = training.kernel_of(used)
    matrix[np.diag_indices_from(matrix)] += ridges
    inverse = inverse_factor(cholesky(matrix))
    diagonal = np.einsum("ij,ij->j", inverse, inverse)
    if problem.fit_intercept:
        ones = inverse.sum(axis=1)
        diagonal -= np.square(ones @ inverse) / float(ones @ ones)
    found = np.zeros(training.n_samples)
    found[used] = ridges - ridges**2 * diagonal
    return found[rows]


class _SquareRefits(Refits):
    """Refits of ODM without units of samples."""

    def __init__(
        self,
        problem: BinaryProblem,
        scores: Array,
        pieces: NDArray[np.int8],
        edges: Array,
        curvatures: Array,
    ) -> None:
        super().__init__(pieces)
        self.problem, self.scores = problem, scores
        self.edges, self.curvatures = edges, curvatures
        self.responses = self._responses_between()

    def _responses_between(self) -> Array:
        """Compute the responses of all scores to forces on all samples."""
        problem, training = self.problem, self.problem.training
        if training.kernel is None and training.X.shape[1] < training.n_samples:
            hessian = FactoredHessian(training.X, centred=problem.fit_intercept)
            response = hessian.response(self.curvatures)
            half = response.half(training.X)
            return np.asarray(half.T @ half + response.of_intercept)
        used = np.flatnonzero(self.curvatures)
        matrix = training.gram
        inner = matrix[np.ix_(used, used)]
        inner[np.diag_indices_from(inner)] += 1.0 / self.curvatures[used]
        inverse = inverse_factor(cholesky(inner))
        half = inverse @ matrix[used]
        responses, mixed, inner = matrix - half.T @ half, inverse.T @ half, inverse.T @ inverse
        if problem.fit_intercept and len(used):
            ones = inverse.sum(axis=1)
            scale, row, column = float(ones @ ones), 1.0 - ones @ half, ones @ inverse
            responses += np.outer(row / scale, row)
            mixed += np.outer(column / scale, row)
            inner -= np.outer(column / scale, column)
        # The same for samples with losses, without a difference of large numbers.
        ridges = 1.0 / self.curvatures[used]
        mixed *= ridges[:, None]
        mixed[:, used] = np.diag(ridges) - ridges[:, None] * inner * ridges
        responses[used], responses[:, used] = mixed, mixed.T
        return np.asarray(responses)

    def _step(
        self,
        rows: Indices,
        shares: Array,
        pieces: NDArray[np.int8],
        samples: Indices,
        spare: NDArray[np.bool_],
    ) -> tuple[Array, NDArray[np.int8]]:
        which = np.arange(len(rows))
        edges, curvatures = quadratic_losses(
            self.problem.losses.take(samples),
            self.problem.y[samples],
            pieces[which[:, None], samples],
        )
        curvatures[:, 0] *= 1.0 - shares
        slopes = curvatures - self.curvatures[samples]
        forces = curvatures * edges - (self.curvatures * self.edges)[samples]
        forces -= slopes * self.scores[samples]
        slopes[spare] = forces[spare] = 0.0
        system = slopes[:, :, None] * self.responses[samples[:, :, None], samples[:, None, :]]
        width = np.arange(samples.shape[1])
        system[:, width, width] += 1.0
        forces = solve_all(system, forces)
        scores = self.scores + in_columns(samples, forces, len(self.scores)) @ self.responses
        following = self._following(pieces, scores)
        gone = shares >= 1.0
        following[which[gone], rows[gone]] = self.pieces[rows[gone]]
        return scores[which, rows], following

    def _following(self, pieces: NDArray[np.int8], scores: Array) -> NDArray[np.int8]:
        """Return the pieces of scores; at an edge, up to rounding, the piece does not change."""
        margins, losses = self.problem.y * scores, self.problem.losses
        lows, highs = (edge + EDGE_ROUNDING * SLACKS for edge in (losses.low, losses.high))
        below, above = margins < lows[0, pieces], margins > highs[1, pieces]
        return np.asarray(below.view(np.int8) - above.view(np.int8))
