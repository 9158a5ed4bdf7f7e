"""The ODM paper's studies: its grids, and what its methods compute."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from discreg import LDMClassifier, LDMClassifierCV
from discreg.base.errors import InputError
from discreg_reproduction.papers import odm
from discreg_reproduction.papers._odm_methods import (
    Timed,
    TrainingMargins,
    TunedLDM,
    dense,
    unit_interval,
    widths,
)
from discreg_reproduction.protocol import Part, Tuned
from discreg_reproduction.registry import Dataset

X, Y = make_classification(120, 6, n_informative=4, flip_y=0.1, random_state=0)
X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
TRAIN, TEST = Part(X[:80], Y[:80]), Part(X[80:], Y[80:])


def test_tables_have_the_data_sets_of_table_1():
    counts = [len(study.datasets) for study in (odm.TABLE_2, odm.TABLE_3, odm.TABLE_4)]
    assert counts == [32, 32, 10]


def test_grids_are_those_of_section_6_1():
    assert odm.COSTS == (10, 50, 100)
    assert odm.LAMBDAS == (1 / 256, 1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4)
    assert odm.POWERS == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    search = odm.TABLE_2.methods["ODM"].estimator
    assert (search.C1s, search.C2s) == (odm.POWERS, odm.POWERS)
    assert search.Ds == (0, 0.1, 0.2, 0.3, 0.4, 0.5)


def test_widths_are_multiples_of_the_mean_distance():
    distances = euclidean_distances(X)[np.triu_indices(len(X), 1)]
    found = np.sqrt(1 / (2 * np.array(widths(X))))
    np.testing.assert_allclose(found / distances.mean(), [0.25, 0.5, 1, 2, 4])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_features_are_scaled_to_the_unit_interval(container):
    rows = np.array([[0.0, 2.0], [4.0, 0.0], [2.0, 1.0]])
    scaled = unit_interval(Dataset("toy", container(rows), np.array([0, 1, 1]))).X
    values = scaled.toarray() if sparse.issparse(scaled) else scaled
    np.testing.assert_allclose(values, [[0, 1], [1, 0], [0.5, 0.5]])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_tuned_ldm_chooses_as_grid_search_does(kernel):
    lambdas, costs, gammas = [0.01, 30.0], [0.1, 10.0], [0.5, 5.0]
    grid = {"Cs": costs, "lambda1s": lambdas, "lambda2s": lambdas}
    if kernel == "rbf":
        grid["gammas"] = gammas
    search = LDMClassifierCV(LDMClassifier(probability=False, kernel=kernel, fit_intercept=False))
    found = TunedLDM(search, grid, n_folds=4).fitted(TRAIN, seed=0)
    weights = [60 * weight for weight in lambdas]  # all four folds train on 60 samples
    grid = {"C": [60 * cost for cost in costs], "lambda1": weights, "lambda2": weights}
    if kernel == "rbf":
        grid["gamma"] = gammas
    model = LDMClassifier(probability=False, kernel=kernel, fit_intercept=False, random_state=0)
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    reference = GridSearchCV(model, grid, cv=folds).fit(*TRAIN)
    chosen = {name: getattr(found, name) / 80 * 60 for name in ("C", "lambda1", "lambda2")}
    if kernel == "rbf":
        chosen["gamma"] = found.gamma
    tied = reference.cv_results_["mean_test_score"] >= reference.best_score_ - 1e-12
    best = [reference.cv_results_["params"][index] for index in np.flatnonzero(tied)]
    assert any(chosen == pytest.approx(setting) for setting in best)


def test_cost_of_ldm_is_that_of_one_sample():
    grid = {"Cs": [0.5], "lambda1s": [0.0], "lambda2s": [0.0]}
    search = LDMClassifierCV(LDMClassifier(probability=False, kernel="linear", fit_intercept=False))
    found = TunedLDM(search, grid, n_folds=2).fitted(TRAIN, seed=0)
    svm = LinearSVC(loss="hinge", C=0.5, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    np.testing.assert_allclose(found.coef_, svm.fit(*TRAIN).coef_, atol=1e-5)


def test_margins_are_distances_of_the_training_samples():
    svm = LinearSVC(C=1.0, fit_intercept=False, random_state=0)
    outcome = TrainingMargins(Tuned(svm)).run(TRAIN, TEST, seed=0)
    weights = svm.fit(*TRAIN).coef_[0]
    expected = np.where(TRAIN.y == 1, 1, -1) * (TRAIN.X @ weights) / np.sqrt(weights @ weights)
    np.testing.assert_allclose(outcome.arrays["margins"], np.sort(expected), atol=1e-12)
    assert outcome.values["margin_min"] == pytest.approx(expected.min())
    assert outcome.values["margin_mean"] == pytest.approx(expected.mean())


def test_timed_fit_has_the_parameters_of_its_size():
    sizes = []

    def alpha(n_samples):
        sizes.append(n_samples)
        return {"alpha": 1 / n_samples}

    outcome = Timed(SGDClassifier(fit_intercept=False), alpha).run(TRAIN, TEST, seed=0)
    expected = SGDClassifier(alpha=1 / 80, fit_intercept=False, random_state=0).fit(*TRAIN)
    assert sizes == [80]
    assert outcome.values["accuracy"] == pytest.approx(expected.score(*TEST))
    assert outcome.values["fit_seconds"] >= 0


def test_lda_refuses_rows_that_would_fill_the_memory():
    np.testing.assert_array_equal(dense(sparse.csr_array(X)), X)
    with pytest.raises(InputError, match=r"10,000 of 10,000 features"):
        dense(sparse.csr_array((10_000, 10_000)))


def test_the_literal_scaling_has_the_weights_of_the_other():
    """Both scalings of ODM^L try the same C and lambdas; only what they multiply differs."""
    for name in ("odm/table2", "odm/table4"):
        (study,) = (each for each in odm.STUDIES if each.name == name)
        scaled, literal = study.methods["ODM^L"], study.methods["ODM^L, (5)"]
        assert scaled.grid == literal.grid
        assert (type(scaled), type(literal)) == (TunedLDM, Tuned)
        assert study.variants == {"ODM^L, (5)": "ODM^L"}
