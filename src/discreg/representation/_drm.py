"""The discriminative regression machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from discreg.base.callbacks import Task, with_callbacks
from discreg.base.components import (
    COMPONENT_CONSTRAINTS,
    components_of,
    fits_in_memory,
    is_exact,
    store_components,
    why_exact_kernel,
    why_no_kernel_in_parts,
)
from discreg.base.full_sets import TrainingLabels
from discreg.base.left_out import calibrate, leavable_rows
from discreg.base.partial_fit import PartialFitState
from discreg.blocks.kept_rows import KeptRows, keep_rows
from discreg.blocks.moments import class_scatters
from discreg.blocks.source import (
    ArrayBlocks,
    Block,
    BlockLayout,
    BlockSource,
    open_blocks,
)
from discreg.blocks.validation import (
    CLASS_WEIGHT,
    KERNEL_CONSTRAINTS,
    Boolean,
    Choice,
    Number,
    encode_labels,
    in_blocks,
    is_out_of_core,
    number_of_rows,
    row_weights,
    sample_weights,
    training_rows,
)
from discreg.linalg.resources import small_fits_in_one_thread
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, ClassWeight, KernelParams, MatrixLike

from ._base import RepresentationClassifier
from ._blocks import scatter_solver, solve_blocks
from ._held_out import left_out, scatter_left_out
from ._penalties import NAMES, Penalty
from ._problem import Groups, training_samples
from ._rejection import check_rejection
from ._scatter import LossOfPrecisionError
from ._solvers import (
    DRMSettings,
    IterativeSolver,
    ScatterSolver,
    choose_solver,
    make_solver,
    without_scatters,
)

__all__ = ["DRMClassifier"]


class DRMClassifier(RepresentationClassifier):
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
    unknown_label : int, float, str, datetime or timedelta, default=None
        The unknown label. It has the type of the labels and is not one of them. None means the
        first of -1, -2, ... that is not a label ("unknown", "unknown_2", ... if labels are
        strings, NaT if they are times).
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
        next two attributes are only set with ``probability=True``.
    loo_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples, each from the model without the sample. Only set
        if all samples were held out: at most 2,000 rows in memory (300 with penalties other than
        ridge), with more than one in each class.
    loo_is_exact_ : bool
        Whether held-out scores equal those of refits without the sample. With penalties other than
        ridge they are those of five folds.
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
            test=lambda value: isinstance(value, str | int | float | np.generic | date | timedelta),
            described="a label",
        ),
        "tol": Number(0, closed="left"),
        "max_iter": Choice((None,), others=(Number(1, closed="left", integer=True),)),
    }
    _statistics_depend_on = ("alpha", "beta", "class_weight")

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
        self._fit(X, y, sample_weight)
        task.iterated(self.n_iter_)
        task.end()
        return self

    def _fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Fit the model with checked parameters."""
        penalty = Penalty.of(self.penalty)
        self._forget_fit()
        self._forget_parts()
        random = check_random_state(self.random_state)
        if in_blocks(self, X):
            n_components = components_of(self, number_of_rows(X))
            source = open_blocks(self, X, y, sample_weight, self.class_weight)
            self._fit_source(source, random, n_components, out_of_core=is_out_of_core(X))
            return
        rows, labels = training_rows(self, X, y)
        n_components = components_of(self, rows.shape[0])
        small = n_components is None or fits_in_memory(rows.shape[0], n_components)
        if not small and self._why_in_memory(None) is None:
            source = ArrayBlocks(rows, labels, sample_weight, self.class_weight)
            self._fit_source(source, random, n_components, out_of_core=False)
            return
        classes, indices = encode_labels(labels)
        weights = row_weights(sample_weight, self.class_weight, classes, indices)
        check_rejection(self, classes)
        groups = Groups.of(indices, weights, len(classes))
        training = training_samples(self, rows, groups, weights, n_components, random)
        settings = DRMSettings.of(self, penalty, backtracking=self.backtracking)
        name = choose_solver(self, training, penalty)
        try:
            solver = make_solver(name, training, settings)
        except LossOfPrecisionError:
            if self.solver != "auto":
                raise
            name = "closed"
            solver = make_solver(name, training, settings)
        self.classes_, self.solver_ = classes, name
        self._dtype, self._n_training = rows.dtype, rows.shape[0]
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
        self._solver = without_scatters(solver)
        if self.probability:
            copies = sample_weights(sample_weight, len(indices))
            factors = groups.totals / class_sums(indices, copies, len(classes))
            hashed = not training.is_precomputed
            kept = keep_rows(rows, indices, copies, factors, hashed=hashed)
            kept = leavable_rows(kept, groups.totals, classes)
            units = (weights / np.maximum(copies, 1.0))[groups.order]
            # "auto" may change from features to the kernel form to keep precision.
            name = self.solver if name == "scatter" else name
            kept, found = left_out(solver, name, training, settings, kept, units)
            calibrate(
                self,
                kept,
                found,
                seen=weights > 0,
                scores_of=lambda unseen: -solver.residuals(rows[unseen]),
            )
            if penalty.is_ridge and training.features is None and not training.is_precomputed:
                self._labels = TrainingLabels(groups.y, groups.weights, units, factors, self.beta)

    def _fit_source(
        self,
        source: BlockSource,
        random: np.random.RandomState,
        n_components: int | None,
        *,
        out_of_core: bool,
    ) -> None:
        """Fit the model to rows in blocks."""
        check_rejection(self, source.layout.classes)
        solver, kept = solve_blocks(self, source, random, n_components, out_of_core=out_of_core)
        self._store_scatter(solver, source.layout, source.weights, kept, warn=True)

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_solver")

    def _why_in_memory(self, n_rows: int | None) -> str | None:
        """Explain why the rows must be in memory and what to use instead; None if they need not."""
        if not Penalty.of(self.penalty).is_ridge:
            return f"penalty={self.penalty!r} needs the rows in memory. Use penalty='ridge'."
        if self.solver not in ("auto", "scatter"):
            return f"solver={self.solver!r} needs the rows in memory. Use solver='scatter'."
        return why_exact_kernel(self, n_rows)

    def _why_no_partial_fit(self) -> str | None:
        return self._why_in_memory(None) or why_no_kernel_in_parts(self)

    @np.errstate(over="ignore", invalid="ignore")  # a fit to the scatters fails if they overflow
    def _statistics(self, block: Block, n_classes: int) -> Array:
        return class_scatters(block, n_classes, float(self.alpha), float(self.beta))

    def _fit_state(self, state: PartialFitState) -> None:
        check_rejection(self, state.layout.classes)
        factors = state.class_factors(self.class_weight)
        scatters = factors[:, None, None] * state.statistics
        totals = factors * state.sizes
        solver = scatter_solver(self, scatters, totals, state.features)
        kept = state.kept_rows(self.class_weight) if self.probability else None
        self._forget_fit()  # only now: if the lines above fail, the old model stays
        self._store_scatter(solver, state.layout, totals, kept, warn=False)

    def _forget_fit(self) -> None:
        super()._forget_fit()
        self.__dict__.pop("_solver", None)

    def _store_scatter(
        self,
        solver: ScatterSolver,
        layout: BlockLayout,
        totals: Array,
        kept: KeptRows | None,
        *,
        warn: bool,
    ) -> None:
        """Set the attributes of a fit that keeps no rows; `warn` of classes of one sample."""
        self._solver = without_scatters(solver)
        self.classes_ = layout.classes
        self.solver_, self.n_iter_ = "scatter", 1
        features = self._solver.training.features
        if features is not None:
            store_components(self, features)
        self._dtype = layout.dtype
        if kept is not None:
            kept = leavable_rows(kept, totals, layout.classes, warn=warn)
            with np.errstate(all="ignore"):  # scores that are not finite are not used
                found = scatter_left_out(solver.form, totals, kept)
            calibrate(self, kept, found, warn=warn)
