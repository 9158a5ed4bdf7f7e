"""The models of a comparison: which there are, by which names, for which data."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import StratifiedKFold

import discreg
from discreg.base.errors import InputError
from discreg.comparison.candidates import CANDIDATES, MANY_ROWS, Shape, chosen

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
PEERS = {"RidgeCV", "LinearSVC", "SVC", "Logistic", "KNN", "RandomForest", "HistGB", "LDA"}
BY_NAME = {candidate.name: candidate for candidate in CANDIDATES}


def test_every_model_of_discreg_and_every_peer_is_a_candidate_once():
    own = {name.removesuffix("Classifier") for name in discreg.__all__ if name.endswith("sifier")}
    assert {*BY_NAME} == (own - {"Auto"}) | PEERS
    assert len(BY_NAME) == len(CANDIDATES)


def test_names_in_any_case_order_and_number_give_the_same_candidates():
    assert chosen(["knn", "LSR", "lsr"]) == chosen(["LSR", "KNN"])
    assert [candidate.name for candidate in chosen(["KNN", "LSR"])] == ["LSR", "KNN"]
    assert chosen(None) == CANDIDATES


def test_an_unknown_name_is_refused_with_the_nearest_and_all():
    with pytest.raises(InputError, match=r"no model 'ReLRS'\. Did you mean ReLSR\?") as refusal:
        chosen(["LSR", "ReLRS"])
    assert all(name in str(refusal.value) for name in BY_NAME)


def test_what_holds_a_kernel_matrix_takes_a_linear_kernel_or_is_left_out_for_many_rows():
    few, many = (Shape(n, 2, is_sparse=False) for n in (MANY_ROWS, MANY_ROWS + 1))
    for name in ("DRM", "ODM"):
        assert BY_NAME[name].make(few, FOLDS).kernel == "rbf"
        assert BY_NAME[name].make(many, FOLDS).kernel == "linear"
    assert BY_NAME["LDM"].make(many, FOLDS).kernel == "linear"
    assert {name for name in BY_NAME if BY_NAME[name].left_out(few)} == set()
    assert {name for name in BY_NAME if BY_NAME[name].left_out(many)} == {"SVC"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", BY_NAME)
def test_a_candidate_takes_sparse_data_or_says_that_it_does_not(name):
    chance = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = sparse.random_array((60, 6), density=0.5, format="csr", rng=chance)
    X = sparse.csr_array(X + sparse.csr_array(np.outer(y, np.eye(6)[0])))
    shape = Shape(60, 2, is_sparse=True)
    if BY_NAME[name].left_out(shape) is None:
        model = BY_NAME[name].make(shape, FOLDS).fit(X, y)
        assert model.predict(X).shape == y.shape
    else:
        assert name in {"SLRR", "HistGB", "LDA"}


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_ranks_to_choose_from_are_those_that_tell_classes_apart(n_classes):
    model = BY_NAME["LRLR"].make(Shape(100, n_classes, is_sparse=False), FOLDS)
    assert set(model.ranks) == {2: {1}, 3: {1, 2}, 10: {1, 5, 9}}[n_classes]
