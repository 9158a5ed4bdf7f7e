"""Optimal margin distribution machine: model, search and solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from discreg.base.classifier import with_inherited_docs
from discreg.base.search import candidates_of
from discreg.base.trials import Setting
from discreg.base.validation import Choice, Number, in_blocks, why_exact_kernel
from discreg.blocks.opening import open_blocks
from discreg.blocks.source import BlockSource, is_out_of_core
from discreg.linalg.rows import matmul
from discreg.linalg.types import Array, ClassWeight, KernelParams, Scoring, Splitting

from ._classifier import MarginClassifier, MarginSearch
from ._dual import DualSolution, RowDual, polish
from ._losses import MarginLoss
from ._newton import FEW_FEATURES, newton_on_blocks, newton_on_rows
from ._problem import (
    SMALL,
    BinaryFit,
    BinaryProblem,
    MarginSamples,
    fit_from_factor,
    fit_of_dual,
    solve_dual_of_kernel,
)
from ._svrg import svrg

SEEN_IN_DUAL = 1e-6  # rounding error of scores above which dual solvers no longer converge


def solve_odm(problem: BinaryProblem) -> BinaryFit:
    """Fit ODM to labels ±1."""
    training = problem.training
    if training.is_seen(problem.loss.total_of_multipliers, limit=SEEN_IN_DUAL):
        rows = replace(training, X=training.factor, kernel=None, centred=False)
        fit = solve_odm(replace(problem, training=rows, solver="newton", start=None))
        assert fit.theta is not None
        warm = problem.y * fit.theta, fit.intercept
        return replace(fit_from_factor(training, fit), warm=warm, solver="newton")
    if problem.solver in ("active_set", "dcd"):
        return _with_bound(problem, solve_dual_of_kernel(problem))
    if problem.solver == "svrg":
        return _with_bound(problem, svrg(problem))
    to_rounding = problem.exact and training.X.shape[1] <= FEW_FEATURES
    found = newton_on_rows(problem, 0.0 if to_rounding else problem.options.tol)
    assert found.coef is not None
    scores = matmul(training.X, found.coef[:, None])[:, 0] + found.intercept
    theta = problem.y * problem.losses.multipliers(problem.y * scores)
    fit = _with_bound(problem, replace(found, theta=theta, warm=(found.coef, found.intercept)))
    if problem.exact and not to_rounding and training.n_samples <= SMALL:
        dual = RowDual(training.centred_rows, problem.y, problem.losses)
        rough = DualSolution(dual.state(problem.y * theta), 0.0, fit.gap, fit.n_iter)
        finer = polish(dual, rough, fit_intercept=problem.fit_intercept)
        if finer is not rough:
            return replace(_with_bound(problem, fit_of_dual(problem, dual, finer)), warm=fit.warm)
    return fit


def _with_bound(problem: BinaryProblem, fit: BinaryFit) -> BinaryFit:
    """Add the bound (1/m) Σ max(0, |a| (k(x, x) + m/2C) ± D) of the leave-one-out error.

    Theorem 3 holds for a band around 1 without an intercept, for the error when a sample is removed
    and 1/m stays fixed. A sample of weight s is equivalent to s equal samples of multiplier a/s and
    ridge s u.
    """
    loss = problem.loss
    if problem.fit_intercept or not np.isclose(loss.low + loss.high, 2.0):
        return fit
    assert fit.theta is not None
    weights, diagonal = problem.training.weights, problem.training.diagonal
    losses, D = problem.losses, loss.high - 1.0
    a = problem.y * fit.theta / weights
    pulled = a * (diagonal + losses.ridge_low * weights) + D
    pushed = -a * (diagonal + losses.ridge_high * weights) - D
    terms = np.where(a > 0, pulled, np.where(a < 0, pushed, 0.0))
    bound = float(weights @ np.maximum(terms, 0.0)) / float(weights.sum())
    return replace(fit, bound=bound)


class ODMClassifier(MarginClassifier):
    r"""Optimal margin distribution machine: squared losses keep all margins close to one.

    Minimises objective (7) of the paper for margins
    :math:`z_i = y_i (w^\top \phi(x_i) + b)` of m samples:

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + \frac1m \sum_i \left( C_1 \max(0, 1 - D - z_i)^2
              + C_2 \max(0, z_i - 1 - D)^2 \right)

    The losses pull all margins towards 1, which makes their variance small. Deviations up to D have
    zero loss, which makes the solution sparse. D = 0 and C1 = C2 gives objective (6). With more
    than two classes there is one problem for each class against all others.

    Parameters
    ----------
    C1 : float, default=1000.0
        Weight of margins that are too small, positive. The paper divides it by the number of
        samples; C1 = m C corresponds to C of :class:`sklearn.svm.LinearSVC` with the squared hinge.
    C2 : float, default=100.0
        Weight of margins that are too large, positive.
    D : float, default=0.2
        Deviation from 1 without a loss, at least 0 and below 1. A larger value gives fewer support
        vectors.
    kernel : str or callable, default="rbf"
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two rows. It must be positive semi-definite; negative eigenvalues down to -1e-5 times the
        Frobenius norm of the kernel matrix are rounding errors and count as zero.
    gamma : float, "scale", "auto" or None, default="scale"
        Width of the RBF, polynomial, sigmoid, Laplacian and chi2 kernels, as in
        :class:`sklearn.svm.SVC`.
    degree, coef0 : float, default=3 and 1
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components : int, "auto" or None, default="auto"
        Number of components that approximate the kernel, for many samples; None means the exact
        kernel. "auto" is exact for at most 10,000 rows in memory, and otherwise 1,000 components
        with a warning. Ignored with the linear kernel.
    approximation : {"nystroem", "random_features"}, default="nystroem"
        "nystroem" is the Nyström method, on training rows drawn at random. "random_features" are
        an even number of random Fourier features, for the kernels "rbf" and "laplacian".
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised. The paper's model has none.
    class_weight : dict, "balanced" or None, default=None
        Class weights, which multiply the sample weights. "balanced" gives every class the same
        total weight, taking sample weights into account.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.
    solver : {"auto", "active_set", "dcd", "newton", "svrg"}, default="auto"
        All solvers converge to the same optimum.

        - "dcd": dual coordinate descent, Algorithm 1 with one signed multiplier per sample, on
          the kernel matrix or on rows of features.
        - "active_set": a semismooth Newton method on the dual, for at most 2000 non-zero
          multipliers. "dcd" replaces it if it does not converge within `max_iter` steps.
        - "newton": a semismooth Newton method on the primal, for ``kernel="linear"``.
        - "svrg": stochastic gradients, Algorithm 2, for ``kernel="linear"`` and many samples.
        - "auto": "newton" for a linear kernel with at most as many features as samples,
          "active_set" for other kernels with at most 300 samples, else "dcd".
    svrg_step : float, default=0.5
        First step size of "svrg", relative to 1/L with the largest smoothness constant L of the
        gradients of single samples; at most 1. An epoch that increases the objective is
        repeated with half the step. The paper takes the setup of Johnson and Zhang (2013), 0.1,
        which needed two to four times as many epochs with the default penalties.
    warm_start : bool, default=False
        Whether to start from the solution of the previous fit if shape, classes, kernel, solver
        and `fit_intercept` are the same. The number of samples may differ for "newton" and "svrg".
    tol : float, default=1e-3
        Relative duality gap at which to stop. With 0 a fit continues until `max_iter` or until
        rounding prevents a smaller gap, and warns only if that gap is above 1e-6. Except for
        "svrg", problems with at most 1000 samples, or 1000 features for "newton", are solved
        to machine precision if possible; `gap_` is the gap reached.
    max_iter : int, default=1000
        Maximum number of iterations of a two-class problem, see `n_iter_`.
    n_jobs : int, default=None
        Number of threads that fit the two-class problems of more than two classes.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples and of the components.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels. With two classes, the second is the positive one.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features for ``kernel="linear"``, or of the components of an
        approximated kernel.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    support_ : ndarray of shape (n_support,)
        Indices of the training samples with a non-zero multiplier in at least one problem. This
        attribute and the next three are not set after a fit on rows in blocks, see the notes.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients θ of the support vectors; the score of x is Σ θ k(x, support vector) +
        intercept.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_support, n_features)
        The support vectors; not set for "precomputed".
    margins_ : MarginStatistics
        Weighted `mean` and `variance` and the `minimum` of the training margins; numbers for two
        classes, else arrays with one entry per class.
    loo_error_bound_ : float or ndarray of shape (n_classes,)
        Upper bound of the leave-one-out error of the two-class problems, Theorem 3. Only with
        ``fit_intercept=False`` and all rows in memory.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the objective.
    gap_ : float
        Largest relative duality gap of the two-class problems, including the rounding of
        coefficients to float32 if X has this type.
    n_iter_ : int
        Largest number of iterations of the two-class problems: passes over the samples ("dcd"),
        linear systems ("active_set"), Newton steps ("newton") or epochs ("svrg"). The steps that
        bring a small problem to machine precision afterwards are not counted.
    solver_ : str
        The solver that ran; "dcd" if it replaced "active_set" in at least one problem, "newton" if
        the values of a kernel are so large that the problem was solved on a factor of its matrix.
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

    See Also
    --------
    LDMClassifier : SVM with terms for the mean and the variance of the margins.
    ODMClassifierCV : Selects C1, C2, D and gamma by cross-validation.

    Notes
    -----
    With ``kernel="linear"`` and ``solver="newton"`` (or "auto", for at most as many features as
    samples) X may be a Dask array or dataframe, or a memory map of any size. X is not loaded into
    memory: each Newton step is one pass over blocks of rows for all classes. Such a fit stops at
    `tol` and does not set `support_`, `n_support_`, `dual_coef_`, `support_vectors_` and
    `loo_error_bound_`.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from discreg import ODMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ODMClassifier().fit(minmax_scale(X), y)
    >>> model.score(minmax_scale(X), y) > 0.95, model.gap_ < 1e-9
    (True, True)
    >>> 0.8 < model.margins_.mean < 1.2
    True
    """

    _constraints = MarginClassifier._constraints | {
        "C1": Number(0, closed="neither"),
        "C2": Number(0, closed="neither"),
        "D": Number(0, 1, closed="left"),
        "solver": Choice(("auto", "active_set", "dcd", "newton", "svrg")),
    }

    def __init__(
        self,
        *,
        C1: float = 1000.0,
        C2: float = 100.0,
        D: float = 0.2,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        solver: str = "auto",
        svrg_step: float = 0.5,
        warm_start: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.svrg_step = svrg_step
        self.warm_start = warm_start
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _loss(self) -> MarginLoss:
        return MarginLoss.odm(self.C1, self.C2, self.D)

    def _default_solver(self, training: MarginSamples) -> str:
        if training.kernel is None and training.X.shape[1] <= training.n_samples:
            return "newton"
        return super()._default_solver(training)

    def _solve(self, problem: BinaryProblem) -> BinaryFit:
        return solve_odm(problem)

    def _why_in_memory(self, n_rows: int | None) -> str | None:
        reason = why_exact_kernel(self, n_rows)
        if reason is None and self.solver not in ("auto", "newton"):
            return (
                f"solver={self.solver!r} needs the rows in memory. On Dask use solver='newton' or "
                "'auto'."
            )
        return reason

    def _open_blocks(self, X: Any, y: Any, sample_weight: Any) -> BlockSource | None:
        if not in_blocks(self, X):
            return None
        wide = self.solver == "auto" and self.kernel == "linear"
        if wide and not is_out_of_core(X) and X.shape[1] > X.shape[0]:
            return None
        source = open_blocks(self, X, y, sample_weight, self.class_weight)
        if wide and source.layout.n_features > source.n_rows:
            raise ValueError(
                f"X has more features ({source.layout.n_features}) than rows ({source.n_rows}), "
                "for which solver='auto' needs the rows in memory. Use solver='newton', or pass an "
                "array."
            )
        return source

    def _fit_source(self, source: BlockSource, dtype: Any = None) -> list[BinaryFit]:
        self.solver_ = "newton"
        fits = newton_on_blocks(
            source,
            self._loss(),
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            start=self._start_in_blocks(source) if self.warm_start else None,
            dtype=dtype or source.dtype,
        )
        self._store(fits, source.layout.classes, dtype or source.dtype)
        return fits

    def _start_in_blocks(self, source: BlockSource) -> tuple[Array, Array] | None:
        """Return coefficients and intercepts of a previous fit of the same shape and classes."""
        classes, n_features = source.layout.classes, source.layout.n_features
        coef = vars(self).get("coef_")
        if coef is None or not np.array_equal(self.classes_, classes):
            return None
        if coef.shape[1] != n_features:
            return None
        intercept = self.intercept_ if self.fit_intercept else np.zeros(len(coef))
        return coef.astype(np.float64), intercept.astype(np.float64)


@with_inherited_docs
class ODMClassifierCV(MarginSearch):
    r"""Optimal margin distribution machine with its parameters selected by cross-validation.

    There is one kernel matrix per fold and gamma, and each fit starts from the previous solution.
    Fits to compare settings stop at 30 times `tol`.

    Parameters
    ----------
    C1s : array-like of float, default=(100, 1e3, 1e4)
        Candidates for the weight of margins that are too small, positive. Continued beyond an
        edge, see `cv_results_`.
    C2s : array-like of float, default=(1e3,)
        Candidates for the weight of margins that are too large, positive. More candidates for C2
        and D take more time, and were about as accurate on average.
    Ds : array-like of float, default=(0.2,)
        Candidates for the deviation without a loss, at least 0 and below 1.

    See Also
    --------
    ODMClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from discreg import ODMClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ODMClassifierCV(C1s=[10, 100], C2s=[10], gammas=["scale"]).fit(minmax_scale(X), y)
    >>> sorted(model.best_params_)
    ['C1', 'C2', 'D', 'gamma']
    >>> model.best_score_ > 0.95
    True
    """

    _classifier = ODMClassifier
    _continued = {"C1": "C1s", "gamma": "gammas"}

    def __init__(
        self,
        estimator: Any = None,
        *,
        C1s: Sequence[float] = (100.0, 1e3, 1e4),
        C2s: Sequence[float] = (1e3,),
        Ds: Sequence[float] = (0.2,),
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.C1s = C1s
        self.C2s = C2s
        self.Ds = Ds
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(self, classifier: Any, X: Any, y: Any, weights: Any) -> list[Setting]:
        """List all combinations of the penalties, with similar ones next to each other."""
        C1s = candidates_of("C1s", self.C1s, lambda values: values > 0, "positive")
        C2s = candidates_of("C2s", self.C2s, lambda values: values > 0, "positive")
        Ds = candidates_of(
            "Ds", self.Ds, lambda values: (values >= 0) & (values < 1), "at least 0 and below 1"
        )
        return [{"C1": C1, "C2": C2, "D": D} for D, C2, C1 in product(Ds, C2s[::-1], C1s[::-1])]
