"""The problem of a representation, equation (9) of the DRM paper, with sample weights.

Quadratic part. Samples are sorted by class. A sample of weight s is equivalent to s repeated
samples with the coefficient v/s each, so that in terms of v the objective for a test point x is

    ½ vᵀQv − K_xᵀv + penalty(v),    Q = K + α diag(h/s) − α B,

with h the diagonal of K, B the diagonal blocks K_ii / n_i of the classes, n_i = Σ s over class i.

Penalty. ‖v‖_{q,r} of equation (4) is the r-norm of the q-norms of the classes. With repeated
samples as above, the q-norm of a class is (Σ s^{1−q} |v|^q)^{1/q}. In coordinates u = v/√s, with
c = √s, this is

    q = 1: Σ c|u|,    q = 2: ‖u‖,    q = ∞: max |u|/c,

and the norms of q = 1 and q = ∞ stay dual to each other. The functions
of penalties take u and c.

The proximal operators are exact for any q and r. The minimiser u of ½‖u − v‖² + step·ρ(‖u‖_{q,r})
separates once each class has its threshold τ: within the class it minimises ½‖u − v‖² + τ‖u‖_q.
With t the norms ‖u‖_q of the classes,

    r = 1: τ = step,
    r = 2: τ = step·t/‖t‖,
    r = ∞: Σ τ = step, and τ > 0 only where t is largest;

the half-square has step·‖t‖_r in place of step. Three remarks reduce the number of cases.

- q = r: all samples can be treated as one class.
- q = 2: u is a multiple of v in each class. The multiples are those of the problem with q = 1 whose
  classes have one coordinate each, the norm of v.
- q = ∞ and q = 1 need one level x per class: u is v clipped to [−cx, cx] for q = ∞, and v minus
  the clipped v for q = 1. The level is the norm t for q = ∞ and the threshold τ for q = 1. F(x) of
  `_prox_loops` is the threshold τ for q = ∞ and the norm t for q = 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from scipy import linalg

from discreg.blocks.kept_rows import distinct_rows, row_keys
from discreg.linalg.factorisation import pivoted_cholesky
from discreg.linalg.fitted_kernel import FittedKernel, require_square
from discreg.linalg.kernel_approximation import FeatureMap
from discreg.linalg.rows import batches, matmul, rmatmul, row_dots, row_norms
from discreg.linalg.types import Array, Indices

BATCH_BYTES = 32 << 20
EXPONENTS = (1, 2, inf)
CONJUGATE: dict[float, float] = {1: inf, 2: 2, inf: 1}
SHAPES = ("identity", "half_square")
NAMES: dict[str, tuple[float, float, str]] = {
    "ridge": (2, 2, "half_square"),
    "lasso": (1, 1, "identity"),
    "group_lasso": (2, 1, "identity"),
    "exclusive_lasso": (1, 2, "half_square"),
}
ALLOWED = (
    f"{', '.join(map(repr, NAMES))} or a triple (q, r, rho) with q and r in {{1, 2, inf}} and rho "
    "'identity' or 'half_square'"
)


@dataclass(frozen=True)
class Groups:
    """Training samples of positive weight, sorted by class.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Indices of the samples in the training data.
    y : ndarray of shape (n,)
        Class indices, ascending.
    weights : ndarray of shape (n,)
        Sample weights.
    n_classes : int
    """

    order: Indices
    y: Indices
    weights: Array
    n_classes: int

    @classmethod
    def of(cls, y: Indices, weights: Array, n_classes: int) -> Groups:
        """Group the rows of training data by class; rows of weight zero are left out."""
        order = np.argsort(y, kind="stable")
        order = order[weights[order] > 0]
        return cls(order, y[order], weights[order], n_classes)

    @cached_property
    def slices(self) -> list[slice]:
        """Slice of the samples of each class."""
        ends = np.searchsorted(self.y, np.arange(self.n_classes + 1)).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    @cached_property
    def totals(self) -> Array:
        """Total weight n_i of each class."""
        return np.array([self.weights[rows].sum() for rows in self.slices])

    def shrinkage(self, norms: Array, alpha: float, beta: float) -> Array:
        """Compute (α h + β) / s, the diagonal of Q + βS⁻¹ − K + αB, for squared norms h."""
        return (alpha * norms + beta) / self.weights


@dataclass(frozen=True)
class KernelOperator:
    """Q for any kernel, from the kernel matrix of the training samples sorted by class."""

    groups: Groups
    kernel: Array
    alpha: float

    def apply(self, V: Array) -> Array:
        """Compute V Q; V has one row per test point."""
        product = V @ self.kernel
        product += V * (self.alpha * self.kernel.diagonal() / self.groups.weights)
        for rows, total in zip(self.groups.slices, self.groups.totals, strict=True):
            product[:, rows] -= (self.alpha / total) * (V[:, rows] @ self.kernel[rows, rows])
        return product

    def residuals(self, V: Array, K_x: Array) -> Array:
        """Compute δ of equation (11), one column per class, for the representations V."""
        images = V @ self.kernel
        columns = []
        for rows in self.groups.slices:
            own = V[:, rows] @ self.kernel[rows, rows]
            columns.append(row_dots(V[:, rows], 2 * (own - images[:, rows] - K_x[:, rows])))
        return np.stack(columns, axis=1) + row_dots(V, images)[:, None]


@dataclass(frozen=True)
class FeatureOperator:
    """Q for the linear kernel without an n × n matrix, equations (21) to (23)."""

    groups: Groups
    X: Any
    norms: Array
    alpha: float

    def apply(self, V: Array) -> Array:
        """Compute V Q."""
        projections = self.projections(V)
        total = np.sum(projections, axis=0)
        product = V * (self.alpha * self.norms / self.groups.weights)
        for rows, n_i, own in zip(self.groups.slices, self.groups.totals, projections, strict=True):
            product[:, rows] += matmul(self.X[rows], (total - (self.alpha / n_i) * own).T).T
        return product

    def projections(self, V: Array) -> list[Array]:
        """Compute ψ_i = X_iᵀ v_i for each class, one row per test point."""
        return [rmatmul(self.X[rows], V[:, rows].T).T for rows in self.groups.slices]

    def residuals(self, V: Array, K_x: Array) -> Array:
        """Compute δ of equation (11)."""
        projections = self.projections(V)
        total = np.sum(projections, axis=0)
        columns = [
            2 * row_dots(own, own - total) - 2 * row_dots(V[:, rows], K_x[:, rows])
            for rows, own in zip(self.groups.slices, projections, strict=True)
        ]
        return np.stack(columns, axis=1) + row_dots(total, total)[:, None]


Operator = KernelOperator | FeatureOperator


@dataclass(frozen=True)
class TrainingSamples:
    """Training samples and their kernel, as used by all solvers.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Training rows in the order of the groups; with a feature map, their features; with a
        precomputed kernel, the kernel matrix in the original order. None once it is not needed.
    rows : ndarray or CSR of shape (n, n_features) or None
        The training rows before the feature map; None for a precomputed kernel.
    groups : Groups
    kernel : FittedKernel
        Kernel between rows of X; linear if there is a feature map.
    features : FeatureMap or None
        Feature map of rows, if the kernel is approximated.
    source_kernel : FittedKernel
        Kernel between the original rows.
    """

    X: Any
    rows: Any
    groups: Groups
    kernel: FittedKernel
    features: FeatureMap | None
    source_kernel: FittedKernel

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is the inner product of the rows of X."""
        return self.kernel.kernel == "linear"

    @property
    def has_few_features(self) -> bool:
        """Whether the linear form in the features is cheaper than the kernel form.

        For n samples, p features and g classes, a prediction takes n² multiplications in the kernel
        form and g p² in the features.
        """
        if not self.is_linear:
            return False
        n_samples, n_features = self.X.shape
        return bool(self.groups.n_classes * n_features**2 <= n_samples**2)

    @property
    def is_precomputed(self) -> bool:
        """Whether points are given as rows of the kernel matrix."""
        return self.kernel.kernel == "precomputed"

    def matrix(self, copies: int) -> Array:
        """Compute and check the kernel matrix of the training samples, as a new array."""
        X = self.X
        if self.is_precomputed:
            require_square(X)
            X = X[np.ix_(self.groups.order, self.groups.order)]
        options = {"copies": copies, "has_components": self.features is None}
        return self.kernel.centred_matrix(X, None, **options)[0]

    def merged(self) -> tuple[TrainingSamples, Indices]:
        """Merge equal samples of a class into one with the sum of their weights.

        Returns the distinct samples, and the index of each sample among them.
        """
        groups = self.groups
        numbers = np.arange(len(groups.y))
        if not self.is_precomputed:
            numbers = distinct_rows(row_keys(self.rows, groups.weights), groups.y, groups.weights)
        firsts = np.unique(numbers, return_index=True)[1]
        if len(firsts) == len(numbers):
            return self, np.arange(len(numbers))
        weights = np.bincount(numbers, groups.weights).astype(np.float64)
        groups = Groups(groups.order[firsts], groups.y[firsts], weights, groups.n_classes)
        return replace(self, X=self.X[firsts], rows=self.rows[firsts], groups=groups), numbers

    def without_matrix(self) -> TrainingSamples:
        """Drop a precomputed kernel matrix, which new points do not need."""
        return replace(self, X=None) if self.is_precomputed else self

    def without_features(self) -> TrainingSamples:
        """Drop the mapped training rows, which can be computed again from `rows`."""
        return self if self.features is None else replace(self, X=None)

    def points(self, X: Any) -> Any:
        """Convert new rows to the coordinates of the training rows."""
        if self.features is not None:
            return self.features(X)
        return X[:, self.groups.order] if self.is_precomputed else X

    def cross(self, points: Any) -> Array:
        """Compute the kernel K_x between points and training samples."""
        if self.is_precomputed:
            rows = points.toarray() if hasattr(points, "toarray") else points
            return np.asarray(rows, dtype=np.float64)
        return self.kernel(points, self.X)

    def self_kernel(self, points: Any) -> Array:
        """Compute k(x, x) of each point.

        With a precomputed kernel, compute it for the projection onto the span of the training
        samples.
        """
        if self.is_precomputed:
            triangle, pivots = self._span
            if not len(pivots):
                return np.zeros(points.shape[0])
            coordinates = linalg.solve_triangular(
                triangle, self.cross(points)[:, pivots].T, lower=True, check_finite=False
            )
            return np.asarray(np.einsum("ji,ji->i", coordinates, coordinates))
        return self.kernel.diagonal(points)

    @cached_property
    def _span(self) -> tuple[Array, Indices]:
        """Triangular coordinates and indices of samples that span all training samples."""
        factor, pivots = pivoted_cholesky(self.matrix(copies=2))
        return factor[pivots], pivots

    def batches(self, rows: Any, width: int | None = None) -> Iterator[tuple[slice, Any]]:
        """Yield slices of new rows and their points, in batches of limited memory.

        `width` is how many numbers are computed for a point: one per training sample by default.
        """
        size = max(1, BATCH_BYTES // (8 * (len(self.groups.y) if width is None else width)))
        for part in batches(rows.shape[0], size):
            yield part, self.points(rows[part])


def require_squares(X: Any, kernel: FittedKernel) -> None:
    """Raise an error if squared norms overflow and the kernel depends on inner products."""
    if not kernel.has_product:
        return
    with np.errstate(over="ignore"):
        finite = np.all(np.isfinite(row_norms(X)))
    if not finite:
        raise ValueError(
            "The squares of the features overflow. Scale the features: divide them by their "
            "largest values."
        )


@dataclass(frozen=True)
class Penalty:
    """Penalty ρ(‖·‖_{q,r}) with ρ(t) = t ("identity") or ρ(t) = t²/2 ("half_square").

    Attributes
    ----------
    q, r : {1, 2, inf}
        The norm within a class, and the norm of the classes' norms.
    rho : {"identity", "half_square"}
        The function of the norm.

    Examples
    --------
    >>> import numpy as np
    >>> from discreg.representation import Penalty
    >>> lasso = Penalty(q=1, r=1, rho="identity")
    >>> lasso.value(np.array([[3.0, -4.0]]), [slice(0, 1), slice(1, 2)])
    array([7.])
    """

    q: float
    r: float
    rho: str

    @classmethod
    def of(cls, value: Any) -> Penalty:
        """Create the penalty from a name ("ridge", "lasso", ...) or a triple (q, r, rho)."""
        try:
            q, r, rho = NAMES[value] if isinstance(value, str) else value
            known = q in EXPONENTS and r in EXPONENTS and rho in SHAPES
        except (KeyError, TypeError, ValueError):
            known = False
        if not known:
            raise ValueError(f"penalty must be {ALLOWED}; got {value!r}.")
        return cls(q, r, rho)

    @property
    def half_square(self) -> bool:
        """Whether ρ is the half-square."""
        return self.rho == "half_square"

    @property
    def is_ridge(self) -> bool:
        """Whether the penalty is ½‖u‖², for which the problem is a linear system."""
        return self == Penalty.of("ridge")

    def of_copies(self, copies: float) -> float:
        """Compute ρ(‖w‖_{q,r}) of coefficients w divided among `copies` of each sample, for 1 of w.

        The q-norm of each class is multiplied by copies^(1/q − 1).
        """
        norm = float(copies ** (1 / self.q - 1))
        return norm**2 if self.half_square else norm

    def norm(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """Compute ‖u‖_{q,r} of each row."""
        return np.asarray(np.linalg.norm(group_norms(U, self.q, slices, c), ord=self.r, axis=1))

    def dual_norm(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """Compute the dual norm of each row u: the largest ⟨u, z⟩ over ‖z‖_{q,r} ≤ 1."""
        dual = Penalty(CONJUGATE[self.q], CONJUGATE[self.r], self.rho)
        return dual.norm(U, slices, c)

    def value(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """Compute ρ(‖u‖_{q,r}) of each row."""
        norm = self.norm(U, slices, c)
        return norm**2 / 2 if self.half_square else norm


def group_norms(U: Array, q: float, slices: Sequence[slice], c: Array | None = None) -> Array:
    """Compute the q-norms of the groups, one column per group that has samples."""
    starts = [rows.start for rows in slices if rows.stop > rows.start]
    size = np.abs(U)
    if q == 2:
        return np.sqrt(np.add.reduceat(size * size, starts, axis=1))
    if q == 1:
        return np.add.reduceat(size if c is None else c * size, starts, axis=1)
    return np.maximum.reduceat(size if c is None else size / c, starts, axis=1)


def prox(
    V: Array,
    step: float,
    penalty: Penalty,
    slices: Sequence[slice],
    weights: Array | None = None,
) -> Array:
    """Minimise ½‖u − v‖² + step·ρ(‖u‖_{q,r}) for each row v.

    Parameters
    ----------
    V : ndarray of shape (n_points, n_samples)
        The points, one per row.
    step : float
        At least zero.
    penalty : Penalty
    slices : sequence of slice
        The columns of each group: consecutive, from the first column to the last.
    weights : ndarray of shape (n_samples,), default=None
        The positive weights c of the coordinates: ``Σ c|u|`` for q = 1, ``max |u|/c`` for
        q = ∞. They are not used for q = 2. None means all ones.

    Returns
    -------
    U : ndarray of shape (n_points, n_samples)

    Examples
    --------
    >>> import numpy as np
    >>> from discreg.representation import Penalty, prox
    >>> lasso = Penalty(q=1, r=1, rho="identity")
    >>> prox(np.array([[3.0, -0.5]]), 1.0, lasso, [slice(0, 2)])
    array([[2., 0.]])
    """
    V = np.ascontiguousarray(V, dtype=np.float64)
    if step == 0 or V.size == 0:
        return V.copy()
    slices = [rows for rows in slices if rows.stop > rows.start]
    if penalty.q == penalty.r:
        slices = [slice(0, V.shape[1])]
    sizes = [rows.stop - rows.start for rows in slices]
    if penalty.q == 2:
        norms = group_norms(V, 2, slices)
        singles = [slice(i, i + 1) for i in range(len(slices))]
        shrunk = prox(norms, step, Penalty(1, penalty.r, penalty.rho), singles)
        factors = np.divide(shrunk, norms, out=np.zeros_like(norms), where=norms > 0)
        return np.asarray(V * np.repeat(factors, sizes, axis=1))
    c = np.ones(V.shape[1]) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    levels = np.repeat(_levels(np.abs(V), float(step), penalty, slices, c), sizes, axis=1)
    levels *= c
    clipped = np.clip(V, -levels, levels)
    return clipped if penalty.q == inf else V - clipped


def _levels(A: Array, step: float, penalty: Penalty, slices: list[slice], c: Array) -> Array:
    """Compute the levels x of each row, one column per group."""
    from . import _prox_loops as loops

    starts = np.array([0] + [rows.stop for rows in slices])
    levels = np.empty((len(A), len(slices)))
    q, r, half_square = penalty.q, penalty.r, penalty.half_square
    separable = len(slices) == 1 or r == (2 if half_square else 1)
    if separable and half_square:  # τ = step·t in each group
        loops.each_level(A, starts, c, 0.0, 1 / step if q == 1 else step, levels)
    elif separable and q == 1:  # τ = step
        levels.fill(step)
    elif separable:
        loops.each_level(A, starts, c, step, 0.0, levels)
    elif r == 2:
        loops.levels_at_norm(A, starts, c, step, q == inf, levels)
    elif q == 1:  # one norm t for all groups that reach it, Σ τ = step or step·t
        shift, slope = (0.0, step) if half_square else (step, 0.0)
        loops.levels_at_common_value(A, starts, c, shift, slope, levels)
    else:  # one threshold τ for all groups, Σ t = τ / step
        loops.levels_at_common_value(A, starts, c, 0.0, 1 / step, levels)
    if q == 1 and not (separable or half_square):
        # The minimiser is exactly zero here; rounding errors would leave small values.
        levels[penalty.dual_norm(A, slices, c) <= step] = inf
    return levels
