"""The display of the leaderboard shows the best candidate of each model, and the members."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreg import AutoClassifier, LSRClassifierCV
from discreg.inspection import LeaderboardDisplay

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    X, y = load_breast_cancer(return_X_y=True)
    return AutoClassifier(families=["kernels", "logistic"]).fit(X[::2], y[::2])


@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "balanced_accuracy"])
def test_dots_are_held_out_metrics_of_candidates(model, metric):
    display = LeaderboardDisplay.from_estimator(model, metric=metric, n=7)
    results = {name: np.array(model.cv_results_[name]) for name in (metric, "weight", "family")}
    others = results[metric][results["family"] != "constant"]
    best = others.min() if metric == "log_loss" else others.max()
    values = display.line_.get_xdata()
    assert values[0] == best
    assert (np.diff(values if metric == "log_loss" else -values) >= 0).all()
    assert len(set(display.names)) == len(display.names) >= 5
    members = results[metric][results["weight"] > 0]
    np.testing.assert_array_equal(np.sort(display.members_.get_xdata()), np.sort(members))
    constant = results[metric][results["family"] == "constant"]
    assert display.constant_line_.get_xdata()[0] == display.constant == constant[0]


def test_members_are_on_the_line_of_their_kind(model):
    display = LeaderboardDisplay.from_estimator(model, n=1)
    shown = [display.names[place] for place in display.members_.get_ydata()]
    assert sorted(shown) == sorted(member.kind for member in model.estimators_)
    assert len(display.names) == len(set(shown))


def test_class_frequencies_far_away_are_in_the_legend_only(model):
    display = LeaderboardDisplay.from_estimator(model)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert any("class frequencies" in text and "outside" in text for text in texts)
    assert display.ax_.get_xlim()[1] < display.constant
    display.constant = 1.1 * float(display.values.max())
    display.plot()
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert not any("outside" in text for text in texts)
    assert display.ax_.get_xlim()[0] < display.constant < display.ax_.get_xlim()[1]


def test_candidates_on_a_part_of_the_rows_are_left_out():
    X, y = load_digits(return_X_y=True)
    X, y = X[::3, 20:36], y[::3]
    model = make_pipeline(StandardScaler(), AutoClassifier(families=["kernels"])).fit(X, y)
    results = model[-1].cv_results_
    sizes = np.array(results["n_samples"])
    assert sizes.min() < sizes.max()
    display = LeaderboardDisplay.from_estimator(model, n=1000)
    pairs = zip(results["kind"], sizes, strict=True)
    tried = {kind for kind, size in pairs if size == sizes.max()} - {"class frequencies"}
    assert set(display.names) == tried


def test_other_estimators_and_metrics_are_refused(model):
    X, y = load_breast_cancer(return_X_y=True)
    for other in (RidgeClassifier(), LSRClassifierCV()):
        with pytest.raises(TypeError, match="has no leaderboard"):
            LeaderboardDisplay.from_estimator(other.fit(X, y))
    with pytest.raises(ValueError, match="metric must be one of log_loss"):
        LeaderboardDisplay.from_estimator(model, metric="auc")
