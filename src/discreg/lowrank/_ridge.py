r"""LRLR and LRRR: models of all ranks from one ridge regression and one small eigenproblem.

Their leave-one-out is exact. Let Y be the normalised indicators of classes with sums of weights
:math:`n_j`, W the coefficients of full rank and :math:`M = Y^\top SXW`. Row i has the features
:math:`\varphi`, their solution :math:`z = (X^\top SX + \beta I)^{-1} \varphi`, the fit
:math:`f = W^\top\varphi` and the target :math:`\delta = y_i - \bar y`. If the row leaves with its
weight u, it is predicted as q by

.. math:: W' = W - u z e^\top, \quad M' = M - u (\delta q^\top + f e^\top), \quad
          q = \frac{\delta}{r_0} - e, \quad e = \frac{\delta - f}{r},

with :math:`r = r_0 - u \varphi^\top z` and :math:`r_0 = 1 - u/\sum s`.

The weight of its class decreases to :math:`n_j'`, which rescales a column of Y by
:math:`D = \sqrt{n_j/n_j'}`. The directions are the eigenvectors V of :math:`D M' D`; equal
eigenvalues are ordered by the norm of their coefficients, as in `rank_coefficients`. The scores are
:math:`q D V_s V_s^\top` plus the shift of the class weights, times the scale of the
remaining rows. At the largest rank no eigenvectors are needed, because the scores have no part in
the null space of M'.

If a model without a penalty fits the row whatever its target is, r is zero, and
:math:`e = W^\top z / (u z^\top z)` is the limit for a vanishing penalty. Rounding errors of an
ill-conditioned problem make some r negative. Where they can be as large as r, scores are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from discreg.base.classifier import Prepared, with_inherited_docs
from discreg.base.validation import COMPONENT_CONSTRAINTS, KERNEL_CONSTRAINTS, Number
from discreg.linalg.resources import threads_for
from discreg.linalg.ridge import TIED, RankedCoefficients, Regression, find_ties, rank_coefficients
from discreg.linalg.rows import class_totals, row_blocks, row_dots
from discreg.linalg.types import (
    Array,
    ClassWeight,
    Indices,
    KernelParams,
    Labels,
    MatrixLike,
    RealArray,
)

from ._subspace import Indicators, LowRankClassifier, largest_rank

SEEN = 1e-8  # smallest r for which the other rows determine the scores
SMALL_ERROR = 1e-10  # rounding error of r up to which a small r is zero
ACCURATE = 1e4  # smallest r in units of its rounding error
ROUNDING = 1e-12

RowsAndSolutions = Callable[[], Iterator[tuple[slice, Array, Array]]]


class ProjectedRidgeClassifier(LowRankClassifier):
    r"""Base class of LRLR and LRRR.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a
        function of two rows. It must be positive semi-definite; negative eigenvalues down to -1e-5
        times the Frobenius norm of the kernel matrix are rounding errors and count as zero.
    gamma : {"scale", "auto"}, float or None, default="scale"
        Parameter of the kernels "rbf", "poly", "sigmoid", "laplacian" and "chi2". "scale" is
        1 / (n_features * X.var()), "auto" and None are 1 / n_features.
    degree : float, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components : int, "auto" or None, default="auto"
        Number of components that approximate the kernel, for many samples; None means the exact
        kernel. "auto" is exact for at most 10,000 rows in memory, and otherwise 1,000 components
        with a warning. It is not the number of discriminant directions, which is `rank`.
        Ignored with the linear kernel.
    approximation : {"nystroem", "random_features"}, default="nystroem"
        "nystroem" is the Nyström method, on training rows drawn at random. "random_features" are
        an even number of random Fourier features, for the kernels "rbf" and "laplacian".
    random_state : int, RandomState instance or None, default=None
        Seed of the components.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_classes, n_samples) or (1, n_samples)
        Coefficients of the kernel functions of the training samples for other kernels.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Training samples; only set for exact kernels other than "linear" and
        "precomputed".
    eigenvalues_ : ndarray of shape (`rank_`,)
        Leading eigenvalues of :math:`(S_t + \beta I)^+ S_b`: the ratio of between-class scatter to
        (penalised) total scatter along each discriminative direction.
    n_components_ : int
        Number of components; only set if the kernel is approximated.
    kernel_error_ : float
        Root mean square error of the approximated kernel on some 500 training rows, relative to
        the root mean square of its values; only set if the kernel is approximated.
    """

    _constraints = LowRankClassifier._constraints | KERNEL_CONSTRAINTS | COMPONENT_CONSTRAINTS
    _known_by_moments = True
    beta: float = 0.0

    def _fit_and_calibrate(self, prepared: Prepared) -> None:
        rank, indicators = self._checked_rank(prepared), Indicators.of(prepared)
        ranked = ranked_ridge(prepared, float(self.beta))
        shift = indicators.shift * indicators.scale
        self._store_subspace(
            prepared, ranked.projected[:, :rank], ranked.directions[:, :rank], shift
        )
        self.eigenvalues_ = ranked.explained[:rank].astype(prepared.dtype)
        self._calibrate(prepared, ranked)

    def _scores_without(self, prepared: Prepared, solution: RankedCoefficients) -> Array:
        return leave_one_out_at_rank(prepared, solution, self.rank_)

    def rank_path(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RankPath:
        """Compute the models of all ranks from one fit; `rank` is ignored.

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
        >>> from discreg import LRLRClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> path = LRLRClassifier().rank_path(X[::2], y[::2])
        >>> path.ranks
        array([1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> path.score(X[1::2], y[1::2])[[1, 8]].round(2)
        array([0.41, 0.92])
        """
        self._check_params()
        model = clone(self).set_params(rank=None, probability=False)
        return RankPath(model.fit(X, y, sample_weight))


@with_inherited_docs
class LRLRClassifier(ProjectedRidgeClassifier):
    r"""Low-rank linear regression: regression in the LDA subspace.

    Solves equation (3) of [1]_ exactly, for centred X and the normalised indicators
    :math:`Y_{ij} = 1/\sqrt{n_j}` for samples i of class j, else 0:

    .. math:: \min_W\; \|Y - XW\|_F^2 \quad\text{subject to}\quad \operatorname{rank}(W) \le s .

    The columns of W span the s leading directions of linear discriminant analysis (Theorem 1).
    If X does not determine W, the solution has minimum norm: the limit of
    :class:`~discreg.LRRRClassifier` as `beta` goes to 0.

    The fitted coefficients are W times :math:`\sqrt{n/c}` for n samples of c classes, those of
    targets of 1 for classes of equal size. Scores therefore do not depend on the number of samples.

    Parameters
    ----------
    rank : int, default=None
        The rank s, at most n_classes - 1 and n_features. None means the largest rank, which is
        linear regression of full rank.

    See Also
    --------
    LRLRClassifierCV : Selects the rank by cross-validation.
    LRRRClassifier : The same model with a penalty, for many features or few samples.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : The same subspace with another
        decision rule.

    References
    ----------
    .. [1] X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
           Discriminant Analysis Based Regressions", KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRLRClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LRLRClassifier(rank=2).fit(X[::2], y[::2])
    >>> model.transform(X).shape
    (178, 2)
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.99
    """

    def __init__(
        self,
        *,
        rank: int | None = None,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.rank = rank
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.random_state = random_state


@with_inherited_docs
class LRRRClassifier(ProjectedRidgeClassifier):
    r"""Low-rank ridge regression: regression in the subspace of regularised LDA.

    Solves equation (16) of [1]_ exactly, for centred X and the normalised indicators
    :math:`Y_{ij} = 1/\sqrt{n_j}` for samples i of class j, else 0:

    .. math:: \min_W\; \|Y - XW\|_F^2 + \beta \|W\|_F^2
              \quad\text{subject to}\quad \operatorname{rank}(W) \le s .

    The columns of W span the s leading directions of linear discriminant analysis with the total
    scatter :math:`S_t + \beta I` (Theorem 3). With more features than samples, the fit solves one
    n by n system: `transform` is shrinkage LDA for wide data.

    The fitted coefficients are W times :math:`\sqrt{n/c}` for n samples of c classes, those of
    targets of 1 for classes of equal size. Scores therefore do not depend on the number of samples.

    Parameters
    ----------
    rank : int, default=None
        The rank s, at most n_classes - 1 and n_features. None means the largest rank, which is
        ridge regression of full rank.
    beta : float, default=10.0
        The paper's :math:`\lambda`, at least 0; 0 is :class:`~discreg.LRLRClassifier`. It has the
        units of :math:`X^\top X`: standardise the features, or select `beta` by
        :class:`~discreg.LRRRClassifierCV`.

    See Also
    --------
    LRRRClassifierCV : Selects rank and `beta` by exact leave-one-out.
    SLRRClassifier : Also selects features.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : LDA with shrinkage, which solves an
        n_features by n_features system.

    References
    ----------
    .. [1] X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
           Discriminant Analysis Based Regressions", KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from discreg import LRRRClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LRRRClassifier(beta=10.0).fit(X[::2], y[::2])
    >>> model.transform(X).shape
    (1797, 9)
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.93
    """

    _constraints = ProjectedRidgeClassifier._constraints | {"beta": Number(0, closed="left")}

    def __init__(
        self,
        *,
        rank: int | None = None,
        beta: float = 10.0,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.rank = rank
        self.beta = beta
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.random_state = random_state

    def _class_targets(self, sizes: Array) -> Array:
        """Compute the centred indicators of classes with these sums of sample weights."""
        centred = np.eye(len(sizes)) / np.sqrt(sizes) - np.sqrt(sizes) / sizes.sum()
        return np.asarray(centred * Indicators.scale_of(sizes))


def ranked_ridge(prepared: Prepared, beta: float) -> RankedCoefficients:
    """Solve ridge regression onto the normalised indicators, for every rank.

    Φ is centred, so that the moments ΦᵀSY do not depend on centring Y (Theorem 2).
    """
    regression = prepared.equations
    with threads_for(regression.size**3 / 6):  # of a Cholesky factorisation
        regression.at(beta)
        totals, _ = regression.class_totals(prepared.y, len(prepared.classes))
        moments = totals * Indicators.of(prepared).entries
        return rank_coefficients(regression.solve(moments), moments)


class RankPath:
    """Coefficients and scores of every rank.

    Returned by :meth:`LRRRClassifier.rank_path <discreg.LRRRClassifier.rank_path>`.

    Parameters
    ----------
    estimator : LRLRClassifier or LRRRClassifier
        Fitted with the largest rank.

    Attributes
    ----------
    ranks : ndarray of shape (n_ranks,)
        From 1 to the largest rank.
    classes : ndarray of shape (n_classes,)
        Class labels, in the order of the columns of the scores.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRRRClassifier
    >>> path = LRRRClassifier().rank_path(*load_wine(return_X_y=True))
    >>> path.ranks, path.coef(1).shape
    (array([1, 2]), (3, 13))
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self.ranks = np.arange(1, estimator.rank_ + 1)
        self.classes = estimator.classes_
        self._shift = estimator._shift

    def coef(self, rank: int) -> RealArray:
        """Return the coefficients of a rank, of the features or of the kernel functions.

        Parameters
        ----------
        rank : int
            One of `ranks`.

        Returns
        -------
        coef : ndarray of shape (n_classes, n_features) or (n_classes, n_samples)
        """
        self._check(rank)
        fitted = self._estimator
        return np.asarray(fitted.directions_[:, :rank] @ fitted.scalings_[:, :rank].T)

    def intercept(self, rank: int) -> RealArray:
        """Return the intercepts of a rank.

        Parameters
        ----------
        rank : int
            One of `ranks`.

        Returns
        -------
        intercept : ndarray of shape (n_classes,)
        """
        self._check(rank)
        fitted = self._estimator
        return np.asarray(self._shift - fitted.directions_[:, :rank] @ fitted._means[:rank])

    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the decision values of the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_ranks, n_samples, n_classes)
            One column per class, also for two classes.
        """
        projected = self._estimator.transform(X)
        by_rank = scores_by_rank(projected, self._estimator.directions_, self._shift)
        return np.array(list(by_rank))

    def predict(self, X: MatrixLike) -> Labels:
        """Predict labels with the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_ranks, n_samples)
        """
        return np.asarray(self.classes[self.decision_function(X).argmax(axis=2)])

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """Compute the accuracies of the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        accuracies : ndarray of shape (n_ranks,)
        """
        return np.array(
            [accuracy_score(y, labels, sample_weight=sample_weight) for labels in self.predict(X)]
        )

    def _check(self, rank: int) -> None:
        if not isinstance(rank, Integral) or rank not in self.ranks:
            raise ValueError(f"rank must be one of 1 to {self.ranks[-1]}, got {rank!r}.")


def scores_by_rank(
    projected: NDArray[Any], directions: NDArray[Any], shift: NDArray[Any]
) -> Iterator[NDArray[Any]]:
    """Yield the scores of projected samples for rank 1, rank 2, and so on."""
    scores = np.repeat(shift[None], len(projected), axis=0)
    for column, direction in zip(projected.T, directions.T, strict=True):
        scores = scores + np.outer(column, direction)
        yield scores


class Solved(NamedTuple):
    """Ridge regression of full rank for one penalty."""

    coef: Array  # W
    explained: Array  # M
    blocks: RowsAndSolutions  # blocks of the rows φ and z


def leave_one_out_by_rank(
    prepared: Prepared, betas: Sequence[float], ranks: Sequence[int]
) -> Iterator[Array]:
    """Yield the leave-one-out scores of all rows and ranks, one array per penalty.

    Each array has shape (n_ranks, n_rows, n_classes) and equals the scores of refits without each
    row. One eigendecomposition serves all penalties. The scores of a row without which its class
    has no weight are those of the model of all rows.
    """
    assert prepared.rows is not None
    regression, y, n_classes = prepared.regression, prepared.y, len(prepared.classes)
    assert isinstance(regression, Regression)
    indicators = Indicators.of(prepared)
    sizes = prepared.sizes[y]
    given, weights = prepared.rows.sample_weights, prepared.rows.weights
    stays = sizes - given > ROUNDING * sizes
    leaving = Leaving.of_classes(indicators, y, weights * stays, given * stays)
    at_largest = min(ranks) >= largest_rank(prepared)
    if any(beta > 0 for beta in betas):
        values, eigen_blocks = regression.eigen()
        totals = (
            class_totals(block, y[rows], weights[rows], n_classes) for rows, block in eigen_blocks()
        )
        along = np.asarray(sum(totals) * indicators.entries)

    def unpenalised() -> Iterator[tuple[slice, Array, Array]]:
        for rows in row_blocks(*regression.X.shape):
            features = regression.centred_rows(regression.X[rows])
            yield rows, features, regression.solve(features.T).T

    for beta in betas:
        if beta > 0:
            shrinkage = values + beta

            def blocks(shrinkage: Array = shrinkage) -> Iterator[tuple[slice, Array, Array]]:
                for rows, block in eigen_blocks():
                    yield rows, block, block / shrinkage

            coef = along / shrinkage[:, None]
            fit = Solved(coef, along.T @ coef, blocks)
        else:
            regression.at(0.0)
            moments = regression.class_totals(y, n_classes)[0] * indicators.entries
            coef = regression.solve(moments)
            fit = Solved(coef, moments.T @ coef, unpenalised)
        yield leaving.scores(fit, ranks, at_largest=at_largest)


def leave_one_out_at_rank(prepared: Prepared, ranked: RankedCoefficients, rank: int) -> Array:
    """Compute the leave-one-out scores of the kept rows for the penalty and rank of a fit."""
    kept, features, regression = prepared.kept, prepared.kept_features, prepared.equations
    assert kept is not None
    leaving = Leaving.of_classes(Indicators.of(prepared), kept.y, prepared.leaving, kept.weights)

    def blocks() -> Iterator[tuple[slice, Array, Array]]:
        for rows in row_blocks(*features.shape):
            yield rows, features[rows], regression.solve(features[rows].T).T

    turned = ranked.directions
    fit = Solved(ranked.projected @ turned.T, (turned * ranked.explained) @ turned.T, blocks)
    return np.asarray(leaving.scores(fit, [rank], at_largest=rank >= largest_rank(prepared))[0])


class Leaving(NamedTuple):
    """What leaving out each of some rows changes apart from the fit, one line per row."""

    weight: Array  # u
    before: Array  # r_0
    away: Array  # δ
    rescale: Array  # D
    shift: Array
    scale: Array

    @classmethod
    def of_classes(
        cls, given: Indicators, y: Indices, weights: Array, sample_weights: Array
    ) -> Leaving:
        """Create it for the normalised indicators of classes.

        Parameters
        ----------
        given : Indicators
            Those of all rows.
        y : ndarray of shape (n_rows,)
            Indices of the classes.
        weights, sample_weights : ndarray of shape (n_rows,)
            Weights that leave, with and without class weights.
        """
        here, total, weight = np.arange(len(y)), given.weights.sum(), weights[:, None]
        own = np.zeros((len(y), len(given.sizes)))
        own[here, y] = given.entries[y]
        sizes = np.repeat(given.sizes[None], len(y), axis=0)
        sizes[here, y] -= sample_weights
        before = 1 - weight / total * given.centred
        rescale = np.sqrt(given.sizes / sizes)
        mean = (given.mean - weight / total * own) / before * given.centred
        shift = given.shift_of(mean * rescale, sizes)
        return cls(weight, before, own - given.mean, rescale, shift, given.scale_of(sizes))

    def scores(self, fit: Solved, ranks: Sequence[int], *, at_largest: bool) -> Array:
        """Compute the scores without each row, of shape (n_ranks, n_rows, n_targets).

        With `at_largest`, all ranks are the largest one.
        """
        n_targets = self.away.shape[1]
        found = np.empty((len(ranks), *self.away.shape))
        for rows, features, solved in fit.blocks():
            of_block = self._take(rows)
            fitted, errors, predicted = of_block._predictions(fit.coef, features, solved)
            for part in row_blocks(len(features), n_targets**2):
                some = of_block._take(part)
                rescaled = predicted[part] * some.rescale
                by_rank = [rescaled] * len(ranks)
                if not at_largest:
                    of_part = (each[part] for each in (fitted, errors, predicted, solved))
                    vectors = some._directions(fit, *of_part)
                    along = np.einsum("nk,nks->ns", rescaled, vectors)
                    by_rank = [
                        np.einsum("ns,nks->nk", along[:, :rank], vectors[:, :, :rank])
                        for rank in ranks
                    ]
                place = slice(rows.start + part.start, rows.start + part.stop)
                found[:, place] = (np.stack(by_rank) + some.shift) * some.scale
        return found

    def _take(self, rows: slice) -> Leaving:
        return Leaving(*(each[rows] for each in self))

    def _predictions(
        self, coef: Array, features: Array, solved: Array
    ) -> tuple[Array, Array, Array]:
        """Compute f, e and q of some rows."""
        fitted, leverage = features @ coef, self.weight * row_dots(features, solved)[:, None]
        remaining = self.before - leverage  # r
        rounding = max(-float(remaining.min(initial=0.0)), 0.0)
        is_fitted = remaining <= SEEN
        unknown = np.where(is_fitted, rounding > SMALL_ERROR, remaining <= ACCURATE * rounding)
        with np.errstate(all="ignore"):
            limit = solved @ coef / (self.weight * row_dots(solved, solved)[:, None])
            errors = np.where(is_fitted, limit, (self.away - fitted) / remaining)
            # The second form keeps the digits of predictions that are much smaller than δ.
            predicted = np.where(
                is_fitted,
                self.away / self.before - errors,
                (fitted - leverage / self.before * self.away) / remaining,
            )
        return fitted, errors, np.where(unknown, np.nan, predicted)

    def _directions(
        self, fit: Solved, fitted: Array, errors: Array, predicted: Array, solved: Array
    ) -> Array:
        """Compute V of the model without each row."""
        changed = fit.explained - _outer(self.weight * self.away, predicted)
        changed -= _outer(self.weight * fitted, errors)
        changed *= _outer(self.rescale, self.rescale)
        known = np.flatnonzero(np.isfinite(changed).all(axis=(1, 2)))
        vectors = np.full_like(changed, np.nan)
        values, found = np.linalg.eigh(changed[known])
        values, vectors[known] = values[:, ::-1], found[:, :, ::-1]
        is_tied = np.any(-np.diff(values) <= TIED * values[:, :1], axis=1)
        for row, of_row in zip(known[is_tied].tolist(), values[is_tied], strict=True):
            coef = fit.coef - self.weight[row] * np.outer(solved[row], errors[row])
            for tied in find_ties(of_row):
                chosen = vectors[row][:, tied]
                projected = (coef * self.rescale[row]) @ chosen
                turned = linalg.eigh(projected.T @ projected, check_finite=False)[1]
                vectors[row][:, tied] = chosen @ turned
        return vectors


def _outer(left: Array, right: Array) -> Array:
    """Compute the outer products of corresponding rows."""
    return np.asarray(left[:, :, None] * right[:, None, :])
