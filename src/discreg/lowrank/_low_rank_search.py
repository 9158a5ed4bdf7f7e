"""Searches of the low-rank models: candidates for the rank, and `transform`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from discreg.base.classifier import with_inherited_docs
from discreg.base.search import ClassifierSearch, candidates_of
from discreg.base.trials import HeldOut, Judged, Setting, beyond
from discreg.base.validation import encode_labels, lazily
from discreg.linalg.group_lasso import SparseRankSolution
from discreg.linalg.rows import matmul
from discreg.linalg.types import Array, Indices, MatrixLike, RealArray, Scoring, Splitting

from ._ridge import (
    LRLRClassifier,
    LRRRClassifier,
    leave_one_out_by_rank,
    ranked_ridge,
    scores_by_rank,
)
from ._slrr import SLRRClassifier, is_null, largest_beta
from ._subspace import Indicators, largest_rank

BETAS = tuple(10.0**power for power in range(5, -6, -1))
FRACTIONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
MAX_RANKS = 5


class LowRankSearch(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierSearch):
    """Base class of the searches over the rank."""

    ranks: Any

    def _rank_candidates(self, classifier: Any, X: Any, y: NDArray[Any]) -> list[int]:
        """List the candidates for the rank, the smallest first."""
        largest = len(encode_labels(y)[0]) - int(classifier.fit_intercept)
        if classifier.kernel == "linear":
            largest = min(largest, X.shape[1])
        if self.ranks is None:
            return self._default_ranks(largest)
        return given_ranks(self.ranks, largest)

    def _default_ranks(self, largest: int) -> list[int]:
        return list(range(1, largest + 1))

    @lazily
    def transform(self, X: MatrixLike) -> RealArray:
        """Project samples onto the discriminative subspace of the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        projected : ndarray of shape (n_samples, `rank_`)
        """
        return np.asarray(self._best().transform(X))

    @property
    def _n_features_out(self) -> int:
        return int(self.best_estimator_._n_features_out)


def given_ranks(ranks: Any, largest: int) -> list[int]:
    """Check the candidates for the rank and return distinct values, the smallest first."""
    given = candidates_of(
        "ranks",
        ranks,
        lambda values: (values >= 1) & (values <= largest) & (values == np.round(values)),
        f"whole and from 1 to {largest}, the largest rank of these data",
    )
    return [int(rank) for rank in given[::-1]]


def held_out_by_rank(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    X_test: Any,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Yield held-out scores of LRRR, or of LRLR if the settings have no beta.

    One solve per penalty gives the models of all ranks.
    """
    prepared = classifier._prepare(X, y, sample_weight)
    largest = largest_rank(prepared)  # a fold may lack a class
    indicators = Indicators.of(prepared)
    shift = indicators.shift * indicators.scale
    cross = prepared.cross(X_test)
    for beta, settings in groupby(penalties, key=_beta):
        ranked = ranked_ridge(prepared, beta)
        scalings, means = prepared.regression.predictor(
            ranked.projected[:, :largest] * indicators.scale
        )
        projected = matmul(cross, scalings) - means
        by_rank = list(scores_by_rank(projected, ranked.directions[:, :largest], shift))
        for setting in settings:
            yield HeldOut(by_rank[min(setting["rank"], largest) - 1], prepared.classes)


def leave_one_out(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Yield the leave-one-out scores of LRRR, or of LRLR if the settings have no beta."""
    prepared = classifier._prepare(X, y, sample_weight)
    paths = [(beta, list(path)) for beta, path in groupby(penalties, key=_beta)]
    ranks = sorted({setting["rank"] for setting in penalties})
    by_beta = leave_one_out_by_rank(prepared, [beta for beta, _ in paths], ranks)
    for (_, path), by_rank in zip(paths, by_beta, strict=True):
        for setting in path:
            yield HeldOut(by_rank[ranks.index(setting["rank"])], prepared.classes)


def _beta(setting: Setting) -> float:
    return float(setting.get("beta", 0.0))


@with_inherited_docs
class LRLRClassifierCV(LowRankSearch):
    r"""Low-rank linear regression with the rank selected by exact leave-one-out.

    The leave-one-out scores equal those of n refits. One solve, and one small eigenproblem per
    sample, give the scores of all ranks. Equal rows of a class are left out together, with all of
    their weight. Class weights and the kernel's `gamma` are computed once, from all samples.

    Parameters
    ----------
    ranks : array-like of int, default=None
        Candidates for the rank; None means all ranks.

    See Also
    --------
    LRLRClassifier : The model.
    LRRRClassifierCV : The same search with a penalty, for many features or few samples.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRLRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LRLRClassifierCV().fit(X, y)
    >>> model.best_params_
    {'rank': 2}
    >>> model.transform(X).shape
    (178, 2)
    """

    _classifier = LRLRClassifier
    _held_out = staticmethod(held_out_by_rank)
    _leave_one_out = staticmethod(leave_one_out)

    def __init__(
        self,
        estimator: Any = None,
        *,
        ranks: Sequence[int] | None = None,
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.ranks = ranks
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        return [{"rank": rank} for rank in self._rank_candidates(classifier, X, y)]

    def _leaves_out(
        self, classifier: Any, groups: Indices | None, scorer: Callable[..., float]
    ) -> bool:
        linear = classifier.kernel == "linear"
        return bool(linear and super()._leaves_out(classifier, groups, scorer))


@with_inherited_docs
class LRRRClassifierCV(LowRankSearch):
    r"""Low-rank ridge regression with rank and `beta` selected by exact leave-one-out.

    The leave-one-out scores equal those of n refits. One eigendecomposition, and one small
    eigenproblem per sample and penalty, give the scores of all ranks and penalties. Equal rows of a
    class are left out together, with all of their weight. Class weights and the kernel's `gamma`
    are computed once, from all samples.

    Parameters
    ----------
    betas : array-like of float, default=(1e5, 1e4, ..., 1e-5)
        Candidates for `beta`. Continued beyond an
        edge, see `cv_results_`.
    ranks : array-like of int, default=None
        Candidates for the rank; None means all ranks.

    See Also
    --------
    LRRRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRRRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LRRRClassifierCV().fit(X, y)
    >>> sorted(model.best_params_)
    ['beta', 'rank']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = LRRRClassifier
    _held_out = staticmethod(held_out_by_rank)
    _leave_one_out = staticmethod(leave_one_out)

    def __init__(
        self,
        estimator: Any = None,
        *,
        betas: Sequence[float] = BETAS,
        ranks: Sequence[int] | None = None,
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.betas = betas
        self.ranks = ranks
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        betas = candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")
        ranks = self._rank_candidates(classifier, X, y)
        return [{"beta": beta, "rank": rank} for beta in betas for rank in ranks]

    def _for_share(self, classifier: Any, penalty: Setting, share: float) -> Setting:
        return penalty | {"beta": share * penalty["beta"]}


@with_inherited_docs
class SLRRClassifierCV(LowRankSearch):
    r"""Sparse low-rank regression with rank and `beta` selected by cross-validation.

    For each rank, penalties are fitted in decreasing order, each fit starting from the previous
    solution.

    Parameters
    ----------
    betas : array-like of float, default=None
        Candidates for `beta`. None means 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003 and 0.001 times the
        smallest penalty for which all coefficients are zero. If the best of the default values is
        the smallest, up to three smaller values are tried, each after the first only if the one
        before increased the score by more than 0.1 %; see ``cv_results_["beyond_grid"]``. All
        candidates from `beta_max_` on give the same model, whose coefficients are zero and which
        predicts the largest class. They are scored without a fit and marked in
        ``cv_results_["is_null"]``.
    ranks : array-like of int, default=None
        Candidates for the rank. None means at most five ranks between half the largest rank and
        the largest rank, the upper part of the paper's range.

    Attributes
    ----------
    beta_max_ : float
        The smallest `beta` at which all coefficients are zero on all samples, see
        :func:`~discreg.beta_max`. ``cv_results_["is_null"]`` says which settings have no
        coefficients.

    See Also
    --------
    SLRRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import SLRRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SLRRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta', 'rank']
    >>> model.best_score_ > 0.95
    True
    """

    _classifier = SLRRClassifier

    def __init__(
        self,
        estimator: Any = None,
        *,
        betas: Sequence[float] | None = None,
        ranks: Sequence[int] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.betas = betas
        self.ranks = ranks
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        ranks = self._rank_candidates(classifier, X, y)
        prepared = classifier._prepare(X, y, weights)
        largest = self.beta_max_ = largest_beta(classifier._problem(prepared, 1, 0.0))
        if self.betas is not None:
            betas = candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")
        else:
            betas = [fraction * largest for fraction in FRACTIONS] if largest > 0 else [1.0]
        return [{"beta": beta, "rank": rank} for beta in betas for rank in ranks]

    @staticmethod
    def _beyond(tried: Sequence[Setting], best: Setting, names: Sequence[str]) -> list[Setting]:
        """Continue to smaller penalties only: larger ones make all coefficients zero."""
        return [each for each in beyond(tried, best, names) if each["beta"] < best["beta"]]

    def _results(
        self, grid: list[Setting], judged: list[list[Judged]], n_given: int, *, per_fold: bool
    ) -> dict[str, Any]:
        results = super()._results(grid, judged, n_given, per_fold=per_fold)
        betas = np.array([setting["beta"] for setting in grid])
        results["is_null"] = is_null(betas, self.beta_max_)
        return results

    def _for_share(self, classifier: Any, penalty: Setting, share: float) -> Setting:
        return penalty | {"beta": np.sqrt(share) * penalty["beta"]}

    def _default_ranks(self, largest: int) -> list[int]:
        chosen = np.linspace((largest + 1) // 2, largest, MAX_RANKS).round().astype(int)
        return sorted(set(chosen.tolist()))

    @staticmethod
    def _held_out(
        classifier: SLRRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        """Yield held-out scores; fits start from the solution of the next larger penalty."""
        prepared = classifier._prepare(X, y, sample_weight)
        largest = largest_rank(prepared)  # a fold may lack a class
        indicators = Indicators.of(prepared)
        latest: dict[int, SparseRankSolution] = {}
        for setting in penalties:
            rank = setting["rank"]
            problem = classifier._problem(prepared, min(rank, largest), setting["beta"])
            solution = classifier._solve(problem, prepared, latest.get(rank), tol=classifier.tol)
            latest[rank] = solution
            coef, means = prepared.regression.predictor(solution.coef @ solution.directions.T)
            scores = indicators.scale * (matmul(X_test, coef) - means) + indicators.offset(coef)
            yield HeldOut(scores, prepared.classes, solution.gap, classifier._converged(solution))
