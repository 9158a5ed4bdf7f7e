"""The solvers behind one face: residuals and representations of points, a batch at a time."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from discreg.linalg.rows import row_norms
from discreg.linalg.threads import one_blas_thread

from ._closed import ClosedForm
from ._iterative import Iterations, Quadratic, iterate, largest_eigenvalue
from ._penalised import solve_penalised
from ._penalties import Penalty
from ._problem import KernelOperator, LinearOperator, Operator
from ._scatter import ScatterForm
from ._training import Training

__all__ = ["BatchSolver", "Settings", "Solver", "make_solver"]

Array = NDArray[np.float64]
FEW_FEATURES = 64


@dataclass(frozen=True)
class Settings:
    """Parameters of the model and of the iterations."""

    alpha: float
    beta: float
    penalty: Penalty
    tol: float
    max_iter: int
    backtracking: bool


class Solver(Protocol):
    """A fitted model: from points, as `Training.points` gives them, to what is known of them."""

    @property
    def training(self) -> Training:
        """What it was fitted to."""

    def residuals(self, points: Any) -> Array:
        """δ of (11), one column a class."""

    def represent(self, points: Any) -> Array:
        """Representations, one column a training sample in the order of the groups."""


@dataclass(frozen=True)
class ScatterSolver:
    """The linear form in the features."""

    training: Training
    form: ScatterForm

    @classmethod
    def of(cls, training: Training, alpha: float, beta: float) -> ScatterSolver:
        with _threads_for(training.X):
            form = ScatterForm.of(training.X, training.groups, alpha, beta)
        return cls(training.without_features(), form)

    def residuals(self, points: Any) -> Array:
        with _threads_for(points):
            return self.form.residuals(points)

    def represent(self, points: Any) -> Array:
        training = self.training
        X = training.X if training.features is None else training.features(training.rows)
        return self.form.represent(points, X, row_norms(X))


def _threads_for(X: Any) -> AbstractContextManager[None]:
    """One BLAS thread for so few features that two would wait for each other."""
    return one_blas_thread() if X.shape[1] <= FEW_FEATURES else nullcontext()


@dataclass(frozen=True)
class ClosedSolver:
    """Algorithm 2."""

    training: Training
    form: ClosedForm

    @classmethod
    def of(cls, training: Training, alpha: float, beta: float) -> ClosedSolver:
        # The kernel matrix becomes the factor; the blocks of its classes are a second array.
        form = ClosedForm.of(training.matrix(copies=2), training.groups, alpha, beta)
        return cls(training.without_matrix(), form)

    def residuals(self, points: Any) -> Array:
        delta = np.empty((points.shape[0], self.training.groups.n_classes))
        for rows in self.training.batches(points.shape[0]):
            K_x = self.training.cross(points[rows])
            delta[rows] = self.form.residuals(self.form.represent(K_x), K_x)
        return delta

    def represent(self, points: Any) -> Array:
        V = np.empty((points.shape[0], len(self.training.groups.y)))
        for rows in self.training.batches(points.shape[0]):
            V[rows] = self.form.represent(self.training.cross(points[rows]))
        return V


@dataclass(frozen=True)
class BatchSolver(ABC):
    """Base of the solvers that iterate for every batch of points."""

    training: Training
    operator: Operator
    eigenvalue: float
    settings: Settings
    algorithm: str

    @abstractmethod
    def run(self, K_x: Array, k_xx: Array) -> Iterations:
        """Iterate for the points of one batch."""

    def runs(self, points: Any) -> list[tuple[slice, Array, Iterations]]:
        """Iterate for all points, batch by batch."""
        outcomes = []
        for rows in self.training.batches(points.shape[0]):
            K_x = self.training.cross(points[rows])
            outcomes.append((rows, K_x, self.run(K_x, self.training.self_kernel(points[rows]))))
        n_left = sum(int((~outcome.converged).sum()) for _, _, outcome in outcomes)
        if n_left:
            worst = max(float(outcome.gap.max()) for _, _, outcome in outcomes)
            warnings.warn(
                f"solver={self.algorithm!r} did not converge for {n_left} of {points.shape[0]} "
                f"samples in {self.settings.max_iter} iterations; the largest relative gap is "
                f"{worst:.2g}. Increase max_iter, tol or beta"
                + (", or use solver='auto'." if self.settings.penalty.is_ridge else "."),
                ConvergenceWarning,
                stacklevel=5,
            )
        return outcomes

    def largest_sample(self) -> Iterations:
        """What the iterations do for the training sample of the largest norm."""
        if isinstance(self.operator, KernelOperator):
            norms = self.operator.kernel.diagonal()
            K_x = self.operator.kernel[[norms.argmax()]]
        else:
            norms = row_norms(self.training.X)
            K_x = self.training.cross(self.training.X[[norms.argmax()]])
        return self.run(K_x, norms.max()[None])

    def residuals(self, points: Any) -> Array:
        delta = np.empty((points.shape[0], self.training.groups.n_classes))
        for rows, K_x, outcome in self.runs(points):
            delta[rows] = self.operator.residuals(outcome.coef, K_x)
        return delta

    def represent(self, points: Any) -> Array:
        return np.vstack([outcome.coef for _, _, outcome in self.runs(points)])


@dataclass(frozen=True)
class IterativeSolver(BatchSolver):
    """Algorithms 3 to 6."""

    def run(self, K_x: Array, k_xx: Array) -> Iterations:
        return iterate(
            Quadratic(self.operator, self.settings.beta),
            K_x,
            k_xx,
            self.algorithm,
            tol=self.settings.tol,
            max_iter=self.settings.max_iter,
            eigenvalue=self.eigenvalue,
            backtracking=self.settings.backtracking,
        )


@dataclass(frozen=True)
class PenalisedSolver(BatchSolver):
    """Any (q, r) penalty, by accelerated proximal gradient to a duality gap."""

    def run(self, K_x: Array, k_xx: Array) -> Iterations:
        solution = solve_penalised(
            self.operator,
            K_x,
            k_xx,
            self.settings.beta,
            self.settings.penalty,
            tol=self.settings.tol,
            max_iter=self.settings.max_iter,
            lipschitz=self.eigenvalue,
        )
        converged = solution.gap <= self.settings.tol
        history = np.array(solution.history)
        return Iterations(solution.coef, history, solution.n_iter, converged, solution.gap)


def operator_of(training: Training, alpha: float) -> Operator:
    """Q without an n × n matrix for the linear kernel, else with the kernel matrix."""
    if training.is_linear:
        return LinearOperator(training.groups, training.X, row_norms(training.X), alpha)
    return KernelOperator(training.groups, training.matrix(copies=2), alpha)


def make_solver(name: str, training: Training, settings: Settings) -> Solver:
    """Fit the solver of that name: "closed", "scatter", "gd", "ppa" or "apg"."""
    alpha, beta = settings.alpha, settings.beta
    if name == "scatter":
        return ScatterSolver.of(training, alpha, beta)
    if name == "closed":
        return ClosedSolver.of(training, alpha, beta)
    operator = operator_of(training, alpha)
    eigenvalue = 0.0 if name == "gd" else largest_eigenvalue(operator)  # "gd" needs none
    kind = IterativeSolver if settings.penalty.is_ridge else PenalisedSolver
    return kind(training, operator, eigenvalue, settings, name)
