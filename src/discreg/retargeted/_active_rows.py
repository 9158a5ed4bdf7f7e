r"""Held-out scores from the kernel matrix of the active rows.

Let P_i = V_i V_iᵀ be factors of the half Hessians of `_left_out`, with one column per positive
eigenvalue, and let Ψ stack the rows √s_i V_iᵀZ_iᵀ over all active rows, m in total. They split into
Ψ_W for the coefficients W, with Ψ_W Ψ_Wᵀ = √s_i √s_j K_ij V_iᵀV_j, and B for the intercepts and
centres, which have no penalty. With M = I + Ψ_W Ψ_Wᵀ / β, the bordered inverse

    N = M⁻¹ − M⁻¹B C,      C = (BᵀM⁻¹B)⁺ BᵀM⁻¹

yields Ψ H⁻¹ Ψᵀ = I − N. A step H⁻¹Ψ_iᵀ changes the scores of row i by

    E_i = Σ_j K_ij √s_j V_j N_ji / β + (the rows of C for the intercepts),

so that with g_i = V_i c_i and u units less of weight the scores change by

    (u / √s_i) E_i (I − (u / s_i)(I − N_ii))⁻¹ c_i.

M⁻¹ takes three times as long as the Cholesky factor of M. For many pieces, and in DLSR, which has
them from the start, the classes have separate systems with one piece per active row: those of
`_left_out` with separate classes, with s_i P_i Z_iᵀH⁻¹Z_i = 1 − N_ii.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreg.linalg.rows import batches, one_hot, row_dots
from discreg.linalg.systems import psd_inverse, psd_root, psd_solver
from discreg.linalg.types import Array, Indices

from ._hessian import without_unit
from ._losses import Evaluation, TargetLoss

__all__ = ["ActiveRows", "Pieces", "active_pieces", "class_leverages", "count_pieces"]

MOST_PIECES = 3_000  # of a matrix that is inverted
ROUNDING = 1e-12  # relative size of an eigenvalue of zero
ENTRIES = 1 << 22  # of the arrays for a batch


class Pieces(NamedTuple):
    """Columns V of the active rows, as the rows of arrays."""

    owners: Indices  # active row that a column belongs to, ascending
    vectors: Array  # the columns
    coefficients: Array  # c with g = Vc


def count_pieces(loss: TargetLoss, residuals: Array) -> Indices:
    """Count the pieces of each active row, at least."""
    counts: Indices = np.count_nonzero(residuals, axis=1)
    return counts - 1 if loss.is_relative and loss.group_penalty == 0 else counts


def active_pieces(loss: TargetLoss, at: Evaluation, y: Indices) -> Pieces:
    """Factor the half Hessians of rows."""
    n_rows, n_classes = at.residuals.shape
    found = []
    for rows in batches(n_rows, max(1, ENTRIES // (n_classes + 1) ** 2)):
        part = Evaluation(at.targets[rows], at.residuals[rows], 0.0, at.centres)
        gradients, hessians = loss.row_derivatives(part, y[rows])
        diagonal = np.einsum("ijj->ij", hessians)
        # Variables without curvature come last and are left out.
        order = np.argsort(-diagonal, axis=1, kind="stable")
        order = order[:, : np.count_nonzero(diagonal > 0, axis=1).max(initial=1)]
        each = np.arange(len(order))
        values, vectors = np.linalg.eigh(
            hessians[each[:, None, None], order[:, :, None], order[:, None, :]]
        )
        owners, columns = np.nonzero(values > ROUNDING * values.max(axis=1, keepdims=True))
        roots = np.sqrt(values[owners, columns])
        scaled = np.zeros((len(owners), diagonal.shape[1]))
        unit = vectors[owners, :, columns]
        np.put_along_axis(scaled, order[owners], roots[:, None] * unit, axis=1)
        own = np.take_along_axis(gradients[owners], order[owners], axis=1)
        coefficients = row_dots(unit, own) / roots
        found.append(Pieces(owners + rows.start, scaled, coefficients))
    return Pieces(*(np.concatenate(each) for each in zip(*found, strict=True)))


class ActiveRows(NamedTuple):
    """Rows with residuals, and what their held-out scores depend on.

    Attributes
    ----------
    kernel : ndarray of shape (n_active, n_active)
        Kernel matrix of the rows, centred if there is an intercept.
    pieces : Pieces
    y : ndarray of shape (n_active,)
        Class indices.
    weights : ndarray of shape (n_active,)
    n_classes : int
    beta : float
    centred : bool
        Whether there are intercepts.
    is_relative : bool
        Whether a constant added to all scores and centres has no effect.
    """

    kernel: Array
    pieces: Pieces
    y: Indices
    weights: Array
    n_classes: int
    beta: float
    centred: bool
    is_relative: bool

    @classmethod
    def of(
        cls,
        kernel: Array,
        loss: TargetLoss,
        at: Evaluation,
        y: Indices,
        weights: Array,
        *,
        beta: float,
        centred: bool,
    ) -> ActiveRows:
        """Describe active rows by their kernel matrix and an evaluation."""
        pieces, n_classes = active_pieces(loss, at, y), at.residuals.shape[1]
        return cls(kernel, pieces, y, weights, n_classes, beta, centred, loss.is_relative)

    def of_class(self, j: int) -> ActiveRows:
        """Return the rows with the pieces of one class, if these have systems of their own."""
        owners, vectors, coefficients = self.pieces
        own = np.flatnonzero(vectors[:, j])
        pieces = Pieces(owners[own], vectors[own, j : j + 1], coefficients[own])
        return self._replace(pieces=pieces, n_classes=1)

    @property
    def scaled(self) -> Array:
        """The columns √s V, one row for each."""
        return np.sqrt(self.weights[self.pieces.owners])[:, None] * self.pieces.vectors

    def moves(self, held: Indices, units: Array) -> Array:
        """Compute the changes of the scores of some rows, each without `units` of its weight."""
        owners, n_classes = self.pieces.owners, self.n_classes
        scores, border = np.ascontiguousarray(self.scaled[:, :n_classes]), self.border()
        inverse = psd_inverse(self.matrix())
        bent = inverse @ border
        corners = psd_solver(self.inner(border, bent))(bent.T)
        firsts = np.searchsorted(owners, held)
        counts = np.searchsorted(owners, held, side="right") - firsts
        most = int(counts.max(initial=1))
        moves = np.zeros((len(held), n_classes))
        for some in batches(len(held), max(1, ENTRIES // (most * len(owners)))):
            valid = np.arange(most) < counts[some, None]
            if not valid.any():
                continue
            places = np.where(valid, firsts[some, None] + np.arange(most), 0)
            columns = places[valid]  # pieces of these rows
            image = inverse[:, columns] - bent @ corners[:, columns]
            effects = np.zeros((*valid.shape, n_classes))
            kernel = self.kernel[np.ix_(owners, owners[columns])]
            effects[valid] = (image * kernel).T @ scores / self.beta
            if self.centred:
                effects[valid] += corners[:n_classes, columns].T
            numbers = np.zeros(valid.shape, dtype=np.intp)
            numbers[valid] = np.arange(len(columns))
            blocks = image[places[:, :, None], numbers[:, None, :]]
            both = valid[:, :, None] & valid[:, None, :]
            weights = self.weights[held[some]]
            shares = np.where(both, np.eye(most) - blocks, 0.0)
            shares *= (units[some] / weights)[:, None, None]
            coefficients = np.where(valid, self.pieces.coefficients[places], 0.0)
            steps = without_unit(shares, coefficients)
            steps *= (units[some] / np.sqrt(weights))[:, None]
            moves[some] = np.einsum("ij,ijk->ik", steps, effects)
        return moves

    def matrix(self) -> Array:
        """Compute the matrix M."""
        owners, scores = self.pieces.owners, self.scaled[:, : self.n_classes]
        matrix = np.empty((len(owners), len(owners)))
        for rows in batches(len(owners), max(1, ENTRIES // max(1, len(owners)))):
            np.matmul(scores[rows], scores.T, out=matrix[rows])
            matrix[rows] *= self.kernel[np.ix_(owners[rows], owners)]
        matrix /= self.beta
        matrix[np.diag_indices_from(matrix)] += 1.0
        return matrix

    def border(self) -> Array:
        """Compute the matrix B: one column per intercept, then one per centre."""
        scaled = self.scaled
        columns = [scaled[:, : self.n_classes]] if self.centred else []
        if scaled.shape[1] > self.n_classes:
            of_class = one_hot(self.y[self.pieces.owners], self.n_classes)
            columns.append(scaled[:, self.n_classes :] * of_class)
        return np.hstack([np.empty((len(scaled), 0)), *columns])

    def inner(self, border: Array, bent: Array) -> Array:
        """Compute BᵀM⁻¹B from B and M⁻¹B; a sum of intercepts that has no effect is to stay."""
        inner = border.T @ bent
        if self.is_relative and self.centred:
            inner[: self.n_classes, : self.n_classes] += inner.trace() / self.n_classes**2
        return inner


def class_leverages(
    kernel: Array, weights: Array, places: Indices, *, beta: float, centred: bool
) -> Array:
    """Compute A_i = Z_iᵀ(ZᵀSZ + βI)⁻¹Z_i of some rows, where the intercept has no penalty.

    Parameters
    ----------
    kernel : ndarray of shape (n_rows, n_rows)
        Inner products of the rows; the matrix is overwritten.
    weights : ndarray of shape (n_rows,)
    places : ndarray of shape (n_places,)
        Indices of the rows.
    beta : float
    centred : bool
        Whether there is an intercept.
    """
    roots = np.sqrt(weights)
    kernel *= roots[:, None] / beta
    kernel *= roots
    kernel[np.diag_indices_from(kernel)] += 1.0
    if len(kernel) <= MOST_PIECES:
        root = psd_root(kernel)
        own, bent = np.einsum("ij,ij->j", root, root)[places], (root @ roots) @ root
    else:
        solve = psd_solver(kernel)
        units = np.zeros((len(kernel), len(places)))
        units[places, np.arange(len(places))] = 1.0
        whitened = solve.whiten(units)
        own, bent = np.einsum("ij,ij->j", whitened, whitened), solve(roots[:, None])[:, 0]
    if centred:
        own = own - bent[places] ** 2 / (roots @ bent)
    return np.asarray((1.0 - own) / weights[places])
