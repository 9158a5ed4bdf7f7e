"""Methods of the low-rank paper: regressions of every rank, and their coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.model_selection import StratifiedKFold

from discreg import (
    LRLRClassifier,
    LRRRClassifier,
    LRRRClassifierCV,
    SLRRClassifier,
    SLRRClassifierCV,
    beta_max,
)
from discreg.comparison.running.store import Outcome
from discreg_reproduction.protocol import Part, Tuned, judged, series
from discreg_reproduction.registry import Dataset

PER_DIGIT = 15
INNER_FOLDS = 5
MOST_SPARSE_RANKS = 5
N_DRAWS = 50  # random directions where LRLR has no preferred ones
TIED = 1e-6  # relative difference of eigenvalues that rounding explains
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
    """Low-rank linear regression at every rank.

    If all eigenvalues are equal, as with more features than samples, every choice of directions is
    optimal below full rank. Then ``accuracy_min`` and ``accuracy_max`` are the extremes over random
    choices.
    """

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        ranks = ranks_of(train)
        model = LRLRClassifier(probability=False).fit(*train)
        path = LRLRClassifier(probability=False).rank_path(*train).score(*test)
        values = dict(series("accuracy", "rank", {rank: path[rank - 1] for rank in ranks}).values)
        if np.ptp(model.eigenvalues_) <= TIED * model.eigenvalues_[0]:
            drawn = {rank: random_accuracies(model, test, rank, seed) for rank in ranks[:-1]}
            for name, extreme in (("accuracy_min", np.min), ("accuracy_max", np.max)):
                found = {rank: float(extreme(each)) for rank, each in drawn.items()}
                values |= series(name, "rank", found).values
        return Outcome(values)


def random_accuracies(
    model: LRLRClassifier, test: Part, rank: int, seed: int
) -> NDArray[np.float64]:
    """Score a regression of full rank on random subspaces of its directions."""
    chance = np.random.default_rng(seed)
    scores = model.decision_function(test.X)
    directions = linalg.orth(model.coef_)
    accuracies = []
    for _ in range(N_DRAWS):
        drawn, _ = linalg.qr(chance.normal(size=(directions.shape[1], rank)), mode="economic")
        basis = directions @ drawn
        labels = model.classes_[np.argmax(scores @ basis @ basis.T, axis=1)]
        accuracies.append(np.mean(labels == test.y))
    return np.array(accuracies)


@dataclass(frozen=True)
class LRRRRanks:
    """Low-rank ridge regression at every rank, with the penalty selected on the training part."""

    betas: Sequence[float]

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        ranks = ranks_of(train)
        search = LRRRClassifierCV(
            LRRRClassifier(probability=False), betas=self.betas, ranks=ranks, cv=_folds(seed)
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
        search = LRRRClassifierCV(
            LRRRClassifier(probability=False), betas=self.betas, ranks=ranks_of(train)
        )
        return Tuned(search, n_folds=INNER_FOLDS).run(train, test, seed)


@dataclass(frozen=True)
class SparseFullRank:
    """Sparse regression of full rank with the penalty selected on the training part."""

    betas: Sequence[float]

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        search = _sparse_search(train, seed, self.betas, ranks_of(train)[-1:])
        return judged(search, test, **_penalty(search))


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
        search = self.fitted(train, seed)
        return judged(search, test, **_penalty(search))


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
    """Fit Algorithm 3 with parameters selected by five folds of the training part.

    Penalties from `beta_max` on, with which all coefficients are zero, are not candidates.
    """
    largest = beta_max(*train)
    search = SLRRClassifierCV(
        SLRRClassifier(probability=False, **ALGORITHM_3),
        betas=[beta for beta in betas if beta < largest],
        ranks=ranks,
        cv=_folds(seed),
    )
    return search.fit(*train)


def _penalty(search: SLRRClassifierCV) -> dict[str, float]:
    """Return the selected penalty and the smallest one without coefficients."""
    return {"beta": float(search.best_params_["beta"]), "beta_max": float(search.beta_max_)}


def _best_beta(results: dict[str, Any], rank: int) -> float:
    """Find the penalty with the best held-out score at a rank; ties go to the first."""
    at_rank = np.flatnonzero(np.asarray(results["param_rank"]) == rank)
    best = at_rank[np.argmax(results["mean_test_score"][at_rank])]
    return float(results["param_beta"][best])
