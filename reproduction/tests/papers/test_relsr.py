"""The ReLSR paper's experiments are declared as it describes them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from discreg import ReLSRClassifier
from discreg_reproduction.papers._retargeted_methods import Published
from discreg_reproduction.papers.relsr import BETAS, STUDIES
from discreg_reproduction.protocol import Part
from discreg_reproduction.registry import Dataset, entries

STUDY = {study.name: study for study in STUDIES}

# Losses and targets as Table I prints them.
TABLE_1 = [
    ("x1", "LSR", 0.25, [1, 0, 0]),
    ("x2", "LSR", 0.50, [1, 0, 0]),
    ("x3", "LSR", 0.75, [0, 1, 0]),
    ("x4", "LSR", 0.75, [0, 1, 0]),
    ("x5", "LSR", 0.12, [0, 0, 1]),
    ("x6", "LSR", 0.24, [0, 0, 1]),
    ("x1", "DLSR", 0.00, [1.5, 0, 0]),
    ("x2", "DLSR", 0.00, [1, -0.5, -0.5]),
    ("x3", "DLSR", 0.50, [0, 1.5, 0]),
    ("x4", "DLSR", 0.25, [-0.5, 1.5, 0]),
    ("x5", "DLSR", 0.12, [0, 0, 1]),
    ("x6", "DLSR", 0.20, [-0.2, 0, 1]),
    ("x1", "ReLSR", 0.00, [1.5, 0, 0]),
    ("x2", "ReLSR", 0.00, [1, -0.5, -0.5]),
    ("x3", "ReLSR", 0.00, [0.5, 1.5, 0.5]),
    ("x4", "ReLSR", 0.00, [-0.5, 1.5, 0.5]),
    ("x5", "ReLSR", 0.11, [0.0667, 0.0667, 1.0667]),
    ("x6", "ReLSR", 0.18, [-0.2, -0.1, 0.9]),
]


@pytest.mark.parametrize(("point", "model", "loss", "targets"), TABLE_1)
def test_table_1_comes_out_as_printed(point, model, loss, targets):
    study = STUDY["relsr/table1"]
    parts = study.parts(study.datasets[point], repeat=0, fold=0)
    values = study.methods[model].run(*parts, seed=0).values
    assert round(values["loss"], 2) == loss
    assert [round(values[f"target[class={k}]"], 4) for k in (1, 2, 3)] == targets


def test_every_data_set_is_in_the_registry_with_the_shape_of_table_2():
    samples = [150, 391, 3186, 846, 214, 990, 400, 575, 165, 1440, 2000, 1246, 827, 1166, 1210]
    classes = [3, 3, 3, 4, 6, 11, 40, 20, 15, 20, 10, 4, 7, 7, 7]
    for name in ("relsr/fig2", "relsr/fig3", "relsr/fig4"):
        found = [entries()[source] for source in STUDY[name].datasets.values()]
        assert [entry.n_samples for entry in found] == samples
        assert [entry.n_classes for entry in found] == classes


def test_the_grids_are_the_papers():
    np.testing.assert_allclose(BETAS, np.arange(0, 1.01, 0.05), atol=1e-15)
    methods = STUDY["relsr/fig2"].methods
    for name in ("L1-SVM", "L2-SVM", "MC-SVM"):
        assert methods[name].grid == {"C": (1e-3, 1e-2, 1e-1, 1, 10, 100)}
    for name in ("LSR", "DLSR", "ReLSR"):
        assert methods[name].grid == {"beta": BETAS}
        assert methods[name].n_folds == 10
    relsr = methods["ReLSR"].estimator
    assert (relsr.solver, relsr.max_iter, relsr.tol) == ("alternating", 30, 0)


def test_figure_3_is_about_the_fits_of_figure_2():
    bars, ranks = STUDY["relsr/fig2"], STUDY["relsr/fig3"]
    assert (ranks.datasets, ranks.methods, ranks.splits) == (
        bars.datasets,
        bars.methods,
        bars.splits,
    )


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
def test_every_model_of_figure_2_knows_iris_better_than_chance():
    study = STUDY["relsr/fig2"]
    iris = study.prepare(Dataset("iris", *load_iris(return_X_y=True)))
    train, test = study.parts(iris, repeat=0, fold=0)
    assert (len(train.y), len(test.y)) == (60, 90)
    accuracy = {
        name: replace(method, n_folds=2).run(train, test, seed=0).values["accuracy"]
        for name, method in study.methods.items()
    }
    assert min(accuracy.values()) > 0.7
    assert accuracy["LSR"] < accuracy["ReLSR"]  # LSR masks the middle class


def test_figure_4_descends_and_larger_target_sets_end_lower():
    study = STUDY["relsr/fig4"]
    digits = Dataset("digits", *load_digits(return_X_y=True))
    train, test = study.parts(digits, repeat=0, fold=0)
    outcomes = {name: method.run(train, test, seed=0) for name, method in study.methods.items()}
    histories = {name: outcome.arrays["history"] for name, outcome in outcomes.items()}
    assert {history.shape for history in histories.values()} == {(30,)}
    assert np.ptp(histories["LSR"]) == 0
    assert np.all(np.diff(histories["ReLSR"]) < 0)
    ends = {name: outcome.values["objective"] for name, outcome in outcomes.items()}
    assert ends["LSR"] > ends["DLSR"] > ends["ReLSR"]
    optimum = ReLSRClassifier(beta=0.1).fit(*train).objective_history_[-1]
    excess = 1 - optimum / ends["ReLSR"]
    assert 0 < excess <= outcomes["ReLSR"].values["relative_gap"]


class TestPublished:
    """Data sets in the form that the papers take them in."""

    chance = np.random.default_rng(0)

    def prepared(self, name, X, y=None):
        return Published(n_components=3)(Dataset(name, X, np.arange(len(X)) if y is None else y))

    def test_features_of_libsvm_copies_fill_their_range(self):
        X = self.prepared("glass", self.chance.normal(5, 2, size=(30, 4))).X
        np.testing.assert_allclose([X.min(axis=0), X.max(axis=0)], [[-1] * 4, [1] * 4])

    def test_images_keep_the_ratios_of_their_pixels(self):
        X = self.chance.integers(0, 256, size=(30, 4))
        scaled = self.prepared("att_28x23", X).X
        assert scaled.max() == 1
        np.testing.assert_allclose(scaled * X.max(), X)

    def test_texts_keep_their_distances_within_the_leading_components(self):
        X = self.chance.normal(size=(30, 3)) @ self.chance.normal(size=(3, 20))
        projected = self.prepared("cora_os", X).X
        assert projected.shape == (30, 3)
        centred = X - X.mean(axis=0)
        np.testing.assert_allclose(projected @ projected.T, centred @ centred.T, atol=1e-10)

    def test_two_hundred_of_every_digit_are_drawn_always_the_same(self):
        y = self.chance.integers(0, 10, size=4000)
        X = np.arange(4000.0)[:, None]
        first, second = self.prepared("usps_9298", X, y), self.prepared("usps_9298", X, y)
        np.testing.assert_array_equal(np.bincount(first.y), [200] * 10)
        np.testing.assert_array_equal(first.X, second.X)
        np.testing.assert_array_equal(first.y, y[first.X[:, 0].astype(int)])

    def test_other_sets_are_left_alone(self):
        X = self.chance.normal(size=(30, 4))
        assert self.prepared("vowel", X).X is X


def test_a_part_of_one_repeat_is_not_that_of_another():
    study = STUDY["relsr/fig2"]
    iris = Dataset("iris", *load_iris(return_X_y=True))
    parts: list[Part] = [study.parts(iris, repeat, 0)[0] for repeat in (0, 1)]
    assert not np.array_equal(parts[0].X, parts[1].X)
    np.testing.assert_array_equal(np.bincount(parts[0].y), [20, 20, 20])
