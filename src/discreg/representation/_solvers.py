"""Solvers of DRM: residuals and representations of batches of points, and leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from discreg.base.caller import warn_of_convergence
from discreg.blocks.kept_rows import MOST_ROWS
from discreg.linalg.fitted_kernel import LINEAR
from discreg.linalg.kernel_approximation import FeatureMap
from discreg.linalg.resources import require_memory, threads_for
from discreg.linalg.rows import row_norms
from discreg.linalg.types import Array, Indices

from ._closed import (
    BATCH_BYTES,
    ClosedForm,
    LossOfPrecisionError,
    ScatterForm,
    leave_one_out_residuals,
    scatter_residuals_without,
)
from ._iterative import Iterations, Quadratic, iterate, largest_eigenvalue, solve_penalised
from ._problem import (
    FeatureOperator,
    Groups,
    KernelOperator,
    Operator,
    Penalty,
    TrainingSamples,
)

# Default of `max_iter`: the paper's, and what penalties other than ridge need on small tables.
RIDGE_ITERATIONS, OTHER_ITERATIONS = 150, 5_000


@dataclass(frozen=True)
class Settings:
    """Parameters of the model and of the solvers.

    Attributes
    ----------
    alpha, beta : float
    penalty : Penalty
    solver : str
        "auto" or the name of a solver.
    tol : float
    max_iter : int or None
        None means the default of the penalty.
    backtracking : bool
    """

    alpha: float
    beta: float
    penalty: Penalty
    solver: str
    tol: float
    max_iter: int | None
    backtracking: bool

    @property
    def most(self) -> int:
        """Maximum number of iterations."""
        if self.max_iter is not None:
            return self.max_iter
        return RIDGE_ITERATIONS if self.penalty.is_ridge else OTHER_ITERATIONS


@dataclass(frozen=True)
class ScatterSolver:
    """Solver of linear DRM by scatter matrices of the features."""

    training: TrainingSamples
    form: ScatterForm

    @classmethod
    def of(cls, training: TrainingSamples, alpha: float, beta: float) -> ScatterSolver:
        n_rows, n_features = training.X.shape
        require_scatter_memory(training.groups.n_classes, n_features)
        with _threads_for(n_rows, training.groups.n_classes, n_features):
            form = ScatterForm.of(training.X, training.groups, alpha, beta)
        return cls(training.without_features(), form)

    @classmethod
    def from_scatters(
        cls,
        scatters: Sequence[Array] | Array,
        totals: Array,
        settings: Settings,
        features: FeatureMap | None,
    ) -> ScatterSolver:
        """Create the solver from the scatter matrices and the total weights of the classes."""
        with threads_for(len(scatters) * len(scatters[0]) ** 3):
            form = ScatterForm.from_scatters(list(scatters), totals, settings.alpha, settings.beta)
        none = Groups.of(np.zeros(0, dtype=np.intp), np.zeros(0), len(totals))
        kernel = LINEAR if features is None else features.kernel
        return cls(TrainingSamples(None, None, none, LINEAR, features, kernel), form)

    def without_scatters(self) -> ScatterSolver:
        """Drop the scatter matrices, which predictions do not need."""
        return replace(self, form=replace(self.form, scatters=None))

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
    def of(
        cls, training: TrainingSamples, matrix: Array, alpha: float, beta: float
    ) -> ClosedSolver:
        """Fit with a kernel matrix, which is overwritten."""
        form = ClosedForm.of(matrix, training.groups, alpha, beta)
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
    settings: Settings
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
                max_iter=settings.most,
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
            max_iter=settings.most,
            lipschitz=self.eigenvalue,
        )

    def _warned(self, results: Array, n_left: int, gap: float) -> Array:
        """Return the results of `_solve`, with a warning if iterations stopped early."""
        if n_left:
            other = ", or use solver='auto'" if self.settings.penalty.is_ridge else ""
            warn_of_convergence(
                f"solver={self.algorithm!r} did not converge for {n_left} of {len(results)} "
                f"samples in {self.settings.most} iterations; the largest relative gap is "
                f"{gap:.2g}. Increase max_iter, tol or beta{other}."
            )
        return results

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
        return self._warned(*self.unwarned_residuals(rows))

    def unwarned_residuals(self, rows: Any) -> tuple[Array, int, float]:
        """Compute the residuals, the number of points that stopped early, and the largest gap."""
        return self._solve(rows, self.operator.residuals)

    def represent(self, rows: Any) -> Array:
        return self._warned(*self._solve(rows, lambda coef, _: coef))

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


def fit_solver(
    training: TrainingSamples,
    settings: Settings,
    matrix: Callable[[], Array] | None = None,
) -> tuple[str, Solver]:
    """Choose a solver by the settings and the shape of the data, and fit it; return its name too.

    ``matrix()`` returns a new kernel matrix of the training samples.
    """
    # Two arrays: the factor overwrites the kernel matrix, and the class blocks are copied.
    matrix = partial(training.matrix, copies=2) if matrix is None else matrix
    name = settings.solver
    if not settings.penalty.is_ridge:
        name = "apg"
    elif name == "auto":
        name = "scatter" if training.has_few_features else "closed"
    if name == "scatter":
        try:
            return name, ScatterSolver.of(training, settings.alpha, settings.beta)
        except LossOfPrecisionError:
            if settings.solver == "scatter":
                raise
            name = "closed"
    if name == "closed":
        return name, ClosedSolver.of(training, matrix(), settings.alpha, settings.beta)
    operator: Operator
    if training.is_linear:  # needs no kernel matrix
        operator = FeatureOperator(
            training.groups, training.X, row_norms(training.X), settings.alpha
        )
    else:
        operator = KernelOperator(training.groups, matrix(), settings.alpha)
    eigenvalue = 0.0 if name == "gd" else largest_eigenvalue(operator)
    return name, IterativeSolver(training, operator, eigenvalue, settings, name)


def require_scatter_memory(n_classes: int, n_features: int) -> None:
    """Raise an error if the scatter matrices do not fit into memory."""
    require_memory(
        8 * (3 * n_classes + 3) * n_features**2,
        f"Scatter matrices of {n_classes} classes in {n_features:,} features",
        "Use fewer features or n_components, or for rows in memory solver='closed'.",
    )


@dataclass
class LeaveOneOut:
    """Leave-one-out residuals of training samples with the ridge penalty, for any alpha and beta.

    Samples leave together with those of their class that are equal to them.
    """

    training: TrainingSamples

    @cached_property
    def _distinct(self) -> tuple[Array, Groups, Indices]:
        """Kernel matrix and groups of the distinct samples, and the place of each sample."""
        distinct, places = self.training.merged()
        return distinct.matrix(copies=8), distinct.groups, places

    def residuals(
        self, settings: Settings, rows: Indices, weights: Array, form: ScatterForm | None = None
    ) -> Array:
        """Compute the residuals δ of some samples.

        Parameters
        ----------
        settings : Settings
        rows : ndarray of shape (n_rows,)
            Indices of the samples, in the order of the groups.
        weights : ndarray of shape (n_rows,)
            Weights that leave.
        form : ScatterForm, default=None
            The fitted scatter form, if there is one.

        Returns
        -------
        residuals : ndarray of shape (n_rows, n_classes)
        """
        training, alpha, beta = self.training, settings.alpha, settings.beta
        few = training.has_few_features and settings.solver != "closed"
        if few or settings.solver == "scatter":
            try:
                form = form or ScatterSolver.of(training, alpha, beta).form
                own = training.X[rows], training.groups.y[rows], weights
                return scatter_residuals_without(form, training.groups.totals, *own)
            except LossOfPrecisionError:
                if settings.solver == "scatter" or len(training.groups.y) > MOST_ROWS:
                    raise
        matrix, groups, places = self._distinct
        order = np.argsort(places[rows])
        residuals = np.empty((len(rows), groups.n_classes))
        kept = places[rows][order]
        residuals[order] = leave_one_out_residuals(matrix, groups, alpha, beta, kept)
        return residuals
