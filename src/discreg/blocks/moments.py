"""Weighted moments of rows by class, added over blocks without loss of precision.

Every block is centred at its own mean before it is squared; sums of blocks are moved to their
common mean (Chan, Golub and LeVeque). Sums are in float64.

Products of float32 rows are formed in float32 by this rule: the Gram matrix G of a block is formed
in float32 if G plus the block's share of a relative penalty exceeds the rounding error E of the
products by a factor of 1,000 in every direction. Otherwise the same rows are multiplied in float64.
If every block satisfies ±E ≤ error · (G + share), so do sums of blocks with positive weights. The
rule therefore holds for all rows together, for folds, classes and merged models, and no rank has to
be decided at the precision of float32. Penalties in the units of the features have no share, and
`partial_fit` uses none, because the penalty may be changed later. The scatters of DRM have a
stricter rule, `scatter_may_be_single`, because DRM has no certificate that includes their error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils import assert_all_finite, gen_batches

from discreg.linalg.group_lasso import Features
from discreg.linalg.resources import run_in_threads
from discreg.linalg.ridge import NormalEquations
from discreg.linalg.rows import class_sums, class_totals, clear_constant, row_norms
from discreg.linalg.types import Array, Indices

from .source import AddableTuple, Block

LARGEST_ERROR = 1e-3
ERRORS = (1e-4, LARGEST_ERROR)  # bounds that `single_error` tries
LARGEST_SHARE = 0.9  # of the trace of a class scatter that one direction may have
# Times √p for p features of unit variance, a bound of the norm of the error of products in float32:
# twice what one-hot features reach, and eight times what most features reach.
SINGLE_ROUNDING = 32 * 2.0**-24
SMALLEST_SQUARE = 1e-30  # below this, squares in float32 are inaccurate


def relative_penalty(estimator: Any) -> float:
    """Return the penalty of a linear model in units of tr(G) / n_features; 0 if unknown."""
    return float(estimator.beta) if getattr(estimator, "scale_beta", False) else 0.0


@np.errstate(over="ignore", invalid="ignore")  # a factorisation with infinities fails
def single_error(gram: NDArray[Any], penalty: float, errors: tuple[float, ...] = ERRORS) -> float:
    """Bound the relative error of a Gram matrix whose products were formed in float32.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features)
        Centred Gram matrix G. Features whose squares are below SMALLEST_SQUARE are left out.
    penalty : float
        Penalty relative to tr(G) / n_features.
    errors : tuple of float
        The values to try, in ascending order.

    Returns
    -------
    error : float
        The first of `errors` with ±E ≤ error · (G + share), infinity if there is none.
    """
    squares = np.asarray(gram.diagonal(), dtype=np.float64)
    if not np.isfinite(squares).all():
        return np.inf
    used = np.flatnonzero(squares >= SMALLEST_SQUARE)
    if not len(used):
        return 0.0
    scale = 1 / np.sqrt(squares[used])
    unit = gram if len(used) == len(gram) else gram[np.ix_(used, used)]
    unit = (unit * scale * scale[:, None]).astype(np.float32)
    diagonal = 1.0 + penalty * squares.mean() * scale**2
    for error in errors:
        least = SINGLE_ROUNDING * np.sqrt(len(gram)) / error
        unit[np.diag_indices_from(unit)] = diagonal - least
        if least < diagonal.min() and not linalg.lapack.spotrf(unit, clean=0)[1]:
            return error
    return np.inf


def scatter_may_be_single(scatter: Array) -> bool:
    """Return whether products in float32 are accurate enough for a class scatter S of DRM.

    DRM computes (I − νS)⁻¹ S with ν tr(S) ≤ 1. If S changes by at most `error` in every direction,
    relative to itself, this changes by at most error / (1 − ν‖S‖).
    """
    squares = scatter.diagonal()
    if not (squares.min() >= SMALLEST_SQUARE and np.isfinite(squares).all()):
        return False
    in_one_direction = float(np.linalg.norm(scatter) / squares.sum())  # at least ν‖S‖
    return in_one_direction <= LARGEST_SHARE and single_error(scatter, 0.0) <= ERRORS[0]


SMALL_BLOCK = 1 << 21  # bytes: the rows and their centred copy fit into the second-level cache
FEWEST_ROWS, MANY_ROWS = 64, 8_192
PARTS = 4  # of a block, for different threads
PART_BYTES = 64 << 20  # of the sums of all parts; above this there are two parts
ROWS_OF_PROBE = 16  # for each feature and class, in the probe for the scatters of classes
FEWEST_SKIPPED = 16  # rows between two rows of that probe
PROBED = 64  # of so many rows, one is in the probe of a large block
CLEARLY = 10.0  # times the largest error, at which a probe fails
ROUNDING = 1e-12  # relative error of a mean


# Squares may overflow; the sums are checked for this. Threads do not inherit np.errstate, so every
# function that computes sums sets it.
_quietly = np.errstate(over="ignore", invalid="ignore")


@dataclass(frozen=True)
class Moments:
    """Weights and means of the classes, and the scatter of all rows about their mean.

    Attributes
    ----------
    weights : ndarray of shape (n_classes,)
        Sum of the weights of each class.
    means : ndarray of shape (n_classes, n_features)
        Means of the classes; zero for a class without rows.
    scatter : ndarray of shape (n_features, n_features)
        Σ s (x − x̄)(x − x̄)ᵀ.
    extremes : ndarray of shape (2, n_features) or None
        Smallest and largest values of sparse rows, None for dense rows. Sparse rows are centred
        after squaring, so that the scatter of a constant feature may be a rounding error.
    error : float
        Relative error of the scatter by products in float32, of the scatter plus the penalty that
        `block_moments` was given; 0 if all products are in float64.
    """

    weights: Array
    means: Array
    scatter: Array
    extremes: Array | None = None
    error: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.weights.sum())

    @property
    def mean(self) -> Array:
        """Mean of all rows."""
        return self.weights @ self.means / (self.total or np.finfo(float).tiny)

    @property
    def differ(self) -> bool:
        """Whether the means of the classes differ by more than rounding."""
        means = self.means[self.weights > 0]
        return bool(np.any(np.ptp(means, axis=0) > ROUNDING * np.abs(means).max(axis=0)))

    @_quietly
    def __add__(self, other: Moments) -> Moments:
        weights = self.weights + other.weights
        share = np.divide(other.weights, weights, out=np.zeros_like(weights), where=weights > 0)
        means = self.means + share[:, None] * (other.means - self.means)
        apart = other.mean - self.mean
        both = max(self.total + other.total, np.finfo(float).tiny)
        between = (self.total * other.total / both) * np.outer(apart, apart)
        return Moments(
            weights,
            means,
            self.scatter + other.scatter + between,
            _extremes(self, other),
            max(self.error, other.error),
        )

    def scaled(self, factor: float) -> Moments:
        """Return the moments for weights multiplied by a factor."""
        return replace(self, weights=factor * self.weights, scatter=factor * self.scatter)

    def gram(self, *, centre: bool) -> Array:
        """Compute Σ s x xᵀ about the mean or about the origin.

        About the mean, features that are constant up to rounding become zero.
        """
        if not centre:
            return self.scatter + self.total * np.outer(self.mean, self.mean)
        gram = self.scatter.copy()
        constant = clear_constant(gram, self.total * self.mean**2, is_sparse=self.is_sparse)
        if self.extremes is not None:
            low, high = self.extremes
            if np.any(constant & (low < high)):
                raise ValueError(
                    "A feature of the sparse X varies by less than the rounding of its mean, and a "
                    "sparse matrix cannot be centred. Subtract a constant from the feature, or "
                    "pass X as a dense array."
                )
        return gram

    def class_totals(self, *, centre: bool) -> Array:
        """Compute Σ s x of each class, one column per class, about the mean or about the origin."""
        means = self.means
        if centre:  # from the heaviest class, whose distance to the mean would be lost to rounding
            means = means - means[self.weights.argmax()]
            means = means - self.weights @ means / (self.total or np.finfo(float).tiny)
        return (self.weights[:, None] * means).T

    @property
    def is_sparse(self) -> bool:
        """Whether some rows were sparse and therefore centred after squaring."""
        return self.extremes is not None


def _extremes(one: Moments, other: Moments) -> Array | None:
    found = [each.extremes for each in (one, other) if each.extremes is not None]
    if not found:
        return None
    low, high = zip(*found, strict=True)
    return np.stack([np.min(low, axis=0), np.max(high, axis=0)])


def moments_by_group(
    block: Block, groups: Indices, n_groups: int, n_classes: int, penalty: float = 0.0
) -> AddableTuple:
    """Compute the moments of each group of rows, such as a class or a fold."""
    rows_of = [np.flatnonzero(groups == group) for group in range(n_groups)]
    return AddableTuple(
        block_moments(Block(block.X[rows], block.y[rows], block.weights[rows]), n_classes, penalty)
        for rows in rows_of
    )


def block_moments(block: Block, n_classes: int, penalty: float = 0.0) -> Moments:
    """Compute the moments of one block; raise ValueError if an entry is NaN or infinite.

    The relative penalty decides whether products of float32 rows can be in float32.
    """
    if not len(block.y):
        n_features = block.X.shape[1]
        none = np.zeros((n_features, n_features))
        return Moments(np.zeros(n_classes), np.zeros((n_classes, n_features)), none)
    if sparse.issparse(block.X):
        return _sparse_moments(block, n_classes)
    return _dense_moments(block, n_classes, penalty)


def require_finite(X: Any) -> None:
    """Raise ValueError if X contains NaN or infinity."""
    assert_all_finite(X.data if sparse.issparse(X) else X, input_name="X")


@_quietly
def _sparse_moments(block: Block, n_classes: int) -> Moments:
    X, y, weights = block[:3]
    totals = class_sums(y, weights, n_classes)
    sums = class_totals(X, y, weights, n_classes).T
    if not np.isfinite(sums).all():
        require_finite(X)
    means = np.divide(sums, totals[:, None], out=np.zeros_like(sums), where=totals[:, None] > 0)
    weighted = X.astype(np.float64).multiply(weights[:, None]).tocsr()
    scatter = np.asarray((weighted.T @ X).toarray())
    total = float(totals.sum())
    if total > 0:
        summed = sums.sum(axis=0)
        scatter -= np.outer(summed, summed) / total
    extremes = np.stack([X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()])
    return Moments(totals, means, scatter, extremes.astype(np.float64))


def _dense_moments(block: Block, n_classes: int, penalty: float) -> Moments:
    """Compute the moments of dense rows, with products in float32 if that is accurate enough."""
    if _may_be_single(block.X, penalty):
        moments = _moments_by_parts(block, n_classes, np.float32)
        error = single_error(moments.scatter, penalty)
        small = np.flatnonzero(moments.scatter.diagonal() < SMALLEST_SQUARE)
        if np.isfinite(error) and not np.any(block.X[:, small] != block.X[0, small]):
            return replace(moments, error=error)
    return _moments_by_parts(block, n_classes, np.float64)


@_quietly
def _may_be_single(X: NDArray[Any], penalty: float) -> bool:
    """Return whether products in float32 are worth a try: many rows are judged by some of them."""
    n_rows, n_features = X.shape
    if X.dtype != np.float32 or (n_rows <= n_features and penalty == 0):
        return False
    if n_rows < PROBED * max(2 * n_features, FEWEST_ROWS):
        return True
    probe = X[::PROBED] - X[::PROBED].mean(axis=0)
    return bool(np.isfinite(single_error(probe.T @ probe, penalty, (CLEARLY * LARGEST_ERROR,))))


def _moments_by_parts(block: Block, n_classes: int, dtype: Any) -> Moments:
    """Compute the moments in a few threads, each in small blocks of its part of the rows."""
    parts = _parts(len(block.y), 8 * block.X.shape[1] ** 2)
    found: dict[int, Moments] = {}

    def add_up(number: int) -> None:
        rows = parts[number]
        found[number] = _part_moments(
            Block(block.X[rows], block.y[rows], block.weights[rows]), n_classes, dtype
        )

    run_in_threads(add_up, range(len(parts)))
    return reduce(add, (found[number] for number in range(len(parts))))


def _parts(n_rows: int, bytes_of_sums: int) -> list[slice]:
    """Split a block into parts for different threads; fewer parts if their sums are large."""
    n_parts = PARTS if PARTS * bytes_of_sums <= PART_BYTES else 2
    return list(gen_batches(n_rows, max(-(-n_rows // n_parts), FEWEST_ROWS)))


def _small_step(n_features: int, dtype: Any) -> int:
    """Return the number of rows of a small block, which fits into the cache for few features."""
    row_bytes = max(n_features, 1) * np.dtype(dtype).itemsize
    return int(max(FEWEST_ROWS, SMALL_BLOCK // row_bytes, 2 * n_features))


@_quietly
def _part_moments(block: Block, n_classes: int, dtype: Any) -> Moments:
    from ._moment_loops import centre_rows

    n_features = block.X.shape[1]
    step = _small_step(n_features, dtype)
    buffer = np.empty((min(step, len(block.y)), n_features), dtype=dtype)
    shift = np.empty(n_features, dtype=dtype)
    found: Moments | None = None
    for rows in gen_batches(len(block.y), step):
        X = np.ascontiguousarray(block.X[rows])
        centred = buffer[: len(X)]
        weights, sums = np.zeros(n_classes), np.zeros((n_classes, n_features))
        # Sums about the mean of the previous rows, or about the first row, are accurate.
        origin = X[0].astype(np.float64) if found is None or not found.total else found.mean
        centre_rows(X, block.y[rows], block.weights[rows], origin, weights, sums, shift, centred)
        if not np.isfinite(shift).all():  # also for rows of weight zero: 0 · NaN is NaN
            require_finite(X)
        seen = weights[:, None] > 0
        means = np.divide(sums, weights[:, None], out=np.zeros_like(sums), where=seen)
        means[seen[:, 0]] += origin
        part = Moments(weights, means, (centred.T @ centred).astype(np.float64))
        off = part.mean - shift  # which is rounded to the precision of the rows
        part.scatter[:] -= part.total * np.outer(off, off)
        found = part if found is None else found + part
    assert found is not None
    return found


def class_scatters(block: Block, n_classes: int, alpha: float, beta: float) -> Array:
    """Compute Σ s x xᵀ / (α‖x‖² + β) over the rows of each class, one matrix per class.

    Products of float32 rows are in float32 if there are many rows of each class and
    `scatter_may_be_single` allows it.
    """
    X, y, weights = block[:3]
    if sparse.issparse(X):
        wide = X.astype(np.float64)
        squares = row_norms(wide)
        _require_squares(X, float(squares.sum()))
        scaled = wide.multiply((weights / (alpha * squares + beta))[:, None]).tocsr()
        rows_of = [np.flatnonzero(y == k) for k in range(n_classes)]
        return np.stack([(scaled[rows].T @ wide[rows]).toarray() for rows in rows_of])
    if _may_have_single_scatters(block, n_classes, alpha, beta):
        scatters = _scatters_by_parts(block, n_classes, alpha, beta, np.float32)
        if all(map(scatter_may_be_single, scatters)):
            return scatters
    return _scatters_by_parts(block, n_classes, alpha, beta, np.float64)


def _may_have_single_scatters(block: Block, n_classes: int, alpha: float, beta: float) -> bool:
    """Return whether products in float32 are worth a try, judged by some of many rows."""
    n_rows, n_features = block.X.shape
    step = n_rows // (ROWS_OF_PROBE * n_classes * n_features)
    if block.X.dtype != np.float32 or step < FEWEST_SKIPPED:
        return False
    probe = Block(block.X[::step], block.y[::step], block.weights[::step])
    counts = np.bincount(probe.y, minlength=n_classes)
    if step * counts.min() <= 2 * n_features:
        return False
    scatters = _scatters_by_parts(probe, n_classes, alpha, beta, np.float64)
    return all(map(scatter_may_be_single, scatters[counts >= 4 * n_features]))


def _scatters_by_parts(
    block: Block, n_classes: int, alpha: float, beta: float, dtype: Any
) -> Array:
    """Compute the scatters of the classes in a few threads, with products in one precision."""
    X, y, weights = block[:3]
    parts = _parts(len(y), 8 * n_classes * X.shape[1] ** 2)
    found = np.zeros((len(parts), n_classes, X.shape[1], X.shape[1]))

    def add_up(number: int) -> None:
        rows = parts[number]
        _add_scatters(found[number], Block(X[rows], y[rows], weights[rows]), alpha, beta, dtype)

    run_in_threads(add_up, range(len(parts)))
    return np.asarray(found.sum(axis=0))


def _require_squares(X: Any, squares: float) -> None:
    """Raise ValueError if the sum of the squares is not finite."""
    if not np.isfinite(squares):
        require_finite(X)
        raise ValueError(
            "The squares of the features overflow. Scale the features: divide them by their "
            "largest values."
        )


@_quietly
def _add_scatters(scatters: Array, block: Block, alpha: float, beta: float, dtype: Any) -> None:
    from ._moment_loops import group_rows

    # With many features, blocks are larger, so that the products of a class are added less often.
    n_features = block.X.shape[1]
    step = max(_small_step(n_features, dtype), min(2 * n_features * len(scatters), MANY_ROWS))
    buffer = np.empty((min(step, len(block.y)), n_features), dtype=dtype)
    ends = np.zeros(len(scatters), dtype=np.intp)
    for rows in gen_batches(len(block.y), step):
        X = np.ascontiguousarray(block.X[rows])
        squares = group_rows(X, block.y[rows], block.weights[rows], alpha, beta, ends, buffer)
        _require_squares(X, squares)
        for scatter, start, end in zip(scatters, [0, *ends[:-1]], ends, strict=True):
            if start < end:
                own = buffer[start:end]
                scatter += own.T @ own


class MomentRegression(NormalEquations):
    """Ridge regression that needs only the moments of the rows.

    Parameters
    ----------
    moments : Moments
    centre : bool
        Whether to subtract the mean of the features, for an unpenalised intercept.
    """

    def __init__(self, moments: Moments, *, centre: bool) -> None:
        self.moments, self.centred = moments, centre
        self.n_features = len(moments.scatter)
        self.mean = moments.mean if centre else None
        self.trace = float(self.gram.trace())
        self.total, self.error = moments.total, moments.error

    @property
    def size(self) -> int:
        return len(self.moments.scatter)

    @cached_property
    def gram(self) -> Array:
        return self.moments.gram(centre=self.centred)

    def class_totals(self, y: Any, n_classes: int) -> tuple[Array, Array]:
        totals = self.moments.class_totals(centre=self.centred)
        return self.without_constant(totals), self.moments.weights


class FeatureMoments(MomentRegression, Features):
    """Features of the group lasso that need only the moments of the rows."""

    def __init__(self, moments: Moments, *, centre: bool) -> None:
        super().__init__(moments, centre=centre)
        self._find_varying(self.gram.diagonal(), is_sparse=moments.is_sparse)
