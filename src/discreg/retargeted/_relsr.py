"""ReLSR: targets learned under a margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreg.base.callbacks import Task, with_callbacks
from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared, RegressionClassifier
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.iterations import Report, unreported
from discreg.linalg.kernel_rows import KernelRows
from discreg.linalg.resources import small_fits_in_one_thread
from discreg.linalg.ridge import KernelRegression, Regression
from discreg.linalg.types import Array, ClassWeight, KernelParams, MatrixLike

from ._fit import (
    ITERATIVE_CONSTRAINTS,
    check_iterative_params,
    kernel_features,
    previous_solution,
    solve,
    store,
    training_features,
    warn_if_stopped_early,
    why_rows_in_memory,
)
from ._left_out import left_out
from ._losses import TargetLoss
from ._margin_targets import MarginTargets
from ._solvers import Solution

__all__ = ["ReLSRClassifier"]


class ReLSRClassifier(RegressionClassifier):
    r"""Retargeted least squares regression: targets learned under a margin.

    Minimises equation (10) of [1]_ over the coefficients and the targets T:

    .. math:: \min_{W, b, T}\; \|XW + \mathbf 1 b^\top - T\|_F^2 + \beta \|W\|_F^2
              \quad\text{subject to}\quad T_{i y_i} - T_{ij} \ge 1 \;(j \ne y_i).

    Only differences between the scores of a sample matter, and a sample classified correctly with
    a margin of at least 1 has zero loss. The solvers eliminate the targets;
    :func:`~discreg.retargeted.retarget` computes the best targets for given scores.

    Parameters
    ----------
    beta : float, default=0.1
        Weight of the penalty, at least 0. With 0, the fit returns a minimiser in the row space of
        the centred X.
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
    solver : {"auto", "newton", "dcd", "alternating"}, default="auto"
        "newton": semismooth Newton steps by conjugate gradients. "dcd": dual coordinate descent
        over blocks of rows, for kernels other than "linear" and beta > 0. "alternating": alternates
        between regression and retargeting, as in Algorithm 1 of [1]_; ``max_iter=30, tol=0`` is the
        papers' schedule. "auto" is "alternating" with Nesterov's extrapolation for
        ``penalty="l21"`` or a rank, "dcd" for more than 300 samples with a kernel, and "newton"
        otherwise.
    cache_size : float, default=1000
        Memory in megabytes for the kernel matrix or its rows, for solver "dcd".
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
    penalty : {"l2", "l21"}, default="l2"
        "l2" penalises the squares of the coefficients. "l21", for the linear kernel only, penalises
        the norms of their rows, :math:`\beta \sum_j \|w_j\|_2`, which selects features. With
        `scale_beta` it is relative to :math:`(n \operatorname{tr}(X^\top HX)/d)^{1/2}`.
    rank : int, default=None
        Maximum rank of the coefficients; None means no limit. With a rank the problem is not
        convex, and `gap_` bounds how much another regression onto the same targets can decrease
        the objective.
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
        Intercepts. They sum to 1, because adding a constant to all scores does not change the
        objective.
    targets_ : ndarray of shape (n_samples, n_classes)
        Learned targets of the training samples; not set after a fit on rows in blocks.
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
        class, and with an exact kernel not many residuals; otherwise 500 samples are held out.
    loo_is_exact_ : bool
        Whether held-out scores equal those of refits. Otherwise they are those of Newton steps
        without the sample, which equal those of refits if no other sample starts or ceases to
        violate a constraint of its targets. With at least 20,000 rows, the Hessian of the steps is
        approximate.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

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

    _constraints = ITERATIVE_CONSTRAINTS

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
        cache_size: float = 1000,
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        penalty: str = "l2",
        rank: int | None = None,
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
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.penalty = penalty
        self.rank = rank
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
        self._check_params()
        task = Task.fit(self, X, y)
        prepared = self._prepare(X, y, sample_weight)
        start = previous_solution(self, prepared)
        solution = self._fit_prepared(prepared, start, to_rounding=True, report=task.iterated)
        self._calibrate(prepared, solution)
        if not task.is_stopped:
            warn_if_stopped_early(self, solution)
        task.end()
        return self

    def _check_params(self) -> None:
        check_iterative_params(self)

    def _fit_prepared(
        self,
        prepared: Prepared,
        start: Array | None,
        *,
        to_rounding: bool,
        report: Report = unreported,
    ) -> Solution:
        """Fit with the current parameters on prepared data."""
        solution = solve(
            self,
            prepared,
            self._loss(),
            start,
            largest_rank=len(prepared.classes) - 1,  # a common shift of the scores has no effect
            to_rounding=to_rounding,
            report=report,
        )
        store(self, prepared, solution, unit_sum=True)
        if self.warm_start:
            self._previous = solution.solver, solution.theta
        return solution

    def _loss(self) -> TargetLoss:
        return MarginTargets()

    def _left_out(self, prepared: Prepared, solution: Solution) -> LeftOut:
        return left_out(prepared, self._loss(), solution, self.rank)

    def _linear_regression(self, X: Any, weights: Array) -> Regression:
        return training_features(self, X, weights)

    def _kernel_regression(
        self, kernel: FittedKernel, X: Any, weights: Array
    ) -> KernelRegression | KernelRows:
        rows = kernel_features(self, kernel, X, weights)
        return super()._kernel_regression(kernel, X, weights) if rows is None else rows

    def _why_in_memory(self, n_rows: int | None) -> str | None:
        return why_rows_in_memory(self) or super()._why_in_memory(n_rows)
