"""Curves of margins and of accuracy by rank are those of their definitions; one axis holds many."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, LinearSVC

from discreg import (
    DRMClassifier,
    LRLRClassifier,
    LRRRClassifier,
    LSRClassifier,
    ReLSRClassifier,
)
from discreg.inspection import MarginDistributionDisplay, RankDisplay

mpl.use("Agg")
draw = MarginDistributionDisplay.from_estimator


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), np.where(y == 1, "benign", "malignant")


@pytest.fixture(scope="module")
def three_classes():
    X, y = load_iris(return_X_y=True)
    return scale(X)[:, :2], y  # two features: every model errs


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[::6], np.array([f"digit {label}" for label in y[::6]])


@pytest.fixture(scope="module")
def new_digits():
    X, y = load_digits(return_X_y=True)
    return X[1::6], np.array([f"digit {label}" for label in y[1::6]])


@pytest.fixture(scope="module")
def path(digits):
    return LRRRClassifier(beta=10.0).rank_path(*digits)


class Scores(BaseEstimator):
    """A classifier whose decision values are the rows."""

    def __init__(self, classes):
        self.classes = classes

    @property
    def classes_(self):
        return np.array(self.classes)

    def fit(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X):
        return np.asarray(X)


def height_at(display, x):
    heights = np.r_[0.0, display.frequencies]
    return heights[np.searchsorted(display.margins, x, side="right")]


def noise(n_samples, n_classes=None):
    """Labels, scores with ties and integer weights of which some are zero."""
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % (n_classes or 2)
    shape = n_samples if n_classes is None else (n_samples, n_classes)
    return y, rng.normal(size=shape).round(1), rng.integers(0, 4, size=n_samples)


@pytest.mark.parametrize("x", [-10.0, -0.7, 0.0, 0.3, 1.0, 10.0])
def test_height_is_the_weighted_fraction_of_margins_up_to_there(x):
    y, values, weights = noise(200)
    display = draw(Scores([0, 1]), values, y, sample_weight=weights)
    margins = (2 * y - 1) * values
    margins /= np.average(np.abs(margins), weights=weights)
    expected = np.sum(weights * (margins <= x)) / np.sum(weights)
    assert height_at(display, x) == pytest.approx(expected, abs=1e-15)


def test_line_is_that_of_matplotlibs_ecdf():
    y, values, weights = noise(200)
    display = draw(Scores([0, 1]), values, y, sample_weight=weights)
    some, margins = weights > 0, (2 * y - 1) * values
    margins /= np.average(np.abs(margins), weights=weights)
    peer = plt.subplots()[1].ecdf(margins[some], weights[some])
    x, heights = peer.get_data()  # ties are several points, one above the other
    tops = [heights[x == margin].max() for margin in np.unique(x)]
    np.testing.assert_array_equal(display.line_.get_xdata(), np.r_[x[0], np.unique(x)])
    np.testing.assert_allclose(display.line_.get_ydata(), np.r_[0.0, tops], rtol=0, atol=1e-15)
    assert display.line_.get_drawstyle() == peer.get_drawstyle()


@pytest.mark.parametrize("n_classes", [None, 3])
def test_weight_equals_copies_and_a_positive_factor_moves_no_curve(n_classes):
    y, values, weights = noise(60, n_classes)
    model = Scores(np.unique(y))
    weighted = draw(model, values, y, sample_weight=weights)
    copies = draw(model, np.repeat(values, weights, axis=0), np.repeat(y, weights))
    larger = draw(model, 256 * values, y, sample_weight=weights)
    for other in (copies, larger):
        np.testing.assert_allclose(weighted.margins, other.margins, rtol=1e-14)
        np.testing.assert_allclose(weighted.frequencies, other.frequencies, rtol=1e-14)
    steps = np.diff(weighted.frequencies, prepend=0)
    assert np.sum(np.abs(weighted.margins) * steps) == pytest.approx(1, abs=1e-14)


def test_curve_starts_at_the_smallest_margin_that_counts_and_ends_at_one():
    display = draw(Scores([0, 1]), [5.0, 1.0, 2.0], [0, 1, 1], sample_weight=[0, 0.2, 0.2])
    np.testing.assert_allclose(display.line_.get_xdata(), np.array([1, 1, 2]) / 1.5)
    np.testing.assert_allclose(display.line_.get_ydata(), [0, 0.5, 1])
    zeros = draw(Scores([0, 1]), [0.0, 0.0], [0, 1])
    np.testing.assert_array_equal([zeros.margins, zeros.frequencies], [[0.0], [1.0]])


def test_margin_is_own_score_minus_the_largest_other():
    values = [[5.0, 2.0, 1.0], [4.0, 3.0, 4.5], [1.0, 1.0, 3.0]]
    margins = draw(Scores(["r", "g", "b"]), values, ["r", "g", "b"]).margins
    np.testing.assert_allclose(margins, np.array([-1.5, 2.0, 3.0]) * 3 / 6.5)
    y, values, _ = noise(50, 2)
    model, difference = Scores([0, 1]), values[:, 1] - values[:, 0]
    np.testing.assert_array_equal(
        draw(model, values, y).margins, draw(model, difference, y).margins
    )


@pytest.mark.parametrize("kind", [LSRClassifier, ReLSRClassifier, DRMClassifier, LinearSVC, SVC])
@pytest.mark.parametrize("problem", ["two_classes", "three_classes"])
def test_margin_is_positive_where_the_prediction_is_right(kind, problem, request):
    X, y = request.getfixturevalue(problem)
    model = kind().fit(X, y)
    wrong = 1 - model.score(X, y)
    assert wrong > 0
    display = draw(model, X, y)
    assert display.name == kind.__name__
    assert height_at(display, 0.0) == pytest.approx(wrong, abs=1e-14)


def test_samples_of_one_class_pipelines_searches_and_sparse_rows(two_classes):
    X, y = two_classes
    search = GridSearchCV(make_pipeline(StandardScaler(with_mean=False), LSRClassifier()), {})
    display = draw(search.fit(sparse.csr_matrix(X), y), X[y == "benign"], y[y == "benign"])
    assert len(display.margins) > 1


def test_several_models_share_one_axis(two_classes):
    X, y = two_classes
    axes = plt.subplots()[1]
    models = {"first": LSRClassifier().fit(X, y), "second": SVC().fit(X, y)}
    for name, model in models.items():
        display = draw(model, X, y, name=name, ax=axes, linewidth=3)
        assert display.ax_ is axes
        assert display.figure_ is axes.figure
        assert display.line_.get_linewidth() == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(models)
    assert axes.get_ylabel() == "Cumulative frequency"
    again = MarginDistributionDisplay(margins=display.margins, frequencies=display.frequencies)
    assert again.plot(color="red").ax_ is not axes
    np.testing.assert_array_equal(again.line_.get_xydata(), display.line_.get_xydata())


@pytest.mark.parametrize(
    ("values", "y", "options", "message"),
    [
        ([1.0], [0, 1], {}, r"inconsistent numbers of samples: \[1, 2\]"),
        ([1.0, np.nan], [0, 1], {}, "contains NaN"),
        ([1.0, 2.0], [0, np.nan], {}, "contains the label nan, which is no class"),
        ([1.0, 2.0], ["1", "0"], {}, "contains the label '0', which is no class"),
        ([1.0, 2.0], [0, 1], {"sample_weight": [1.0]}, "one number for each of the 2 samples"),
        ([1.0, 2.0], [0, 1], {"sample_weight": [0, 0]}, "zero for every sample"),
    ],
)
def test_bad_samples_are_named_and_leave_no_figure(values, y, options, message):
    with pytest.raises(ValueError, match=message):
        draw(Scores([0, 1]), values, y, **options)
    assert plt.get_fignums() == []


def test_estimators_without_margins(two_classes, three_classes):
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        draw(LSRClassifier(), *two_classes)
    for model, missing in (
        (RandomForestClassifier(n_estimators=2), "decision_function"),
        (IsolationForest(), "classes_"),
    ):
        with pytest.raises(AttributeError, match=f"{type(model).__name__} has no {missing}"):
            draw(model.fit(*two_classes), *two_classes)
    X, y = three_classes
    model = GridSearchCV(make_pipeline(SVC(decision_function_shape="ovo")), {}).fit(X, y)
    assert model.decision_function(X).shape == (150, 3)  # as many pairs as classes
    with pytest.raises(ValueError, match='Set it to "ovr"'):
        draw(model, X, y)


def test_score_of_a_rank_is_that_of_the_classifier_of_this_rank(path, digits, new_digits):
    display = RankDisplay.from_path(path, *new_digits)
    refitted = [
        LRRRClassifier(beta=10.0, rank=rank).fit(*digits).score(*new_digits)
        for rank in display.ranks
    ]
    np.testing.assert_allclose(display.scores, refitted, rtol=1e-14)
    np.testing.assert_array_equal(display.line_.get_xdata(), range(1, 10))  # ten centred classes
    np.testing.assert_array_equal(display.full_rank_line_.get_ydata(), [refitted[-1]] * 2)


def test_weight_equals_copies_by_rank(path, new_digits):
    X, y = new_digits
    weights = np.arange(len(y)) % 3
    weighted = RankDisplay.from_path(path, X, y, sample_weight=weights)
    copied = RankDisplay.from_path(path, np.repeat(X, weights, 0), y.repeat(weights))
    np.testing.assert_allclose(weighted.scores, copied.scores, rtol=1e-14)


def test_several_paths_share_one_axis(path, digits, new_digits):
    axes = plt.subplots()[1]
    for name, each in {"LRRR": path, "LRLR": LRLRClassifier().rank_path(*digits)}.items():
        display = RankDisplay.from_path(each, *new_digits, name=name, ax=axes)
        assert display.full_rank_line_.get_color() == display.line_.get_color()
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["LRRR", "LRRR, rank 9", "LRLR", "LRLR, rank 9"]
    again = RankDisplay(ranks=display.ranks, scores=display.scores).plot()
    assert again.ax_ is not axes
    np.testing.assert_array_equal(again.line_.get_xydata(), display.line_.get_xydata())


def test_two_classes_have_one_rank():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    path = LRRRClassifier().rank_path(X[::2], y[::2])
    display = RankDisplay.from_path(path, X[1::2], y[1::2])
    np.testing.assert_array_equal(display.ranks, [1])
    expected = LRRRClassifier().fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    assert display.scores[0] == pytest.approx(expected, abs=1e-15)
    np.testing.assert_array_equal(display.ax_.get_xticks() % 1, 0)


def test_no_path_and_labels_of_other_samples(path, new_digits):
    X, y = new_digits
    with pytest.raises(TypeError, match=r"result of rank_path, .* got LRRRClassifier"):
        RankDisplay.from_path(LRRRClassifier(), X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RankDisplay.from_path(path, X, y[:-1])
    assert plt.get_fignums() == []


def test_import_does_not_load_matplotlib():
    program = "import sys, discreg.inspection; print('matplotlib' in sys.modules)"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.strip() == "False"


def test_without_matplotlib_the_extra_is_named(monkeypatch, path, new_digits):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "discreg\[plots\]"'):
        draw(Scores([0, 1]), [1.0, 2.0], [0, 1])
    with pytest.raises(ImportError, match=r'pip install "discreg\[plots\]"'):
        RankDisplay.from_path(path, *new_digits)
