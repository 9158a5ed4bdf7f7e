"""Half the Hessian of the objective at a solution, over all coefficients, intercepts and centres.

The unknowns are sorted by class, each with its coefficients and its intercept. GReLSR's centres
come last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.blocks.source import Block
from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.rows import batches, class_sums, class_totals
from discreg.linalg.systems import psd_inverse, psd_root, solve_each
from discreg.linalg.types import Array, Indices

from ._losses import Evaluation, TargetLoss
from ._solvers import Solution

__all__ = [
    "Design",
    "Model",
    "hessian_of_rows",
    "inverse_hessian",
    "row_batches",
    "separate_moves",
    "without_unit",
]

ROUNDING = 1e-10  # relative size of a singular value of zero
ENTRIES = 1 << 21  # of the arrays for a batch of rows
UNSEEN = 1e12  # growth of the gradient of a row whose scores the other rows do not determine


class Design(NamedTuple):
    """Columns of the unknowns of one class: features, centred, and one column for the intercept."""

    features: Indices
    mean: Array | None
    constant: NDArray[np.bool_] | None  # features that are constant up to rounding
    centred: bool

    def rows(self, X: Any) -> Array:
        """Return rows as a dense array with these columns."""
        if len(self.features) < X.shape[1]:
            X = X[:, self.features]
        rows = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        if self.mean is not None and self.constant is not None:
            rows = np.where(self.constant, 0.0, rows - self.mean)
        return np.column_stack([rows, np.ones(len(rows))]) if self.centred else rows


class Model(NamedTuple):
    """A solution in the columns of a design.

    Attributes
    ----------
    design : Design
    loss : TargetLoss
    theta : ndarray of shape (n_columns, n_classes)
        Coefficients and, as the last row if there are any, intercepts.
    centres : ndarray of shape (n_classes,)
        Centres of the classes, for GReLSR.
    separate : bool
        Whether the classes have systems of their own: in DLSR, and as an approximation in others.
    """

    design: Design
    loss: TargetLoss
    theta: Array
    centres: Array
    separate: bool = False

    @classmethod
    def of(cls, regression: Any, loss: TargetLoss, solution: Solution) -> Model:
        """Describe a solution; with the l21 penalty, by the features with coefficients."""
        coef, features = solution.theta[:-1], np.arange(len(solution.theta) - 1)
        if isinstance(regression, FeatureRegression):
            features = np.flatnonzero(coef.any(axis=1))
        mean = constant = None
        if regression.mean is not None:
            mean, constant = regression.mean[features], regression.constant[features]
        offset = solution.theta[-1:] if regression.centred else coef[:0]
        centres = np.zeros(coef.shape[1]) if solution.centres is None else solution.centres
        design = Design(features, mean, constant, regression.centred)
        return cls(design, loss, np.vstack([coef[features], offset]), centres)

    def at(self, Z: Array, y: Indices) -> Evaluation:
        """Evaluate the loss of some rows."""
        return self.loss.evaluate(Z @ self.theta, y, np.ones(len(y)), self.centres)


def hessian_of_rows(block: Block, model: Model) -> Array:
    """Sum half the Hessian over the rows of positive weight, in parts to limit the memory."""
    total: Any = 0.0
    width = max(model.theta.shape[0], 2 * model.theta.shape[1] ** 2)
    for rows in row_batches(np.flatnonzero(block.weights > 0), width):
        part = Block(block.X[rows], block.y[rows], block.weights[rows])
        total = total + _hessian_of_block(part, model)
    return np.asarray(total)


def row_batches(rows: Indices, width: int) -> Iterator[Indices]:
    """Split rows with arrays of a given width, to limit the memory."""
    for some in batches(len(rows), max(1, ENTRIES // width)):
        yield rows[some]


def _hessian_of_block(block: Block, model: Model) -> Array:
    """Sum half the Hessian of the loss over some rows.

    With separate classes the array has one matrix per class.
    """
    Z = model.design.rows(block.X)
    at = model.at(Z, block.y)
    (width, n_classes), weights = model.theta.shape, block.weights
    if model.separate:
        curvatures = weights[:, None] * model.loss.class_curvatures(at, block.y)
        return np.stack([_gram(Z, column) for column in curvatures.T])
    hessians = model.loss.row_derivatives(at, block.y)[1]
    hessians *= weights[:, None, None]
    n_centres = (hessians.shape[1] - n_classes) * n_classes
    first = n_classes * width
    sums = np.zeros((first + n_centres,) * 2)
    for j in range(n_classes):
        here, active = slice(j * width, (j + 1) * width), np.flatnonzero(hessians[:, j, j])
        some = Z[active]
        for k in range(j + 1):
            there = slice(k * width, (k + 1) * width)
            sums[here, there] = _gram(some, hessians[active, j, k])
            sums[there, here] = sums[here, there].T
        if n_centres:
            sums[here, first:] = class_totals(Z, block.y, hessians[:, j, -1], n_classes)
            sums[first:, here] = sums[here, first:].T
    if n_centres:
        of_centres = class_sums(block.y, hessians[:, -1, -1], n_classes)
        sums[first:, first:] = np.diag(of_centres)
    return sums


def _gram(Z: Array, weights: Array) -> Array:
    """Compute ZᵀSZ for weights of any sign."""
    used = np.flatnonzero(weights)
    some = Z if len(used) == len(Z) else Z[used]
    return np.asarray(some.T @ (weights[used, None] * some))


def inverse_hessian(
    hessian: Array, model: Model, regression: Any, slope: Array | None = None
) -> Any:
    """Add the penalty to the Hessian of the loss and invert it.

    Parameters
    ----------
    hessian : ndarray
        Sum of `hessian_of_rows`; it is overwritten.
    model : Model
    regression : NormalEquations
    slope : ndarray of shape (n_features, n_classes), optional
        Half the gradient of the loss by the coefficients, if their rank is limited. The inverse is
        then one on the tangent space of the coefficients of their rank.

    Returns
    -------
    ndarray or list of ndarray
        The inverse; or, if the classes are separate, for each class B with BᵀB the inverse.
    """
    width, n_classes = model.theta.shape
    features = np.arange(width - model.design.centred)
    penalties = _penalties(model.theta[features], regression)
    if regression.within_class > 0:
        for j in range(n_classes):
            own = hessian[j] if model.separate else hessian[j * width :, j * width :]
            own = own[: len(features), : len(features)]
            own += regression.within_class * regression.scatter
    if model.separate:
        hessian[:, features, features] += np.einsum("ijj->ji", penalties)
        return [psd_root(each) for each in hessian]
    for j, k in np.argwhere(penalties.any(axis=0)):
        hessian[j * width + features, k * width + features] += penalties[:, j, k]
    if model.loss.is_relative and model.design.centred:  # keep the sum of the intercepts
        intercepts = width * np.arange(1, n_classes + 1) - 1
        hessian[np.ix_(intercepts, intercepts)] += regression.total / n_classes**2
    if slope is None:
        return psd_inverse(hessian)
    basis, bend = _tangent_space(model, len(hessian), slope)
    return np.asarray(basis @ psd_inverse(basis.T @ hessian @ basis + bend) @ basis.T)


def _penalties(coef: Array, regression: Any) -> Array:
    """Compute half the Hessian of β‖W‖² or Σ β‖w‖ by the coefficients w of each feature."""
    identity = np.eye(coef.shape[1])[None, :, :]
    if not isinstance(regression, FeatureRegression):
        return np.asarray(regression.beta * np.repeat(identity, len(coef), axis=0))
    norms = np.linalg.norm(coef, axis=1)[:, None, None]
    units = coef / norms[:, :, 0]
    return np.asarray(
        regression.beta / (2 * norms) * (identity - units[:, :, None] * units[:, None, :])
    )


def _tangent_space(model: Model, size: int, slope: Array) -> tuple[Array, Array]:
    """Compute a basis of the tangent space for the rank of the coefficients W = UΣVᵀ.

    A tangent is AVᵀ + UB'V₀ᵀ, where V₀ is orthogonal to V. The matrices of that rank bend by
    (I − UUᵀ)AΣ⁻¹B'V₀ᵀ of second order, which adds its product with the slope to the Hessian.
    """
    width, n_classes = model.theta.shape
    n_features = width - model.design.centred
    left, values, right = np.linalg.svd(model.theta[:n_features], full_matrices=False)
    rank = int(np.count_nonzero(values > ROUNDING * values.max(initial=0.0)))
    left, V = left[:, :rank], right[:rank].T
    rest = np.linalg.qr(V, mode="complete")[0][:, rank:]
    coefs = [np.einsum("jk,fg->jfkg", V, np.eye(n_features)).reshape(n_classes * n_features, -1)]
    coefs += [np.einsum("jq,fk->jfkq", rest, left).reshape(n_classes * n_features, -1)]
    is_coef = np.zeros(size, dtype=bool)
    is_coef[: n_classes * width].reshape(n_classes, width)[:, :n_features] = True
    n_tangents, n_first = coefs[0].shape[1] + coefs[1].shape[1], coefs[0].shape[1]
    n_others = int(np.count_nonzero(~is_coef))
    basis = np.zeros((size, n_tangents + n_others))
    basis[is_coef, :n_tangents] = np.hstack(coefs)
    basis[~is_coef, n_tangents:] = np.eye(n_others)
    normal = slope @ rest
    normal -= left @ (left.T @ normal)
    across = np.einsum("fq,kl->kflq", normal, np.diag(1.0 / values[:rank]))
    bend = np.zeros((basis.shape[1],) * 2)
    bend[:n_first, n_first:n_tangents] = across.reshape(n_first, n_tangents - n_first)
    return basis, bend + bend.T


def separate_moves(
    loss: TargetLoss, at: Evaluation, y: Indices, units: Array, leverages: Array, moved: Any = 0.0
) -> tuple[Array, Array]:
    """Compute multipliers u g / (1 − u p A) and the changes of the scores if classes are separate.

    For each class, A is the leverage of a row and p its curvature. If the scores have moved
    already, g is half the gradient after that.
    """
    curvatures = loss.class_curvatures(at, y)
    others = 1.0 - units[:, None] * curvatures * leverages
    others[~(others > 1.0 / UNSEEN)] = np.nan
    others[at.residuals == 0] = 1.0
    multipliers = units[:, None] * (at.residuals + curvatures * moved) / others
    return multipliers, leverages * multipliers


def without_unit(shares: Array, gradients: Array) -> Array:
    """Compute (I − B_i)⁻¹ g_i for each row, or NaN where the matrix is singular up to rounding."""
    systems = np.eye(shares.shape[1]) - shares
    found = solve_each(systems, gradients)
    growth = np.abs(found).max(axis=1) / np.abs(gradients).max(axis=1)
    found[~(growth < UNSEEN) & gradients.any(axis=1)] = np.nan
    return np.asarray(found)
