"""The display of prediction sets shows what `predict_set` returns."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreg import LSRClassifier
from discreg.inspection import PredictionSetDisplay

mpl.use("Agg")


def halves():
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    return X[::2], labels[::2], X[1::2], labels[1::2]


def test_lines_are_coverage_and_mean_size():
    X, y, X_new, y_new = halves()
    model = make_pipeline(StandardScaler(), LSRClassifier()).fit(X, y)
    display = PredictionSetDisplay.from_estimator(model, X_new, y_new, levels=[0.6, 0.95])
    sets = model[-1].predict_set(model[:-1].transform(X_new), 0.95, allow_empty=True)
    own = sets[np.arange(len(sets)), np.searchsorted(model.classes_, y_new)]
    np.testing.assert_array_equal(display.line_.get_xdata(), [0.6, 0.95])
    assert display.line_.get_ydata()[1] == own.mean()
    assert display.size_line_.get_ydata()[1] == sets.sum(axis=1).mean()
    assert display.coverage[0] < display.coverage[1]


def test_labels_that_the_model_does_not_know_are_never_covered():
    X, y, X_new, y_new = halves()
    model = LSRClassifier().fit(X, y)
    strange = np.where(np.arange(len(y_new)) < 44, y_new, "unknown")
    display = PredictionSetDisplay.from_estimator(model, X_new, strange, levels=0.999)
    assert display.coverage[0] <= 44 / len(y_new)


def test_calibration_is_drawn_by_scikit_learn():
    X, y, X_new, y_new = halves()
    model = make_pipeline(StandardScaler(), LSRClassifier()).fit(X, y == "b")
    display = CalibrationDisplay.from_estimator(model, X_new, y_new == "b")
    np.testing.assert_array_equal(display.y_prob, model.predict_proba(X_new)[:, 1])


def test_other_classifiers_are_refused():
    X, y, *_ = halves()
    with pytest.raises(TypeError, match="RidgeClassifier has no predict_set"):
        PredictionSetDisplay.from_estimator(RidgeClassifier().fit(X, y), X, y)
