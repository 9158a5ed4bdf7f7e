"""LSR: regression onto the zero-one targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from discreg.base.callbacks import Task, with_callbacks
from discreg.base.full_sets import Augmented, BorderedRegression
from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared, RegressionClassifier
from discreg.blocks.moment_ridge import MomentRegression
from discreg.blocks.precision import gap_with_error
from discreg.blocks.validation import (
    check_params,
)
from discreg.linalg.factorisation import EPS
from discreg.linalg.resources import small_fits_in_one_thread
from discreg.linalg.rows import one_hot, row_dots
from discreg.linalg.types import Array, ClassWeight, Indices, KernelParams, MatrixLike

from ._deviations import Deviations, scalar_effects
from ._fit import RIDGE_CONSTRAINTS, few_threads, set_penalty, store
from ._losses import TargetLoss
from ._solvers import ArrayProblem, Solution, minimise, objective_unit

__all__ = ["FixedTargets", "LSRClassifier"]

REFINEMENTS = 2  # steps of iterative refinement, for ill-conditioned data
SEEN = 1e-12  # smallest share of the other samples that determines a held-out score
ROUNDING = 8 * EPS  # relative rounding error of an entry of a Gram matrix


class FixedTargets(TargetLoss):
    """Fixed zero-one targets: LSR, equation (4)."""

    def targets(self, scores: Array, y: Indices) -> Array:
        return one_hot(y, scores.shape[1])

    def support(self, z: Array, y: Indices) -> Array:
        return np.asarray(z[np.arange(len(y)), y])

    def score_hessp(self, residuals: Array, direction: Array, y: Indices, weights: Array) -> Array:
        return weights[:, None] * direction


class LSRClassifier(RegressionClassifier):
    r"""Least squares regression onto zero-one targets.

    Minimises equation (4) of [1]_, where Y is the zero-one matrix of the labels:

    .. math:: \min_{W, b}\; \|XW + \mathbf 1 b^\top - Y\|_F^2 + \beta \|W\|_F^2 .

    Parameters
    ----------
    beta : float, default=0.1
        Weight of the penalty, at least 0. With 0, the fit returns the solution of minimum norm.
    scale_beta : bool, default=True
        Whether `beta` is relative to the mean square of a centred feature,
        :math:`\operatorname{tr}(X^\top HX)/d` (15), for other kernels
        :math:`\operatorname{tr}(HKH)/n`. The traces are weighted; without an intercept they are
        not centred.
    within_class : float, default=0.0
        Weight :math:`\omega` of the penalty
        :math:`\omega \sum_i \|W^\top (x_i - m_{y_i})\|^2 = \omega \operatorname{tr}(W^\top S_w W)`,
        the weighted spread of the scores about the mean scores of their classes, from 0 to 1e6. It
        has no units: one value means the same on any data, whatever `scale_beta`.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    class_weight : dict or "balanced", default=None
        Class weights, which multiply the sample weights. "balanced" gives every class the same
        total weight, taking sample weights into account.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.
    kernel : str or callable, default="linear"
        Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a
        function of two rows. It must be positive semi-definite; negative eigenvalues down to -1e-5
        times the Frobenius norm of the kernel matrix are rounding errors and count as zero.
    gamma : {"scale", "auto"}, float or None, default="scale"
        Parameter of the kernels "rbf", "poly", "sigmoid", "laplacian" and "chi2". "scale" is
        1 / (n_features * X.var()), "auto" and None are 1 / n_features.
    degree : float, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components : int, "auto" or None, default="auto"
        Number of components that approximate the kernel, for many samples; None means the exact
        kernel. "auto" is exact for at most 10,000 rows in memory, and otherwise 1,000 components
        with a warning. Ignored with the linear kernel.
    approximation : {"nystroem", "random_features"}, default="nystroem"
        "nystroem" is the Nyström method, on training rows drawn at random. "random_features" are
        an even number of random Fourier features, for the kernels "rbf" and "laplacian".
    random_state : int, RandomState instance or None, default=None
        Seed of the components.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features)
        Coefficients for the linear kernel, or of the components of an approximated kernel; for two
        classes, those of the second minus those of the first.
    support_ : ndarray of shape (n_support,)
        Indices of the training samples with coefficients other than zero, and with
        ``probability=True`` of all others of positive weight, for an exact kernel other than
        "linear".
    dual_coef_ : ndarray of shape (n_classes, n_support) or (1, n_support)
        Coefficients of the kernel functions of these samples.
    X_fit_ : {ndarray, sparse matrix} of shape (n_support, n_features)
        These samples; not set for kernel "precomputed".
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts.
    targets_ : ndarray of shape (n_samples, n_classes)
        The zero-one targets; not set after `partial_fit` or a fit on rows in blocks.
    objective_history_ : ndarray of shape (`n_iter_`,)
        Smallest objective up to each iteration.
    gap_ : float
        Upper bound of the relative distance of the objective from its minimum.
    n_iter_ : int
        Number of iterations.
    solver_ : str
        Solver that ran.
    n_components_ : int
        Number of components; only set if the kernel is approximated.
    kernel_error_ : float
        Root mean square error of the approximated kernel on some 500 training rows, relative to
        the root mean square of its values; only set if the kernel is approximated.
    inverse_temperature_ : float
        Factor of the decision values in `predict_proba`, fitted to held-out scores. This and the
        next two attributes are only set with ``probability=True``.
    loo_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples, each from the model without the sample. Only set
        if all samples were held out: at most 2,000 rows in memory, with more than one in each
        class.
    loo_is_exact_ : bool
        Whether held-out scores equal those of refits, rather than those of Newton steps without
        the sample.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

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

    _constraints = RIDGE_CONSTRAINTS
    _has_full_sets = True
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

    @with_callbacks
    @small_fits_in_one_thread
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix. Models
            with a linear or approximated kernel fit memory maps and Dask collections block by
            block.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        check_params(self, self._constraints)
        task = Task.fit(self, X, y)
        self._fit_moments(self._prepare(X, y, sample_weight))
        task.iterated(self.n_iter_)
        task.end()
        return self

    def _fit_prepared(
        self,
        prepared: Prepared,
        start: Array | None = None,
        *,
        to_rounding: bool = True,
    ) -> Solution:
        """Fit with the current parameters on prepared data."""
        if prepared.y is None:  # only the moments of the data are known
            set_penalty(self, prepared)
            solution = solve_closed(prepared.regression)
        else:
            problem = ArrayProblem(
                prepared.regression, FixedTargets(), prepared.y, len(prepared.classes)
            )
            with few_threads(problem):
                set_penalty(self, prepared)
                # The starting point is the solution; further steps only correct rounding errors on
                # ill-conditioned data.
                solution = minimise(problem, "newton", tol=1e-14, max_iter=5)
            solution.solver = "closed"
        store(self, prepared, solution)
        return solution

    def _fit_moments(self, prepared: Prepared) -> None:
        self._calibrate(prepared, self._fit_prepared(prepared))

    def _left_out(self, prepared: Prepared, solution: Solution) -> LeftOut:
        kept, features, regression = prepared.kept, prepared.kept_features, prepared.regression
        assert kept is not None
        leverages, targets = regression.leverages(features), one_hot(kept.y, len(prepared.classes))
        scores = features @ solution.theta[:-1] + solution.theta[-1]
        if regression.within_class > 0:
            totals = regression.class_totals(prepared.y, len(prepared.classes))
            rows, weights = Deviations.of(
                features, kept.y, kept.units, totals, regression.within_class
            )
            solved = regression.solve(rows.T).T
            moves, changes = scalar_effects(
                row_dots(features, solved)[:, None],
                row_dots(rows, solved)[:, None],
                rows @ solution.theta[:-1],
                weights[:, None],
            )
            scores, leverages = scores + moves, leverages + changes[:, 0]
        shares = (kept.units * leverages)[:, None]
        scores = scores - shares * targets
        return LeftOut(scores / np.where(shares < 1 - SEEN, 1 - shares, np.nan), is_exact=True)

    def _augmented(self, X: MatrixLike) -> tuple[Array, Augmented]:
        if not hasattr(self, "_labels"):
            return super()._augmented(X)
        if self.within_class > 0:
            raise ValueError("method='full' needs within_class=0. Use method='loo'.")
        labels, n_classes = self._labels, len(self.classes_)
        assert self._kernel is not None
        bordered = BorderedRegression(
            self._kernel, self.X_fit_, labels, centre=self.fit_intercept, entries=np.ones(n_classes)
        )
        targets = one_hot(labels.y, n_classes)
        cross, squares, own = bordered.bordered(self._new_samples(X))

        def augmented(rows: slice) -> Iterator[tuple[int, Array]]:
            for k, weight in enumerate(labels.factors):
                gain = weight * cross[rows] / (1 + weight * squares[rows, None])
                moved = gain[:, :, None] * (np.eye(n_classes)[k] - own[rows])[:, None, :]
                leverages = bordered.leverages - gain * cross[rows]
                shares = (labels.units * leverages)[:, :, None]
                seen = np.where(shares < 1 - SEEN, 1 - shares, np.nan)
                yield k, (bordered.scores + moved - shares * targets) / seen

        return own, augmented

    def _class_targets(self, sizes: Array) -> Array:
        """Return the targets of each class, one row per class."""
        return np.eye(len(sizes))


def solve_closed(regression: MomentRegression) -> Solution:
    """Solve the regression onto the zero-one targets for a fixed penalty.

    The objective is a quadratic function of W with half Hessian A = ΦᵀSΦ + βI + ωS_w. With half
    gradient R it exceeds its minimum by ‖R‖² in the norm of A⁻¹, which is at most the Euclidean
    norm over √β. Products in float32 add to this gap.
    """
    totals, weights = regression.class_totals()
    coef = np.zeros_like(totals)
    residual = totals
    for _ in range(1 + REFINEMENTS):
        coef = coef + regression.solve(residual)
        residual = totals - regression.gram @ coef - regression.penalised(coef)
    total = float(weights.sum())
    offset = weights / total if regression.centred else np.zeros_like(weights)
    targets = total - total * float(offset @ offset)  # squares of the centred targets
    # The objective with AW = ΦᵀSY − R.
    objective = max(targets - float(np.vdot(coef, totals)) - float(np.vdot(coef, residual)), 0.0)
    size = np.sqrt(max(float(np.vdot(coef, totals - residual)), 0.0))  # ‖W‖ in the norm of A
    step = regression.solve(residual)
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
    return Solution(np.vstack([coef, offset]), None, [objective], gap, "closed")
