"""A fit that fails or is interrupted leaves an estimator as it was before."""

import numpy as np
import pytest
from every_classifier import every_classifier, make
from joblib import hash as joblib_hash
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

from discreg.base import held_out


def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3], y[::3]


def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X)[::3], np.array(["low", "mid", "top"])[y[::3]]


def state(model):
    return {name: joblib_hash(value) for name, value in vars(model).items()}


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


@every_classifier
@pytest.mark.parametrize("is_fitted", [False, True], ids=["new", "fitted"])
def test_a_fit_that_is_interrupted_changes_nothing(monkeypatch, name, is_fitted):
    model = make(name)
    if is_fitted:
        model.fit(*iris())
    before = state(model)
    monkeypatch.setattr(held_out, "fit_temperature", interrupt)  # near the end of a fit
    with pytest.raises(KeyboardInterrupt):
        model.fit(*wine())
    assert state(model) == before


@every_classifier
def test_a_fit_that_fails_changes_nothing(name):
    model = make(name).fit(*iris())
    before = state(model)
    X, y = wine()
    for data, message in (
        ((np.where(X > 2, np.nan, X), y), "contains NaN"),
        ((X, np.full(len(y), "low")), "one class only"),
        ((X, y[:-1]), "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(*data)
        assert state(model) == before
