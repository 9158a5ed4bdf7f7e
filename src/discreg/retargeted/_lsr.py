r"""LSR: regression onto the zero-one targets.

The scores of held-out samples or groups are exact, for all penalties at once. Without a sample, the
within-class scatter in the penalty changes too. Let d = φ − m_k be the deviation of a sample of
weight u from the mean of its class k of total weight n_k. Without it the scatter is
S_w − u n_k / (n_k − u) ddᵀ, so that with the weight ω of the scatter the penalty loses κ‖Wᵀd‖²,
κ = ω u n_k / (n_k − u). With half the Hessian H, this alone changes the scores r = Wᵀφ by

    Δ = κ E / (1 − κF) Wᵀd      and adds      κ E² / (1 − κF)      to φᵀH⁻¹φ,

where E = φᵀH⁻¹d and F = dᵀH⁻¹d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from discreg.base.classifier import Prepared, with_inherited_docs
from discreg.base.search import groups_by_size
from discreg.linalg.factorisation import EPS
from discreg.linalg.ridge import (
    NormalEquations,
    Regression,
    RowBlocks,
    gap_with_error,
    objective_unit,
)
from discreg.linalg.rows import one_hot, row_dots, varies, weighted_square
from discreg.linalg.types import Array, ClassWeight, Indices, KernelParams

from ._models import WITHIN_CLASS, RetargetedClassifier
from ._solvers import EXACT, Solution

REFINEMENTS = 2  # steps of iterative refinement, for ill-conditioned data
ROUNDING = 8 * EPS  # relative rounding error of an entry of a Gram matrix
DETERMINED = 1e-12  # smallest share of the other samples that determines a held-out score


@with_inherited_docs
class LSRClassifier(RetargetedClassifier):
    r"""Least squares regression onto zero-one targets.

    Minimises equation (4) of [1]_, where Y is the zero-one matrix of the labels:

    .. math:: \min_{W, b}\; \|XW + \mathbf 1 b^\top - Y\|_F^2 + \beta \|W\|_F^2 .

    Parameters
    ----------
    beta : float, default=0.1
        Weight of the penalty, at least 0. With 0, the fit returns the solution of minimum norm.
    within_class : float, default=0.0
        Weight :math:`\omega` of the penalty
        :math:`\omega \sum_i \|W^\top (x_i - m_{y_i})\|^2 = \omega \operatorname{tr}(W^\top S_w W)`,
        the weighted spread of the scores about the mean scores of their classes, from 0 to 1e6. It
        has no units: one value means the same on any data, whatever `scale_beta`.

    Attributes
    ----------
    targets_ : ndarray of shape (n_samples, n_classes)
        The zero-one targets; not set after `partial_fit` or a fit on rows in blocks.

    See Also
    --------
    LSRClassifierCV : Selects `beta` by exact leave-one-out.
    ReLSRClassifier : Learns the targets under a margin.

    References
    ----------
    .. [1] X.-Y. Zhang, L. Wang, S. Xiang, C.-L. Liu, "Retargeted Least Squares Regression
           Algorithm", IEEE Transactions on Neural Networks and Learning Systems 26 (2015).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from discreg import LSRClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LSRClassifier()).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.99
    """

    _constraints = RetargetedClassifier._constraints | WITHIN_CLASS
    _known_by_moments = True

    def __init__(
        self,
        *,
        beta: float = 0.1,
        scale_beta: bool = True,
        within_class: float = 0.0,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.beta = beta
        self.scale_beta = scale_beta
        self.within_class = within_class
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.random_state = random_state

    def _fit_prepared(
        self, prepared: Prepared, start: Array | None = None, *, to_rounding: bool = True
    ) -> Solution:
        self._set_penalty(prepared)
        solution = solve_closed(prepared.equations, prepared.y, len(prepared.classes))
        self._store(prepared, solution)
        return solution

    def _fit_and_calibrate(self, prepared: Prepared) -> None:
        self._calibrate(prepared, self._fit_prepared(prepared))

    def _scores_without(self, prepared: Prepared, solution: Solution) -> Array:
        kept, features, regression = prepared.kept, prepared.kept_features, prepared.equations
        assert kept is not None
        n_classes, coef = len(prepared.classes), solution.theta[:-1]
        effects = None
        if regression.within_class > 0:
            totals = regression.class_totals(prepared.y, n_classes)
            deviations = Deviations.of(
                features, kept.y, prepared.leaving, totals, regression.within_class
            )
            solved = regression.solve(deviations.rows.T).T
            effects = deviations.effects(features, solved, deviations.rows @ coef)
        return scores_without(
            one_hot(kept.y, n_classes),
            prepared.leaving,
            features @ coef + solution.theta[-1],
            regression.leverages(features),
            effects,
        )

    def _class_targets(self, sizes: Array) -> Array:
        """Return the targets of each class, one row per class."""
        return np.eye(len(sizes))


def solve_closed(regression: NormalEquations, y: Indices | None, n_classes: int) -> Solution:
    """Solve the regression onto the zero-one targets for a fixed penalty.

    The objective is a quadratic function of W with half Hessian A = ΦᵀSΦ + βI + ωS_w. With half
    gradient R it exceeds its minimum by ‖R‖² in the norm of A⁻¹, which is at most the Euclidean
    norm over √β. Products in float32 add to this gap. If the rows are not in memory, `y` is None
    and residuals follow from moments.
    """
    totals, weights = regression.class_totals(y, n_classes)
    total = float(weights.sum())
    offset = weights / total if regression.centred else np.zeros_like(weights)
    targets: Any = None if y is None else one_hot(y, n_classes)
    coef, step = np.zeros_like(totals), regression.solve(totals)
    for _ in range(1 + REFINEMENTS):
        coef = coef + step
        if isinstance(regression, Regression):
            distances = targets - regression.scores(coef, offset)
            weighted = regression.weights[:, None] * distances
            residual = regression.gradient(weighted, weighted.sum(axis=0))
            residual = residual - regression.penalised(coef)
        else:
            residual = totals - regression.gram @ coef - regression.penalised(coef)
        step = regression.solve(residual)
        if abs(float(np.vdot(step, residual))) <= EXACT * total:
            break
    if isinstance(regression, Regression):
        objective = weighted_square(distances, regression.weights) + regression.penalty(coef, coef)
    else:
        squares = total - total * float(offset @ offset)  # of the centred targets
        # The objective with AW = ΦᵀSY − R.
        objective = squares - float(np.vdot(coef, totals)) - float(np.vdot(coef, residual))
        objective = max(objective, 0.0)
    size = np.sqrt(max(float(np.vdot(coef, totals - residual)), 0.0))  # ‖W‖ in the norm of A
    image = regression.gram @ step + regression.penalised(step)
    excess = np.sqrt(max(float(np.vdot(step, image)), 0.0))
    if regression.beta > 0:  # for directions that `solve` leaves out, and rounding
        scales = np.sqrt(regression.with_scatter(regression.gram).diagonal())[:, None]
        rounding = ROUNDING * scales * (scales * np.abs(coef)).sum(axis=0)
        rest = np.linalg.norm(residual - image) + np.linalg.norm(rounding)
        excess += rest / np.sqrt(regression.beta)
    # The error of ΦᵀSΦ is also one of S_w.
    error = (1 + regression.within_class) * regression.error
    bound = gap_with_error(float(excess**2), float(size), error) if error < 1 else np.inf
    gap = min(objective, bound) / objective_unit(objective, total)
    return Solution(np.vstack([coef, offset]), targets, [objective], gap, "closed")


class Deviations(NamedTuple):
    """Deviations of rows from the means of their classes, and the weights κ of their squares."""

    rows: Array
    weights: Array

    @classmethod
    def of(
        cls,
        features: Array,
        y: Indices,
        leaving: Array,
        class_totals: tuple[Array, Array],
        omega: float,
    ) -> Deviations:
        """Compute them for rows of Φ, from the sums of the rows and the weights of the classes."""
        totals, weights = class_totals
        means = totals / np.where(weights > 0, weights, 1.0)
        sizes = weights[y]
        # The only row of a class has no deviation.
        others = np.where(sizes - leaving > DETERMINED * sizes, sizes - leaving, np.inf)
        return cls(features - means.T[y], omega * leaving * sizes / others)

    def effects(self, features: Array, solved: Array, spread: Array) -> tuple[Array, Array]:
        """Compute Δ and the change of φᵀH⁻¹φ from Φ, H⁻¹d and Wᵀd; NaN if nothing is left."""
        cross, own = row_dots(features, solved), row_dots(self.rows, solved)
        left = 1.0 - self.weights * own
        factors = self.weights * cross / np.where(left > DETERMINED, left, np.nan)
        return factors[:, None] * spread, factors * cross


def scores_without(
    targets: Array,
    leaving: Array,
    fitted: Array,
    leverages: Array,
    effects: tuple[Array, Array] | None = None,
) -> Array:
    """Compute the scores (r − s h y) / (1 − s h) of rows, each without all of its weight.

    Parameters
    ----------
    targets, fitted : ndarray of shape (n_rows, n_classes)
        The targets y and the scores r of the model of all rows.
    leaving, leverages : ndarray of shape (n_rows,)
        The weights s that leave, and the leverages h for a weight of 1.
    effects : tuple of ndarray, default=None
        Changes of the scores and the leverages by the scatter, from `Deviations.effects`.

    Returns
    -------
    scores : ndarray of shape (n_rows, n_classes)
        NaN where the other rows do not determine them.
    """
    if effects is not None:
        fitted, leverages = fitted + effects[0], leverages + effects[1]
    shares = (leaving * leverages)[:, None]
    held_out = fitted - shares * targets
    return np.asarray(held_out / np.where(1 - shares > DETERMINED, 1 - shares, np.nan))


def leave_one_out_scores(
    regression: Regression,
    targets: Array,
    betas: Sequence[float],
    *,
    scale_beta: bool,
    eigen: tuple[Array, RowBlocks] | None = None,
) -> Array:
    r"""Compute the leave-one-out scores of all samples.

    With weights s, centred features :math:`\phi_i`, :math:`M = \Phi^\top S\Phi + \beta I` and the
    leverage :math:`h_i = \phi_i^\top M^{-1}\phi_i + 1/\sum s`, the score :math:`r_i` of sample i is
    :math:`(r_i - s_i h_i y_i) / (1 - s_i h_i)` without it. In the eigenvectors
    of :math:`\Phi^\top S\Phi` the matrix M is diagonal for all :math:`\beta`. A relative penalty
    uses the trace without sample i, so that the scores equal those of refits.
    If the trace is zero without it, the other samples are equal and determine only an intercept.
    If the penalty includes the within-class scatter, M does too, and :math:`r_i` and :math:`h_i`
    are those after the effects of the deviations.

    Parameters
    ----------
    regression : Regression
    targets : ndarray of shape (n_samples, n_classes)
        The zero-one targets.
    betas : sequence of float
        Positive penalties.
    scale_beta : bool
        Whether the penalties are relative to the trace.
    eigen : tuple, default=None
        ``regression.eigen()``, if it is known.

    Returns
    -------
    scores : ndarray of shape (n_betas, n_samples, n_classes)
        Not finite where the other samples do not determine the scores.
    """
    weights, centred = regression.weights, regression.centred
    total = weights.sum()
    mean = weights @ targets / total if centred else np.zeros(targets.shape[1])
    values, blocks = eigen or regression.eigen()
    moments = sum(block.T @ (weights[rows, None] * targets[rows]) for rows, block in blocks())
    y, totals = targets.argmax(axis=1), (np.asarray(moments), weights @ targets)
    scores = np.empty((len(betas), *targets.shape))
    for rows, block in blocks():
        leaving, scale = weights[rows], np.ones((len(block), 1))
        if scale_beta:
            alone = np.arange(len(weights))[rows, None]
            block, scale = (each[:, 0] for each in _rescaled(regression, alone, block[:, None]))
        omega = regression.within_class
        deviations = None
        if omega > 0:
            deviations = Deviations.of(block, y[rows], leaving, totals, omega)
        shrunk = np.empty_like(block)  # allocating it for every penalty would take as long
        for index, beta in enumerate(betas):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                np.add(values, beta * scale, out=shrunk)
                np.divide(block, shrunk, out=shrunk)
                effects = None
                if deviations is not None:
                    solved = deviations.rows / (values + beta * scale)
                    effects = deviations.effects(block, solved, solved @ moments)
                scores[index, rows] = scores_without(
                    targets[rows],
                    leaving,
                    shrunk @ moments + mean,
                    row_dots(shrunk, block) + centred / total,
                    effects,
                )
    return scores


def leave_groups_out_scores(
    regression: Regression,
    targets: Array,
    groups: Indices,
    betas: Sequence[float],
    *,
    scale_beta: bool,
) -> Array:
    r"""Compute the scores of all samples, each from the model without its group.

    With the smoother :math:`H = \Phi M^{-1}\Phi^\top + 1/\sum s` and the weights S, the scores of a
    group without it are :math:`Y - (I - HS)^{-1}(Y - R)`, where all matrices are those of the
    group. A relative penalty uses the trace without the group. With the within-class scatter in
    the penalty, the deviations of the group from the means of their classes are further samples
    with targets of zero, and S has what the scatter loses without the group.

    Parameters
    ----------
    regression : Regression
    targets : ndarray of shape (n_samples, n_classes)
    groups : ndarray of shape (n_samples,)
        Number of the group of each sample, from 0.
    betas : sequence of float
        Positive penalties.
    scale_beta : bool
        Whether the penalties are relative to the trace.

    Returns
    -------
    scores : ndarray of shape (n_betas, n_samples, n_classes)
        Not finite where the other samples do not determine the scores.
    """
    weights, centred = regression.weights, regression.centred
    total = float(weights.sum())
    mean = weights @ targets / total if centred else np.zeros(targets.shape[1])
    # Samples that are alone in their groups are left out all at once.
    eigen = values, blocks = regression.eigen()
    scores = leave_one_out_scores(regression, targets, betas, scale_beta=scale_beta, eigen=eigen)
    several = [rows for rows in groups_by_size(groups) if rows.shape[1] > 1]
    if not several:
        return scores
    features = np.vstack([block for _, block in blocks()])
    moments = features.T @ (weights[:, None] * targets)
    sizes, omega = weights @ targets, regression.within_class
    deviations = features - targets @ (moments / sizes).T if omega > 0 else None
    for rows in several:  # all groups of one size
        block, own, size = features[rows], weights[rows], rows.shape[1]
        scale = np.ones((len(rows), 1, 1))
        if scale_beta:
            block, scale = _rescaled(regression, rows, block)
        lost = own[:, :, None] * np.eye(size)
        if deviations is not None:
            of_scatter = omega * _lost_by_scatter(own, targets[rows], sizes)
            none = np.zeros_like(lost)
            lost = np.block([[lost, none], [none, of_scatter]])
            block = np.concatenate([block, deviations[rows]], axis=1)
        for index, beta in enumerate(betas):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                shrunk = block / (values + beta * scale)
                smoother = shrunk @ block.transpose(0, 2, 1)
                smoother[:, :size, :size] += centred / total
                residuals = -shrunk @ moments
                residuals[:, :size] += targets[rows] - mean
                matrices = np.eye(block.shape[1]) - smoother @ lost
            scores[index, rows] = targets[rows] - _solve_all(matrices, residuals)[:, :size]
    return scores


def _lost_by_scatter(own: Array, targets: Array, sizes: Array) -> Array:
    """Compute C for which the within-class scatter loses DᵀCD without a group of deviations D.

    With the weights s and the sum n of those of a class, C = diag(s) + ssᵀ / (n − Σs) for the rows
    of this class.
    """
    of_class = own[:, :, None] * targets
    others = sizes - of_class.sum(axis=1)
    # Without a class, the weighted sum of its deviations is zero.
    left = others > DETERMINED * sizes
    shares = np.divide(1.0, others, out=np.zeros_like(others), where=left)
    lost = (of_class * shares[:, None, :]) @ of_class.transpose(0, 2, 1)
    return np.asarray(lost + own[:, :, None] * np.eye(own.shape[1]))


def _solve_all(matrices: Array, right: Array) -> Array:
    """Solve a stack of systems; the solutions of singular ones are NaN."""
    try:
        return np.asarray(np.linalg.solve(matrices, right))
    except np.linalg.LinAlgError:
        found = np.full_like(right, np.nan)
        for place, (matrix, each) in enumerate(zip(matrices, right, strict=True)):
            with suppress(np.linalg.LinAlgError):
                found[place] = np.linalg.solve(matrix, each)
        return found


def _rescaled(regression: Regression, rows: Indices, block: Array) -> tuple[Array, Array]:
    """Compute the unit of a relative penalty without each group of rows.

    The rows, which are also returned, become zero if the other samples are equal. The unit is NaN
    if only one other sample is left, or if rounding hides by how much they differ.

    Parameters
    ----------
    regression : Regression
    rows : ndarray of shape (n_groups, size)
    block : ndarray of shape (n_groups, size, n_features)
        The rows of Φ.
    """
    own = regression.weights[rows]
    rest = regression.weights.sum() - own.sum(axis=1)
    trace = regression.trace - np.einsum("gi,gij,gij->g", own, block, block)
    if regression.centred:  # without the group, the mean changes too
        trace -= np.sum(np.einsum("gi,gij->gj", own, block) ** 2, axis=1) / rest
    for place in np.flatnonzero(trace <= DETERMINED * regression.trace):
        trace[place] = _trace_of_others(regression, rows[place]) if regression.trace > 0 else 0.0
    scale = (trace / (regression.n_features or rest))[:, None, None]
    return np.where(scale == 0, 0.0, block), np.where(scale == 0, 1.0, scale)


def _trace_of_others(regression: Regression, rows: Indices) -> float:
    """Return zero if the other samples are equal, and NaN if they are not or only one is left."""
    others = regression.weights > 0
    others[rows] = False
    X = regression.X[others]
    differ = varies(X) if regression.centred else abs(X).max() > 0
    return np.nan if differ or X.shape[0] == 1 else 0.0
