"""The discriminative regression machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreg.base.calibration import one_column_if_binary
from discreg.base.caller import Task, with_callbacks
from discreg.base.classifier import BaseClassifier, mapped_kept
from discreg.base.held_out import calibrate_in_closed_form, calibrate_on_rows
from discreg.base.partial_fit import PartialFitState
from discreg.base.validation import (
    CLASS_WEIGHT,
    COMPONENT_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    Boolean,
    Choice,
    LabelledRows,
    Number,
    fit_map,
    fit_map_to_blocks,
    is_exact,
    lazily,
    new_rows,
    reason_no_partial_fit,
    store_components,
    training_data,
    why_exact_kernel,
)
from discreg.blocks.kept_rows import KeptRows, keep_rows, reduce_and_keep
from discreg.blocks.mapped import MappedBlocks
from discreg.blocks.moments import class_scatters
from discreg.blocks.source import (
    Block,
    BlockSource,
)
from discreg.linalg.fitted_kernel import LINEAR, FittedKernel
from discreg.linalg.kernel_approximation import mapped_rows
from discreg.linalg.resources import require_memory, small_fits_in_one_thread
from discreg.linalg.types import (
    Array,
    ClassWeight,
    Indices,
    KernelParams,
    Labels,
    MatrixLike,
    RealArray,
)

from ._closed import LossOfPrecisionError, scatter_residuals_without
from ._iterative import Iterations
from ._problem import NAMES, Groups, Penalty, TrainingSamples, require_squares
from ._solvers import (
    IterativeSolver,
    LeaveOneOut,
    ScatterSolver,
    Settings,
    Solver,
    fit_solver,
    require_scatter_memory,
)

# Kinds of labels: the name and the kinds of an unknown label beside them.
LABELS = {**dict.fromkeys("iub", ("an integer", "iu")), "f": ("a number", "iuf")}


class DRMClassifier(BaseClassifier):
    r"""Discriminative regression machine: represent a sample by the training samples.

    The representation of a sample x solves equation (9),

    .. math:: \min_w \tfrac12 w^\top (K + \alpha H - \alpha B) w - K_x^\top w
              + \beta\, \rho(\|w\|_{q,r}),

    with the kernel matrix K of the training samples, its diagonal H and its class blocks
    :math:`B_i = K_i / n_i`, so that :math:`w^\top (H - B) w` is the scatter of the weighted samples
    within their classes. With the default penalty :math:`\tfrac12\|w\|^2` the solution is (14),
    :math:`(K + \alpha H - \alpha B + \beta I)^{-1} K_x`. The predicted class has the smallest
    residual, (11) and (12): :math:`\delta_i` is the squared distance of x from the contribution of
    class i, plus the squared norm of the contribution of all other classes.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the within-class scatter, at least 0.
    beta : float, default=0.01
        Weight of the penalty on the representation, positive. It has the units of the kernel:
        k(x, x) is 1 for the RBF kernel and the squared norm for the linear kernel.
    kernel : str or callable, default="rbf"
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two rows. It must be positive semi-definite; negative eigenvalues down to -1e-5 times the
        Frobenius norm of the kernel matrix are rounding errors and count as zero.
    gamma : float, "scale", "auto" or None, default="scale"
        Parameter of the kernels "rbf", "poly", "sigmoid", "laplacian" and "chi2", as in
        :class:`sklearn.svm.SVC`.
    degree, coef0 : float, default=3 and 1
        Parameters of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    penalty : str or tuple, default="ridge"
        "ridge", "lasso", "group_lasso", "exclusive_lasso", or a triple (q, r, rho) for
        :math:`\rho(\|w\|_{q,r})`, the r-norm over the classes of the q-norms within the classes:
        q and r are 1, 2 or `numpy.inf`, and rho is "identity" or "half_square".
    solver : str, default="auto"
        "closed" is Algorithm 2: one Cholesky factorisation. "gd", "ppa" and "apg" are Algorithms
        3, 4 and 6, matrix-free as in Algorithm 5 with the linear kernel; they iterate for each
        batch of new samples, from w = 0. With c a bound of the largest eigenvalue of
        :math:`K + \alpha H - \alpha B` by Lanczos' method, the step size of "ppa" and "apg" is
        1 / (c + beta); "gd" searches the line exactly, (16). "scatter" is the exact linear form in
        the features, with a prediction time that does not depend on the number of training samples.
        "auto" is "scatter" for a linear or approximated kernel with few features, otherwise
        "closed"; for penalties other than ridge it is "apg".
    n_components : int, "auto" or None, default="auto"
        Number of components that approximate the kernel, for many samples; None means the exact
        kernel. "auto" is exact for at most 10,000 rows in memory, and otherwise 1,000 components
        with a warning. Ignored with the linear kernel.
    approximation : {"nystroem", "random_features"}, default="nystroem"
        "nystroem" is the Nyström method, on training rows drawn at random. "random_features" are
        an even number of random Fourier features, for the kernels "rbf" and "laplacian".
    backtracking : bool, default=False
        Whether "apg" finds its step size by backtracking, (25): 1 / (beta + c / 1000) at first,
        and halved for a sample until (25) holds. Requires ``solver="apg"`` and
        ``penalty="ridge"``.
    class_weight : dict, "balanced" or None, default=None
        Class weights, which multiply the sample weights.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.
    reject_above : float, default=None
        Predict the unknown label if the smallest relative residual exceeds this number. The
        relative residual is :math:`(\delta_i + k(x, x)) / k(x, x)`: 0 for a sample that its class
        represents exactly, 1 for a sample unlike any training sample. Values from 0.5 to 1 are
        sensible.
    unknown_label : int, float or str, default=None
        The unknown label. It has the type of the labels and is not one of them. None means the
        first of -1, -2, ... that is not a label ("unknown", "unknown_2", ... if labels are
        strings).
    tol : float, default=1e-5
        Tolerance of "gd", "ppa" and "apg": for the change of a representation, as in the paper, or
        for the relative duality gap with a penalty other than ridge.
    max_iter : int, default=None
        Maximum number of iterations. None means 150 for ridge, as in the paper, and 5000 for the
        other penalties, which need up to some thousands to reach `tol`.
    random_state : int, RandomState instance or None, default=None
        Seed of the components.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    X_fit_ : {ndarray, sparse matrix} of shape (n_fit, n_features)
        Training samples of positive weight, sorted by class; not set for "precomputed", nor after
        `partial_fit` or a fit block by block.
    fit_order_ : ndarray of shape (n_fit,)
        Indices of `X_fit_` in the training data; not set after `partial_fit` or a fit block by
        block.
    solver_ : str
        The solver that is used.
    n_iter_ : int
        Number of iterations for the training sample with the largest norm; 1 for solvers that do
        not iterate.
    objective_history_, gap_ : ndarray and float
        Objective at each of these iterations, and the final bound of (objective − minimum) relative
        to k(x, x) / 2; for iterative solvers.
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
    DRMClassifierCV : Selects alpha, beta and kernel parameters by exact leave-one-out.

    References
    ----------
    C. Peng and Q. Cheng, "Discriminative Regression Machine: A Classifier for High-Dimensional
    Data or Imbalanced Data".

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import DRMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = DRMClassifier().fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.98
    True
    >>> model.predict_proba(scale(X)).shape, model.representation(scale(X)).shape
    ((178, 3), (178, 178))
    """

    _constraints = {
        "alpha": Number(0, closed="left"),
        "beta": Number(0, closed="neither"),
        **KERNEL_CONSTRAINTS,
        "penalty": Choice(
            tuple(NAMES), test=lambda value: isinstance(value, tuple | list), described="a triple"
        ),
        "solver": Choice(("auto", "closed", "scatter", "gd", "ppa", "apg")),
        **COMPONENT_CONSTRAINTS,
        "backtracking": Boolean(),
        "class_weight": CLASS_WEIGHT,
        "probability": Boolean(),
        "reject_above": Choice((None,), others=(Number(0, closed="left"),)),
        "unknown_label": Choice(
            (None,),
            test=lambda value: isinstance(value, str | int | float | np.generic),
            described="a label",
        ),
        "tol": Number(0, closed="left"),
        "max_iter": Choice((None,), others=(Number(1, closed="left", integer=True),)),
    }
    _statistics_depend_on = ("alpha", "beta", "class_weight")
    solver_: str
    fit_order_: Indices
    _solver: Solver
    _dtype: np.dtype[Any]
    _n_training: int

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 0.01,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        penalty: str | tuple[float, float, str] = "ridge",
        solver: str = "auto",
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        backtracking: bool = False,
        class_weight: ClassWeight = None,
        probability: bool = True,
        reject_above: float | None = None,
        unknown_label: object = None,
        tol: float = 1e-5,
        max_iter: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.penalty = penalty
        self.solver = solver
        self.n_components = n_components
        self.approximation = approximation
        self.backtracking = backtracking
        self.class_weight = class_weight
        self.probability = probability
        self.reject_above = reject_above
        self.unknown_label = unknown_label
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @with_callbacks
    @small_fits_in_one_thread
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # the results are checked
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> DRMClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix. With the linear
            kernel or `n_components`, memory maps and Dask collections are fitted block by block.
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
        self._forget_fit()
        self._forget_parts()
        rows, n_components = training_data(self, X, y, sample_weight)
        if isinstance(rows, LabelledRows):
            self._fit_rows(rows, n_components)
        else:
            self._fit_source(rows, n_components)
        task.end()
        return self

    def _fit_rows(self, rows: LabelledRows, n_components: int | None) -> None:
        """Fit the model to checked rows in memory."""
        X, y, classes = rows.X, rows.y, rows.classes
        self._check_rejection(classes)
        groups = Groups.of(y, rows.weights, len(classes))
        training = self._prepare(X, groups, rows.weights, n_components)
        settings = self._settings()
        self.solver_, solver = fit_solver(training, settings)
        self.classes_ = classes
        self._dtype, self._n_training = X.dtype, X.shape[0]
        self.fit_order_ = groups.order
        if not training.is_precomputed:
            self.X_fit_ = training.rows
        if training.features is not None:
            store_components(self, training.features)
        self.n_iter_ = 1
        if isinstance(solver, IterativeSolver):
            outcome = solver.largest_sample()
            self.n_iter_ = max(1, int(outcome.n_iter[0]))
            self.objective_history_ = outcome.objective_history[:, 0]
            self.gap_ = float(outcome.gap[0])
        self._solver, form = solver, None
        if isinstance(solver, ScatterSolver):
            self._solver, form = solver.without_scatters(), solver.form
        if not self.probability:
            return
        sizes, places = rows.sizes, np.zeros(len(y), dtype=np.intp)
        places[groups.order] = np.arange(len(groups.order))

        left_out = LeaveOneOut(training)

        def scores_without(kept: KeptRows) -> Array:
            given = places[kept.places], kept.weights * (groups.totals / sizes)[kept.y]
            try:
                return -left_out.residuals(settings, *given, form)
            except LossOfPrecisionError:
                return np.full((len(kept), len(classes)), np.nan)

        judged = settings.penalty.is_ridge and calibrate_in_closed_form(
            self,
            keep_rows(X, rows.keys, y, rows.sample_weights),
            sizes,
            scores_without,
            lambda unseen: -solver.residuals(X[unseen]),
        )
        if not judged:
            calibrate_on_rows(self, rows)

    def _settings(self) -> Settings:
        return Settings(
            float(self.alpha),
            float(self.beta),
            Penalty.of(self.penalty),
            self.solver,
            self.tol,
            self.max_iter,
            self.backtracking,
        )

    def _prepare(
        self, X: Any, groups: Groups, weights: Array, n_components: int | None
    ) -> TrainingSamples:
        """Sort the training rows by class and map them if the kernel has components."""
        if n_components is None:
            kernel = FittedKernel.of(self, X, weights)
            require_squares(X, kernel)
            if kernel.kernel == "precomputed":
                return TrainingSamples(X, None, groups, kernel, None, kernel)
            rows = X[groups.order]
            return TrainingSamples(rows, rows, groups, kernel, None, kernel)
        require_memory(
            8 * n_components * (X.shape[0] + 2 * n_components),
            f"{n_components:,} components of {X.shape[0]:,} samples",
            "Use fewer n_components.",
        )
        features = fit_map(self, X, weights, n_components)
        require_squares(X, features.kernel)
        rows = X[groups.order]
        mapped = mapped_rows(features, rows)
        return TrainingSamples(mapped, rows, groups, LINEAR, features, features.kernel)

    def _fit_source(self, source: BlockSource, n_components: int | None) -> None:
        """Fit the scatter form to rows in blocks; keep rows to hold out for probabilities."""
        layout = source.layout
        sizes, totals = source.sizes, source.weights
        self._check_rejection(layout.classes)
        features, kept = None, None
        if n_components is not None:
            features = fit_map_to_blocks(self, source, n_components)
            if self.probability:  # drawn by the values of the rows themselves
                kept = mapped_kept(source, features)
            source = MappedBlocks(source, features)
        n_classes, n_features = source.n_classes, source.n_features
        require_scatter_memory(n_classes, n_features)
        keep, settings = self.probability and features is None, self._settings()
        scatters, drawn = reduce_and_keep(
            source, keep, class_scatters, n_classes, settings.alpha, settings.beta
        )
        kept = drawn if keep else kept
        solver = ScatterSolver.from_scatters(scatters, totals, settings, features)
        self._store_scatter(solver, layout, kept, sizes, totals, warn=True)

    def _check_rejection(self, classes: NDArray[Any]) -> None:
        """Raise ValueError if samples cannot be rejected as the parameters ask."""
        if self.reject_above is None:
            return
        if self.kernel == "precomputed":
            raise ValueError(
                "reject_above needs k(x, x) of new samples, which a precomputed kernel matrix does "
                "not contain. Use reject_above=None or another kernel."
            )
        unknown_label(self.unknown_label, classes)

    def _check_params(self) -> None:
        super()._check_params()
        if not Penalty.of(self.penalty).is_ridge and self.solver not in ("auto", "apg"):
            raise ValueError(
                f"solver={self.solver!r} requires penalty='ridge'; other penalties are solved by "
                "accelerated proximal gradient. Use solver='auto' or 'apg'."
            )
        if self.backtracking and not (self.solver == "apg" and Penalty.of(self.penalty).is_ridge):
            raise ValueError(
                f"backtracking=True requires solver='apg' and penalty='ridge', got "
                f"solver={self.solver!r} and penalty={self.penalty!r}. Other step sizes need no "
                "backtracking: use backtracking=False."
            )
        if self.solver == "scatter" and is_exact(self):
            raise ValueError(
                "solver='scatter' requires a linear kernel. Use kernel='linear', or set "
                "n_components to a number of components that approximate the kernel."
            )

    def _why_in_memory(self, n_rows: int | None) -> str | None:
        """Explain why the rows must be in memory and what to use instead; None if they need not."""
        if not Penalty.of(self.penalty).is_ridge:
            return f"penalty={self.penalty!r} needs the rows in memory. Use penalty='ridge'."
        if self.solver not in ("auto", "scatter"):
            return f"solver={self.solver!r} needs the rows in memory. Use solver='scatter'."
        return why_exact_kernel(self, n_rows)

    def _why_no_partial_fit(self) -> str | None:
        return self._why_in_memory(None) or reason_no_partial_fit(self)

    @np.errstate(over="ignore", invalid="ignore")  # a fit to the scatters fails if they overflow
    def _statistics(self, block: Block, n_classes: int) -> Array:
        return class_scatters(block, n_classes, float(self.alpha), float(self.beta))

    def _fit_state(self, state: PartialFitState) -> None:
        self._check_rejection(state.layout.classes)
        factors = state.class_factors(self.class_weight)
        scatters = factors[:, None, None] * state.statistics
        totals = factors * state.sizes
        solver = ScatterSolver.from_scatters(scatters, totals, self._settings(), state.features)
        kept = state.kept if self.probability else None
        self._forget_fit()  # only now: if the lines above fail, the old model stays
        self._store_scatter(solver, state.layout, kept, state.sizes, totals, warn=False)

    def _store_scatter(
        self,
        solver: ScatterSolver,
        layout: Any,
        kept: KeptRows | None,
        sizes: Array,
        totals: Array,
        *,
        warn: bool,
    ) -> None:
        """Set the attributes of a fit that keeps no rows; `warn` of classes of one row.

        `totals` are the sums of the weights of the classes, `sizes` those without class weights.
        """
        self._solver = solver.without_scatters()
        self.classes_ = layout.classes
        self.solver_, self.n_iter_ = "scatter", 1
        features = self._solver.training.features
        if features is not None:
            store_components(self, features)
        self._dtype = layout.dtype
        if kept is None:
            return

        def scores_without(kept: KeptRows) -> Array:
            leaving = kept.weights * (totals / sizes)[kept.y]
            try:
                return -scatter_residuals_without(solver.form, totals, kept.X, kept.y, leaving)
            except LossOfPrecisionError:
                return np.full((len(kept), len(totals)), np.nan)

        calibrate_in_closed_form(self, kept, sizes, scores_without, warn=warn)

    @lazily
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the negative residuals −δ of (11).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; with ``kernel="precomputed"`` the kernel matrix between these and the training
            samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class; for two classes, the score of the second minus that of the first.
        """
        delta = self._residuals(self._rows(X))
        if len(self.classes_) > 2:
            return -_rounded(delta, self._dtype)
        with np.errstate(over="ignore"):
            exact = one_column_if_binary(-delta)
            scores = exact.astype(self._dtype)
        require_finite(scores)
        # Rounding leaves the sign, so that predict agrees.
        scores[(exact > 0) & (scores == 0)] = np.finfo(self._dtype).smallest_subnormal
        return scores

    @lazily
    def class_residuals(self, X: MatrixLike) -> RealArray:
        """Compute the residuals δ of (11); the smallest is that of the predicted class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        residuals : ndarray of shape (n_samples, n_classes)
            Residuals without the term k(x, x), which is the same for all classes.
        """
        return _rounded(self._residuals(self._rows(X)), self._dtype)

    @lazily
    def predict(self, X: MatrixLike) -> Labels:
        """Predict the class with the smallest residual, equation (12).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        rows = self._rows(X)
        delta = self._residuals(rows)
        labels = self.classes_[delta.argmin(axis=1)]
        if self.reject_above is None:
            return np.asarray(labels)
        with np.errstate(over="ignore"):
            norms = self._solver.training.source_kernel.diagonal(rows)  # exact k(x, x)
            smallest = delta.min(axis=1) + norms
            rejected = smallest > self.reject_above * norms
        return np.where(rejected, self._label_of_rejected(), labels)

    def _label_of_rejected(self) -> NDArray[Any]:
        return unknown_label(self.unknown_label, self.classes_)

    def representation(self, X: MatrixLike) -> RealArray:
        """Compute the coefficients w* of the training samples that represent each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        weights : ndarray of shape (n_samples, n_training_samples)
            One column per training sample. The coefficient of a sample of weight k is the sum of
            the coefficients of k repeated samples.
        """
        rows = self._rows(X)
        if not hasattr(self, "fit_order_"):
            raise ValueError(
                "A representation needs the training rows, which partial_fit and fits to Dask "
                "collections or memory maps do not keep. Fit to rows in memory."
            )
        weights = np.zeros((rows.shape[0], self._n_training), dtype=self._dtype)
        with overflow_is_checked():
            weights[:, self.fit_order_] = self._solver.represent(rows)
        require_finite(weights)
        return weights

    def convergence(self, X: ArrayLike) -> Iterations:
        """Run the iterative solver and record its convergence: Figures 3 and 4 of the paper.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        iterations : Iterations
            `objective_history` has one row per iteration and one column per sample; `n_iter`,
            `converged` and `gap` have one entry per sample.
        """
        rows = self._rows(X)
        if not isinstance(self._solver, IterativeSolver):
            raise ValueError(
                f"solver={self.solver_!r} does not iterate. Use solver='gd', 'ppa' or 'apg'."
            )
        training = self._solver.training
        with overflow_is_checked():
            points = training.points(rows)
            outcome = self._solver.run(training.cross(points), training.self_kernel(points))
        require_finite(outcome.coef)
        return outcome

    def _rows(self, X: ArrayLike) -> Any:
        """Check new samples."""
        rows = new_rows(self, X)
        require_squares(rows, self._solver.training.source_kernel)
        return rows

    def _residuals(self, rows: Any) -> Array:
        """Compute δ of checked samples."""
        with overflow_is_checked():
            delta = self._solver.residuals(rows)
        require_finite(delta)
        return delta


def overflow_is_checked() -> np.errstate:
    """Silence NumPy where the results are checked by `require_finite`."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def require_finite(values: RealArray) -> None:
    if not np.all(np.isfinite(values)):
        raise ValueError(
            "The residuals of these samples overflow. Scale the features as in training, for "
            "example with sklearn.preprocessing.StandardScaler."
        )


def _rounded(delta: Array, dtype: np.dtype[Any]) -> RealArray:
    """Round residuals to the dtype of the samples; the smallest of a row stays the smallest."""
    with np.errstate(over="ignore"):
        rounded = delta.astype(dtype)
    require_finite(rounded)
    smallest = delta.argmin(axis=1)
    tied = np.flatnonzero(rounded.argmin(axis=1) != smallest)
    below = np.nextafter(rounded[tied].min(axis=1), -np.inf, dtype=dtype)
    rounded[tied, smallest[tied]] = below
    return rounded


def unknown_label(given: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the label of rejected samples, in a dtype that also holds the labels in y."""
    kind, labels = classes.dtype.kind, set(classes.tolist())
    if kind in "mM":
        raise ValueError(
            f"reject_above needs labels that are numbers or strings, got {classes.dtype}. Fit with "
            "y.astype(str)."
        )
    what, kinds = LABELS.get(kind, ("a string", "U"))
    label = given
    if given is None:
        texts = (f"unknown_{number}" if number > 1 else "unknown" for number in count(1))
        is_large = kind == "u" and classes.max() > np.iinfo(np.int64).max
        numbers = count() if is_large else count(-1, -1)
        label = next(each for each in (numbers if kind in LABELS else texts) if each not in labels)
    elif kinds == "iu" and isinstance(given, float | np.floating) and given.is_integer():
        label = int(given)
    found = np.array(label)
    if found.dtype.kind in kinds and found.tolist() not in labels:
        smallest = np.min_scalar_type(label) if found.dtype.kind in "iu" else found.dtype
        dtype = np.promote_types(classes.dtype, smallest)
        if np.array_equal(classes.astype(dtype).astype(classes.dtype), classes):
            return found.astype(dtype)
    raise ValueError(
        f"unknown_label must be {what} of the type of the labels in y ({classes.dtype}), and must "
        f"not be one of them; got {given!r}."
    )
