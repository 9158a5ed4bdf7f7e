"""The margin distribution: the curves are those of the definition, and one axis holds many."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, LinearSVC

from discreg import DRMClassifier, LSRClassifier, ReLSRClassifier
from discreg.inspection import MarginDistributionDisplay

matplotlib.use("Agg")
draw = MarginDistributionDisplay.from_predictions


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


def only_curve(display):
    (curve,) = display.curves.values()
    return curve


def height_at(curve, x):
    margins, frequencies = curve
    return np.r_[0.0, frequencies][np.searchsorted(margins, x, side="right")]


def noise(n_samples, n_classes=None, seed=0):
    """Labels, scores with ties and integer weights of which some are zero."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % (n_classes or 2)
    shape = n_samples if n_classes is None else (n_samples, n_classes)
    return y, rng.normal(size=shape).round(1), rng.integers(0, 4, size=n_samples)


# The curve


@pytest.mark.parametrize("x", [-10.0, -0.7, 0.0, 0.3, 1.0, 10.0])
def test_height_is_the_weighted_fraction_of_margins_up_to_there(x):
    y, values, weights = noise(200)
    curve = only_curve(draw(y, values, sample_weight=weights, normalize=None))
    margins = (2 * y - 1) * values
    expected = np.sum(weights * (margins <= x)) / np.sum(weights)
    assert height_at(curve, x) == pytest.approx(expected, abs=1e-15)


def test_line_is_that_of_matplotlibs_ecdf():
    y, values, weights = noise(200)
    (line,) = draw(y, values, sample_weight=weights, normalize=None).lines_
    some = weights > 0
    margins = (2 * y - 1) * values
    peer = plt.subplots()[1].ecdf(margins[some], weights[some])
    x, heights = peer.get_data()  # ties are several points, one above the other
    tops = [heights[x == margin].max() for margin in np.unique(x)]
    np.testing.assert_array_equal(line.get_xdata(), np.r_[x[0], np.unique(x)])
    np.testing.assert_allclose(line.get_ydata(), np.r_[0.0, tops], rtol=0, atol=1e-15)
    assert line.get_drawstyle() == peer.get_drawstyle()


@pytest.mark.parametrize("normalize", ["mean", None])
@pytest.mark.parametrize("n_classes", [None, 3])
def test_weight_equals_copies(n_classes, normalize):
    y, values, weights = noise(60, n_classes)
    weighted = only_curve(draw(y, values, sample_weight=weights, normalize=normalize))
    copies = (np.repeat(each, weights, axis=0) for each in (y, values))
    np.testing.assert_allclose(weighted, only_curve(draw(*copies, normalize=normalize)), rtol=1e-14)


def test_curve_starts_at_the_smallest_margin_that_counts_and_ends_at_one():
    display = draw([0, 1, 1], [5.0, 1.0, 2.0], sample_weight=[0, 0.1, 0.2], normalize=None)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), [1, 1, 2])
    assert line.get_ydata()[0] == 0
    assert line.get_ydata()[-1] == 1


def test_a_positive_factor_moves_no_normalized_curve():
    y, values, weights = noise(100, 3)
    first, second = (
        only_curve(draw(y, factor * values, sample_weight=weights)) for factor in (1, 256)
    )
    np.testing.assert_array_equal(first, second)


def test_normalized_margins_have_mean_size_one():
    y, values, weights = noise(100)
    margins, frequencies = only_curve(draw(y, values, sample_weight=weights))
    assert np.sum(np.abs(margins) * np.diff(frequencies, prepend=0)) == pytest.approx(1, abs=1e-14)


def test_margins_that_are_all_zero_stay_zero():
    np.testing.assert_array_equal(only_curve(draw([0, 1], [0.0, 0.0])), [[0.0], [1.0]])


# The margin


def test_second_class_is_positive_and_classes_may_turn_it_round():
    y, values = ["a", "a", "b", "b"], [-3.0, 1.0, 2.0, 4.0]
    np.testing.assert_array_equal(only_curve(draw(y, values, normalize=None))[0], [-1, 2, 3, 4])
    turned = draw(y, values, classes=["b", "a"], normalize=None)
    np.testing.assert_array_equal(only_curve(turned)[0], [-4, -3, -2, 1])


def test_two_columns_and_their_difference_have_the_same_margins():
    y, values, _ = noise(50, 2)
    difference = values[:, 1] - values[:, 0]
    np.testing.assert_array_equal(only_curve(draw(y, values)), only_curve(draw(y, difference)))


def test_margin_of_several_classes_is_own_score_minus_the_largest_other():
    values = [[5.0, 2.0, 1.0], [4.0, 3.0, 4.5], [1.0, 1.0, 3.0]]
    margins, _ = only_curve(draw(["r", "g", "b"], values, classes=["r", "g", "b"], normalize=None))
    np.testing.assert_array_equal(margins, [-1.5, 2.0, 3.0])


@pytest.mark.parametrize("kind", [LSRClassifier, ReLSRClassifier, DRMClassifier, LinearSVC])
@pytest.mark.parametrize("problem", ["two_classes", "three_classes"])
def test_margin_is_positive_where_the_prediction_is_right(kind, problem, request):
    X, y = request.getfixturevalue(problem)
    model = kind().fit(X, y)
    wrong = 1 - model.score(X, y)
    assert wrong > 0
    curve = only_curve(MarginDistributionDisplay.from_estimator(model, X, y))
    assert height_at(curve, 0.0) == pytest.approx(wrong, abs=1e-14)


# Estimators


@pytest.mark.parametrize("model", [SVC(), LogisticRegression(), LSRClassifier(kernel="rbf")])
@pytest.mark.parametrize("problem", ["two_classes", "three_classes"])
def test_estimator_gives_the_curve_of_its_decision_values(model, problem, request):
    X, y = request.getfixturevalue(problem)
    model.fit(X, y)
    shown = MarginDistributionDisplay.from_estimator(model, X, y)
    assert list(shown.curves) == [type(model).__name__]
    given = draw(y, model.decision_function(X))
    np.testing.assert_array_equal(only_curve(shown), only_curve(given))


def test_samples_of_one_class_only_can_be_shown(three_classes):
    X, y = three_classes
    model = LSRClassifier().fit(X, y)
    margins, _ = only_curve(MarginDistributionDisplay.from_estimator(model, X[y == 2], y[y == 2]))
    assert len(margins) > 1


def test_pipelines_searches_and_sparse_rows(two_classes):
    X, y = two_classes
    search = GridSearchCV(make_pipeline(StandardScaler(with_mean=False), LSRClassifier()), {})
    X = sparse.csr_matrix(X)
    display = MarginDistributionDisplay.from_estimator(search.fit(X, y), X, y, name="searched")
    assert list(display.curves) == ["searched"]


def test_several_models_share_one_axis(two_classes):
    X, y = two_classes
    models = {"first": LSRClassifier().fit(X, y), "second": SVC().fit(X, y)}
    axes = plt.subplots()[1]
    display = MarginDistributionDisplay.from_estimators(models, X, y, ax=axes, linewidth=3)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    assert display.lines_ == list(axes.lines)
    assert [line.get_linewidth() for line in display.lines_] == [3, 3]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["first", "second"]
    for name, model in models.items():
        alone = MarginDistributionDisplay.from_estimator(model, X, y)
        np.testing.assert_array_equal(display.curves[name], only_curve(alone))


def test_list_is_named_after_the_classes(two_classes):
    X, y = two_classes
    models = [LSRClassifier().fit(X, y), SVC().fit(X, y)]
    display = MarginDistributionDisplay.from_estimators(models, X, y)
    assert list(display.curves) == ["LSRClassifier", "SVC"]


@pytest.mark.parametrize(
    ("normalize", "label"), [("mean", "Margin / mean absolute margin"), (None, "Margin")]
)
def test_display_draws_again_what_it_holds(normalize, label):
    first = draw([0, 1], [-1.0, 3.0], normalize=normalize)
    again = MarginDistributionDisplay(curves=first.curves, normalize=normalize)
    assert again.plot(color="red") is again
    assert again.ax_ is not first.ax_
    assert again.ax_.get_xlabel() == label
    assert again.ax_.get_ylabel() == "Cumulative frequency"
    np.testing.assert_array_equal(again.lines_[0].get_xydata(), first.lines_[0].get_xydata())


# What cannot be drawn


@pytest.mark.parametrize(
    ("y", "values", "options", "message"),
    [
        ([0, 1], [1.0], {}, "y_true contains 2 labels, but there are decision values of 1 samples"),
        ([0, 1], [1.0, np.nan], {}, "decision_values contains NaN"),
        ([0, 1], [1.0, np.inf], {}, "decision_values contains infinity"),
        ([0, np.nan], [1.0, 2.0], {}, "y_true contains NaN"),
        (["a", None], [1.0, 2.0], {}, "labels of different types"),
        (
            [0, 2],
            [1.0, 2.0],
            {"classes": [0, 1]},
            r"not among the classes: 2. The classes are 0, 1",
        ),
        ([1, 0], [1.0, 2.0], {"classes": ["0", "1"]}, "not among the classes: 0, 1"),
        ([0, 1], [1.0, 2.0], {"classes": [0, 1, 1]}, "classes contains a class twice: 0, 1, 1"),
        (
            [1, 1],
            [1.0, 2.0],
            {},
            r"1 column\(s\), and there are 1 class\(es\): 1. .* pass all labels",
        ),
        ([0, 1], [[1.0, 2, 3]] * 2, {}, r"3 column\(s\), and there are 2 class\(es\)"),
        ([0, 1], [1.0, 2.0], {"sample_weight": [1.0]}, "one number for each of the 2 samples"),
        ([0, 1], [1.0, 2.0], {"sample_weight": [-1, 1]}, "finite and non-negative"),
        ([0, 1], [1.0, 2.0], {"sample_weight": [0, 0]}, "zero for every sample"),
        ([0, 1], [1.0, 2.0], {"normalize": "max"}, "normalize must be 'mean' or None, got 'max'"),
    ],
)
def test_bad_predictions_are_named_and_leave_no_figure(y, values, options, message):
    with pytest.raises(ValueError, match=message):
        draw(y, values, **options)
    assert plt.get_fignums() == []


def test_unfitted_estimator(two_classes):
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        MarginDistributionDisplay.from_estimator(LSRClassifier(), *two_classes)


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        (RandomForestClassifier(n_estimators=2), "decision_function"),
        (IsolationForest(), "classes_"),
    ],
)
def test_estimator_without_margins(model, missing, two_classes):
    model.fit(*two_classes)
    with pytest.raises(AttributeError, match=f"'it' .* has no {missing}: .* from_predictions"):
        MarginDistributionDisplay.from_estimator(model, *two_classes, name="it")


def test_labels_that_the_estimator_has_not_seen(two_classes):
    X, y = two_classes
    model = LSRClassifier().fit(X, y)
    with pytest.raises(
        ValueError, match=r"y contains labels .*'new'. The classes are 'benign', 'mal"
    ):
        MarginDistributionDisplay.from_estimator(model, X[:2], ["new", "benign"])


def test_scores_of_pairs_of_classes_are_refused_though_as_many_as_classes(three_classes):
    X, y = three_classes
    pairwise = SVC(decision_function_shape="ovo")
    for model in (pairwise, make_pipeline(StandardScaler(), pairwise)):
        model = GridSearchCV(model, {}).fit(X, y)
        assert model.decision_function(X).shape == (150, 3)
        with pytest.raises(ValueError, match='Set it to "ovr"'):
            MarginDistributionDisplay.from_estimator(model, X, y)


@pytest.mark.parametrize(
    ("choose", "error", "message"),
    [
        (lambda model: model, TypeError, "For a single classifier use from_estimator"),
        (lambda model: [], ValueError, "estimators is empty"),
        (lambda model: [model, model], ValueError, "Pass a dict from names"),
    ],
)
def test_estimators_that_cannot_be_told_apart(choose, error, message, two_classes):
    model = LSRClassifier().fit(*two_classes)
    with pytest.raises(error, match=message):
        MarginDistributionDisplay.from_estimators(choose(model), *two_classes)


# matplotlib


def printed_by(program):
    """What a fresh interpreter prints: the modules loaded here would hide what is imported."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_import_does_not_load_matplotlib():
    assert (
        printed_by("import sys, discreg.inspection; print('matplotlib' in sys.modules)") == "False"
    )


def test_without_matplotlib_the_extra_is_named_before_the_work(monkeypatch, two_classes):
    class Model(LSRClassifier):
        def decision_function(self, X):
            raise AssertionError("worked in vain")

    model = Model().fit(*two_classes)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "discreg\[plots\]"'):
        MarginDistributionDisplay.from_estimator(model, *two_classes)
    with pytest.raises(ImportError, match=r'pip install "discreg\[plots\]"'):
        draw([0, 1], [1.0, 2.0])
