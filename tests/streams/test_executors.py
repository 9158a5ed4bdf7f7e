"""In memory, from a memory map, by parts in any order, on Dask in any chunks: the same model."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from stream_problems import (
    BY_PARTS,
    CHUNKS,
    MODELS,
    N_CLASSES,
    N_ROWS,
    as_sparse,
    blocks_of,
    chunked,
    largest_difference,
    mapped,
    rows,
    weights,
)

from discreg import LRRRClassifier, LSRClassifier, ReLSRClassifier
from discreg.core.dask_table import DaskTable
from discreg.core.table import MappedTable

every_model = pytest.mark.parametrize("name", MODELS)
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
EXACT, SINGLE = 1e-9, 1e-4


@every_model
@weighted_or_not
@pytest.mark.parametrize("n_rows", [7, 239])
def test_a_memory_map_is_fitted_block_by_block_to_the_same_model(name, weighted, n_rows, tmp_path):
    X, y = rows()
    sample_weight = weights() if weighted else None
    expected = clone(MODELS[name]).fit(X, y, sample_weight)
    with blocks_of(n_rows, X):
        found = clone(MODELS[name]).fit(mapped(X, tmp_path), y, sample_weight)
    assert largest_difference(expected, found, X) < EXACT
    assert getattr(found, "solver_", None) == getattr(expected, "solver_", None)
    assert not hasattr(found, "targets_")


@every_model
@weighted_or_not
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_dask_chunks_lead_to_the_same_model(name, weighted, layout, chunks):
    X, y = rows()
    X = as_sparse(X) if layout == "sparse" else X
    sample_weight = weights() if weighted else None
    expected = clone(MODELS[name]).fit(X, y, sample_weight)
    lengths = CHUNKS[chunks]
    lazy_weight = None if sample_weight is None else chunked(sample_weight, lengths)
    found = clone(MODELS[name]).fit(chunked(X, lengths), chunked(y, lengths), lazy_weight)
    assert largest_difference(expected, found, X) < EXACT


@every_model
def test_single_precision_comes_in_and_goes_out(name, tmp_path):
    X, y = rows(dtype=np.float32)
    expected = clone(MODELS[name]).fit(X.astype(np.float64), y)
    with blocks_of(50, X):
        streamed = clone(MODELS[name]).fit(mapped(X, tmp_path), y)
    on_dask = clone(MODELS[name]).fit(chunked(X, CHUNKS["uneven"]), y)
    for found in (streamed, on_dask):
        assert found.decision_function(X).dtype == np.float32
        assert largest_difference(expected, found, X) < SINGLE


@every_model
@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 3.0, 2: 0.5}])
def test_class_weights(name, class_weight):
    X, y = rows()
    model = clone(MODELS[name]).set_params(class_weight=class_weight)
    expected = clone(model).fit(X, y)
    found = clone(model).fit(chunked(X, CHUNKS["uneven"]), y)
    assert largest_difference(expected, found, X) < EXACT


@every_model
def test_a_class_in_one_chunk_only(name):
    X, y = rows()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    lengths = tuple(np.bincount(y))
    expected = clone(MODELS[name]).fit(X, y)
    found = clone(MODELS[name]).fit(chunked(X, lengths), chunked(y, lengths))
    assert largest_difference(expected, found, X) < EXACT


@pytest.mark.parametrize("name", BY_PARTS)
@weighted_or_not
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("n_parts", [2, 7, N_ROWS])
def test_parts_in_any_order_and_size(name, weighted, layout, n_parts):
    X, y = rows()
    X = as_sparse(X) if layout == "sparse" else X
    sample_weight = weights() if weighted else None
    expected = clone(MODELS[name]).fit(X, y, sample_weight)
    found = clone(MODELS[name])
    for part in np.array_split(np.random.default_rng(1).permutation(N_ROWS), n_parts):
        some = None if sample_weight is None else sample_weight[part]
        found.partial_fit(X[part], y[part], classes=range(N_CLASSES), sample_weight=some)
    assert largest_difference(expected, found, X) < EXACT


@pytest.mark.parametrize("name", BY_PARTS)
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 3.0, 2: 0.5}])
def test_models_of_parts_merge_into_the_model_of_all(name, class_weight):
    X, y = rows()
    model = clone(MODELS[name]).set_params(class_weight=class_weight)
    halves = [slice(0, 60), slice(60, None)]
    one, other = (
        clone(model).partial_fit(X[half], y[half], classes=range(N_CLASSES)) for half in halves
    )
    before = other.decision_function(X)
    merged = one.merge(other)
    assert merged is one
    assert_array_equal(other.decision_function(X), before)
    assert largest_difference(clone(model).fit(X, y), merged, X) < EXACT


@pytest.mark.parametrize("name", ["LSR", "DLSR", "ReLSR", "GReLSR", "LRLR", "LRRR", "SLRR", "ODM"])
def test_far_from_the_origin_no_digits_are_lost(name):
    """Rows of standard deviation 1 about 1e6: the fit is that of rows about zero."""
    X, y = rows()
    far = X + 1e6  # rounding to 1e-10 is all that happens to the rows
    near = clone(MODELS[name]).fit(X, y)
    found = clone(MODELS[name]).fit(chunked(far, CHUNKS["uneven"]), y)
    # Iterations end where the rounding of scores hides a decrease of the objective: its root.
    accuracy = 1e-4 if name in ("DLSR", "ReLSR", "GReLSR") else 1e-8
    assert_allclose(found.coef_, near.coef_, atol=accuracy * np.abs(near.coef_).max())


@pytest.mark.parametrize("name", ["LSR", "LRLR", "LRRR", "SLRR", "DRM"])
def test_closed_forms_take_one_pass(name, monkeypatch):
    X, y = rows()
    passes = []
    fold = DaskTable.fold
    monkeypatch.setattr(DaskTable, "fold", lambda *args: passes.append(args[1]) or fold(*args))
    clone(MODELS[name]).fit(chunked(X, CHUNKS["even"]), y)
    assert len(passes) == 1


def test_what_travels_does_not_grow_with_the_rows(monkeypatch):
    """Statistics of features and classes: as large for twice the rows."""
    import cloudpickle

    sizes = {}
    fold = MappedTable.fold

    def measured(self, statistic, *args):
        total = fold(self, statistic, *args)
        sizes.setdefault(self.n_rows, []).append(len(cloudpickle.dumps((args, total))))
        return total

    monkeypatch.setattr(MappedTable, "fold", measured)
    X, y = rows()
    for model in (LSRClassifier(), ReLSRClassifier(), LRRRClassifier()):
        for copies in (1, 4):
            table = MappedTable(np.tile(X, (copies, 1)), np.tile(y, copies), None, None)
            monkeypatch.setattr("discreg.core.classifier.open_table", lambda *_, t=table: t)
            monkeypatch.setattr("discreg.core.classifier.is_streamed", lambda X: True)
            clone(model).fit(X, y)
    small, large = sizes[N_ROWS], sizes[4 * N_ROWS]
    assert max(large) <= max(small) + 64


def test_memory_is_flat_in_the_number_of_rows(tmp_path):
    import tracemalloc

    peaks = []
    for n_rows in (40_000, 160_000):
        X = np.memmap(tmp_path / str(n_rows), dtype=np.float32, mode="w+", shape=(n_rows, 20))
        X[:] = np.random.default_rng(0).standard_normal(X.shape, dtype=np.float32)
        y = (X[:, 0] > 0).astype(np.int8)
        with blocks_of(10_000, X):
            LSRClassifier().fit(X, y)  # compiled
            tracemalloc.start()
            LSRClassifier().fit(X, y)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


# Forms of Dask collections ------------------------------------------------------------------------


def frames(npartitions=3):
    X, y = rows()
    frame = pd.DataFrame(X, columns=[f"feature {j}" for j in range(X.shape[1])])
    frame["label"] = np.array(["ant", "bee", "cow"])[y]
    lazy = dd.from_pandas(frame, npartitions=npartitions)
    return frame.drop(columns="label"), frame["label"], lazy.drop(columns="label"), lazy["label"]


def test_dataframes_with_their_names():
    X, y, lazy_X, lazy_y = frames()
    expected = LRRRClassifier().fit(X, y)
    found = LRRRClassifier().fit(lazy_X, lazy_y)
    assert_array_equal(found.feature_names_in_, X.columns)
    assert_array_equal(found.classes_, ["ant", "bee", "cow"])
    assert largest_difference(expected, found, X) < EXACT
    assert_array_equal(found.predict(lazy_X).compute(), expected.predict(X))
    assert found.score(lazy_X, lazy_y) == pytest.approx(expected.score(X, y))
    with pytest.raises(ValueError, match="feature names"):
        found.predict(lazy_X.rename(columns={"feature 0": "other"}))


def test_labels_in_any_form_are_brought_to_the_chunks_of_the_rows():
    X, y, lazy_X, lazy_y = frames()
    expected = LSRClassifier().fit(X, y, weights())
    array = lazy_X.to_dask_array()  # of unknown chunk sizes
    known = da.from_array(X.to_numpy(), chunks=(100, 2))  # columns in several chunks
    text = y.to_numpy().astype("U3")
    for rows_of, labels in [
        (lazy_X, text),
        (lazy_X, da.from_array(text, chunks=50)),
        (lazy_X, lazy_y.to_frame()),
        (array, lazy_y),
        (array, da.from_array(text, chunks=7)),
        (known, lazy_y),
        (known, da.from_array(text, chunks=99)[da.ones(N_ROWS, dtype=bool, chunks=99)]),
        (known, list(text)),
    ]:
        for sample_weight in (weights(), da.from_array(weights(), chunks=90)):
            found = LSRClassifier().fit(rows_of, labels, sample_weight)
            assert_allclose(found.coef_, expected.coef_, atol=1e-12)
    scalar = LSRClassifier().fit(known, text, sample_weight=2.0)
    assert_allclose(scalar.coef_, LSRClassifier().fit(X, y).coef_, atol=1e-12)


@every_model
def test_predictions_stay_lazy_and_are_those_in_memory(name):
    X, y = rows()
    model = clone(MODELS[name]).fit(X, y)
    for layout in (X, as_sparse(X)):
        lazy = chunked(layout, CHUNKS["uneven"])
        methods = [m for m in ("decision_function", "predict", "transform") if hasattr(model, m)]
        for method in methods:
            found = getattr(model, method)(lazy)
            expected = getattr(model, method)(layout)
            assert isinstance(found, da.Array)
            assert found.chunks[0] == CHUNKS["uneven"]
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            assert_allclose(found.compute(), expected, atol=1e-12)


def test_probabilities_stay_lazy():
    X, y = rows()
    model = clone(MODELS["DRM, Nyström"]).set_params(probability=True).fit(X, y)
    found = model.predict_proba(chunked(X, CHUNKS["even"]))
    assert isinstance(found, da.Array)
    assert_allclose(found.compute(), model.predict_proba(X), atol=1e-12)


def test_nothing_is_computed_before_it_is_asked_for():
    X, y = rows()
    model = LSRClassifier().fit(X, y)

    def refuse(block):
        raise AssertionError("computed too early")

    lazy = chunked(X, CHUNKS["even"]).map_blocks(refuse, dtype=X.dtype, meta=X[:0])
    model.predict(lazy)
