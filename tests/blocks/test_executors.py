"""In memory, from a memory map, by parts in any order, on Dask in any chunks: the same model."""

import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from products import every_value
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
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

from discreg import DLSRClassifier, GReLSRClassifier, LRRRClassifier, LSRClassifier, ReLSRClassifier
from discreg.blocks.dask_source import DaskBlocks
from discreg.blocks.source import ArrayBlocks

every_model = pytest.mark.parametrize("name", MODELS)
EXACT, SINGLE = 1e-9, 1e-4


@every_value(name=MODELS, weighted=[True, False], n_rows=[7, 239])
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
@pytest.mark.parametrize(
    ("chunks", "layout", "weighted"), [("even", "dense", False), ("uneven", "sparse", True)]
)
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


@every_value(name=MODELS, class_weight=["balanced", {0: 1.0, 1: 3.0, 2: 0.5}])
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
@pytest.mark.parametrize(
    ("n_parts", "layout", "weighted"),
    [(7, "sparse", True), (N_ROWS, "dense", False)],
)
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


@every_value(name=BY_PARTS, class_weight=[None, "balanced", {0: 1.0, 1: 3.0, 2: 0.5}])
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
    reduce_raw = DaskBlocks.reduce_raw
    monkeypatch.setattr(
        DaskBlocks, "reduce_raw", lambda *args: passes.append(args[1]) or reduce_raw(*args)
    )
    clone(MODELS[name]).fit(chunked(X, CHUNKS["even"]), y)
    assert len(passes) == 1


def test_what_travels_does_not_grow_with_the_rows(monkeypatch):
    """Statistics of features and classes: as large for twice the rows."""
    import cloudpickle

    sizes = {}
    reduce_raw = ArrayBlocks.reduce_raw

    def measured(self, statistic, *args):
        total = reduce_raw(self, statistic, *args)
        sizes.setdefault(len(self._y), []).append(len(cloudpickle.dumps((args, total))))
        return total

    monkeypatch.setattr(ArrayBlocks, "reduce_raw", measured)
    X, y = rows()
    for model in (LSRClassifier(), ReLSRClassifier(), LRRRClassifier()):
        for copies in (1, 4):
            source = ArrayBlocks(np.tile(X, (copies, 1)), np.tile(y, copies), None, None)
            monkeypatch.setattr("discreg.base.validation.open_blocks", lambda *_, s=source: s)
            monkeypatch.setattr("discreg.base.validation.is_streamed", lambda X: True)
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


# What is easily lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("group_penalty", [1e3, 1e6])
@pytest.mark.parametrize("solver", ["newton", "alternating"])
def test_centres_lose_no_digits_however_heavy_they_are(group_penalty, solver):
    X, y = rows()
    sample_weight = np.random.default_rng(0).random(N_ROWS)
    model = GReLSRClassifier(group_penalty=group_penalty, solver=solver, tol=1e-12, max_iter=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # thirty alternations are few
        expected = clone(model).fit(X, y, sample_weight)
        found = clone(model).fit(chunked(X, CHUNKS["even"]), y, sample_weight)
    assert largest_difference(expected, found, X) < 1e-7
    assert found.gap_ == pytest.approx(expected.gap_, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
@pytest.mark.parametrize("name", ["LSR", "LRRR", "DRM"])
def test_single_precision_neither_overflows_nor_vanishes(name, scale):
    X, y = rows()
    model = clone(MODELS[name])
    if name != "LSR":  # whose penalty is relative to the squares
        model.set_params(beta=0.1 * scale**2)
    far = (scale * X).astype(np.float32)
    expected = clone(model).fit(far.astype(np.float64), y)
    found = clone(model).fit(chunked(far, CHUNKS["even"]), y)
    assert_array_equal(found.predict(far), expected.predict(far))


def test_weights_that_single_precision_cannot_hold():
    X, y = rows(dtype=np.float32)
    expected = LSRClassifier().fit(X, y)
    for weight in (1e-80, 1e80):
        found = LSRClassifier().fit(chunked(X, CHUNKS["even"]), y, np.full(N_ROWS, weight))
        assert_allclose(found.coef_, expected.coef_, atol=1e-5)


def test_a_lazy_prediction_is_that_of_the_model_when_it_was_asked_for():
    X, y = rows()
    model = LSRClassifier().fit(X, y)
    expected = model.predict(X)
    lazy = model.predict(chunked(X, CHUNKS["even"]))
    model.fit(X, (y + 1) % N_CLASSES)
    assert_array_equal(lazy.compute(), expected)


def test_columns_of_any_numbers():
    X, y, _, _ = frames()
    mixed = X.copy()
    mixed["feature 0"] = mixed["feature 0"].round().astype("Int64")
    mixed["feature 1"] = mixed["feature 1"] > 2
    mixed["feature 2"] = (mixed["feature 2"] > 2).astype("boolean")
    mixed["feature 3"] = mixed["feature 3"].astype("Float64")
    expected = LSRClassifier().fit(mixed, y)
    lazy = dd.from_pandas(mixed, npartitions=3)
    found = LSRClassifier().fit(lazy, y)
    assert_allclose(found.coef_, expected.coef_, atol=1e-12)
    assert_array_equal(found.predict(lazy).compute(), expected.predict(mixed))


def test_chunks_of_different_kinds():
    X, y = rows()
    thin = as_sparse(X)
    kinds = [thin[:100], thin[100:200].toarray(), thin[200:].tocsc()]
    parts = [
        da.from_delayed(dask.delayed(part), part.shape, dtype=X.dtype, meta=X[:0]) for part in kinds
    ]
    lazy = da.concatenate(parts)
    for name in ("LSR", "DRM, Nyström", "ODM"):
        expected = clone(MODELS[name]).fit(thin, y)
        assert largest_difference(expected, clone(MODELS[name]).fit(lazy, y), thin) < EXACT


def test_many_classes_in_few_rows_say_nothing():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((60, 5)), np.arange(60) % 30
    expected = LSRClassifier().fit(X, y)
    found = LSRClassifier().fit(chunked(X, (20, 20, 20)), y)
    assert_allclose(found.coef_, expected.coef_, atol=1e-12)
    parts = LSRClassifier().partial_fit(X[:30], y[:30], classes=np.arange(30))
    assert_allclose(parts.partial_fit(X[30:], y[30:]).coef_, expected.coef_, atol=1e-12)


def test_rows_and_labels_of_one_source_are_read_once_a_pass():
    X, y = rows()
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    source = chunked(np.column_stack([X, y]), CHUNKS["even"]).map_blocks(
        read, dtype=X.dtype, meta=X[:0]
    )
    with dask.config.set(scheduler="synchronous"):
        LSRClassifier().fit(source[:, :-1], source[:, -1].astype(int))
    assert len(reads) == 2 * len(CHUNKS["even"])  # the labels are counted before


def test_a_projection_as_a_frame():
    X, y = rows()
    model = LRRRClassifier().fit(X, y).set_output(transform="pandas")
    found = model.transform(chunked(X, CHUNKS["even"]))
    assert_allclose(np.asarray(found), model.transform(X), atol=1e-12)


@pytest.mark.parametrize("name", ["LSR", "LRRR", "DRM", "ODM"])
def test_scores_of_single_precision_frames_are_what_they_say(name):
    X, y = rows(dtype=np.float32)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=3)
    scores = clone(MODELS[name]).fit(frame, y).decision_function(frame)
    assert scores.dtype == scores.compute().dtype


@pytest.mark.parametrize("name", ["LSR", "ReLSR", "LRRR"])
@pytest.mark.parametrize("value", [0.1, 1e6 / 3])
def test_constant_features_are_fitted_as_in_memory(name, value):
    _, y = rows()
    X = np.full((len(y), 4), value)
    model = clone(MODELS[name]).set_params(probability=False)
    expected = clone(model).fit(X, y)
    model.fit(chunked(X, CHUNKS["uneven"]), y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-9)


def test_wide_rows_without_a_penalty_come_to_an_end():
    chance = np.random.default_rng(0)
    y = chance.integers(3, size=30)
    X = chance.normal(size=(30, 60)) + y[:, None]
    model = DLSRClassifier(beta=0.0, probability=False).fit(chunked(X, (23, 7)), y)
    assert (model.predict(X) == y).all()
