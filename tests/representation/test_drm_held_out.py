"""Held-out scores of DRM at `fit` for rows in blocks, in parts, and for many rows."""

import numpy as np
import pytest
from drm_kinds import wine
from sklearn.base import clone
from sklearn.preprocessing import scale

from discreg import DRMClassifier, DRMClassifierCV
from discreg.base.held_out import holdout_folds
from discreg.blocks.kept_rows import row_keys


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
        assert found.held_out_by_ == "one row at a time"
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
    y = random.integers(0, 3, n_rows)
    return random.normal(size=(n_rows, 4)) + 2 * np.eye(4)[y], y


@pytest.mark.parametrize("params", [{"kernel": "linear"}, {"gamma": 0.2}, {"solver": "closed"}])
def test_of_many_rows_some_are_held_out(params, monkeypatch):
    X, y = many_rows(400)
    expected = DRMClassifier(**params).fit(X, y).held_out_decision_function_
    monkeypatch.setattr("discreg.blocks.kept_rows.MOST_ROWS", 150)
    kept = []
    monkeypatch.setattr(
        "discreg.base.held_out.calibrate",
        lambda estimator, held_out, sizes, warn: kept.append(held_out),
    )
    DRMClassifier(**params).fit(X, y)
    found = kept[0]
    assert len(found.scores) == 150
    assert found.of_rows is None
    distances = np.abs(found.scores[:, None] - expected).max(axis=2)
    assert distances.min(axis=1).max() < 1e-10
    np.testing.assert_array_equal(found.y, y[distances.argmin(axis=1)])


def test_other_penalties_are_held_out_in_folds_of_refits():
    X, y = wine()
    params = {"penalty": "group_lasso", "gamma": 0.1, "tol": 1e-8, "max_iter": 20_000}
    model = DRMClassifier(**params).fit(X, y)
    assert model.held_out_by_ == "5 folds"
    assert np.all(np.isfinite(model.predict_proba(X)))
    found = model.held_out_decision_function_
    for train, test in holdout_folds(row_keys(X, np.ones(len(y))), y, np.ones(len(y))):
        refit = DRMClassifier(probability=False, **params).fit(X[train], y[train])
        np.testing.assert_allclose(found[test], refit.decision_function(X[test]), atol=1e-12)


def test_a_search_does_not_hold_out_the_only_sample_of_a_class():
    X, y = wine()
    X, y = scale(X), y.copy()
    y[0] = 7
    params = {"alphas": (0.1,), "betas": (0.1, 1.0)}
    with pytest.warns(UserWarning, match="only one distinct row") as caught:
        model = DRMClassifierCV(gammas=(0.1,), **params).fit(X, y)
    assert len(caught) == 1
    assert np.all(np.isfinite(model.cv_results_["mean_log_loss"]))
    assert (model.best_score_ * (len(y) - 1)) % 1 == pytest.approx(0, abs=1e-9)
