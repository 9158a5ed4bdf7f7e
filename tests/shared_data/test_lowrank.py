"""Facts about the low-rank family on the data sets of its paper."""

import numpy as np
import pytest
from low_rank_oracles import centre, paper_coefficients, paper_solution
from scipy import linalg
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from discreg import LRLRClassifier, LRRRClassifier, LRRRClassifierCV, SLRRClassifier

FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def unit(X):
    X = np.asarray(X, dtype=float)
    return X / np.abs(X).max()


def by_rank(X, y, model):
    """Mean accuracy at every rank over five folds."""
    return np.mean(
        [model.rank_path(X[a], y[a]).score(X[b], y[b]) for a, b in FOLDS.split(X, y)], axis=0
    )


def test_low_rank_beats_full_rank_on_binalpha(load_data):
    """The paper's claim on 36 classes of characters: half the rank does better."""
    X, y = load_data("binalpha36")
    accuracies = by_rank(unit(X), y, LRLRClassifier())
    assert len(accuracies) == 35
    assert accuracies[17] > accuracies[-1] + 0.01


def test_full_rank_is_best_on_umist(load_data):
    """Where the claim does not hold: 20 persons are told apart best with all directions."""
    X, y = load_data("umist_32x32")
    accuracies = by_rank(unit(X), y, LRRRClassifier(beta=1.0))
    assert accuracies.argmax() >= 16
    assert accuracies[-1] > 0.95


@pytest.mark.parametrize("name", ["umist_32x32", "binalpha36"])
def test_a_penalty_helps(load_data, name):
    """LRRR against LRLR, as the paper claims."""
    X, y = load_data(name)
    X = unit(X)
    without, penalised = by_rank(X, y, LRLRClassifier()), by_rank(X, y, LRRRClassifier(beta=10.0))
    assert penalised.max() >= without.max()


def test_wide_genes_are_solved_as_the_paper_writes(load_data):
    """More features than samples: the n × n form against d × d eigenvectors, on 300 genes."""
    X, y = load_data("leukemia_golub72")
    X, y = (
        StandardScaler().fit_transform(X[:, :300].astype(float)),
        np.unique(y, return_inverse=True)[1],
    )
    rank = y.max()
    model = LRRRClassifier(rank=rank, beta=20.0).fit(X, y)
    expected, _ = paper_solution(centre(X), y, rank, 20.0 * np.eye(300))
    np.testing.assert_allclose(paper_coefficients(model, y), expected, atol=1e-8)


def test_leave_one_out_of_umist_is_the_choice_of_refits(load_data):
    """A few samples of the exact leave-one-out, refitted without them."""
    X, y = load_data("umist_32x32")
    X = unit(X)
    search = LRRRClassifierCV(betas=[1.0], ranks=[12]).fit(X, y)
    for i in (0, 200, 574):
        kept = np.arange(len(y)) != i
        model = LRRRClassifier(beta=1.0, rank=12).fit(X[kept], y[kept])
        expected = model.decision_function(X[i : i + 1])[0]
        np.testing.assert_allclose(search.held_out_decision_function_[i], expected, atol=1e-8)


def test_few_genes_are_enough(load_data):
    """SLRR on thousands of genes: a certified fit that leaves most of them out."""
    X, y = load_data("lung_gordon")
    X = StandardScaler().fit_transform(X)
    model = SLRRClassifier(beta=5.0).fit(X[::2], y[::2])
    assert model.gap_ <= 1e-4
    assert 0 < len(model.selected_features_) < 200
    assert model.score(X[1::2], y[1::2]) > 0.9


def test_subspace_of_lda_on_vowels(load_data):
    X, y = load_data("vowel")
    total = centre(X).T @ centre(X)
    means = np.array([X[y == label].mean(axis=0) - X.mean(axis=0) for label in np.unique(y)])
    _, vectors = linalg.eigh(means.T @ means, total)  # classes are equally large
    model = LRLRClassifier(rank=4).fit(X, y)
    angles = linalg.subspace_angles(model.scalings_, vectors[:, ::-1][:, :4])
    assert np.sin(angles.max()) < 1e-6
