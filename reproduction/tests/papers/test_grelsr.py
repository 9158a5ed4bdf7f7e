"""The GReLSR paper's experiments are declared as it describes them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA

from discreg import GReLSRClassifier, ReLSRClassifier
from discreg_reproduction.papers._collaborative import CollaborativeClassifier
from discreg_reproduction.papers.grelsr import (
    BETAS,
    GROUP_PENALTIES,
    STUDIES,
    AcrossDimensions,
    FaceSplits,
    OptimumSweep,
)
from discreg_reproduction.protocol import LevelLine, Part, Sweep, Tuned
from discreg_reproduction.registry import Dataset, entries

STUDY = {study.name: study for study in STUDIES}


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return Part(X[:150], y[:150]), Part(X[150:450], y[150:450])


def test_every_data_set_is_in_the_registry_with_the_shape_of_table_1():
    samples = [150, 3186, 214, 391, 846, 990, 1246, 1440, 827, 1210]
    for name in ("grelsr/fig1", "grelsr/fig3"):
        found = [entries()[source] for source in STUDY[name].datasets.values()]
        assert [entry.n_samples for entry in found] == samples
    faces = STUDY["grelsr/fig2"].datasets.values()
    assert [entries()[source].n_classes for source in faces] == [100, 68, 38]


def test_the_grids_are_the_papers():
    np.testing.assert_allclose(BETAS, np.arange(0, 1.01, 0.1), atol=1e-15)
    np.testing.assert_allclose(np.log10(GROUP_PENALTIES), np.arange(-4, 5))
    methods = STUDY["grelsr/fig1"].methods
    assert methods["GReLSR1"].estimator.group_penalty == 1
    assert methods["GReLSR1"].grid == {"beta": BETAS}
    assert methods["GReLSR2"].grid == {"beta": BETAS, "group_penalty": GROUP_PENALTIES}
    assert {methods[name].n_folds for name in ("LSR", "DLSR", "ReLSR", "GReLSR2")} == {5}
    faces = STUDY["grelsr/fig2"].methods
    for name in ("LSR", "DLSR", "ReLSR", "GReLSR1"):
        assert faces[name].method.estimator.beta == 0.01
        assert not faces[name].method.grid


def test_sessions_of_ar_are_fixed():
    y = np.repeat([1, 2, 3], 14)
    sessions = Dataset("ar_100x14_55x40", np.zeros((42, 1)), y)
    for repeat in (0, 1):
        train, test = FaceSplits(n_repeats=2).rows(sessions, repeat, 0)
        np.testing.assert_array_equal(train % 14, np.tile(np.arange(7), 3))
        np.testing.assert_array_equal(test % 14, np.tile(np.arange(7, 14), 3))


def test_five_images_of_each_other_person_are_drawn_afresh():
    faces = Dataset("yaleb_32x32", np.zeros((60, 1)), np.repeat([1, 2, 3], 20))
    draws = [FaceSplits(n_repeats=2).rows(faces, repeat, 0) for repeat in (0, 1)]
    for train, test in draws:
        np.testing.assert_array_equal(np.bincount(faces.y[train])[1:], [5, 5, 5])
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(60))
    assert not np.array_equal(draws[0][0], draws[1][0])


def test_a_dimension_is_a_number_of_components_of_the_training_part(digits):
    train, test = digits
    method = AcrossDimensions(Tuned(CollaborativeClassifier()), (5, 20))
    values = method.run(train, test, seed=0).values
    for dimension in (5, 20):
        pca = PCA(dimension, svd_solver="full").fit(train.X)
        model = CollaborativeClassifier().fit(pca.transform(train.X), train.y)
        accuracy = model.score(pca.transform(test.X), test.y)
        assert values[f"accuracy[dimension={dimension}]"] == pytest.approx(accuracy)
    assert values["accuracy[dimension=20]"] > values["accuracy[dimension=5]"]


def test_a_level_line_is_the_same_at_every_value(digits):
    method = LevelLine(Tuned(ReLSRClassifier()), "group_penalty", (0.1, 1.0))
    values = method.run(*digits, seed=0).values
    accuracy = ReLSRClassifier().fit(*digits[0]).score(*digits[1])
    assert values["accuracy[group_penalty=0.1]"] == values["accuracy[group_penalty=1]"]
    assert values["accuracy[group_penalty=1]"] == pytest.approx(accuracy)


def test_the_curve_meets_the_level_line_where_the_weight_vanishes(digits):
    level = LevelLine(Tuned(ReLSRClassifier()), "group_penalty", (1e-9,))
    curve = Sweep(GReLSRClassifier(), "group_penalty", (1e-9,))
    metric = "accuracy[group_penalty=1e-09]"
    assert curve.run(*digits, seed=0).values[metric] == level.run(*digits, seed=0).values[metric]


def test_both_groupwise_models_of_figure_1_know_iris():
    study = STUDY["grelsr/fig1"]
    iris = study.prepare(Dataset("iris", *load_iris(return_X_y=True)))
    parts = study.parts(iris, repeat=0, fold=0)
    for name in ("GReLSR1", "GReLSR2"):
        outcome = replace(study.methods[name], n_folds=2).run(*parts, seed=0)
        assert outcome.values["accuracy"] > 0.85


def test_figure_3_has_a_point_for_every_weight(digits):
    methods = STUDY["grelsr/fig3"].methods
    small = Part(digits[0].X[::3], digits[0].y[::3])
    curve = replace(methods["GReLSR"], n_folds=2, grid={"beta": (0.1,)}).run(small, small, seed=0)
    level = methods["ReLSR"].run(small, small, seed=0)
    for weight in ("0.0001", "0.001", "0.01", "0.1", "1", "10", "100", "1000", "10000"):
        assert f"accuracy[group_penalty={weight}]" in curve.values.keys() & level.values.keys()


def test_the_optimum_is_that_of_the_model_for_each_group_penalty():
    """On iris one of the penalties that are tried gives the accuracy of each group penalty."""
    X, y = load_iris(return_X_y=True)
    train, test = Part(X[::2], y[::2]), Part(X[1::2], y[1::2])
    values = OptimumSweep((1.0, 1e4)).run(train, test, seed=0).values
    for penalty in (1.0, 1e4):
        model = GReLSRClassifier(probability=False, group_penalty=penalty)
        found = [
            model.set_params(beta=beta).fit(*train).score(*test) for beta in (1e-3, *BETAS[1:])
        ]
        assert np.isclose(values[f"accuracy[group_penalty={penalty:g}]"], found).any()
