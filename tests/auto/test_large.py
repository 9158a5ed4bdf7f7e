"""Rows that are not in memory, and many rows: members are chosen on a sample."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from discreg import AutoClassifier
from discreg.auto import _auto, _candidates
from discreg.auto._least_squares import spectrum_of
from discreg.auto._samples import FEWEST_OF_CLASS, sample_of_blocks
from discreg.blocks.source import ArrayBlocks
from discreg.linalg.rows import hash_rows

pytest.importorskip("dask")
import dask.array as da

N_ROWS = 3_000
QUICK = {"families": ["kernels"]}


@pytest.fixture(autouse=True)
def _small_samples(monkeypatch):
    monkeypatch.setattr(_auto, "MOST_ROWS", 1_200)
    monkeypatch.setattr(_candidates, "n_components_for", lambda n_rows: 100)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        N_ROWS, 5, n_informative=4, n_redundant=0, class_sep=1.5, weights=[0.7], random_state=0
    )
    labels = np.where(y == 1, "b", "a").astype("U4")
    labels[:60] = "rare"
    X[:60] += 8.0
    return X, labels


def fit(X, y, **params):
    chunks = da.from_array(X, chunks=(700, 5)), da.from_array(y, chunks=700)
    return AutoClassifier(**QUICK, random_state=0, **params).fit(*chunks)


def test_a_sample_keeps_rare_classes_and_the_shares_of_all(data):
    X, y = data
    indices = np.unique(y, return_inverse=True)[1]
    samples = sample_of_blocks(ArrayBlocks(X, indices, None, None), 600, np.zeros(5, dtype=bool), 0)
    counts = np.bincount(samples.y)
    assert counts[2] == FEWEST_OF_CLASS
    assert counts.sum() < 700
    np.testing.assert_allclose(samples.shares, np.bincount(indices) / N_ROWS)


@pytest.mark.parametrize("place", [0, 3])
def test_kernels_are_fitted_to_all_rows(data, place):
    X, y = data
    indices = np.unique(y, return_inverse=True)[1]
    source = ArrayBlocks(X, indices, None, None, block_bytes=8_000)
    samples = sample_of_blocks(source, 600, np.zeros(5, dtype=bool), 0)
    kind = _candidates.kernel_kinds(samples)[place]
    kernel, scaling = kind.options["kernel"], kind.options["scaling"]
    spectrum = spectrum_of(kernel, samples, scaling, 50)
    penalty = 1e-3 * spectrum.values.sum()
    model = spectrum.model(penalty)
    # Ridge regression of the centred features of all rows.
    Z = samples.scalings[scaling](X)
    if model.rows is not None:
        values, vectors = np.linalg.eigh(kernel(model.rows))
        Z = kernel(Z, model.rows) @ (vectors / np.sqrt(values))
    targets = np.eye(3)[indices]
    centred = Z - Z.mean(axis=0)
    coef = np.linalg.solve(centred.T @ centred + penalty * np.eye(Z.shape[1]), centred.T @ targets)
    expected = targets.mean(axis=0) + centred @ coef
    np.testing.assert_allclose(model(samples.scalings[scaling](X)), expected, atol=1e-5)


def test_members_are_good_on_all_rows(data):
    X, y = data
    model = fit(X, y)
    assert max(model.cv_results_["n_samples"]) < 1_400
    assert model.classes_.tolist() == ["a", "b", "rare"]
    assert np.mean(model.predict(X)[:60] == "rare") > 0.9
    assert abs(model.score(X, y) - model.held_out_accuracy_) < 0.04
    lazy = model.predict_proba(da.from_array(X, chunks=(500, 5)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), model.predict_proba(X))


@pytest.mark.full
def test_chunks_and_memory_do_not_matter(data, tmp_path, monkeypatch):
    X, y = data
    expected = fit(X, y).predict_proba(X)
    order = np.r_[2_000:N_ROWS, 0:2_000]
    np.testing.assert_allclose(fit(X[order], y[order]).predict_proba(X), expected, atol=1e-6)
    in_memory = AutoClassifier(**QUICK, random_state=0).fit(X, y)
    np.testing.assert_allclose(in_memory.predict_proba(X), expected, atol=1e-6)
    monkeypatch.setattr("discreg.blocks.source.largest_block", lambda: 800 * 5 * 8)
    monkeypatch.setattr("discreg.blocks.source.largest_block", lambda: 800 * 5 * 8)
    rows = Recorded(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    rows[:] = X
    Recorded.most = 0
    model = AutoClassifier(**QUICK, random_state=0).fit(rows, y)
    assert 0 < Recorded.most <= 800
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)


class Recorded(np.memmap):
    """A memory map that records the most rows that are read at once."""

    most = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if np.ndim(found) == 2:
            Recorded.most = max(Recorded.most, len(found))
        return found


def test_sample_weights_are_equivalent_to_repeated_rows(data):
    X, y = data[0][:1_500], data[1][:1_500]
    weights = np.where(hash_rows(X, 0) % np.uint64(3) == 0, 2.0, 1.0)
    repeats = weights.astype(int)
    weighted = AutoClassifier(**QUICK).fit(da.from_array(X, chunks=(300, 5)), y, weights)
    rows = da.from_array(X.repeat(repeats, axis=0), chunks=(400, 5))
    repeated = AutoClassifier(**QUICK).fit(rows, y.repeat(repeats))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_groups_need_rows_in_memory(data):
    X, y = data
    with pytest.raises(ValueError, match="groups needs X in memory"):
        AutoClassifier().fit(da.from_array(X, chunks=(1_000, 5)), y, groups=np.arange(N_ROWS))


def test_approximated_kernels_are_as_good_as_estimated():
    X, y = make_classification(2_600, 5, class_sep=1.0, flip_y=0.1, random_state=0)
    model = AutoClassifier(families=["kernels", "trees"]).fit(X[:2_200], y[:2_200])
    difference = model.score(X[2_200:], y[2_200:]) - model.held_out_accuracy_
    assert abs(difference) < 0.05
