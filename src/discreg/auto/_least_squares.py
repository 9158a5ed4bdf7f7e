r"""Least squares on class indicators with a kernel: all penalties from one eigendecomposition.

With weights w of sum W, centred features :math:`\sqrt{w_i} (\phi_i - \bar\phi) = V \Lambda^{1/2}`
and centred indicators T, the scores of penalty b are
:math:`f = \bar y + w^{-1/2} V \Lambda (\Lambda + b)^{-1} V^T T`, and the residuals of the rows g of
a unit, if it is left out, are :math:`(I - H_{gg})^{-1} r_g` with
:math:`H = V \Lambda (\Lambda + b)^{-1} V^T + \sqrt{w} \sqrt{w}^T / W`, all times :math:`\sqrt{w}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from discreg.blocks.source import AddableTuple, Block
from discreg.linalg.factorisation import eigen_driver
from discreg.linalg.fitted_kernel import FittedKernel, centre_kernel
from discreg.linalg.kernel_approximation import NystroemMap
from discreg.linalg.rows import batches, one_hot
from discreg.linalg.types import Array, Indices

from ._samples import Samples
from ._scaling import Scaling

SMALLEST = 1e-10  # relative eigenvalue of a direction that is kept; others are mostly rounding
BATCH_BYTES = 32 << 20
N_RANDOM = 199  # random labels of a test
CLOSE_TO_ONE = 1e-10  # 1 - leverage of rows that the others do not determine


@dataclass(frozen=True)
class KernelModel:
    """Scores ``k(x, rows) @ coef.T + intercept``, or ``x @ coef.T + intercept`` without rows."""

    kernel: FittedKernel
    rows: Any
    coef: Array
    intercept: Array

    def __call__(self, X: Any) -> Array:
        """Compute the scores of scaled rows, one column per class."""
        if self.rows is None:
            return np.asarray(X @ self.coef.T + self.intercept)
        return np.asarray(self.kernel.scores(X, self.rows, self.coef, self.intercept))


@dataclass(frozen=True)
class Spectrum:
    """Eigendecomposition of the centred features of all rows, for all penalties.

    Attributes
    ----------
    kernel : FittedKernel
    values : ndarray of shape (rank,)
        Eigenvalues.
    V : ndarray of shape (n_rows, rank)
        Rows of the eigenvectors that belong to the judged units.
    projected : ndarray of shape (rank, n_classes)
        The eigenvectors times the centred indicators.
    y, weights, units : ndarray of shape (n_rows,)
        Class, weight and unit of these rows.
    shares : ndarray of shape (n_classes,)
        Class shares of all rows.
    total : float
        Sum of all weights.
    judged : ndarray of shape (n_judged,)
        Places of the judged samples among these rows.
    rows, basis, centre : ndarray or None
        Rows of the kernel in the fitted model; coefficients of the rows, or of the features without
        rows, per eigenvector times the root of its eigenvalue; and their product with the mean.
    """

    kernel: FittedKernel
    values: Array
    V: Array
    projected: Array
    y: Indices
    weights: Array
    units: Indices
    shares: Array
    total: float
    judged: Indices
    rows: Any
    basis: Array
    centre: Array

    def held_out(self, penalty: float) -> Array:
        """Compute the scores of judged samples without their units; NaN if not determined."""
        shrunk = self.values / (self.values + penalty)
        roots = np.sqrt(self.weights)
        targets = one_hot(self.y, len(self.shares))
        residuals = roots[:, None] * (targets - self.shares) - self.V @ (
            shrunk[:, None] * self.projected
        )
        left = 1 - self.V**2 @ shrunk - self.weights / self.total
        without = residuals / np.where(left > CLOSE_TO_ONE, left, np.nan)[:, None]
        for unit in self._larger_units:
            V, root = self.V[unit], roots[unit]
            matrix = np.eye(len(unit)) - (V * shrunk) @ V.T - np.outer(root, root) / self.total
            try:
                without[unit] = linalg.solve(matrix, residuals[unit], assume_a="pos")
            except (linalg.LinAlgError, ValueError):
                without[unit] = np.nan
        return np.asarray(targets - without / roots[:, None])[self.judged]

    @cached_property
    def _larger_units(self) -> list[Indices]:
        """Rows of the units of more than one row."""
        order = np.argsort(self.units, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(self.units[order])) + 1)
        return [rows for rows in parts if len(rows) > 1]

    def explained(self, penalty: float) -> Array:
        """Compute the sum of squares that least squares explains, and those of random labels.

        For these, the residuals of each unit get a random sign.
        """
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (self.units.max() + 1, 1 + N_RANDOM))
        signs[:, 0] = 1.0
        residuals = self.weights[:, None] * (one_hot(self.y, len(self.shares)) - self.shares)
        features = self.V.T / np.sqrt(self.weights)
        shrunk, found = self.values / (self.values + penalty), np.zeros(1 + N_RANDOM)
        for each in residuals.T:
            found += shrunk @ (features @ (each[:, None] * signs[self.units])) ** 2
        return found

    def model(self, penalty: float) -> KernelModel:
        """Return the model of all rows."""
        factors = np.sqrt(self.values) / (self.values + penalty)
        weighted = factors[:, None] * self.projected
        coef = (self.basis @ weighted).T
        return KernelModel(self.kernel, self.rows, coef, self.shares - self.centre @ weighted)


def spectrum_of(
    kernel: FittedKernel, samples: Samples, scaling: str, n_components: int | None
) -> Spectrum:
    """Decompose a kernel of all rows; it is approximated if there is a number of components."""
    X = samples.scaled(scaling)
    is_narrow = X.shape[1] <= (n_components or len(samples))
    if kernel.kernel == "linear" and is_narrow:
        return _of_features(kernel, samples, scaling, None)
    if n_components is None or (n_components >= len(samples) and samples.source is None):
        return _of_matrix(kernel, samples, X)
    basis = X[: min(n_components, len(samples))]  # samples are in random order
    return _of_features(kernel, samples, scaling, NystroemMap.on(kernel, basis))


def _of_matrix(kernel: FittedKernel, samples: Samples, X: Any) -> Spectrum:
    """Decompose the kernel matrix."""
    weights, total = samples.weights, float(samples.weights.sum())
    roots = np.sqrt(weights)
    K = kernel(X)
    mean = centre_kernel(K, weights)
    K *= roots
    K *= roots[:, None]
    values, V = linalg.eigh(K, overwrite_a=True, check_finite=False, driver=eigen_driver(K))
    kept = values > SMALLEST * max(values[-1], 1e-300)
    values, V = values[kept], V[:, kept]
    shares = samples.sizes / total
    targets = roots[:, None] * (one_hot(samples.y, samples.n_classes) - shares)
    basis = roots[:, None] * V / np.sqrt(values)
    return Spectrum(
        kernel, values, V, V.T @ targets, samples.y, weights, samples.units, shares, total,
        samples.judged, X, basis, mean @ basis,
    )  # fmt: skip


def _of_features(
    kernel: FittedKernel, samples: Samples, scaling: str, features: NystroemMap | None
) -> Spectrum:
    """Decompose the Gram matrix of features, which is a sum over blocks of rows."""
    scale, n_classes = samples.scalings[scaling], samples.n_classes
    if samples.source is None:
        weights, total = samples.weights, float(samples.weights.sum())
        block = Block(samples.X, samples.y, weights)
        moments = _moments(block, scale, features, n_classes)
    else:
        assert samples.own_weights is not None
        weights, total = samples.own_weights, float(samples.source.sizes.sum())
        moments = samples.source.reduce(_moments, scale, features, n_classes)
    gram, sums, sizes = moments
    first = sums.sum(axis=1)
    gram = gram - np.outer(first, first) / total
    shares = sizes / total
    cross = sums - np.outer(first, shares)
    values, U = linalg.eigh(gram, overwrite_a=True, check_finite=False, driver=eigen_driver(gram))
    kept = values > SMALLEST * max(values[-1], 1e-300)
    values, U = values[kept], U[:, kept]
    rows = np.flatnonzero(np.isin(samples.units, samples.units[samples.judged]))
    roots = np.sqrt(weights[rows])
    V = np.vstack(
        [(each - first / total) @ U for _, each in _mapped(samples.X[rows], scale, features)]
        or [np.empty((0, len(values)))]
    )
    V *= roots[:, None] / np.sqrt(values)
    projected = (U / np.sqrt(values)).T @ cross
    units = np.unique(samples.units[rows], return_inverse=True)[1]
    basis = U if features is None else features.whitening @ U
    return Spectrum(
        kernel, values, V, projected, samples.y[rows], weights[rows], units, shares, total,
        np.searchsorted(rows, samples.judged), None if features is None else features.basis,
        basis, first / total @ U,
    )  # fmt: skip


def _mapped(X: Any, scale: Scaling, features: NystroemMap | None) -> Iterator[tuple[slice, Any]]:
    """Yield the features of scaled rows in batches."""
    width = X.shape[1] if features is None else features.n_components
    for rows in batches(X.shape[0], max(64, BATCH_BYTES // (8 * width))):
        each: Any = scale(X[rows])
        if features is not None:
            each = features(each)
        yield rows, each.toarray() if sparse.issparse(each) else each


def _moments(
    block: Block, scale: Scaling, features: NystroemMap | None, n_classes: int
) -> AddableTuple:
    """Sum the products of the features, the features by class, and the weights by class."""
    width = block.X.shape[1] if features is None else features.n_components
    gram, sums = np.zeros((width, width)), np.zeros((width, n_classes))
    for rows, each in _mapped(block.X, scale, features):
        weighted = each * np.sqrt(block.weights[rows])[:, None]
        gram += weighted.T @ weighted
        sums += each.T @ (block.weights[rows][:, None] * one_hot(block.y[rows], n_classes))
    sizes = np.bincount(block.y, block.weights, n_classes)
    return AddableTuple((gram, sums, sizes))
