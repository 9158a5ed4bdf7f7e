"""LRLR and LRRR: one ridge regression, one small eigenproblem, all ranks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from numpy.typing import ArrayLike

from discreg.base.classifier import Prepared
from discreg.base.params import KERNEL_CONSTRAINTS, check_params
from discreg.linalg.reduced_rank import RankedCoefficients, rank_coefficients
from discreg.linalg.threads import one_blas_thread

from ._base import LowRankClassifier
from ._indicators import Indicators
from ._path import RankPath

__all__ = ["RidgeLowRankClassifier", "ranked_ridge"]

SMALL = 1_000  # size of a system that two threads solve slower than one


class RidgeLowRankClassifier(LowRankClassifier):
    """Base of LRLR and LRRR, which differ in the penalty alone."""

    _known_by_moments = True
    _constraints = LowRankClassifier._constraints | KERNEL_CONSTRAINTS

    def __init__(
        self,
        *,
        rank: int | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
    ) -> None:
        self.rank = rank
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params

    @property
    def _penalty(self) -> float:
        """The weight on the squares of the coefficients."""
        return 0.0

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RidgeLowRankClassifier:
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
        self._fit_moments(self._prepare(X, y, sample_weight))
        return self

    def _fit_moments(self, prepared: Prepared) -> None:
        rank = self._checked_rank(prepared)
        indicators = Indicators.of(prepared)
        ranked = ranked_ridge(prepared, indicators, float(self._penalty))
        self._store(
            prepared,
            ranked.projected[:, :rank],
            ranked.directions[:, :rank],
            indicators.shift,
        )
        self.eigenvalues_ = ranked.explained[:rank].astype(prepared.dtype)

    def rank_path(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RankPath:
        """The models of all ranks, from one fit; `rank` is not looked at.

        Parameters
        ----------
        X, y, sample_weight
            Training data, as for `fit`.

        Returns
        -------
        path : RankPath
            Coefficients, decision values, labels and accuracies for every rank.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from discreg import LRRRClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> path = LRRRClassifier().rank_path(X[::2], y[::2])
        >>> path.ranks
        array([1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> path.score(X[1::2], y[1::2])[[1, 8]].round(2)
        array([0.42, 0.93])
        """
        check_params(self, self._constraints)
        full = type(self)(**(self.get_params(deep=False) | {"rank": None}))
        return RankPath(full.fit(X, y, sample_weight))


def ranked_ridge(prepared: Prepared, indicators: Indicators, beta: float) -> RankedCoefficients:
    """Ridge regression onto the normalised indicators, for every rank.

    The moments are ΦᵀSY whether Y is centred or not (Theorem 2): Φ is.
    """
    regression = prepared.regression
    with one_blas_thread() if regression.size <= SMALL else nullcontext():
        regression.at(beta)
        totals, _ = regression.class_totals(prepared.y, len(prepared.classes))
        moments = totals * indicators.entries
        return rank_coefficients(regression.solve(moments), moments)
