"""What the four estimators share: from X and y to a solution, and from scores to labels."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from discreg.base.classifier import Prepared, RegressionClassifier
from discreg.base.params import (
    CLASS_WEIGHT,
    KERNEL_CONSTRAINTS,
    Boolean,
    Choice,
    Number,
    check_params,
)
from discreg.blocks.moment_ridge import MomentRegression
from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.ridge import KernelRegression, NormalEquations, Regression
from discreg.linalg.rows import has_distinct_rows
from discreg.linalg.threads import one_blas_thread

from ._block_problem import BlockProblem, MakeLoss
from ._problem import Problem, Start
from ._result import Solution
from ._solvers import EXACT, minimise
from ._structured import LowRankRidge, SparseRows, Structure, minimise_structured

__all__ = ["IterativeClassifier", "RetargetedClassifier", "shift_to_unit_sum"]

FEW_COEFFICIENTS = 200
FEW_MULTIPLICATIONS = 5_000_000  # a product of so many is slower on two threads than on one


class RetargetedClassifier(RegressionClassifier):
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
    def _make_loss(self) -> MakeLoss:
        """What makes the loss of this model from class indices, weights and a number of classes."""

    @abstractmethod
    def _solve(self, problem: Problem, start: Start | None, *, to_rounding: bool) -> Solution:
        """Solve the model's problem, to rounding if that is wanted and costs next to nothing."""

    @abstractmethod
    def _solve_blocks(self, prepared: Prepared, start: Start | None) -> Solution:
        """Solve the model's problem on rows that are not in memory, the penalty fixed."""

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RetargetedClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix. Memory maps and
            Dask collections are fitted block by block where the model is linear.
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

    def _fit_prepared(
        self, prepared: Prepared, start: Start | None, *, to_rounding: bool
    ) -> Solution:
        """Fit with the present parameters on data that were prepared before."""
        regression = prepared.regression
        if isinstance(regression, MomentRegression):
            self._set_penalty(regression)
            solution = self._solve_blocks(prepared, start)
            self._store(prepared, solution)
            return solution
        loss = self._make_loss()(prepared.y, prepared.weights, len(prepared.classes))
        problem = Problem(regression, loss)
        with one_blas_thread() if problem.work <= FEW_MULTIPLICATIONS else nullcontext():
            self._set_penalty(regression)
            solution = self._solve(problem, start, to_rounding=to_rounding)
        self._store(prepared, solution)
        return solution

    def _set_penalty(self, regression: NormalEquations) -> None:
        """Fix the penalty of the regression, and factor its normal equations."""
        regression.at(self.beta * (regression.scale if self.scale_beta else 1.0))

    def _store(self, prepared: Prepared, solution: Solution) -> None:
        """Set the fitted attributes from a solution."""
        coef, mean_score = prepared.regression.predictor(solution.coef)
        intercept = solution.offset - mean_score
        shift = self._common_shift(intercept) if self.fit_intercept else 0.0
        self._set_coefficients(prepared, coef, intercept + shift)
        self._store_targets(prepared, solution, shift)
        self.objective_history_ = np.array(solution.objective_history)
        self.gap_ = solution.gap
        self.n_iter_ = solution.n_iter
        self.solver_ = solution.solver

    def _store_targets(self, prepared: Prepared, solution: Solution, shift: float) -> None:
        """Set the targets, where they are in memory, for scores that a shift was added to."""
        self.__dict__.pop("targets_", None)
        if solution.targets is not None:
            self.targets_ = (solution.targets + shift).astype(prepared.dtype)

    def _start(self, prepared: Prepared) -> Start | None:
        """Where to begin; None for the regression onto the zero-one targets."""
        return None

    def _common_shift(self, intercept: NDArray[np.float64]) -> float:
        """What is added to the scores of all classes where the model leaves that open."""
        return 0.0


class IterativeClassifier(RetargetedClassifier):
    """Base of the models that are solved by iteration: DLSR, ReLSR and GReLSR."""

    _constraints = RetargetedClassifier._constraints | {
        "solver": Choice(("auto", "newton", "alternating")),
        "tol": Number(0, closed="left"),
        "max_iter": Number(1, closed="left", integer=True),
        "warm_start": Boolean(),
        "penalty": Choice(("l2", "l21")),
        "rank": Choice((None,), others=(Number(1, closed="left", integer=True),)),
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
        penalty: str = "l2",
        rank: int | None = None,
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
        self.penalty = penalty
        self.rank = rank

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Prepared:
        if self.penalty == "l21" and self.kernel != "linear":
            raise ValueError(
                "penalty='l21' selects features, which only kernel='linear' has. Use "
                "penalty='l2' with other kernels."
            )
        if self.penalty == "l21" and self.beta == 0:
            raise ValueError("penalty='l21' needs beta > 0. Use penalty='l2' for beta=0.")
        if self._is_structured and self.solver == "newton":
            raise ValueError(
                "solver='newton' is for penalty='l2' without a rank. Use solver='auto'."
            )
        prepared = super()._prepare(X, y, sample_weight)
        largest = self._largest_rank(len(prepared.classes))
        if prepared.kernel is None:
            largest = min(largest, prepared.regression.n_features)
        if self.rank is not None and self.rank > largest:
            raise ValueError(
                f"rank={self.rank} is too large: the largest rank of these data is {largest}. Use "
                f"a rank from 1 to {largest}, or None."
            )
        return prepared

    def _largest_rank(self, n_classes: int) -> int:
        """Largest rank that coefficients for so many classes can have."""
        return n_classes

    @property
    def _is_structured(self) -> bool:
        """Whether the coefficients have few features or a largest rank."""
        return self.penalty != "l2" or self.rank is not None

    def _linear_regression(self, X: Any, weights: NDArray[np.float64]) -> Regression:
        if self.penalty == "l21":
            return FeatureRegression(X, weights, centre=self.fit_intercept)
        return super()._linear_regression(X, weights)

    def _set_penalty(self, regression: NormalEquations) -> None:
        if self.penalty == "l21":
            unit = np.sqrt(regression.scale * regression.total) if self.scale_beta else 1.0
            regression.beta = self.beta * float(unit)
        else:
            super()._set_penalty(regression)

    def _solve(self, problem: Problem, start: Start | None, *, to_rounding: bool) -> Solution:
        if self._is_structured:
            solution = self._solve_structured(problem, start)
        else:
            solver = self._solver_name
            exact = to_rounding and solver == "newton" and _is_solved_to_rounding(problem)
            tol = min(EXACT, self.tol) if exact else self.tol
            solution = minimise(problem, solver, tol=tol, max_iter=self.max_iter, start=start)
        self._warn(solution)
        return solution

    def _solve_blocks(self, prepared: Prepared, start: Start | None) -> Solution:
        assert prepared.source is not None
        problem = BlockProblem(
            prepared.regression,
            prepared.source,
            self._make_loss(),
            float(getattr(self, "group_penalty", 0.0)),
        )
        few = _has_few_coefficients(problem) or prepared.source.n_rows <= problem.regression.size
        exact = few and self._solver_name == "newton"
        solution = minimise(
            problem,
            self._solver_name,
            tol=min(EXACT, self.tol) if exact else self.tol,
            max_iter=self.max_iter,
            start=start,
        )
        self._warn(solution)
        return solution

    @property
    def _solver_name(self) -> str:
        return "newton" if self.solver == "auto" else self.solver

    def _why_in_memory(self) -> str | None:
        if self._is_structured:
            what = "rank" if self.rank is not None else "penalty='l21'"
            return (
                f"{what} needs the rows in memory. On Dask use penalty='l2' without a rank, or "
                "SLRRClassifier or LRRRClassifier."
            )
        return super()._why_in_memory()

    def _warn(self, solution: Solution) -> None:
        """Say when the solver has stopped early."""
        if solution.gap > self.tol > 0:
            advice = "Increase max_iter, tol or beta, or standardise the features."
            if solution.solver != "newton" and not self._is_structured:
                advice = "Use solver='newton', or increase max_iter, tol or beta."
            warnings.warn(
                f"{type(self).__name__} stopped at a relative optimality gap of "
                f"{solution.gap:.2g} after {solution.n_iter} iterations; tol is {self.tol:g}. "
                f"{advice}",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _solve_structured(self, problem: Problem, start: Start | None) -> Solution:
        structure: Structure
        if isinstance(problem.regression, FeatureRegression):
            largest = min(self._largest_rank(problem.loss.n_classes), problem.regression.size)
            binding = self.rank is not None and self.rank < largest
            structure = SparseRows(problem.regression, self.rank if binding else None)
        else:
            structure = LowRankRidge(problem.regression, int(self.rank or 1))
        return minimise_structured(
            structure, problem.loss, tol=self.tol, max_iter=self.max_iter, start=start
        )

    def _start(self, prepared: Prepared) -> Start | None:
        """With `warm_start`, the solution of the previous fit where it has the right shape."""
        if not self.warm_start or not hasattr(self, "_previous"):
            return None
        coef, offset = self._previous
        if coef.shape != (prepared.regression.size, len(prepared.classes)):
            return None
        if self.rank is not None and np.linalg.matrix_rank(coef) > self.rank:
            return None
        return Start(coef, offset if self.fit_intercept else np.zeros_like(offset))

    def _store(self, prepared: Prepared, solution: Solution) -> None:
        super()._store(prepared, solution)
        if self.warm_start:
            self._previous = Start(solution.coef, solution.offset)


def _has_few_coefficients(problem: Problem | BlockProblem) -> bool:
    return problem.regression.size * problem.n_classes <= FEW_COEFFICIENTS


def _is_solved_to_rounding(problem: Problem) -> bool:
    """Whether Newton's method goes on below `tol`, which weights and copies must not decide.

    Features of more distinct samples take the same steps for weights as for copies. In coordinates
    of a kernel or of fewer samples than features rounding would make them differ; there the
    factorisation takes most of the time anyway, as it does not with few coefficients.
    """
    regression = problem.regression
    if isinstance(regression, KernelRegression):
        return True
    if _has_few_coefficients(problem):
        return True
    weighted = regression.weights > 0
    X = regression.X if weighted.all() else regression.X[weighted]
    return not has_distinct_rows(X, regression.size + 1)


def shift_to_unit_sum(intercept: NDArray[np.float64]) -> float:
    """The common shift that makes the intercepts sum to 1, as Algorithm 1 of ReLSR leaves them."""
    return float(1.0 - intercept.sum()) / len(intercept)
