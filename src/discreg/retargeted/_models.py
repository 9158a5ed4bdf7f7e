"""DLSR, ReLSR and GReLSR, each with its loss, and the base class of all retargeted models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreg.base.caller import warn_of_convergence
from discreg.base.classifier import (
    Prepared,
    RegressionClassifier,
    with_inherited_docs,
)
from discreg.base.validation import (
    CLASS_WEIGHT,
    COMPONENT_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    Boolean,
    Choice,
    Number,
    check_params,
)
from discreg.blocks.moments import MomentRegression
from discreg.linalg.fitted_kernel import FittedKernel, KernelMatrix
from discreg.linalg.resources import threads_for
from discreg.linalg.ridge import KernelRegression, Regression
from discreg.linalg.rows import class_sums, has_distinct_rows, within_class_scatter
from discreg.linalg.types import Array, ClassWeight, Indices, KernelParams

from ._descent import KernelProblem, descend
from ._losses import DraggedTargets, MarginTargets, TargetLoss
from ._solvers import EXACT, ArrayProblem, BlockProblem, Options, Solution, minimise

LARGEST_WITHIN_CLASS = LARGEST_GROUP_PENALTY = 1e6
FEW_COEFFICIENTS = 200
FEW_SAMPLES = 300  # up to this number, Newton's method with a kernel is fast and compiles nothing
SCORES = 200  # how often a fit computes the scores of all training samples, about

EXACT_KERNEL = (
    "solver='dcd' is for exact kernels, but the kernel is approximated. Set n_components=None, or "
    "use solver='auto'."
)

RIDGE_CONSTRAINTS: dict[str, Any] = {
    "beta": Number(0, closed="left"),
    "scale_beta": Boolean(),
    "fit_intercept": Boolean(),
    "class_weight": CLASS_WEIGHT,
    "probability": Boolean(),
    **KERNEL_CONSTRAINTS,
    **COMPONENT_CONSTRAINTS,
}
WITHIN_CLASS = {"within_class": Number(0, LARGEST_WITHIN_CLASS)}
ITERATIVE_CONSTRAINTS = RIDGE_CONSTRAINTS | {
    "solver": Choice(("auto", "newton", "dcd", "alternating")),
    "tol": Number(0, closed="left"),
    "max_iter": Number(1, closed="left", integer=True),
    "warm_start": Boolean(),
}


class RetargetedClassifier(RegressionClassifier):
    r"""Base class of LSR, DLSR, ReLSR and GReLSR, which share these parameters and attributes.

    Parameters
    ----------
    beta : float, default=0.1
        Weight of the penalty, at least 0. With 0, the fit returns a minimiser in the row space of
        the centred X.
    scale_beta : bool, default=True
        Whether `beta` is relative to the mean square of a centred feature,
        :math:`\operatorname{tr}(X^\top HX)/d` (15 of the ReLSR paper), for other kernels
        :math:`\operatorname{tr}(HKH)/n`. The traces are weighted; without an intercept they are
        not centred.
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
        Indices of the training samples with coefficients other than zero, for an exact kernel
        other than "linear".
    dual_coef_ : ndarray of shape (n_classes, n_support) or (1, n_support)
        Coefficients of the kernel functions of these samples.
    X_fit_ : {ndarray, sparse matrix} of shape (n_support, n_features)
        These samples; not set for kernel "precomputed".
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts.
    targets_ : ndarray of shape (n_samples, n_classes)
        Learned targets of the training samples; not set after a fit on rows in blocks.
    objective_history_ : ndarray of shape (`n_iter_`,)
        Smallest objective up to each iteration.
    gap_ : float
        Upper bound of the relative distance of the objective from its minimum, before the
        coefficients are rounded to the precision of X.
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
        next three attributes are only set with ``probability=True``.
    class_offsets_ : ndarray of shape (n_classes,)
        What `predict_proba` adds to the logits of the classes; only set with a `class_weight`, or
        if the probabilities need it.
    held_out_by_ : str
        How training samples were held out: "one row at a time", "5 folds" or "2,000 rows".
    held_out_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples, each from a model without the sample; only set if
        all samples were held out.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.
    """

    beta: float
    scale_beta: bool
    within_class = 0.0  # a parameter of LSR and ReLSR
    _constraints = RIDGE_CONSTRAINTS

    @abstractmethod
    def _fit_prepared(
        self, prepared: Prepared, start: Array | None, *, to_rounding: bool
    ) -> Solution:
        """Fit with the current parameters on prepared data and set the fitted attributes.

        Parameters
        ----------
        prepared : Prepared
        start : ndarray of shape (size + 1, n_classes) or None
            Starting point; None means the regression onto the zero-one targets.
        to_rounding : bool
            Whether to continue below `tol` where the extra cost is small.
        """

    def _set_penalty(self, prepared: Prepared) -> None:
        """Set the penalty of the regression and factor its normal equations."""
        regression = prepared.regression
        beta = self.beta * (regression.scale if self.scale_beta else 1.0)
        if not np.isfinite(beta):
            raise ValueError(
                f"beta={self.beta:g} times the mean square of the features, {regression.scale:g}, "
                "overflows. Use a smaller beta, or scale_beta=False."
            )
        set_within_class(self, prepared)
        regression.at(beta)

    def _store(self, prepared: Prepared, solution: Solution, *, is_relative: bool = False) -> float:
        """Set the fitted attributes from a solution.

        If the loss `is_relative`, a constant is added to all scores, so that the mean training
        scores of the classes sum to 1, and returned. In ReLSR the coefficients of the classes sum
        to zero, so that the intercepts sum to 1, as in Algorithm 1.
        """
        coef, mean_score = prepared.regression.predictor(solution.theta[:-1])
        shift = 0.0
        if is_relative and self.fit_intercept:
            shift = float(1.0 - solution.theta[-1].sum()) / len(mean_score)
        intercept = solution.theta[-1] - mean_score + shift
        self._set_coefficients(prepared, coef, intercept, sparse=True)
        self.__dict__.pop("targets_", None)
        if solution.targets is not None:
            self.targets_ = (solution.targets + shift).astype(prepared.dtype)
        self.objective_history_ = np.array(solution.objective_history)
        self.gap_ = solution.gap
        self.n_iter_ = len(solution.objective_history)
        self.solver_ = solution.solver
        return shift


class IterativeClassifier(RetargetedClassifier):
    """Base class of DLSR, ReLSR and GReLSR: a subclass returns its loss from `_loss`.

    Parameters
    ----------
    solver : {"auto", "newton", "dcd", "alternating"}, default="auto"
        "newton": semismooth Newton steps by conjugate gradients. "dcd": dual coordinate descent
        over blocks of rows, for kernels other than "linear" and beta > 0. "alternating": alternates
        between regression and retargeting (and the centres of GReLSR) as in the papers, whose
        schedule is ``max_iter=30, tol=0``. "auto" is "dcd" for more than 300 samples with a kernel,
        and "newton" otherwise.
    tol : float, default=1e-6
        Relative optimality gap at which to stop. "newton" solves small problems to rounding for
        every `tol`. With 0 a solver continues until rounding or `max_iter` stops it, which does
        not issue a warning.
    max_iter : int, default=1000
        Maximum number of iterations: of sweeps over the samples for solver "dcd", otherwise of
        steps, including the regression onto the zero-one targets.
    warm_start : bool, default=False
        Whether to start from the solution of the previous call of `fit`, if its shape fits the new
        data; solver "dcd" starts only from its own solutions.
    """

    _constraints = ITERATIVE_CONSTRAINTS
    _previous: tuple[str, Array]  # solver and unknowns of the last fit

    def __init__(
        self,
        *,
        beta: float = 0.1,
        scale_beta: bool = True,
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
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.beta = beta
        self.scale_beta = scale_beta
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
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    @abstractmethod
    def _loss(self) -> TargetLoss:
        """Return the loss that defines the targets."""

    def _check_params(self) -> None:
        super()._check_params()
        if self.solver == "dcd":
            if self.n_components not in (None, "auto"):
                raise ValueError(EXACT_KERNEL)
            needs = {
                "a kernel other than 'linear'": self.kernel != "linear",
                "beta > 0": self.beta > 0,
                "within_class=0": self.within_class == 0,
                "a target rule with a compiled loop": self._loss().descent_rule is not None,
            }
            missing = [need for need, is_met in needs.items() if not is_met]
            if missing:
                raise ValueError(f"solver='dcd' needs {' and '.join(missing)}. Use solver='auto'.")

    def _kernel_regression(
        self, kernel: FittedKernel, X: Any, weights: Array
    ) -> KernelRegression | KernelMatrix:
        """Create the regression; dual coordinate descent needs the kernel matrix."""
        automatic = (
            self.solver == "auto"
            and X.shape[0] > FEW_SAMPLES
            and self.beta > 0
            and self.within_class == 0
            and self._loss().descent_rule is not None
        )
        if self.solver != "dcd" and not automatic:
            return super()._kernel_regression(kernel, X, weights)
        return KernelMatrix(kernel, X, weights, centre=self.fit_intercept)

    def _fit_and_calibrate(self, prepared: Prepared) -> None:
        start = self._previous_solution(prepared)
        solution = self._fit_prepared(prepared, start, to_rounding=True)
        self._calibrate(prepared, solution)
        self._warn_if_stopped_early(solution)

    def _fit_prepared(
        self, prepared: Prepared, start: Array | None, *, to_rounding: bool
    ) -> Solution:
        loss = self._loss()
        solution = self._solve(prepared, loss, start, to_rounding=to_rounding)
        self._store(prepared, solution, is_relative=loss.is_relative)
        if self.warm_start:
            self._previous = solution.solver, solution.theta
        return solution

    @np.errstate(over="ignore", invalid="ignore")  # coefficients that overflow are refused
    def _solve(
        self, prepared: Prepared, loss: TargetLoss, start: Array | None, *, to_rounding: bool
    ) -> Solution:
        """Solve the problem for a kernel matrix, rows in blocks or an array."""
        regression, y, n_classes = prepared.regression, prepared.y, len(prepared.classes)
        solver = "newton" if self.solver == "auto" else self.solver
        options = Options(solver, self.tol, self.max_iter, start)
        exact = options._replace(tol=min(EXACT, self.tol)) if solver == "newton" else options
        if isinstance(regression, KernelMatrix):
            self._set_penalty(prepared)
            return descend(KernelProblem(regression, loss, y, n_classes), options)
        if solver == "dcd":
            raise ValueError(EXACT_KERNEL)
        if prepared.source is not None:
            self._set_penalty(prepared)
            assert isinstance(regression, MomentRegression)
            blocks: Any = BlockProblem(regression, loss, prepared.source)
            if prepared.source.n_rows <= regression.size:  # less memory than the Gram matrix
                blocks, options = blocks.in_memory(), exact
            elif _has_few_coefficients(prepared):
                options = exact
            return replace(minimise(blocks, options), targets=None)
        assert isinstance(regression, Regression)
        problem = ArrayProblem(regression, loss, y, n_classes)
        with threads_for(SCORES * problem.work):
            self._set_penalty(prepared)
            exactly = to_rounding and solver == "newton" and _is_solved_to_rounding(prepared)
            return minimise(problem, exact if exactly else options)

    def _start(self, solution: Solution) -> Callable[[Any, Indices], None] | None:
        if self.kernel != "linear":  # the unknowns belong to the rows
            return None

        def start(model: Any, rows: Indices) -> None:
            model.warm_start, model._previous = True, (solution.solver, solution.theta)

        return start

    def _previous_solution(self, prepared: Prepared) -> Array | None:
        """Return the starting point of a warm start; None for a fresh start."""
        previous = vars(self).get("_previous")
        if not self.warm_start or not isinstance(previous, tuple):  # an array in older models
            return None
        solver, theta = previous
        # The unknowns of dual coordinate descent are residuals, not coefficients.
        if (solver == "dcd") != isinstance(prepared.regression, KernelMatrix):
            return None
        if theta.shape != (prepared.regression.size + 1, len(prepared.classes)):
            return None
        offset = theta[-1:] if self.fit_intercept else 0 * theta[-1:]
        return np.vstack([theta[:-1], offset])

    def _warn_if_stopped_early(self, solution: Solution) -> None:
        """Warn, at the line that calls `fit`, if the solver stopped before it reached `tol`."""
        gap, n_iter = solution.gap, len(solution.objective_history)
        if gap <= self.tol or self.tol == 0:
            return
        advice = "Increase max_iter, tol or beta, or standardise the features."
        if n_iter < self.max_iter:
            other = "Use solver='newton', or increase" if solution.solver == "dcd" else "Increase"
            advice = (
                f"More iterations do not help. {other} beta or tol, or standardise the features."
            )
        elif solution.solver != "newton":
            advice = "Use solver='newton', or increase max_iter, tol or beta."
        warn_of_convergence(
            f"{type(self).__name__} stopped at a relative optimality gap of {gap:.2g} after "
            f"{n_iter} iterations; tol is {self.tol:g}. {advice}"
        )


def set_within_class(estimator: Any, prepared: Prepared) -> None:
    """Set the weight of the within-class scatter, which is computed when it is first needed."""
    if estimator.within_class > 0 and prepared.equations.scatter is None:
        equations = prepared.equations
        totals, weights = equations.class_totals(prepared.y, len(prepared.classes))
        equations.scatter = within_class_scatter(equations.gram, totals, weights)
    prepared.regression.within_class = estimator.within_class


def _has_few_coefficients(prepared: Prepared) -> bool:
    return bool(prepared.regression.size * len(prepared.classes) <= FEW_COEFFICIENTS)


def _is_solved_to_rounding(prepared: Prepared) -> bool:
    """Return whether Newton's method continues below `tol`.

    Sample weights must give the same result as repeating rows. With more distinct samples than
    features both take the same steps. Otherwise, and with a kernel, rounding makes the steps
    differ, so the solution must be exact. There the factorisation takes most of the time anyway.
    Problems with few coefficients are always solved to rounding, at little cost.
    """
    regression = prepared.regression
    if isinstance(regression, KernelRegression) or _has_few_coefficients(prepared):
        return True
    assert isinstance(regression, Regression)
    weighted = regression.weights > 0
    X = regression.X if weighted.all() else regression.X[weighted]
    return not has_distinct_rows(X, regression.size + 1)


def fit_path(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    grid: Iterable[dict[str, float]],
) -> Iterator[Any]:
    """Fit an estimator for each setting of its penalties, starting from the previous solution.

    Parameters
    ----------
    estimator : LSRClassifier, DLSRClassifier, ReLSRClassifier or GReLSRClassifier
        The same object is refitted and yielded each time.
    X, y, sample_weight
        Training data as for `fit`.
    grid : iterable of dict
        Values of `beta` and of the other penalties.
    """
    grid = list(grid)
    # The penalties that decide which solver serves all settings.
    deciding = {"beta": min(params["beta"] for params in grid)}
    if "within_class" in grid[0]:
        deciding["within_class"] = max(params["within_class"] for params in grid)
    estimator.set_params(**deciding)
    prepared = estimator._prepare(X, y, sample_weight)
    start = None
    for params in grid:
        check_params(estimator.set_params(**params), estimator._constraints)
        start = estimator._fit_prepared(prepared, start, to_rounding=False).theta
        yield estimator


@with_inherited_docs
class DLSRClassifier(IterativeClassifier):
    r"""Discriminative least squares regression: targets moved away from the decision boundary.

    Minimises equation (6) of [1]_, the model of [2]_, over the coefficients and the targets T:

    .. math:: \min_{W, b, T}\; \|XW + \mathbf 1 b^\top - T\|_F^2 + \beta \|W\|_F^2
              \quad\text{subject to}\quad T_{i y_i} \ge 1,\; T_{ij} \le 0 \;(j \ne y_i).

    Eliminating the targets gives one-against-rest classification with the squared hinge loss.

    See Also
    --------
    DLSRClassifierCV : Selects `beta` by cross-validation.
    ReLSRClassifier : Constrains only the differences between targets.

    References
    ----------
    .. [1] X.-Y. Zhang, L. Wang, S. Xiang, C.-L. Liu, "Retargeted Least Squares Regression
           Algorithm", IEEE Transactions on Neural Networks and Learning Systems 26 (2015).
    .. [2] S. Xiang, F. Nie, G. Meng, C. Pan, C. Zhang, "Discriminative Least Squares Regression for
           Multiclass Classification and Feature Selection", IEEE Transactions on Neural Networks
           and Learning Systems 23 (2012).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from discreg import DLSRClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), DLSRClassifier()).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.98
    """

    def _loss(self) -> TargetLoss:
        return DraggedTargets()


@with_inherited_docs
class ReLSRClassifier(IterativeClassifier):
    r"""Retargeted least squares regression: targets learned under a margin.

    Minimises equation (10) of [1]_ over the coefficients and the targets T:

    .. math:: \min_{W, b, T}\; \|XW + \mathbf 1 b^\top - T\|_F^2 + \beta \|W\|_F^2
              \quad\text{subject to}\quad T_{i y_i} - T_{ij} \ge 1 \;(j \ne y_i).

    Only differences between the scores of a sample matter, and a sample classified correctly with
    a margin of at least 1 has zero loss. The solvers eliminate the targets;
    :func:`~discreg.retargeted.retarget` computes the best targets for given scores.

    Parameters
    ----------
    within_class : float, default=0.0
        Weight :math:`\omega` of the penalty
        :math:`\omega \sum_i \|W^\top (x_i - m_{y_i})\|^2 = \omega \operatorname{tr}(W^\top S_w W)`,
        the weighted spread of the scores about the mean scores of their classes, from 0 to 1e6. It
        has no units: one value means the same on any data, whatever `scale_beta`.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts. They sum to 1, because adding a constant to all scores does not change the
        objective.

    See Also
    --------
    ReLSRClassifierCV : Selects `beta` by cross-validation.
    GReLSRClassifier : Adds a penalty on the spread of the targets within each class.

    References
    ----------
    .. [1] X.-Y. Zhang, L. Wang, S. Xiang, C.-L. Liu, "Retargeted Least Squares Regression
           Algorithm", IEEE Transactions on Neural Networks and Learning Systems 26 (2015).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from discreg import ReLSRClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ReLSRClassifier()).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.98
    """

    _constraints = IterativeClassifier._constraints | WITHIN_CLASS

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
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
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
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    def _loss(self) -> TargetLoss:
        return MarginTargets()


@with_inherited_docs
class GReLSRClassifier(IterativeClassifier):
    r"""Groupwise retargeted least squares regression.

    Minimises equation (18) of [1]_, here with margin 1 as in [2]_, over the coefficients, the
    targets T and the centres :math:`\mu` of the translations :math:`T_{i y_i} - 1` of each class:

    .. math:: \min_{W, b, T, \mu}\; \|XW + \mathbf 1 b^\top - T\|_F^2 + \beta \|W\|_F^2
              + \gamma \sum_i (T_{i y_i} - 1 - \mu_{y_i})^2
              \quad\text{subject to}\quad T_{i y_i} - T_{ij} \ge 1 \;(j \ne y_i).

    :math:`\gamma` is the parameter `group_penalty`; with 0 the model is ReLSR. The last term is one
    choice of the penalty :math:`\gamma R(a)` of the translations in equation (16).

    Parameters
    ----------
    group_penalty : float, default=0.1
        Weight :math:`\gamma` of the penalty of the translations, from 0 to 1e6.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts. Adding a constant to all scores and centres does not change the objective; it is
        chosen so that the mean training scores of the classes sum to 1.
    centres_ : ndarray of shape (n_classes,)
        Centres :math:`\mu` of the translations.

    See Also
    --------
    GReLSRClassifierCV : Selects `beta` and `group_penalty` by cross-validation.
    ReLSRClassifier : The model without the group penalty.

    References
    ----------
    .. [1] L. Wang, C. Pan, "Groupwise Retargeted Least-Squares Regression", IEEE Transactions on
           Neural Networks and Learning Systems 29 (2018).
    .. [2] X.-Y. Zhang, L. Wang, S. Xiang, C.-L. Liu, "Retargeted Least Squares Regression
           Algorithm", IEEE Transactions on Neural Networks and Learning Systems 26 (2015).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from discreg import GReLSRClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), GReLSRClassifier()).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.98
    """

    _constraints = IterativeClassifier._constraints | {
        "group_penalty": Number(0, LARGEST_GROUP_PENALTY)
    }

    def __init__(
        self,
        *,
        group_penalty: float = 0.1,
        beta: float = 0.1,
        scale_beta: bool = True,
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
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.group_penalty = group_penalty
        self.beta = beta
        self.scale_beta = scale_beta
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
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    def _loss(self) -> TargetLoss:
        return MarginTargets(float(self.group_penalty))

    def _store(self, prepared: Prepared, solution: Solution, *, is_relative: bool = False) -> float:
        shift = super()._store(prepared, solution, is_relative=is_relative)
        if solution.targets is None:
            assert solution.centres is not None
            centres = solution.centres + shift
        else:  # also without a group penalty
            translations = np.take_along_axis(self.targets_, prepared.y[:, None], axis=1)[:, 0] - 1
            assert prepared.rows is not None
            weighted = prepared.rows.weights * translations
            centres = class_sums(prepared.y, weighted, len(prepared.classes))
            centres /= prepared.class_weights
        self.centres_ = centres.astype(prepared.dtype)
        return shift
