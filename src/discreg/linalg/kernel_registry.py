"""Registry of the named kernels, with the properties of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreg.linalg.types import Array

__all__ = ["KERNELS", "KernelFacts"]


@dataclass(frozen=True)
class KernelFacts:
    """Properties of a kernel.

    Attributes
    ----------
    params : tuple of str
        Names of the parameters, among "gamma", "degree" and "coef0".
    on_tiles : bool
        Whether `discreg.linalg.kernel_tiles` computes matrices of the kernel tile by tile, because
        it is a function of the L1 distance, or of the inner product and the norms, of two rows.
    bounded : bool
        Whether all values are at most 1 for any rows.
    diagonal : float or None
        k(x, x) if it is the same for all x, else None.
    is_psd : callable
        ``is_psd(degree, coef0)``, whether all kernel matrices are positive semi-definite.
    matrix : callable or None
        ``matrix(X, Y, **params)``, the kernel matrix between the rows of two arrays or CSR
        matrices. None for the kernels of scikit-learn.
    default_gammas : tuple of float
        Values of gamma that a search tries by default, as multiples of "scale".
    frequencies : callable or None
        ``frequencies(random, shape, gamma)``, samples of the kernel's Fourier transform, for random
        Fourier features. None if the kernel does not support them.
    of_histograms : bool
        Whether the kernel requires dense rows of non-negative numbers.
    single_precision : bool
        Whether kernel matrices can be computed in single precision, with an error bound from gamma
        and the norms of the rows.
    """

    params: tuple[str, ...] = ()
    on_tiles: bool = False
    bounded: bool = False
    diagonal: float | None = None
    is_psd: Callable[[float, float], bool] = lambda degree, coef0: False
    matrix: Callable[..., Array] | None = None
    default_gammas: tuple[float, ...] = (1.0,)
    frequencies: Callable[[np.random.RandomState, tuple[int, int], float], Array] | None = None
    of_histograms: bool = False
    single_precision: bool = False


def _always(degree: float, coef0: float) -> bool:
    return True


def _polynomial_is_psd(degree: float, coef0: float) -> bool:
    return float(degree).is_integer() and coef0 >= 0


def _normal(random: np.random.RandomState, shape: tuple[int, int], gamma: float) -> Array:
    return np.asarray(np.sqrt(2 * gamma) * random.normal(size=shape))


def _cauchy(random: np.random.RandomState, shape: tuple[int, int], gamma: float) -> Array:
    return np.asarray(gamma * random.standard_cauchy(size=shape))


_POLYNOMIAL = KernelFacts(("gamma", "degree", "coef0"), True, is_psd=_polynomial_is_psd)

# The kernels of sklearn.metrics.pairwise.pairwise_kernels.
KERNELS: dict[str, KernelFacts] = {
    "additive_chi2": KernelFacts(diagonal=0.0, of_histograms=True),
    "chi2": KernelFacts(("gamma",), bounded=True, diagonal=1.0, is_psd=_always, of_histograms=True),
    "cosine": KernelFacts(on_tiles=True, bounded=True, is_psd=_always),
    "laplacian": KernelFacts(
        ("gamma",),
        on_tiles=True,
        bounded=True,
        diagonal=1.0,
        is_psd=_always,
        frequencies=_cauchy,
    ),
    "linear": KernelFacts(on_tiles=True, is_psd=_always),
    "poly": _POLYNOMIAL,
    "polynomial": _POLYNOMIAL,
    "rbf": KernelFacts(
        ("gamma",),
        on_tiles=True,
        bounded=True,
        diagonal=1.0,
        is_psd=_always,
        default_gammas=(0.1, 0.3, 1.0, 3.0, 10.0),
        frequencies=_normal,
        single_precision=True,
    ),
    "sigmoid": KernelFacts(("gamma", "coef0"), True),
}
