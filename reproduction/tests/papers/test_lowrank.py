"""The low-rank paper's studies: ranks, data, and what its methods compute."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedKFold

from discreg import LRLRClassifier, LRRRClassifier, SLRRClassifier, beta_max
from discreg_reproduction.papers import lowrank
from discreg_reproduction.papers._lowrank_methods import (
    ALGORITHM_3,
    ChosenRank,
    ChosenSparseRank,
    LRLRRanks,
    LRRRRanks,
    SLRRRanks,
    SparseFullRank,
    SparseStructure,
    _best_beta,
    prepared,
    random_accuracies,
    ranks_of,
)
from discreg_reproduction.protocol import LevelLine, Part, Tuned
from discreg_reproduction.registry import Dataset

X, Y = make_blobs(180, 8, centers=6, cluster_std=6.0, random_state=0)
X = X / np.abs(X).max()
TRAIN, TEST = Part(X[:120], Y[:120]), Part(X[120:], Y[120:])
RANKS = [3, 4, 5]


def test_penalties_are_those_of_section_4_2():
    np.testing.assert_allclose(sorted(lowrank.BETAS), 10.0 ** np.arange(-5, 6))
    assert ALGORITHM_3 == {"solver": "reweighted", "stopping": "change", "tol": 1e-5}


@pytest.mark.parametrize(
    ("n_classes", "n_features", "ranks"),
    [(6, 8, [3, 4, 5]), (11, 10, [6, 7, 8, 9, 10]), (6, 4, [3, 4])],
)
def test_ranks_are_from_half_the_classes_up(n_classes, n_features, ranks):
    assert ranks_of(Part(np.zeros((n_classes, n_features)), np.arange(n_classes))) == ranks


def test_fifteen_images_of_each_digit_are_drawn():
    rows = np.arange(400.0).reshape(200, 2)
    drawn = prepared(Dataset("mnist", rows, np.repeat(np.arange(10), 20), n_train=150))
    np.testing.assert_array_equal(np.bincount(drawn.y), np.full(10, 15))
    assert len(np.unique(drawn.X, axis=0)) == 150
    assert drawn.X.max() == 1
    assert drawn.n_train is None


def test_other_data_sets_are_divided_by_their_largest_value():
    whole = prepared(Dataset("vowel", np.array([[1.0, -4.0], [2.0, 0.0]]), np.array([0, 1])))
    np.testing.assert_array_equal(whole.X, [[0.25, -1.0], [0.5, 0.0]])


def test_full_rank_is_a_level_line():
    outcome = LevelLine(Tuned(LRLRClassifier()), "rank", ranks_of).run(TRAIN, TEST, seed=0)
    accuracy = LRLRClassifier().fit(*TRAIN).score(*TEST)
    assert outcome.values == {f"accuracy[rank={rank}]": accuracy for rank in RANKS}


@pytest.mark.parametrize(
    ("method", "model"),
    [
        (LRLRRanks(), LRLRClassifier()),
        (LRRRRanks([0.1]), LRRRClassifier(beta=0.1)),
        (SLRRRanks([0.1]), SLRRClassifier(beta=0.1, **ALGORITHM_3)),
    ],
    ids=["LRLR", "LRRR", "SLRR"],
)
def test_accuracy_at_a_rank_is_that_of_the_model_of_this_rank(method, model):
    outcome = method.run(TRAIN, TEST, seed=0)
    expected = {
        f"accuracy[rank={rank}]": model.set_params(rank=rank).fit(*TRAIN).score(*TEST)
        for rank in RANKS
    }
    assert outcome.values == pytest.approx(expected)


def test_ridge_penalty_is_chosen_for_each_rank():
    betas = [1e5, 1.0, 1e-5]
    outcome = LRRRRanks(betas).run(TRAIN, TEST, seed=0)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(*TRAIN))
    for rank in RANKS:
        held_out = [
            np.mean(
                [
                    LRRRClassifier(rank=rank, beta=beta)
                    .fit(TRAIN.X[fit], TRAIN.y[fit])
                    .score(TRAIN.X[judge], TRAIN.y[judge])
                    for fit, judge in folds
                ]
            )
            for beta in betas
        ]
        beta = betas[int(np.argmax(held_out))]
        expected = LRRRClassifier(rank=rank, beta=beta).fit(*TRAIN).score(*TEST)
        assert outcome.values[f"accuracy[rank={rank}]"] == pytest.approx(expected)


def test_penalty_of_a_rank_is_the_best_at_that_rank():
    results = {
        "param_rank": np.array([3, 4, 3, 4]),
        "param_beta": np.array([10.0, 10.0, 1.0, 1.0]),
        "mean_test_score": np.array([0.5, 0.9, 0.6, 0.7]),
    }
    assert [_best_beta(results, rank) for rank in (3, 4)] == [1.0, 10.0]


def test_low_rank_regression_without_a_penalty_is_lrlr():
    outcome = ChosenRank((0.0,)).run(TRAIN, TEST, seed=0)
    scores = [LRLRClassifier(rank=rank).fit(*TRAIN).score(*TEST) for rank in RANKS]
    assert outcome.values["accuracy"] in scores


def test_sparse_structure_shows_the_rank_that_was_chosen():
    outcome = SparseStructure(ChosenSparseRank([1.0, 0.01])).run(TRAIN, TEST, seed=0)
    singular = outcome.arrays["singular_values"]
    assert np.sum(singular > 1e-10 * singular[0]) == outcome.values["rank"]
    assert outcome.arrays["coefficients"].shape == (8, 6)
    assert (outcome.arrays["coefficients"] >= 0).all()
    accuracy = ChosenSparseRank([1.0, 0.01]).run(TRAIN, TEST, seed=0).values["accuracy"]
    assert outcome.values["accuracy"] == accuracy


@pytest.mark.parametrize("method", [SparseFullRank, ChosenSparseRank])
def test_penalties_without_coefficients_are_no_candidates(method, recwarn):
    """Above `beta_max` all coefficients are zero: the grid ends before it."""
    largest = beta_max(*TRAIN)
    outcome = method([1e3 * largest, largest, 0.5 * largest]).run(TRAIN, TEST, seed=0)
    assert outcome.values["beta"] == 0.5 * largest
    assert outcome.values["beta_max"] == pytest.approx(largest)
    assert not recwarn.list


def test_directions_of_wide_data_are_arbitrary_below_full_rank():
    """With more features than samples every subspace is optimal; the extremes bracket a choice."""
    chance = np.random.default_rng(0)
    y = np.arange(60) % 4
    X = chance.normal(size=(60, 80)) + np.eye(4)[y] @ chance.normal(size=(4, 80))
    train, test = Part(X[:40], y[:40]), Part(X[40:], y[40:])
    values = LRLRRanks().run(train, test, seed=0).values
    assert values["accuracy_min[rank=2]"] < values["accuracy_max[rank=2]"]
    assert "accuracy_min[rank=3]" not in values
    model = LRLRClassifier(probability=False).fit(*train)
    full = random_accuracies(model, test, 3, seed=0)
    np.testing.assert_array_equal(full, model.score(*test))  # of full rank there is one subspace
    assert "accuracy_min[rank=3]" not in LRLRRanks().run(TRAIN, TEST, seed=0).values
