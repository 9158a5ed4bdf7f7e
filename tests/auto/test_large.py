"""Rows that are not in memory: members are chosen on a sample and fitted to all rows."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from discreg import AutoClassifier
from discreg.auto import _auto
from discreg.linalg.kernel_approximation import hash_rows

pytest.importorskip("dask")
import dask.array as da

N_ROWS = 3_000


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        N_ROWS, 5, n_informative=4, n_redundant=0, class_sep=1.5, weights=[0.7], random_state=0
    )
    labels = np.where(y == 1, "b", "a").astype("U4")
    labels[:11] = "rare"
    X[:11] += 8.0
    return X, labels


@pytest.fixture(scope="module")
def fitted(data):
    X, y = data
    chunks = da.from_array(X, chunks=(700, 5)), da.from_array(y, chunks=700)
    return AutoClassifier(random_state=0).fit(*chunks)


def test_members_are_fitted_to_all_rows(fitted, data):
    X, y = data
    indices = np.searchsorted(fitted.classes_, y)
    for member in fitted.estimators_:
        scaler, classifier = member
        again = type(classifier)(**classifier.get_params()).fit(scaler.transform(X), indices)
        np.testing.assert_allclose(
            member.decision_function(X), again.decision_function(scaler.transform(X)), atol=1e-6
        )


def test_the_sample_is_a_part_with_all_classes(fitted, data):
    X, y = data
    assert max(fitted.cv_results_["n_samples"]) < N_ROWS
    assert fitted.classes_.tolist() == ["a", "b", "rare"]
    assert np.mean(fitted.predict(X)[:11] == "rare") > 0.9
    assert abs(fitted.score(X, y) - fitted.held_out_accuracy_) < 0.05


def test_the_relative_penalty_is_that_of_the_sample(fitted):
    results = fitted.cv_results_
    expected = []
    for k in np.flatnonzero(results["weight"]):
        kernel, beta = results["kernel"][k], results["params"][k]["beta"]
        factor = 1.0 if kernel == "linear" else N_ROWS / results["n_samples"][k]
        expected.append((kernel, factor * beta))
    found = [(member[-1].kernel, member[-1].beta) for member in fitted.estimators_]
    assert [kernel for kernel, _ in sorted(found)] == [kernel for kernel, _ in sorted(expected)]
    np.testing.assert_allclose(*([beta for _, beta in sorted(each)] for each in (found, expected)))


def test_chunks_and_their_order_do_not_matter(fitted, data):
    X, y = data
    order = np.r_[2_000:N_ROWS, 0:2_000]
    chunks = da.from_array(X[order], chunks=(1_000, 5)), y[order]
    other = AutoClassifier(random_state=0).fit(*chunks)
    np.testing.assert_allclose(other.predict_proba(X), fitted.predict_proba(X), atol=1e-6)


def test_predictions_on_dask_are_lazy(fitted, data):
    X, _ = data
    lazy = fitted.predict_proba(da.from_array(X, chunks=(500, 5)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), fitted.predict_proba(X))


class Recorded(np.memmap):
    """A memory map that records the most rows that are read at once."""

    most = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if np.ndim(found) == 2:
            Recorded.most = max(Recorded.most, len(found))
        return found


def test_a_memory_map_is_read_in_blocks(fitted, data, tmp_path, monkeypatch):
    X, y = data
    monkeypatch.setattr("discreg.blocks.validation.largest_block", lambda: 800 * 5 * 8)
    monkeypatch.setattr("discreg.blocks.source.largest_block", lambda: 800 * 5 * 8)
    rows = Recorded(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    rows[:] = X
    Recorded.most = 0
    model = AutoClassifier(random_state=0).fit(rows, y)
    assert 0 < Recorded.most <= 800
    np.testing.assert_allclose(model.predict_proba(X), fitted.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("in_memory", [True, False])
def test_models_of_very_many_rows_are_linear(data, monkeypatch, in_memory):
    monkeypatch.setattr(_auto, "MANY_FOR_KERNELS", N_ROWS)
    X, y = data
    model = AutoClassifier().fit(X if in_memory else da.from_array(X, chunks=(1_000, 5)), y)
    assert set(model.cv_results_["kernel"]) == {"linear", "none"}
    assert model.score(X, y) > 0.8


def test_sample_weights_are_equivalent_to_repeated_rows(data):
    X, y = data[0][:900], data[1][:900]
    weights = np.where(hash_rows(X, 0) % np.uint64(3) == 0, 2.0, 1.0)
    repeats = weights.astype(int)
    weighted = AutoClassifier(random_state=0).fit(da.from_array(X, chunks=(300, 5)), y, weights)
    rows = da.from_array(X.repeat(repeats, axis=0), chunks=(400, 5))
    repeated = AutoClassifier(random_state=0).fit(rows, y.repeat(repeats))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_groups_need_rows_in_memory(data):
    X, y = data
    with pytest.raises(ValueError, match="groups needs X in memory"):
        AutoClassifier().fit(da.from_array(X, chunks=(1_000, 5)), y, groups=np.arange(N_ROWS))
