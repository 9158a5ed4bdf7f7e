"""Base classes of ODM and LDM and of their searches: validation, two-class problems, scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot

from discreg.base.calibration import class_columns
from discreg.base.caller import Task, warn_of_convergence, with_callbacks
from discreg.base.classifier import BaseClassifier, finite_scores
from discreg.base.held_out import calibrate_on_blocks, calibrate_on_rows
from discreg.base.search import ClassifierSearch
from discreg.base.trials import HeldOut, Setting
from discreg.base.validation import (
    CLASS_WEIGHT,
    COMPONENT_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    Boolean,
    Choice,
    LabelledRows,
    Number,
    components_of,
    fit_map,
    fit_map_to_blocks,
    in_blocks,
    in_memory_if_small,
    is_exact,
    lazily,
    new_rows,
    store_components,
    training_rows,
)
from discreg.blocks.mapped import MappedBlocks
from discreg.blocks.source import BlockSource, number_of_rows
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import FeatureMap, mapped_rows
from discreg.linalg.resources import require_memory, small_fits_in_one_thread
from discreg.linalg.rows import matmul, require_squares
from discreg.linalg.types import Array, ClassWeight, Indices, MatrixLike, RealArray

from ._dual import SolverOptions
from ._losses import MarginLoss
from ._problem import BinaryFit, BinaryProblem, MarginSamples, MarginStatistics

OF_FEATURES = ("newton", "svrg")  # solvers that start from coefficients of the features
LARGE_GAP = 1e-6  # with tol=0, a larger gap due to rounding gives a warning
# Up to this size the active set method is about as fast as coordinate descent, and it needs no
# compilation.
FEW_SAMPLES = 300
LOOSER = 30.0  # factor of `tol` in a search, which hardly changes the labels
OF_OBJECTIVE = 1e-10  # relative rounding error of an objective


@dataclass(frozen=True)
class MarginData:
    """Validated training data, shared by all penalties of a path."""

    X: Any  # mapped to components if these approximate the kernel
    indices: Indices
    classes: NDArray[Any]
    seen: Indices  # samples of positive weight
    dtype: np.dtype[Any]
    training: MarginSamples
    signs: list[Array]  # labels ±1 of each two-class problem
    positives: list[Any]  # their positive classes
    features: FeatureMap | None  # components that approximate the kernel
    raw: LabelledRows  # before they are mapped


class MarginClassifier(BaseClassifier):
    """Base class of ODM and LDM: one problem per class against the rest, on one kernel matrix."""

    _constraints: dict[str, Any] = {
        "fit_intercept": Boolean(),
        "class_weight": CLASS_WEIGHT,
        "probability": Boolean(),
        "svrg_step": Number(0, 1, closed="right"),
        "warm_start": Boolean(),
        "tol": Number(0, closed="left"),
        "max_iter": Number(1, closed="left", integer=True),
        "n_jobs": Choice((None,), others=(Number(integer=True),)),
        **KERNEL_CONSTRAINTS,
        **COMPONENT_CONSTRAINTS,
    }

    kernel: str | Callable[..., float]
    n_components: int | str | None
    approximation: str
    fit_intercept: bool
    class_weight: ClassWeight
    solver: str
    svrg_step: float
    warm_start: bool
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: Any

    _features: FeatureMap | None = None  # components that approximate the kernel

    @abstractmethod
    def _loss(self) -> MarginLoss:
        """Create the loss of the model."""

    @abstractmethod
    def _solve(self, problem: BinaryProblem) -> BinaryFit:
        """Fit one two-class problem."""

    def _default_solver(self, training: MarginSamples) -> str:
        """Return the solver that "auto" selects."""
        few = training.n_samples <= FEW_SAMPLES
        return "active_set" if training.kernel is not None and few else "dcd"

    def _why_in_memory(self, n_rows: int | None) -> str | None:
        """Return the reason why the model needs rows in memory, or None if it does not."""
        return (
            f"{type(self).__name__} needs the rows in memory. On Dask use "
            "ODMClassifier with kernel='linear' or n_components."
        )

    def _open_blocks(self, X: Any, y: Any, sample_weight: Any) -> BlockSource | None:
        """Open rows that are fitted in blocks; return None if they are fitted in memory."""
        in_blocks(self, X)  # raises on Dask collections
        return None

    def _fit_source(self, source: BlockSource, dtype: Any = None) -> list[BinaryFit]:
        """Fit a linear model to rows in blocks; store it in their dtype, or in another one."""
        raise ValueError(self._why_in_memory(None))

    @with_callbacks
    @small_fits_in_one_thread
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MarginClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix. Linear ODM also
            accepts Dask collections.
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
        source = self._open_blocks(X, y, sample_weight)
        if source is None:
            data = self._prepare(X, y, sample_weight)
            fits = self._fit_data(data)
            raw = data.raw
            del data  # and its kernel matrix
            if self.probability:
                calibrate_on_rows(self, raw)
        else:
            fits = self._fit_blocks(source, number_of_rows(X))
            if self.probability:
                calibrate_on_blocks(self, source)
        self._warn(fits)
        task.end()
        return self

    def _fit_blocks(self, source: BlockSource, n_rows: int | None = None) -> list[BinaryFit]:
        """Fit the model to rows in blocks, mapped if the kernel has components."""
        n_components = components_of(self, n_rows)
        if n_components is None:
            return self._fit_source(source)
        features = fit_map_to_blocks(self, source, n_components)
        mapped = in_memory_if_small(MappedBlocks(source, features))
        fits = self._fit_source(mapped, source.dtype)
        self._store_features(features)
        return fits

    def _fit_data(self, data: MarginData) -> list[BinaryFit]:
        """Fit the model to rows in memory."""
        fits = self._fit_all(data, self._starts(data), exact=True)
        self._store(fits, data.classes, data.dtype)
        if data.features is None:
            self._store_samples(data, fits)
        else:
            self._store_features(data.features)
        if self.warm_start:
            self._previous = (self._warm_key(data), [fit.warm for fit in fits])
        return fits

    def _check_params(self) -> None:
        super()._check_params()
        check_random_state(self.random_state)
        if is_exact(self) and self.solver in OF_FEATURES:
            raise ValueError(
                f"solver={self.solver!r} needs kernel='linear' or a number of n_components. With "
                f"kernel={self.kernel!r} use solver='auto', 'active_set' or 'dcd'."
            )

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> MarginData:
        """Validate the data and compute everything that does not depend on the penalties."""
        raw = LabelledRows.of(self, *training_rows(self, X, y), sample_weight)
        rows, indices, classes, weights = raw.X, raw.y, raw.classes, raw.weights
        seen = np.flatnonzero(weights > 0)
        positives = [1] if len(classes) == 2 else list(range(len(classes)))
        dtype, features = rows.dtype, None
        n_components = components_of(self, rows.shape[0])
        if n_components is not None:
            require_memory(
                8 * n_components * rows.shape[0],
                f"{n_components:,} components of {rows.shape[0]:,} samples",
                "Use fewer n_components.",
            )
            features = fit_map(self, rows, weights, n_components)
            rows = mapped_rows(features, rows)
        training = self._training(rows, weights, seen, features is not None)
        if training.kernel is not None:
            _ = training.gram  # computed and checked here, not in a thread
        self.solver_ = self._default_solver(training) if self.solver == "auto" else self.solver
        signs = [np.where(indices[seen] == k, 1.0, -1.0) for k in positives]
        labels_of_positives = classes[positives].tolist()
        return MarginData(
            rows,
            indices,
            classes,
            seen,
            dtype,
            training,
            signs,
            labels_of_positives,
            features,
            raw,
        )

    def _training(self, X: Any, weights: Array, seen: Indices, is_mapped: bool) -> MarginSamples:
        """Create the samples of positive weight with their kernel."""
        linear = is_mapped or self.kernel == "linear"
        kernel = None if linear else FittedKernel.of(self, X, weights)
        if kernel is None:
            require_squares(X)
        if len(seen) < len(weights):
            if kernel is not None and kernel.kernel == "precomputed" and X.shape[0] == X.shape[1]:
                X = X[:, seen]
            X = X[seen]
        return MarginSamples(
            X,
            weights[seen],
            kernel,
            centred=self.fit_intercept and (kernel is None or not kernel.is_bounded),
        )

    def _fit_all(self, data: MarginData, starts: list[Any], *, exact: bool) -> list[BinaryFit]:
        """Fit all two-class problems, in `n_jobs` threads."""
        random = check_random_state(self.random_state)
        seeds = random.randint(np.iinfo(np.int32).max, size=len(data.signs)).tolist()
        problems = self._problems(data, starts, seeds, exact=exact)
        if len(problems) == 1:
            return [self._fit_one(problems[0], data.dtype)]
        in_threads = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(in_threads(delayed(self._fit_one)(each, data.dtype) for each in problems))

    def _problems(
        self, data: MarginData, starts: list[Any], seeds: list[int], *, exact: bool
    ) -> list[BinaryProblem]:
        """Create the two-class problems."""
        return [
            BinaryProblem(
                data.training,
                y,
                positive,
                self._loss(),
                self.fit_intercept,
                self.solver_,
                SolverOptions(self.tol, self.max_iter, seed, float(self.svrg_step)),
                exact,
                start,
            )
            for y, positive, seed, start in zip(
                data.signs, data.positives, seeds, starts, strict=True
            )
        ]

    def _fit_one(self, problem: BinaryProblem, dtype: np.dtype[Any]) -> BinaryFit:
        """Fit one two-class problem and raise if numbers overflow in the precision of X."""
        with np.errstate(all="ignore"):  # what matters is checked below
            fit = self._solve(problem)
        parts = [np.array(fit.intercept), fit.coef, fit.theta]
        largest = max(float(np.abs(part).max()) for part in parts if part is not None)
        numbers = [fit.objective, fit.gap, *fit.margins]
        limit = 0.1 * float(np.finfo(dtype).max)  # sums and scores are larger
        if not largest <= limit or not np.isfinite(numbers).all():
            raise ValueError(
                f"The fit of class {problem.positive!r} against the others overflows in {dtype}. "
                "Scale the features, for example with "
                "sklearn.preprocessing.StandardScaler, or use smaller penalties."
            )
        # Rounding errors of the variance, times a large λ1, can be more than a solver reports.
        if problem.exact and (dtype != np.float64 or problem.loss.lambda1 > 0):
            stored = problem.stored(fit, dtype)
            if dtype != np.float64 or stored.gap > fit.gap + OF_OBJECTIVE:
                return stored
        return fit

    def _warm_key(self, data: MarginData) -> Any:
        """Return a key; fits with equal keys can start from each other's solutions."""
        shape, classes = data.training.X.shape, data.classes.tolist()
        if self.solver_ in OF_FEATURES:
            shape = shape[1:]
        return self.solver_, self.kernel, self.fit_intercept, shape, classes

    def _starts(self, data: MarginData) -> list[Any]:
        """Return starting points: with `warm_start`, the previous fit if `_warm_key` is equal."""
        key, starts = vars(self).get("_previous", (None, []))
        if self.warm_start and key == self._warm_key(data):
            return list(starts)
        return [None] * len(data.signs)

    def _store(self, fits: list[BinaryFit], classes: NDArray[Any], dtype: Any) -> None:
        """Set the fitted attributes that do not refer to single samples."""
        others = [fit.solver for fit in fits if fit.solver not in (None, self.solver_)]
        solver = others[0] if others else self.solver_
        self._forget_fit()
        self.solver_ = solver
        self.classes_ = classes
        self._kernel: FittedKernel | None = None
        self._features = None
        if fits[0].coef is not None:
            # In column order, products with the samples take half the time.
            self.coef_ = np.array([fit.coef for fit in fits], dtype=dtype, order="F")
        self.intercept_ = np.array([fit.intercept for fit in fits]).astype(dtype)
        self.margins_ = MarginStatistics(
            *map(_number_if_one, zip(*(fit.margins for fit in fits), strict=True))
        )
        self.objective_ = _number_if_one([fit.objective for fit in fits])
        self.gap_ = max(fit.gap for fit in fits)
        self.n_iter_ = max(fit.n_iter for fit in fits)

    def _store_features(self, features: FeatureMap) -> None:
        """Set the components of an approximated kernel."""
        self._features = features
        store_components(self, features)

    def _store_samples(self, data: MarginData, fits: list[BinaryFit]) -> None:
        """Set the fitted attributes that refer to single samples."""
        thetas = np.array([fit.theta for fit in fits])
        used = np.flatnonzero(thetas.any(axis=0))
        self._kernel = data.training.kernel
        self.support_ = data.seen[used].astype(np.int32)
        self.n_support_ = np.bincount(
            data.indices[self.support_], minlength=len(data.classes)
        ).astype(np.int32)
        self.dual_coef_ = np.array(thetas[:, used], dtype=data.dtype, order="F")
        if self.kernel != "precomputed":
            self.support_vectors_ = data.X[self.support_]
        if not self.fit_intercept and all(fit.bound is not None for fit in fits):
            self.loo_error_bound_ = _number_if_one([fit.bound for fit in fits])

    def _warn(self, fits: list[BinaryFit]) -> None:
        """Warn if a fit missed `tol`, and say why."""
        missed = [
            fit
            for fit in fits
            if not fit.gap <= (self.tol or (np.inf if fit.limited else LARGE_GAP))
        ]
        if missed:
            advice = "Increase max_iter or tol, or scale the features."
            if not any(fit.limited for fit in missed):
                advice = (
                    "Rounding errors prevent a smaller gap. Scale the features, for example with "
                    "sklearn.preprocessing.StandardScaler, pass X in float64, use smaller "
                    "penalties, or increase tol."
                )
            elif self.solver_ == "svrg":
                advice = "Use solver='auto', increase max_iter or tol, or scale the features."
            warn_of_convergence(
                f"{type(self).__name__} stopped at a relative duality gap of {self.gap_:.2g} after "
                f"{self.n_iter_} iterations of solver={self.solver_!r}; tol is {self.tol:g}. "
                f"{advice}"
            )

    @lazily
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the decision values.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; with ``kernel="precomputed"`` the kernel between them and the training
            samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class; for two classes one value, positive for the second class.
        """
        rows = new_rows(self, X)
        with np.errstate(all="ignore"):
            scores = finite_scores(self._scores(rows))
        return np.asarray(scores.ravel() if scores.shape[1] == 1 else scores)

    def _scores_of_rows(self, X: Any) -> Array:
        """Compute the scores of rows that were checked, one column per class."""
        scores = self._scores(X)
        return np.asarray(class_columns(scores[:, 0] if scores.shape[1] == 1 else scores))

    def _scores(self, rows: Any) -> RealArray:
        """Compute one column of scores per two-class problem."""
        if self._features is not None:
            return self._features.scores(rows, self.coef_, self.intercept_)
        if self._kernel is None:
            scores = safe_sparse_dot(rows, self.coef_.T, dense_output=True) + self.intercept_
            return np.asarray(scores)
        if self._kernel.kernel == "precomputed":
            columns = rows[:, self.support_]
            return self._kernel.scores(columns, None, self.dual_coef_, self.intercept_)
        return self._kernel.scores(rows, self.support_vectors_, self.dual_coef_, self.intercept_)


class MarginSearch(ClassifierSearch):
    """Base class of the ...CV classes of ODM and LDM, with one kernel matrix per path."""

    _most_gammas = 4

    def _for_trials(self, classifier: Any) -> Any:
        return clone(classifier).set_params(tol=LOOSER * classifier.tol)

    @staticmethod
    def _held_out(
        classifier: MarginClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        data = classifier._prepare(X, y, sample_weight)
        training = data.training
        if classifier.solver == "auto" and classifier.solver_ == "active_set":
            classifier.solver_ = "dcd"  # faster with warm starts and a `tol`
        cross = None
        if data.features is not None:
            X_test = data.features(X_test)
        if training.kernel is not None:
            precomputed = training.kernel.kernel == "precomputed"
            cross = X_test[:, data.seen] if precomputed else training.kernel(X_test, training.X)
        starts: list[Any] = [None] * len(data.signs)
        for penalty in penalties:
            for name, value in penalty.items():  # set_params takes as long as a fit
                setattr(classifier, name, value)
            try:
                fits = classifier._fit_all(data, starts, exact=False)
            except ValueError as error:
                yield HeldOut.failed(error)
                continue
            starts = [fit.warm for fit in fits]
            if cross is None:
                scores = matmul(X_test, np.array([fit.coef for fit in fits]).T)
            else:
                scores = np.asarray(cross @ np.array([fit.theta for fit in fits]).T)
            scores = scores + np.array([fit.intercept for fit in fits])
            gap = max(fit.gap for fit in fits)
            converged = gap <= classifier.tol or classifier.tol == 0
            columns = class_columns(scores[:, 0] if scores.shape[1] == 1 else scores)
            yield HeldOut(columns, data.classes, gap, converged)


def _number_if_one(values: Any) -> Any:
    """Return a number for one problem (two classes), an array for more."""
    return float(values[0]) if len(values) == 1 else np.array(values, dtype=np.float64)
