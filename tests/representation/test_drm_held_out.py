"""Held-out scores of DRM at `fit` for rows in blocks, in parts, and for many rows."""

import numpy as np
import pytest
from drm_kinds import wine
from sklearn.base import clone
from sklearn.preprocessing import scale

from discreg import DRMClassifier
from discreg.representation import _held_out


def weights_of(y):
    return np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0], len(y))


@pytest.mark.parametrize("class_weight", [None, {0: 2.0, 2: 0.5}])
@pytest.mark.parametrize("params", [{}, {"n_components": 15, "kernel": "rbf", "gamma": 0.05}])
def test_blocks_and_parts_have_the_same_calibration(params, class_weight, tmp_path):
    X, y = wine()
    weights = weights_of(y)
    model = DRMClassifier(
        kernel="linear", solver="scatter", beta=5.0, random_state=0, class_weight=class_weight
    ).set_params(**params)
    expected = clone(model).fit(X, y, weights)
    np.save(tmp_path / "X.npy", X)
    mapped = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights)
    parts, other = clone(model), clone(model)
    if not params:
        for model, rows in ((parts, slice(0, None, 2)), (other, slice(1, None, 2))):
            model.partial_fit(X[rows], y[rows], np.unique(y), weights[rows])
        parts.merge(other)
    else:  # the components are those of the first rows
        parts.partial_fit(X, y, sample_weight=weights, classes=np.unique(y))
    for found in (mapped, parts):
        assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-7)
        assert found.loo_is_exact_
        np.testing.assert_array_equal(found.predict_set(X), expected.predict_set(X))
        assert found._solver.form.scatters is None


def test_dask_has_the_same_calibration():
    da = pytest.importorskip("dask.array")
    X, y = wine()
    model = DRMClassifier(kernel="linear", solver="scatter", beta=5.0)
    expected = clone(model).fit(X, y)
    found = clone(model).fit(da.from_array(X, chunks=(13, -1)), da.from_array(y, chunks=13))
    assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-9)


def many_rows(n_rows):
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 4))
    return X, (X[:, 0] + random.normal(size=n_rows) > 0).astype(int) + (X[:, 1] > 1)


@pytest.mark.parametrize("params", [{"kernel": "linear"}, {"gamma": 0.2}, {"solver": "closed"}])
def test_of_many_rows_some_are_held_out(params, monkeypatch):
    X, y = many_rows(400)
    expected = DRMClassifier(**params).fit(X, y).loo_decision_function_
    monkeypatch.setattr("discreg.blocks.kept_rows.MOST_ROWS", 150)
    kept = []

    def recorded(estimator, rows, found, *, seen, scores_of):
        kept.append((rows.places, found.scores))
        assert seen.all()

    monkeypatch.setattr("discreg.representation._drm.calibrate", recorded)
    DRMClassifier(**params).fit(X, y)
    places, scores = kept[0]
    assert len(places) == 150
    np.testing.assert_allclose(scores, expected[places], atol=1e-10)


def test_other_penalties_hold_out_few_rows(monkeypatch):
    X, y = wine()
    params = {"penalty": "group_lasso", "max_iter": 5000, "random_state": 0}
    every = DRMClassifier(**params).fit(X, y)
    assert not every.loo_is_exact_
    monkeypatch.setattr(_held_out, "FEW_ROWS", 30)
    few = DRMClassifier(**params).fit(X, y)
    assert len(few._calibrated.y) == 30
    assert not hasattr(few, "loo_decision_function_")


def test_a_search_counts_a_rare_class_as_an_error():
    from discreg import DRMClassifierCV

    X, y = wine()
    X, y = scale(X), y.copy()
    y[0] = 7
    params = {"alphas": (0.1,), "betas": (0.1, 1.0)}
    with pytest.warns(UserWarning, match="only one sample"):
        model = DRMClassifierCV(gammas=(0.1,), **params).fit(X, y)
    assert model.best_score_ <= 1 - 1 / len(y)
