"""Methods of the low-rank paper: regressions of every rank, and their coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.model_selection import StratifiedKFold

from discreg import (
    LRLRClassifier,
    LRRRClassifier,
    LRRRClassifierCV,
    SLRRClassifier,
    SLRRClassifierCV,
)
from discreg.comparison.running.experiment import Outcome
from discreg_reproduction.protocol import Part, Tuned, judged, series
from discreg_reproduction.registry import Dataset

PER_DIGIT = 15
INNER_FOLDS = 5
MOST_SPARSE_RANKS = 5
# Algorithm 3 of the paper and its stopping rule.
ALGORITHM_3: dict[str, Any] = {"solver": "reweighted", "stopping": "change", "tol": 1e-5}


def prepared(dataset: Dataset) -> Dataset:
    """Select the samples of the paper and divide them by the largest absolute value."""
    X, y = dataset.X, dataset.y
    if dataset.name == "mnist":
        chance = np.random.default_rng(0)
        drawn = [chance.choice(np.flatnonzero(y == k), PER_DIGIT, False) for k in np.unique(y)]
        X, y = X[np.concatenate(drawn)], y[np.concatenate(drawn)]
    return replace(dataset, X=X / np.abs(X).max(), y=y, n_train=None)


def ranks_of(train: Part) -> list[int]:
    """List the possible ranks in [k/2, k) for k classes."""
    n_classes, n_features = len(np.unique(train.y)), train.X.shape[1]
    return list(range((n_classes + 1) // 2, min(n_classes - 1, n_features) + 1))


@dataclass(frozen=True)
class LRLRRanks:
    """Low-rank linear regression at every rank."""

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        scores = LRLRClassifier(probability=False).rank_path(*train).score(*test)
        return series("accuracy", "rank", {rank: scores[rank - 1] for rank in ranks_of(train)})


@dataclass(frozen=True)
class LRRRRanks:
    """Low-rank ridge regression at every rank, with the penalty selected on the training part."""

    betas: Sequence[float]

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        ranks = ranks_of(train)
        search = LRRRClassifierCV(
            probability=False, betas=self.betas, ranks=ranks, cv=_folds(seed)
        ).fit(*train)
        betas = {rank: _best_beta(search.cv_results_, rank) for rank in ranks}
        scores = {
            beta: LRRRClassifier(probability=False, beta=beta).rank_path(*train).score(*test)
            for beta in set(betas.values())
        }
        accuracies = {rank: scores[beta][rank - 1] for rank, beta in betas.items()}
        return series("accuracy", "rank", accuracies)


@dataclass(frozen=True)
class SLRRRanks:
    """Sparse low-rank regression at every rank, with the penalty selected at full rank."""

    betas: Sequence[float]

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        ranks = ranks_of(train)
        beta = _sparse_search(train, seed, self.betas, ranks[-1:]).best_params_["beta"]
        models = {
            rank: SLRRClassifier(probability=False, rank=rank, beta=beta, **ALGORITHM_3)
            for rank in ranks
        }
        accuracies = {rank: model.fit(*train).score(*test) for rank, model in models.items()}
        return series("accuracy", "rank", accuracies)


@dataclass(frozen=True)
class ChosenRank:
    """Low-rank ridge regression with rank and penalty selected on the training part."""

    betas: Sequence[float]

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        search = LRRRClassifierCV(probability=False, betas=self.betas, ranks=ranks_of(train))
        return Tuned(search, n_folds=INNER_FOLDS).run(train, test, seed)


@dataclass(frozen=True)
class ChosenSparseRank:
    """Sparse low-rank regression with the penalty selected at full rank, then the rank."""

    betas: Sequence[float]

    def fitted(self, train: Part, seed: int) -> SLRRClassifierCV:
        """Fit the regression with penalty and rank selected on the training part."""
        ranks = ranks_of(train)
        beta = _sparse_search(train, seed, self.betas, ranks[-1:]).best_params_["beta"]
        some = np.linspace(ranks[0], ranks[-1], MOST_SPARSE_RANKS).round().astype(int)
        return _sparse_search(train, seed, [beta], sorted(set(some.tolist())))

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        return judged(self.fitted(train, seed), test)


@dataclass(frozen=True)
class SparseStructure:
    """The coefficients of a sparse low-rank regression, and their singular values."""

    method: ChosenSparseRank

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        model = self.method.fitted(train, seed)
        norms = linalg.norm(model.coef_, axis=0)
        values = {
            **judged(model, test).values,
            "rank": float(model.best_params_["rank"]),
            "used_features": float(np.mean(norms > norms.max() / 1e6)),
        }
        arrays = {
            "singular_values": linalg.svdvals(model.coef_),
            "coefficients": np.abs(model.coef_.T),
        }
        return Outcome(values, arrays)


def _folds(seed: int) -> StratifiedKFold:
    return StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)


def _sparse_search(
    train: Part, seed: int, betas: Sequence[float], ranks: Sequence[int]
) -> SLRRClassifierCV:
    """Fit Algorithm 3 with parameters selected by five folds of the training part."""
    search = SLRRClassifierCV(
        probability=False, betas=betas, ranks=ranks, cv=_folds(seed), **ALGORITHM_3
    )
    return search.fit(*train)


def _best_beta(results: dict[str, Any], rank: int) -> float:
    """Find the penalty with the best held-out score at a rank; ties go to the first."""
    at_rank = np.flatnonzero(np.asarray(results["param_rank"]) == rank)
    best = at_rank[np.argmax(results["mean_test_score"][at_rank])]
    return float(results["param_beta"][best])
