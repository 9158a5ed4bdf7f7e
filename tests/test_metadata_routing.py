"""Sample weights and groups reach every estimator through the metadata routing of scikit-learn."""

import inspect

import numpy as np
import pytest
import sklearn
from every_classifier import every_estimator, make
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import discreg


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def data():
    """Every third sample of iris, with weights and with groups of two samples of a class."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    metadata = {
        "sample_weight": np.random.default_rng(0).integers(1, 4, len(y)).astype(float),
        "groups": np.arange(len(y)) // 2,
    }
    return X, y, metadata


def requesting(model, metadata):
    """The estimator with requests for all metadata that its `fit` takes, and these metadata."""
    names = inspect.signature(model.fit).parameters.keys() & metadata.keys()
    assert ("groups" in names) == (hasattr(model, "scoring") or hasattr(model, "families"))
    taken = {name: metadata[name] for name in names}
    model.set_fit_request(**dict.fromkeys(taken, True))
    return model.set_score_request(sample_weight=True), taken


def assert_equal_models(one, other, X):
    assert_array_equal(one.predict(X), other.predict(X))
    if hasattr(one, "decision_function"):
        assert_array_equal(one.decision_function(X), other.decision_function(X))


@every_estimator
def test_weights_and_groups_reach_a_classifier_in_a_pipeline(name):
    check_pipeline(make(name))


def test_weights_reach_a_regression_in_a_pipeline():
    check_pipeline(discreg.ReducedRankRegression())


def check_pipeline(model):
    X, y, metadata = data()
    model, taken = requesting(model, metadata)
    scaler = StandardScaler().set_fit_request(sample_weight=True)
    pipeline = make_pipeline(scaler, model).fit(X, y, **taken)
    scaled = StandardScaler().fit_transform(X, sample_weight=metadata["sample_weight"])
    assert_equal_models(pipeline[-1], clone(model).fit(scaled, y, **taken), scaled)


@pytest.mark.parametrize("name", ["LSRClassifier", "ReLSRClassifierCV"])
def test_weights_and_groups_of_a_fold_reach_its_fit_in_cross_validation(name):
    X, y, metadata = data()
    model, taken = requesting(make(name), metadata)
    splits = list(GroupKFold(2).split(X, y, metadata["groups"]))
    found = cross_validate(
        model, X, y, params=metadata, cv=GroupKFold(2), return_estimator=True, error_score="raise"
    )
    for fitted, score, (train, test) in zip(
        found["estimator"], found["test_score"], splits, strict=True
    ):
        of_fold = {key: values[train] for key, values in taken.items()}
        assert_equal_models(fitted, clone(model).fit(X[train], y[train], **of_fold), X)
        assert score == fitted.score(X[test], y[test], metadata["sample_weight"][test])


def test_weights_and_groups_reach_the_fits_of_a_grid_search():
    X, y, metadata = data()
    model, taken = requesting(
        discreg.LRRRClassifierCV(discreg.LRRRClassifier(), betas=[0.1, 1.0]), metadata
    )
    grid = GridSearchCV(model, {"estimator__kernel": ["linear", "rbf"]}, cv=GroupKFold(2))
    grid.fit(X, y, **metadata)
    best = clone(model).set_params(**grid.best_params_).fit(X, y, **taken)
    assert_equal_models(grid.best_estimator_, best, X)
    assert best.cv_results_["held_out"] == grid.best_estimator_.cv_results_["held_out"]


def test_metadata_that_are_not_requested_raise():
    X, y, metadata = data()
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
        make_pipeline(discreg.LSRClassifier()).fit(X, y, sample_weight=metadata["sample_weight"])
