"""What the searches of the low-rank family share: the grid, the fit of the best, `transform`."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.utils.validation import validate_data

from discreg.base.best import BestClassifier
from discreg.base.candidates import candidates_of
from discreg.base.old_search import Fold, HeldOut, Setting, best_setting, score_held_out, split
from discreg.base.params import check_params
from discreg.base.search import SEARCH_CONSTRAINTS
from discreg.blocks.labels import encode_labels, sample_weights

__all__ = ["LowRankSearchCV", "score_fold", "settings"]


class LowRankSearchCV(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BestClassifier):
    """Base of the searches over rank and penalty."""

    _classifier: type[Any]
    _constraints: dict[str, Any] = {
        name: SEARCH_CONSTRAINTS[name] for name in ("scoring", "n_jobs")
    }
    betas: Any
    ranks: Any
    scoring: Any
    fit_intercept: bool

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> LowRankSearchCV:
        """Choose rank and penalty on held-out samples and fit them on all samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Weights, for the fits and for the held-out scores.
        groups : array-like of shape (n_samples,), default=None
            Groups of the samples, for a `cv` that splits by groups.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        check_params(self, self._constraints)
        self._require_rows_in_memory(X)
        classifier = self._model()
        rows, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        ranks = self._ranks(rows, labels)
        weights = None if sample_weight is None else sample_weights(sample_weight, len(labels))
        betas = self._betas(classifier, rows, labels, weights)
        scorer = check_scoring(classifier, scoring=self.scoring)
        self.cv_results_ = self._search(
            classifier, rows, labels, weights, groups, betas, ranks, scorer
        )
        self.best_params_, self.best_score_ = best_setting(self.cv_results_)
        self.best_estimator_ = clone(classifier).set_params(**self.best_params_)
        self.best_estimator_.fit(rows, labels, weights)
        self._adopt()
        return self

    def _model(self) -> Any:
        """The classifier with the parameters that are not chosen."""
        shared = self._classifier().get_params().keys() & self.get_params().keys()
        return self._classifier(**{name: getattr(self, name) for name in shared})

    def _betas(self, classifier: Any, X: Any, y: Any, weights: Any) -> list[float]:
        """Penalties to choose from, the largest first."""
        return candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")

    def _ranks(self, X: Any, y: NDArray[Any]) -> list[int]:
        """Ranks to choose from, the smallest first."""
        largest = len(encode_labels(y)[0]) - int(self.fit_intercept)
        if self.kernel == "linear":
            largest = min(largest, X.shape[1])
        if self.ranks is None:
            return self._default_ranks(largest)
        given = candidates_of(
            "ranks",
            self.ranks,
            lambda values: (values >= 1) & (values <= largest) & (values == np.round(values)),
            f"whole and from 1 to {largest}, the largest rank of these data",
        )
        return [int(rank) for rank in given[::-1]]

    def _default_ranks(self, largest: int) -> list[int]:
        return list(range(1, largest + 1))

    @abstractmethod
    def _search(
        self,
        classifier: Any,
        X: Any,
        y: NDArray[Any],
        weights: NDArray[np.float64] | None,
        groups: ArrayLike | None,
        betas: Sequence[float],
        ranks: Sequence[int],
        scorer: Callable[..., float],
    ) -> dict[str, Any]:
        """Held-out scores of all pairs of a penalty and a rank."""

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Project samples onto the discriminative subspace of the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        projected : ndarray of shape (n_samples, rank_)
        """
        self._check_new(X)
        return self.best_estimator_.transform(X)

    @property
    def _n_features_out(self) -> int:
        return int(self.best_estimator_._n_features_out)


def settings(betas: Sequence[float], ranks: Sequence[int]) -> list[Setting]:
    """All pairs, the strongest penalty and the lowest rank first."""
    return [{"beta": beta, "rank": rank} for beta in betas for rank in ranks]


def score_fold(
    held_out_path: Callable[..., Iterator[HeldOut]],
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    betas: Sequence[float],
    ranks: Sequence[int],
    fold: Fold,
    scorer: Callable[..., float],
    number: int,
) -> tuple[list[float], list[float], list[float]]:
    """Held-out scores, fitting times and gaps of all settings on one fold, along a path."""
    train, test = fold
    X_train, X_test = split(X, fold, pairwise=classifier.kernel == "precomputed")
    weights = (None, None) if sample_weight is None else (sample_weight[train], sample_weight[test])
    path = held_out_path(classifier, X_train, y[train], weights[0], X_test, betas, ranks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one warning for all, after the folds
        return score_held_out(path, y[test], weights[1], scorer, number)
