"""Solvers of DRM: residuals and representations of batches of points."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreg.base.caller import warn_of_convergence
from discreg.linalg.resources import (
    require_memory,
    threads_for,
)
from discreg.linalg.rows import row_norms
from discreg.linalg.types import Array

from ._closed import ClosedForm
from ._iterative import Iterations, Quadratic, iterate, largest_eigenvalue
from ._penalties import Penalty
from ._problem import FeatureOperator, KernelOperator, Operator, TrainingSamples
from ._proximal_gradient import solve_penalised
from ._scatter import BATCH_BYTES, ScatterForm

__all__ = [
    "ClosedSolver",
    "DRMSettings",
    "IterativeSolver",
    "ScatterSolver",
    "Solver",
    "choose_solver",
    "make_solver",
    "operator_of",
    "require_scatter_memory",
    "without_scatters",
]

# Default of `max_iter`: the paper's, and what penalties other than ridge need on small tables.
RIDGE_ITERATIONS, OTHER_ITERATIONS = 150, 5_000


@dataclass(frozen=True)
class DRMSettings:
    """Parameters of the model and of the iterative solvers."""

    alpha: float
    beta: float
    penalty: Penalty
    tol: float
    max_iter: int
    backtracking: bool

    @classmethod
    def of(cls, classifier: Any, penalty: Penalty, *, backtracking: bool) -> DRMSettings:
        """Create the settings of a classifier or of a search."""
        most = classifier.max_iter
        if most is None:
            most = RIDGE_ITERATIONS if penalty.is_ridge else OTHER_ITERATIONS
        given = classifier.alpha, classifier.beta, penalty, classifier.tol
        return cls(*given, most, backtracking)


@dataclass(frozen=True)
class ScatterSolver:
    """Solver of linear DRM by scatter matrices of the features."""

    training: TrainingSamples
    form: ScatterForm

    @classmethod
    def of(cls, training: TrainingSamples, alpha: float, beta: float) -> ScatterSolver:
        n_rows, n_features = training.X.shape
        with _threads_for(n_rows, training.groups.n_classes, n_features):
            form = ScatterForm.of(training.X, training.groups, alpha, beta)
        return cls(training.without_features(), form)

    def residuals(self, rows: Any) -> Array:
        n_features = len(self.form.resolvent)
        delta = np.empty((rows.shape[0], len(self.form.maps)))
        with _threads_for(rows.shape[0], len(self.form.maps), n_features):
            for part, points in self.training.batches(rows, n_features):
                delta[part] = self.form.residuals(points)
        return delta

    def represent(self, rows: Any) -> Array:
        training = self.training
        X = training.X if training.features is None else training.features(training.rows)
        return self.form.represent(training.points(rows), X, training.groups)


def _threads_for(n_rows: int, n_classes: int, n_features: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread if the products of batches with matrices of features are small."""
    return threads_for(n_classes * n_features * min(n_rows * n_features, BATCH_BYTES // 8))


@dataclass(frozen=True)
class ClosedSolver:
    """Solver by the closed form, Algorithm 2."""

    training: TrainingSamples
    form: ClosedForm

    @classmethod
    def of(cls, training: TrainingSamples, alpha: float, beta: float) -> ClosedSolver:
        # Two arrays: the factor overwrites the kernel matrix, and the class blocks are copied.
        form = ClosedForm.of(training.matrix(copies=2), training.groups, alpha, beta)
        return cls(training.without_matrix(), form)

    def residuals(self, rows: Any) -> Array:
        delta = np.empty((rows.shape[0], self.training.groups.n_classes))
        with threads_for(rows.shape[0] * self.form.factor.size):
            for part, points in self.training.batches(rows):
                K_x = self.training.cross(points)
                delta[part] = self.form.residuals(self.form.represent(K_x), K_x)
        return delta

    def represent(self, rows: Any) -> Array:
        V = np.empty((rows.shape[0], len(self.training.groups.y)))
        for part, points in self.training.batches(rows):
            V[part] = self.form.represent(self.training.cross(points))
        return V


@dataclass(frozen=True)
class IterativeSolver:
    """Solver by Algorithms 3 to 6 for ridge, by proximal gradient for other penalties."""

    training: TrainingSamples
    operator: Operator
    eigenvalue: float
    settings: DRMSettings
    algorithm: str

    def run(self, K_x: Array, k_xx: Array) -> Iterations:
        """Solve for one batch of points."""
        settings = self.settings
        if settings.penalty.is_ridge:
            return iterate(
                Quadratic(self.operator, settings.beta),
                K_x,
                k_xx,
                self.algorithm,
                tol=settings.tol,
                max_iter=settings.max_iter,
                eigenvalue=self.eigenvalue,
                backtracking=settings.backtracking,
            )
        return solve_penalised(
            self.operator,
            K_x,
            k_xx,
            settings.beta,
            settings.penalty,
            tol=settings.tol,
            max_iter=settings.max_iter,
            lipschitz=self.eigenvalue,
        )

    def warn(self, n_left: int, n_points: int, gap: float) -> None:
        """Warn if the iterations stopped early for `n_left` points."""
        if not n_left:
            return
        warn_of_convergence(
            f"solver={self.algorithm!r} did not converge for {n_left} of "
            f"{n_points} samples in {self.settings.max_iter} iterations; the largest "
            f"relative gap is {gap:.2g}. Increase max_iter, tol or beta"
            + (", or use solver='auto'." if self.settings.penalty.is_ridge else ".")
        )

    def largest_sample(self) -> Iterations:
        """Solve for the training sample with the largest norm."""
        if isinstance(self.operator, KernelOperator):
            norms = self.operator.kernel.diagonal()
            K_x = self.operator.kernel[[norms.argmax()]]
        else:
            norms = row_norms(self.training.X)
            K_x = self.training.cross(self.training.X[[norms.argmax()]])
        outcome = self.run(K_x, norms.max()[None])
        found = (outcome.coef, outcome.objective_history, outcome.gap)
        if not all(np.isfinite(part).all() for part in found):
            raise ValueError(
                f"The iterations of solver={self.algorithm!r} overflow. Scale the features, for "
                "example with sklearn.preprocessing.StandardScaler, or the sample weights."
            )
        return outcome

    def residuals(self, rows: Any) -> Array:
        delta, n_left, gap = self.unwarned_residuals(rows)
        self.warn(n_left, len(delta), gap)
        return delta

    def unwarned_residuals(self, rows: Any) -> tuple[Array, int, float]:
        """Compute the residuals, the number of points that stopped early, and the largest gap."""
        return self._solve(rows, self.operator.residuals)

    def represent(self, rows: Any) -> Array:
        V, n_left, gap = self._solve(rows, lambda coef, _: coef)
        self.warn(n_left, len(V), gap)
        return V

    def _solve(
        self, rows: Any, result: Callable[[Array, Array], Array]
    ) -> tuple[Array, int, float]:
        """Solve batch by batch; return result(V, K_x), and who stopped early as above."""
        results, n_left, gap = [], 0, 0.0
        for _, points in self.training.batches(rows):
            K_x = self.training.cross(points)
            outcome = self.run(K_x, self.training.self_kernel(points))
            results.append(result(outcome.coef, K_x))
            n_left += int((~outcome.converged).sum())
            gap = max(gap, float(outcome.gap.max()))
        return np.vstack(results), n_left, gap


Solver = ScatterSolver | ClosedSolver | IterativeSolver


def without_scatters(solver: Solver) -> Solver:
    """Drop the scatter matrices of a solver, which predictions do not need."""
    if isinstance(solver, ScatterSolver):
        return replace(solver, form=replace(solver.form, scatters=None))
    return solver


def choose_solver(estimator: Any, training: TrainingSamples, penalty: Penalty) -> str:
    """Resolve the parameter `solver` for these data, and check the memory that it needs."""
    asked = estimator.solver
    if not penalty.is_ridge:
        return "apg"
    if asked == "auto":
        asked = "scatter" if training.has_few_features else "closed"
    if asked == "scatter":
        n_classes, n_features = training.groups.n_classes, training.X.shape[1]
        advice = "Use solver='closed' or reduce the features."
        require_scatter_memory(n_classes, n_features, advice)
    return str(asked)


def require_scatter_memory(n_classes: int, n_features: int, advice: str) -> None:
    """Raise an error if the scatter matrices do not fit into memory."""
    require_memory(
        8 * (3 * n_classes + 3) * n_features**2,
        f"Scatter matrices of {n_classes} classes in {n_features:,} features",
        advice,
    )


def make_solver(name: str, training: TrainingSamples, settings: DRMSettings) -> Solver:
    """Fit the named solver: "closed", "scatter", "gd", "ppa" or "apg"."""
    alpha, beta = settings.alpha, settings.beta
    if name == "scatter":
        return ScatterSolver.of(training, alpha, beta)
    if name == "closed":
        return ClosedSolver.of(training, alpha, beta)
    operator = operator_of(training, alpha)
    eigenvalue = 0.0 if name == "gd" else largest_eigenvalue(operator)
    return IterativeSolver(training, operator, eigenvalue, settings, name)


def operator_of(training: TrainingSamples, alpha: float, matrix: Array | None = None) -> Operator:
    """Create Q, from the kernel matrix if it is known; the linear kernel needs none."""
    if training.is_linear:
        return FeatureOperator(training.groups, training.X, row_norms(training.X), alpha)
    matrix = training.matrix(copies=2) if matrix is None else matrix
    return KernelOperator(training.groups, matrix, alpha)
