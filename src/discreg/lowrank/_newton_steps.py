r"""Held-out scores of SLRR by Newton steps on the selected features, at the fitted rank.

Half the objective of equation (24) with W = A Vᵀ is, up to a constant and with the gram matrix
G = ΦᵀSΦ of the selected features and their moments C = ΦᵀSY,

    ½⟨A, GA⟩ − ⟨A, CV⟩ + (β/2) Σ_j ‖a_j‖.

For A + Z and directions V + V⊥B − ½VBᵀB + …, with u the unit vectors of the rows of A and Σ the
symmetric part of AᵀCV, its Hessian is

    Z → GZ + (β/2) (Z − u⟨u, Z⟩)/‖a‖ − CV⊥B,      B → BΣ − V⊥ᵀCᵀZ.

Without a unit of weight u of a sample with centred features φ, w = u/r_0, r_0 = 1 − u/Σs and
δ = y − ȳ, the matrices are G' = G − wφφᵀ and C' = (C − wφδᵀ) D (see `_leave_one_out`). The first
Newton step solves with the Hessian of all samples minus wφφᵀ. Further steps use the same matrix and
the gradient at the new coefficients; steps that do not shorten the gradient are halved. If the
penalty is small against G, the curvature (β/2)/‖a‖ in all directions replaces that of the penalty.
Features that are not selected stay so, and those whose direction a step reverses become zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared
from discreg.blocks.kept_rows import MOST_ROWS
from discreg.linalg.kernel_approximation import hash_rows
from discreg.linalg.ridge import conjugate_gradients, psd_solver
from discreg.linalg.rows import row_blocks, row_dots
from discreg.linalg.sparse_rank import SparseRankProblem, SparseRankSolution
from discreg.linalg.types import Array, Indices

from ._indicators import Indicators
from ._leave_one_out import LeftOutUnits, Without

__all__ = ["left_out_sparse"]

MAX_STEPS = 10
ENOUGH = 1e-8  # relative square of the gradient
VANISHING = 1e-6  # relative norm of rows that count as zero, as those of solver "reweighted"
MOST_UNKNOWNS = 3_000  # up to which the Hessian is inverted
FEW_ROWS = 300  # that are held out at least
WORK = 10**7  # multiplications of a step that limit the number of rows
SMALL_PENALTY = 0.2  # largest share of the penalty in the curvature of a feature that counts little
SEEN = 1e-5  # smallest share of the other samples that determines the coefficients
SHIFT = 1e-10  # relative, of the diagonal: with more features than samples, the Hessian is singular
CG_ACCURACY = 1e-6
MAX_CG_STEPS = 100
TINY = 1e-300


def left_out_sparse(
    prepared: Prepared, problem: SparseRankProblem, solution: SparseRankSolution
) -> LeftOut:
    """Compute held-out scores of the kept rows by Newton steps without each of them."""
    kept, indicators, mean = prepared.kept, Indicators.of(prepared), problem.regression.mean
    assert kept is not None
    norms = np.linalg.norm(solution.coef, axis=1)
    used = np.flatnonzero(norms > VANISHING * norms.max(initial=0.0))
    features = kept.X[:, used]
    features = np.asarray(features.toarray() if sparse.issparse(features) else features, np.float64)
    if mean is not None:
        features = features - mean[used]
    copies = kept.units * (prepared.sizes / prepared.class_weights)[kept.y]
    units = LeftOutUnits(indicators, kept.y, kept.units, copies)
    expansion = Expansion.of(problem, solution, used)
    held_out = np.arange(len(kept))
    if expansion.n_unknowns > MOST_UNKNOWNS or len(kept) == MOST_ROWS:
        n_rows = max(FEW_ROWS, WORK // expansion.work)
        held_out = np.sort(np.argsort(hash_rows(kept.X, 0), kind="stable")[:n_rows])
    scores = np.full((len(kept), len(prepared.classes)), np.nan)
    for block in row_blocks(len(held_out), 4 * expansion.n_unknowns):
        rows = held_out[block]
        without = units.without(rows, np.zeros(scores[rows].shape), np.zeros((len(rows), 1)))
        constant = without.shift * without.scale
        scores[rows] = expansion.scores(features[rows], without) if len(used) else constant
    return LeftOut(scores, is_exact=False)


@dataclass(frozen=True)
class Expansion:
    """The objective around the fitted A and V, restricted to the selected features."""

    gram: Array  # G
    moments: Array  # C
    coef: Array  # A
    directions: Array  # V
    others: Array  # V⊥
    beta: float

    @classmethod
    def of(cls, problem: SparseRankProblem, solution: SparseRankSolution, used: Any) -> Expansion:
        """Expand a problem around its solution."""
        gram = problem.regression.gram_of(used).rows(np.arange(len(used)))
        V = solution.directions
        others = linalg.qr(V, check_finite=False)[0][:, V.shape[1] :]
        coef = solution.coef[used]
        return cls(gram, problem.moments[used], coef, V, others, problem.beta)

    @property
    def n_unknowns(self) -> int:
        """Number of entries of Z and B."""
        return int(self.coef.size + self.others.shape[1] * self.coef.shape[1])

    @property
    def work(self) -> int:
        """Number of multiplications of a step for one sample."""
        n_features = len(self.coef)
        return n_features * self.n_unknowns if self.is_nearly_ridge else self.n_unknowns**2

    @cached_property
    def is_nearly_ridge(self) -> bool:
        """Whether the Hessian is close to that of ridge regression with the same curvatures."""
        curvature = self._curvature[:, 0]
        shares = curvature / np.maximum(self.gram.diagonal() + curvature, TINY)
        return not self.others.shape[1] and bool(shares.max(initial=0.0) < SMALL_PENALTY)

    def scores(self, features: Array, without: Without) -> Array:
        """Compute scores of some samples, one row per sample."""
        weights = without.unit / without.remaining  # w
        solve = self._solver(features, weights)
        coef = np.repeat(self.coef[None], len(features), axis=0)
        V = np.repeat(self.directions[None], len(features), axis=0)
        gradient = self._gradient(features, weights, without, coef, V)
        start = self._size(gradient)
        reached, lengths, rows = start.copy(), np.ones((len(features), 1)), np.arange(len(features))
        for _ in range(MAX_STEPS):
            of_coef, of_directions = self._unpacked(lengths[rows] * solve(-gradient[rows], rows))
            moved, turned = self._moved(coef[rows], of_coef), self._turned(V[rows], of_directions)
            some = Without(*(each[rows] for each in without))
            left = self._gradient(features[rows], weights[rows], some, moved, turned)
            size = self._size(left)
            better = size < reached[rows]
            chosen = rows[better]
            coef[chosen], V[chosen], gradient[chosen] = moved[better], turned[better], left[better]
            reached[chosen] = size[better]
            lengths[rows[~better]] /= 2
            rows = np.flatnonzero(reached > ENOUGH * start)
            if not len(rows):
                break
        coef[~(reached < start)] = np.nan  # the other samples do not determine the coefficients
        projected = np.einsum("np,npa->na", features / without.remaining, coef)
        return np.asarray((np.einsum("na,nka->nk", projected, V) + without.shift) * without.scale)

    def _size(self, gradient: Array) -> Array:
        """Compute the squares of gradients, each entry relative to its curvature."""
        return np.asarray(np.einsum("ij,ij,j->i", gradient, gradient, 1 / self._diagonal))

    def _moved(self, coef: Array, steps: Array) -> Array:
        """Add steps to coefficients; features whose direction is reversed, or zero, become zero."""
        moved = coef + steps
        if self.beta == 0:
            return moved
        stays = np.einsum("npa,pa->np", moved, self._units) > 0
        return np.asarray(np.where((stays & coef.any(axis=2))[:, :, None], moved, 0.0))

    def _turned(self, V: Array, steps: Array) -> Array:
        """Add steps along V⊥ and return the nearest orthonormal directions."""
        if not self.others.shape[1]:
            return V
        turned = np.nan_to_num(V + self.others @ steps)
        left, _, right = np.linalg.svd(turned, full_matrices=False)
        return np.asarray(left @ right)

    def _gradient(
        self, features: Array, weights: Array, without: Without, coef: Array, V: Array
    ) -> Array:
        """Compute half the gradient without a unit of each sample, one row per sample."""
        scaled = without.rescale[:, :, None] * V  # D V
        errors = np.einsum("nk,nka->na", without.away, scaled)
        errors -= np.einsum("np,npa->na", features, coef)
        of_coef = self.gram @ coef - self.moments @ scaled
        of_coef += features[:, :, None] * (weights * errors)[:, None, :]
        norms = np.linalg.norm(coef, axis=2, keepdims=True)
        of_coef += self.beta / 2 * coef / np.where(norms == 0, 1.0, norms)
        of_coef[norms[:, :, 0] == 0] = 0.0  # they stay zero
        # −C'ᵀA, without its part in the span of V.
        pull = np.einsum("np,npa->na", features, coef)
        explained = -without.rescale[:, :, None] * (
            self.moments.T @ coef - (weights * without.away)[:, :, None] * pull[:, None, :]
        )
        explained -= V @ (V.transpose(0, 2, 1) @ explained)
        return self._packed(of_coef, self.others.T @ explained)

    def _solver(self, features: Array, weights: Array) -> Callable[[Array, Indices], Array]:
        """Return a solver with the Hessian minus wφφᵀ of each sample."""
        n_rows, n_targets = self.coef.shape
        if self.is_nearly_ridge:
            return self._ridge_solver(features, weights)
        if self.n_unknowns > MOST_UNKNOWNS:
            return self._iterative_solver(features, weights)
        inverse = self.inverse
        blocks = inverse[: self.coef.size, : self.coef.size].reshape(n_rows, -1)
        along = (features @ blocks).reshape(-1, n_targets, n_rows, n_targets)
        factor = weights[:, :, None]
        left = np.eye(n_targets) - factor * np.einsum("narb,nr->nab", along, features)
        seen = np.linalg.eigvalsh((left + left.transpose(0, 2, 1)) / 2)[:, 0] > SEEN
        left[~seen] = np.nan

        def solve(right: Array, rows: Indices) -> Array:
            first, _ = self._unpacked(right @ inverse)
            image = np.einsum("np,npa->na", features[rows], first)
            image = weights[rows] * np.linalg.solve(left[rows], image[:, :, None])[:, :, 0]
            change = np.zeros_like(right)
            own = features[rows, :, None] * image[:, None, :]
            change[:, : self.coef.size] = own.reshape(len(right), -1)
            return np.asarray((right + change) @ inverse)

        return solve

    def _ridge_solver(self, features: Array, weights: Array) -> Callable[[Array, Indices], Array]:
        """Return a solver with G − wφφᵀ plus the curvature of the penalty in all directions."""
        matrix = self.gram.copy()
        matrix[np.diag_indices_from(matrix)] += self._curvature[:, 0]
        ridge = psd_solver(matrix)
        solved = ridge(features.T).T
        left = 1 - weights[:, 0] * row_dots(features, solved)
        factors = weights[:, 0] / np.where(left > SEEN, left, np.nan)

        def solve(right: Array, rows: Indices) -> Array:
            first, _ = self._unpacked(right)
            flat = ridge(first.transpose(1, 0, 2).reshape(len(self.coef), -1))
            first = flat.reshape(len(self.coef), len(right), -1).transpose(1, 0, 2)
            image = np.einsum("np,npa->na", features[rows], first) * factors[rows, None]
            return np.asarray((first + solved[rows, :, None] * image[:, None]).reshape(right.shape))

        return solve

    def _iterative_solver(
        self, features: Array, weights: Array
    ) -> Callable[[Array, Indices], Array]:
        """Return a solver by conjugate gradients, all samples together."""
        diagonal = self.gram.copy()
        diagonal[np.diag_indices_from(diagonal)] += self._curvature[:, 0]
        of_coef, of_directions = psd_solver(diagonal), psd_solver(self._second.copy())

        def precondition(right: Array) -> Array:
            first, second = self._unpacked(right)
            flat = of_coef(first.transpose(1, 0, 2).reshape(len(self.coef), -1))
            first = flat.reshape(len(self.coef), len(right), -1).transpose(1, 0, 2)
            turned = second.reshape(-1, second.shape[2]).T
            return self._packed(first, of_directions(turned).T.reshape(second.shape))

        def solve(right: Array, rows: Indices) -> Array:
            phi, factors = features[rows], weights[rows]

            def hessp(steps: Array) -> Array:
                first, second = self._unpacked(steps)
                image = factors * np.einsum("np,npa->na", phi, first)
                change = phi[:, :, None] * image[:, None, :]
                return self._hessp(steps) - self._packed(change, np.zeros_like(second))

            return conjugate_gradients(
                hessp, right, precondition, tol=CG_ACCURACY, max_iter=MAX_CG_STEPS
            )

        return solve

    @cached_property
    def inverse(self) -> Array:
        """Inverse of the Hessian."""
        hessian = self._hessp(np.eye(self.n_unknowns))
        hessian[np.diag_indices_from(hessian)] *= 1 + SHIFT
        return np.asarray(np.linalg.inv(hessian))

    def _hessp(self, steps: Array) -> Array:
        """Multiply the Hessian of all samples by steps, one row each."""
        first, second = self._unpacked(steps)
        turned = self.moments @ self.others  # CV⊥
        across = first - np.einsum("pa,npa->np", self._units, first)[:, :, None] * self._units
        of_coef = self.gram @ first + self._curvature * across - turned @ second
        return self._packed(of_coef, second @ self._second - turned.T @ first)

    @cached_property
    def _diagonal(self) -> Array:
        """Diagonal of a bound of the Hessian."""
        of_coef = self.gram.diagonal()[:, None] + np.repeat(
            self._curvature, self.coef.shape[1], axis=1
        )
        of_directions = np.repeat(self._second.diagonal()[None], self.others.shape[1], axis=0)
        bounds = np.concatenate([of_coef.ravel(), of_directions.ravel()])
        return np.asarray(np.maximum(bounds, TINY))

    @cached_property
    def _units(self) -> Array:
        return np.asarray(self.coef / np.linalg.norm(self.coef, axis=1, keepdims=True))

    @cached_property
    def _curvature(self) -> Array:
        return np.asarray(self.beta / 2 / np.linalg.norm(self.coef, axis=1, keepdims=True))

    @cached_property
    def _second(self) -> Array:
        explained = self.coef.T @ self.moments @ self.directions
        return np.asarray((explained + explained.T) / 2)  # Σ

    def _packed(self, of_coef: Array, of_directions: Array) -> Array:
        """Join arrays of the shapes of A and of B, one row per sample."""
        n_samples = len(of_coef)
        return np.hstack([of_coef.reshape(n_samples, -1), of_directions.reshape(n_samples, -1)])

    def _unpacked(self, steps: Array) -> tuple[Array, Array]:
        """Split rows into arrays of the shapes of A and of B."""
        first, second = np.split(steps, [self.coef.size], axis=1)
        n_targets = self.coef.shape[1]
        shape = (len(steps), self.others.shape[1], n_targets)
        return first.reshape(len(steps), -1, n_targets), second.reshape(shape)
