"""The map of coefficients: it shows those of the model, and its singular values show the rank."""

import sys
import tracemalloc

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale
from sklearn.svm import SVC

from discreg import LRRRClassifier, LRRRClassifierCV, LSRClassifier, SLRRClassifier
from discreg.inspection import CoefficientDisplay

matplotlib.use("Agg")
draw = CoefficientDisplay.from_estimator


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return scale(X[::6]), np.array([f"digit {label}" for label in y[::6]])


@pytest.fixture(scope="module")
def table():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X, y.map({0: "malignant", 1: "benign"})


@pytest.fixture(scope="module")
def sparse_model(digits):
    return SLRRClassifier(rank=5, beta=1.0).fit(*digits)


def shown(display):
    return np.asarray(display.image_.get_array())


def labels(ticks):
    return [tick.get_text() for tick in ticks]


# The singular values


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_singular_values_above_rounding_are_as_many_as_the_rank(rank, digits):
    display = draw(LRRRClassifier(rank=rank, beta=10.0).fit(*digits))
    values = display.line_.get_ydata()
    assert len(values) == 10
    assert np.sum(values > 1e-12 * values[0]) == rank
    np.testing.assert_array_equal(display.line_.get_xdata(), np.arange(1, 11))


def test_singular_values_are_those_of_the_coefficients_in_decreasing_order(sparse_model):
    display = draw(sparse_model)
    expected = np.linalg.svd(sparse_model.coef_, compute_uv=False)
    np.testing.assert_allclose(display.singular_values_, expected, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.singular_values_)
    assert np.all(np.diff(display.singular_values_) <= 0)


def test_no_array_is_features_by_features():
    n_features = 5_000
    coef = np.random.default_rng(0).standard_normal((3, n_features))
    display = CoefficientDisplay(coef=coef, class_labels=["a", "b", "c"])
    display.plot()  # what matplotlib loads on first use is not counted
    tracemalloc.start()
    display.plot()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * n_features**2 / 10


# The map


@pytest.mark.parametrize("kind", [LSRClassifier, RidgeClassifier, LogisticRegression])
def test_map_is_the_absolute_coefficients_features_by_classes(kind, digits):
    model = kind().fit(*digits)
    display = draw(model)
    np.testing.assert_array_equal(shown(display), np.abs(model.coef_.T))


def test_features_left_out_are_rows_of_zeros(sparse_model):
    used = shown(draw(sparse_model)).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(used), sparse_model.selected_features_)
    assert 0 < used.sum() < 64


def test_zero_has_the_first_colour(sparse_model):
    display = draw(sparse_model, cmap="magma")
    assert display.image_.get_clim()[0] == 0
    assert display.image_.get_cmap().name == "magma"


def test_sparse_coefficients(digits):
    model = SGDClassifier(penalty="l1", alpha=0.01, random_state=0).fit(*digits)
    dense = np.abs(model.coef_.T)
    np.testing.assert_array_equal(shown(draw(model.sparsify())), dense)


# The axes


def test_class_labels_are_those_of_the_model(sparse_model):
    axes = draw(sparse_model).axes_[1]
    assert labels(axes.get_xticklabels()) == list(sparse_model.classes_)


def test_two_classes_are_one_column(table):
    model = LSRClassifier().fit(*table)
    display = draw(model)
    assert shown(display).shape == (30, 1)
    assert labels(display.axes_[1].get_xticklabels()) == ["malignant against benign"]
    np.testing.assert_allclose(display.singular_values_, [np.linalg.norm(model.coef_)], rtol=1e-14)


@pytest.mark.parametrize(
    "model",
    [
        LSRClassifier(),
        make_pipeline(StandardScaler(), LSRClassifier()),
        LRRRClassifierCV(betas=[1.0], cv=2),
        GridSearchCV(make_pipeline(StandardScaler(), LSRClassifier()), {}, cv=2),
        make_pipeline(StandardScaler(), GridSearchCV(LSRClassifier(), {}, cv=2)),
    ],
)
def test_names_of_a_table_are_found_wherever_the_classifier_is(model, table):
    X, y = table
    display = draw(model.fit(X, y))
    assert labels(display.axes_[1].get_yticklabels()) == list(X.columns)


def test_names_follow_the_selection_of_a_step(table):
    X, y = table
    model = make_pipeline(SelectKBest(k=4), StandardScaler(), LSRClassifier()).fit(X, y)
    chosen = list(X.columns[model[0].get_support()])
    assert labels(draw(model).axes_[1].get_yticklabels()) == chosen


def test_without_names_features_are_numbered(table):
    X, y = table
    nameless = make_pipeline(FunctionTransformer(np.asarray), LSRClassifier())
    for model in (LSRClassifier().fit(X.to_numpy(), y), nameless.fit(X, y)):
        ticks = labels(draw(model).axes_[1].get_yticklabels())
        assert ticks == [str(number) for number in range(30)]


def test_given_names_are_before_those_of_the_table(table):
    X, y = table
    names = [f"f{number}" for number in range(30)]
    display = draw(LSRClassifier().fit(X, y), feature_names=names)
    assert labels(display.axes_[1].get_yticklabels()) == names


def test_ticks_of_many_features_stay_few_and_at_their_rows(sparse_model):
    axes = draw(sparse_model).axes_[1]
    ticks = axes.get_yticks()
    assert len(ticks) <= 30
    assert labels(axes.get_yticklabels()) == [str(tick) for tick in ticks]


def test_given_axes_are_drawn_on(sparse_model):
    figure, axes = plt.subplots(2, 1)
    display = draw(sparse_model, axes=axes, interpolation="nearest")
    assert list(display.axes_) == list(axes)
    assert display.figure_ is figure
    assert display.image_.axes is axes[1]
    assert display.image_.get_interpolation() == "nearest"
    assert plt.get_fignums() == [figure.number]


def test_display_draws_again_what_it_holds(sparse_model):
    first = draw(sparse_model)
    again = CoefficientDisplay(coef=first.coef, class_labels=first.class_labels)
    assert again.plot() is again
    assert again.figure_ is not first.figure_
    np.testing.assert_array_equal(shown(again), shown(first))


# What cannot be drawn


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LRRRClassifier(kernel="rbf"), "LRRRClassifier has no coef_: .* need kernel='linear'"),
        (make_pipeline(StandardScaler(), SVC()), "SVC has no coef_"),
        (RandomForestClassifier(n_estimators=2), "RandomForestClassifier has no coef_"),
    ],
)
def test_models_without_coefficients_are_refused_and_leave_no_figure(model, message, digits):
    model.fit(*digits)
    with pytest.raises(ValueError, match=message):
        draw(model)
    assert plt.get_fignums() == []


def test_regressors_have_no_classes(digits):
    X, _ = digits
    with pytest.raises(ValueError, match="Ridge has no classes_"):
        draw(Ridge().fit(X, X[:, :3]))


@pytest.mark.parametrize("n_classes", [3, 10])
def test_rows_of_pairs_of_classes_are_refused_though_as_many_as_classes(n_classes, digits):
    X, y = digits
    some = np.isin(y, np.unique(y)[:n_classes])
    model = SVC(kernel="linear").fit(X[some], y[some])
    with pytest.raises(ValueError, match="rows of coef_ of SVC do not correspond to its"):
        draw(model)


def test_unfitted_estimator():
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        draw(SLRRClassifier())


def test_names_of_other_features_leave_no_figure(sparse_model):
    with pytest.raises(ValueError, match=r"one name per feature .*64.* shape \(2,\)"):
        draw(sparse_model, feature_names=["a", "b"])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("shape", [(1, 1), (1, 3)])
def test_axes_must_be_two(shape, sparse_model):
    axes = plt.subplots(*shape)[1]
    with pytest.raises(ValueError, match=f"axes must be two Axes, .* got {shape[1]}"):
        draw(sparse_model, axes=axes)


def test_without_matplotlib_the_extra_is_named(monkeypatch, sparse_model):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "discreg\[plots\]"'):
        draw(sparse_model)
