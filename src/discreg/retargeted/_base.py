"""What the four estimators share: from X and y to a solution, and from scores to labels."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.core.fitted_kernel import KERNEL_CONSTRAINTS, FittedKernel
from discreg.core.labels import CLASS_WEIGHT, encode_labels, row_weights
from discreg.core.memory import require_memory
from discreg.core.params import Boolean, Choice, Number, check_params
from discreg.core.regression import (
    KernelRegression,
    Regression,
    centre_kernel,
    linear_regression,
)
from discreg.core.result import Solution
from discreg.core.rows import has_distinct_rows, varies
from discreg.core.scoring import LargestScoreClassifier
from discreg.core.threads import one_blas_thread

from ._losses import TargetLoss
from ._problem import Problem, Start
from ._solvers import EXACT, minimise

__all__ = ["IterativeClassifier", "Prepared", "RetargetedClassifier", "shift_to_unit_sum"]

SMALLEST_TRACE = 1e-280
FEW_COEFFICIENTS = 200
FEW_MULTIPLICATIONS = 5_000_000  # a product of so many is slower on two threads than on one


@dataclass
class Prepared:
    """Training data in the form that all penalties of a path share."""

    X: Any
    y: NDArray[np.intp]
    weights: NDArray[np.float64]
    classes: NDArray[Any]
    kernel: FittedKernel | None  # None: linear
    regression: Regression


class RetargetedClassifier(LargestScoreClassifier):
    """Base of LSR, DLSR, ReLSR and GReLSR, which differ in their loss alone."""

    _constraints: dict[str, Any] = {
        "beta": Number(0, closed="left"),
        "scale_beta": Boolean(),
        "fit_intercept": Boolean(),
        "class_weight": CLASS_WEIGHT,
        **KERNEL_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        beta: float = 0.1,
        scale_beta: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
    ) -> None:
        self.beta = beta
        self.scale_beta = scale_beta
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params

    @abstractmethod
    def _loss(
        self, y: NDArray[np.intp], weights: NDArray[np.float64], n_classes: int
    ) -> TargetLoss:
        """The loss of this model on training data."""

    @abstractmethod
    def _solve(self, problem: Problem, start: Start | None, *, to_rounding: bool) -> Solution:
        """Solve the model's problem, to rounding if that is wanted and costs next to nothing."""

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RetargetedClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Weights; a sample of weight k counts exactly as k copies of it.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        check_params(self, self._constraints)
        prepared = self._prepare(X, y, sample_weight)
        self._fit_prepared(prepared, self._start(prepared), to_rounding=True)
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Prepared:
        """Check the data and do all the work that does not depend on the penalty."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        classes, indices = encode_labels(y)
        weights = row_weights(sample_weight, self.class_weight, classes, indices)
        kernel = None if self.kernel == "linear" else FittedKernel.of(self, X, weights)
        if kernel is None:
            require_memory(
                3 * 8 * min(X.shape) ** 2,
                f"A linear fit of {X.shape[0]} samples with {X.shape[1]} features",
                "Reduce the features first, for example with sklearn.decomposition.TruncatedSVD.",
            )
            with np.errstate(over="ignore", invalid="ignore"):  # the trace tells
                regression = linear_regression(X, weights, centre=self.fit_intercept)
        else:
            matrix = kernel.training_matrix(X, copies=3)
            kernel_mean = centre_kernel(matrix, weights) if self.fit_intercept else None
            kernel.require_psd(matrix, X)
            regression = KernelRegression(matrix, weights, kernel_mean)
        lost = kernel is None and regression.trace < SMALLEST_TRACE and varies(X)
        if lost or not np.isfinite(regression.scale):
            raise ValueError(
                "The squares of the features overflow or vanish. Scale the features, for example "
                "with sklearn.preprocessing.StandardScaler."
            )
        return Prepared(X, indices, weights, classes, kernel, regression)

    def _fit_prepared(
        self, prepared: Prepared, start: Start | None, *, to_rounding: bool
    ) -> Solution:
        """Fit with the present parameters on data that were prepared before."""
        regression = prepared.regression
        loss = self._loss(prepared.y, prepared.weights, len(prepared.classes))
        problem = Problem(regression, loss)
        with one_blas_thread() if problem.work <= FEW_MULTIPLICATIONS else nullcontext():
            regression.at(self.beta * (regression.scale if self.scale_beta else 1.0))
            solution = self._solve(problem, start, to_rounding=to_rounding)
        self._store(prepared, solution)
        return solution

    def _store(self, prepared: Prepared, solution: Solution) -> None:
        """Set the fitted attributes from a solution."""
        dtype = prepared.X.dtype
        coef, mean_score = prepared.regression.predictor(solution.coef)
        intercept = solution.offset - mean_score
        shift = self._common_shift(intercept) if self.fit_intercept else 0.0
        for name in ("coef_", "dual_coef_", "X_fit_"):  # of an earlier fit with another kernel
            self.__dict__.pop(name, None)
        self.classes_ = prepared.classes
        self._kernel = prepared.kernel
        if prepared.kernel is None:
            self.coef_ = _one_row_if_binary(coef.T).astype(dtype)
        else:
            self.dual_coef_ = _one_row_if_binary(coef.T).astype(dtype)
            if prepared.kernel.kernel != "precomputed":
                self.X_fit_ = prepared.X
        self.intercept_ = _one_row_if_binary(intercept + shift).astype(dtype)
        self.targets_ = (solution.targets + shift).astype(dtype)
        self.objective_history_ = np.array(solution.objective_history)
        self.gap_ = solution.gap
        self.n_iter_ = solution.n_iter
        self.solver_ = solution.solver

    def _start(self, prepared: Prepared) -> Start | None:
        """Where to begin; None for the regression onto the zero-one targets."""
        return None

    def _common_shift(self, intercept: NDArray[np.float64]) -> float:
        """What is added to the scores of all classes where the model leaves that open."""
        return 0.0

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; with ``kernel="precomputed"`` the kernel between them and the training
            samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column a class; for two classes the score of the second minus that of the first.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if self._kernel is None:
            scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        else:
            fitted = getattr(self, "X_fit_", None)
            scores = self._kernel.scores(X, fitted, self.dual_coef_, self.intercept_)
        return scores.ravel() if scores.shape[1] == 1 else scores


class IterativeClassifier(RetargetedClassifier):
    """Base of the models that are solved by iteration: DLSR, ReLSR and GReLSR."""

    _constraints = RetargetedClassifier._constraints | {
        "solver": Choice(("auto", "newton", "alternating")),
        "tol": Number(0, closed="left"),
        "max_iter": Number(1, closed="left", integer=True),
        "warm_start": Boolean(),
    }

    def __init__(
        self,
        *,
        beta: float = 0.1,
        scale_beta: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
    ) -> None:
        super().__init__(
            beta=beta,
            scale_beta=scale_beta,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
        )
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def _solve(self, problem: Problem, start: Start | None, *, to_rounding: bool) -> Solution:
        solver = "newton" if self.solver == "auto" else self.solver
        exact = to_rounding and solver == "newton" and _is_solved_to_rounding(problem)
        tol = min(EXACT, self.tol) if exact else self.tol
        solution = minimise(problem, solver, tol=tol, max_iter=self.max_iter, start=start)
        if solution.gap > self.tol > 0:
            advice = "Increase max_iter, tol or beta, or standardise the features."
            if solver != "newton":
                advice = "Use solver='newton', or increase max_iter, tol or beta."
            warnings.warn(
                f"{type(self).__name__} stopped at a relative optimality gap of "
                f"{solution.gap:.2g} after {solution.n_iter} iterations; tol is {self.tol:g}. "
                f"{advice}",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution

    def _start(self, prepared: Prepared) -> Start | None:
        """With `warm_start`, the solution of the previous fit where it has the right shape."""
        if not self.warm_start or not hasattr(self, "_previous"):
            return None
        coef, offset = self._previous
        if coef.shape != (prepared.regression.size, len(prepared.classes)):
            return None
        return Start(coef, offset if self.fit_intercept else np.zeros_like(offset))

    def _store(self, prepared: Prepared, solution: Solution) -> None:
        super()._store(prepared, solution)
        if self.warm_start:
            self._previous = Start(solution.coef, solution.offset)


def _is_solved_to_rounding(problem: Problem) -> bool:
    """Whether Newton's method goes on below `tol`, which weights and copies must not decide.

    Features of more distinct samples take the same steps for weights as for copies. In coordinates
    of a kernel or of fewer samples than features rounding would make them differ; there the
    factorisation takes most of the time anyway, as it does not with few coefficients.
    """
    regression = problem.regression
    if isinstance(regression, KernelRegression):
        return True
    few = regression.size * problem.loss.n_classes <= FEW_COEFFICIENTS
    if few:
        return True
    weighted = regression.weights > 0
    X = regression.X if weighted.all() else regression.X[weighted]
    return not has_distinct_rows(X, regression.size + 1)


def _one_row_if_binary(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """scikit-learn's shape: for two classes one row, the second minus the first."""
    return rows[1:] - rows[:1] if len(rows) == 2 else rows


def shift_to_unit_sum(intercept: NDArray[np.float64]) -> float:
    """The common shift that makes the intercepts sum to 1, as Algorithm 1 of ReLSR leaves them."""
    return float(1.0 - intercept.sum()) / len(intercept)
