"""Score against rank: the curves are those of the search or of the path."""

import sys
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from discreg import LRLRClassifier, LRRRClassifier, LRRRClassifierCV, SLRRClassifierCV
from discreg.inspection import RankDisplay

matplotlib.use("Agg")
BETAS = [1.0, 100.0, 10.0]


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[::6], np.array([f"digit {label}" for label in y[::6]])


@pytest.fixture(scope="module")
def new_digits():
    X, y = load_digits(return_X_y=True)
    return X[1::6], np.array([f"digit {label}" for label in y[1::6]])


@pytest.fixture(scope="module")
def folds(digits):
    return LRRRClassifierCV(betas=BETAS, cv=3).fit(*digits)


@pytest.fixture(scope="module")
def leave_one_out(digits):
    return LRRRClassifierCV(betas=BETAS, ranks=[8, 2, 5]).fit(*digits)


@pytest.fixture(scope="module")
def sparse_folds(digits):
    X, y = digits
    return SLRRClassifierCV(betas=[2.0, 1.0], ranks=[4, 9], cv=3, tol=0.05).fit(scale(X), y)


@pytest.fixture(scope="module")
def path(digits):
    return LRRRClassifier(beta=10.0).rank_path(*digits)


def only_curve(display):
    (curve,) = display.curves.values()
    return curve


def best_of_each_rank(search):
    """Straight from the settings: rank to (score, standard deviation) of the best one."""
    results = search.cv_results_
    spread = results.get("std_test_score", [None] * len(results["params"]))
    found = {}
    for setting, score, error in zip(
        results["params"], results["mean_test_score"], spread, strict=True
    ):
        if setting["rank"] not in found or score > found[setting["rank"]][0]:
            found[setting["rank"]] = score, error
    return dict(sorted(found.items()))


# Searches


@pytest.mark.parametrize("name", ["folds", "leave_one_out", "sparse_folds"])
def test_score_of_a_rank_is_the_best_over_the_penalties(name, request):
    search = request.getfixturevalue(name)
    display = RankDisplay.from_search(search)
    expected = best_of_each_rank(search)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), list(expected))
    np.testing.assert_array_equal(line.get_ydata(), [score for score, _ in expected.values()])
    assert max(line.get_ydata()) == search.best_score_
    assert list(display.curves) == [type(search).__name__]


@pytest.mark.parametrize("name", ["folds", "sparse_folds"])
def test_band_is_one_standard_deviation_of_the_best_setting(name, request):
    search = request.getfixturevalue(name)
    display = RankDisplay.from_search(search)
    ranks, scores, errors = only_curve(display)
    np.testing.assert_array_equal(errors, [e for _, e in best_of_each_rank(search).values()])
    corners = display.bands_[0].get_paths()[0].vertices
    for rank, score, error in zip(ranks, scores, errors, strict=True):
        heights = corners[corners[:, 0] == rank, 1]
        assert heights.min() == pytest.approx(score - error, abs=1e-15)
        assert heights.max() == pytest.approx(score + error, abs=1e-15)


def test_leave_one_out_has_no_band(leave_one_out):
    display = RankDisplay.from_search(leave_one_out)
    assert only_curve(display)[2] is None
    assert display.bands_ == [None]
    assert list(display.ax_.collections) == []


def test_dashed_line_is_at_the_score_of_the_largest_rank(folds):
    display = RankDisplay.from_search(folds, name="LRRR")
    (dashed,) = display.full_rank_lines_
    ranks, scores, _ = only_curve(display)
    assert ranks[-1] == 9  # ten centred classes
    np.testing.assert_array_equal(dashed.get_ydata(), [scores[-1]] * 2)
    assert dashed.get_linestyle() == "--"
    assert dashed.get_color() == display.lines_[0].get_color()
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["LRRR", "LRRR, rank 9"]


def test_of_equal_scores_the_band_is_that_of_the_setting_the_search_would_take():
    results = {
        "param_rank": np.array([1, 1, 2]),
        "mean_test_score": np.array([0.5, 0.5, 0.4]),
        "std_test_score": np.array([0.1, 0.2, 0.3]),
    }
    search = GridSearchCV(LRRRClassifier(), {})
    search.cv_results_ = results
    search.best_estimator_ = None
    _, _, errors = only_curve(RankDisplay.from_search(search))
    np.testing.assert_array_equal(errors, [0.1, 0.3])


def test_several_searches_share_one_axis(folds, leave_one_out):
    axes = plt.subplots()[1]
    searches = {"folds": folds, "one": leave_one_out}
    display = RankDisplay.from_searches(searches, ax=axes, linewidth=3)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    assert [line.get_linewidth() for line in display.lines_] == [3, 3]
    assert display.bands_[0] is not None
    assert display.bands_[1] is None
    colours = {line.get_color() for line in display.lines_}
    assert len(colours) == 2
    for name, search in searches.items():
        alone = only_curve(RankDisplay.from_search(search))
        np.testing.assert_array_equal(display.curves[name][1], alone[1])


def test_list_is_named_after_the_classes(folds, sparse_folds):
    display = RankDisplay.from_searches([folds, sparse_folds])
    assert list(display.curves) == ["LRRRClassifierCV", "SLRRClassifierCV"]


def test_pipeline_that_ends_with_a_search_and_grid_search(digits):
    X, y = digits
    grid = {"rank": [2, 6], "beta": [10.0, 1.0]}  # of equal settings both take the first
    own = make_pipeline(StandardScaler(), LRRRClassifierCV(betas=[10.0, 1.0], ranks=[2, 6], cv=3))
    peer = make_pipeline(StandardScaler(), GridSearchCV(LRRRClassifier(), grid, cv=3))
    display = RankDisplay.from_searches([own.fit(X, y), peer.fit(X, y)])
    assert list(display.curves) == ["LRRRClassifierCV", "GridSearchCV"]
    for ours, theirs in zip(*display.curves.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)


@pytest.mark.parametrize(
    ("scoring", "label"),
    [
        (None, "Accuracy"),
        ("accuracy", "Accuracy"),
        ("balanced_accuracy", "Balanced accuracy"),
        (lambda model, X, y: 0.5, "Score"),
    ],
)
def test_axis_is_named_after_the_score(scoring, label, digits):
    search = LRRRClassifierCV(betas=[10.0], ranks=[9], cv=2, scoring=scoring).fit(*digits)
    axes = RankDisplay.from_search(search).ax_
    assert axes.get_ylabel() == label
    assert axes.get_xlabel() == "Rank"


def test_two_classes_have_one_rank():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = y.map({0: "malignant", 1: "benign"})
    search = LRRRClassifierCV(betas=[100.0], cv=3).fit(X, y)
    display = RankDisplay.from_search(search)
    ranks, scores, _ = only_curve(display)
    np.testing.assert_array_equal(ranks, [1])
    assert scores[0] == search.best_score_
    np.testing.assert_array_equal(display.ax_.get_xticks() % 1, 0)


# Paths


def test_score_of_a_rank_is_that_of_the_classifier_of_this_rank(path, digits, new_digits):
    ranks, scores, errors = only_curve(RankDisplay.from_path(path, *new_digits))
    refitted = [
        LRRRClassifier(beta=10.0, rank=rank).fit(*digits).score(*new_digits) for rank in ranks
    ]
    np.testing.assert_allclose(scores, refitted, rtol=1e-14)
    assert errors is None


def test_weight_equals_copies(path, new_digits):
    X, y = new_digits
    weights = np.arange(len(y)) % 3
    weighted = only_curve(RankDisplay.from_path(path, X, y, sample_weight=weights))
    copied = only_curve(RankDisplay.from_path(path, np.repeat(X, weights, 0), y.repeat(weights)))
    np.testing.assert_allclose(weighted[1], copied[1], rtol=1e-14)


def test_several_paths_share_one_axis(path, digits, new_digits):
    paths = {"LRRR": path, "LRLR": LRLRClassifier().rank_path(*digits)}
    display = RankDisplay.from_paths(paths, *new_digits)
    assert list(display.curves) == ["LRRR", "LRLR"]
    assert display.ax_.get_ylabel() == "Accuracy"
    for drawn, (_, scores, _) in zip(
        display.full_rank_lines_, display.curves.values(), strict=True
    ):
        assert drawn.get_ydata()[0] == scores[-1]


def test_path_of_a_table_with_two_classes():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    path = LRRRClassifier().rank_path(X[::2], y[::2])
    ranks, scores, _ = only_curve(RankDisplay.from_path(path, X[1::2], y[1::2], name="two"))
    np.testing.assert_array_equal(ranks, [1])
    expected = LRRRClassifier().fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    assert scores[0] == pytest.approx(expected, abs=1e-15)


def test_display_draws_again_what_it_holds(folds):
    first = RankDisplay.from_search(folds)
    again = RankDisplay(curves=first.curves, score_name="Skill")
    assert again.plot(color="red") is again
    assert again.ax_ is not first.ax_
    assert again.ax_.get_ylabel() == "Skill"
    assert again.full_rank_lines_[0].get_color() == "red"
    np.testing.assert_array_equal(again.lines_[0].get_xydata(), first.lines_[0].get_xydata())


# What cannot be drawn


@pytest.mark.parametrize(
    ("choose", "error", "message"),
    [
        (lambda search: search, TypeError, "For a single search use from_search"),
        (lambda search: [], ValueError, "searches is empty"),
        (lambda search: [search, search], ValueError, "Pass a dict from names"),
        (lambda search: [LRRRClassifierCV()], NotFittedError, "Call 'fit'"),
        (lambda search: [search.best_estimator_], ValueError, "has no scores by rank: .* from_pa"),
    ],
)
def test_bad_searches_are_named_and_leave_no_figure(choose, error, message, folds):
    with pytest.raises(error, match=message):
        RankDisplay.from_searches(choose(folds))
    assert plt.get_fignums() == []


def test_searches_of_different_scores_have_no_common_axis(digits, folds):
    other = LRRRClassifierCV(betas=[1.0], cv=2, scoring="balanced_accuracy").fit(*digits)
    with pytest.raises(ValueError, match="different scores: Accuracy, Balanced accuracy"):
        RankDisplay.from_searches({"one": folds, "other": other})
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("model", "grid", "message"),
    [
        (RidgeClassifier(), {"alpha": [1.0]}, "'it' .* has no scores by rank"),
        (LRRRClassifier(), {"rank": [2, None]}, "'it' has ranks that are not integers"),
    ],
)
def test_grid_search_without_numbered_ranks(model, grid, message, digits):
    search = GridSearchCV(model, grid, cv=2).fit(*digits)
    with pytest.raises(ValueError, match=message):
        RankDisplay.from_search(search, name="it")


def test_settings_without_a_score():
    search = GridSearchCV(LRRRClassifier(), {})
    search.best_estimator_ = None
    search.cv_results_ = {"param_rank": [1, 2], "mean_test_score": np.array([0.5, np.nan])}
    with pytest.raises(ValueError, match="settings without a score"):
        RankDisplay.from_search(search)


@pytest.mark.parametrize(
    ("choose", "error", "message"),
    [
        (lambda path: path, TypeError, "For a single path use from_path"),
        (lambda path: {}, ValueError, "paths is empty"),
        (lambda path: {"it": LRRRClassifier()}, ValueError, "'it' .* is not a rank path"),
    ],
)
def test_bad_paths_are_named_and_leave_no_figure(choose, error, message, path, new_digits):
    with pytest.raises(error, match=message):
        RankDisplay.from_paths(choose(path), *new_digits)
    assert plt.get_fignums() == []


def test_labels_of_other_samples(path, new_digits):
    X, y = new_digits
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RankDisplay.from_path(path, X, y[:-1])
    with pytest.raises(ValueError, match="1d array"):
        RankDisplay.from_path(path, X, pd.DataFrame({"a": y, "b": y}))
    assert plt.get_fignums() == []


def test_without_matplotlib_the_extra_is_named_before_the_work(monkeypatch, folds, new_digits):
    def score(X, y, sample_weight):
        raise AssertionError("worked in vain")

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "discreg\[plots\]"'):
        RankDisplay.from_path(SimpleNamespace(ranks=[1], score=score), *new_digits)
    with pytest.raises(ImportError, match=r'pip install "discreg\[plots\]"'):
        RankDisplay.from_search(folds)
