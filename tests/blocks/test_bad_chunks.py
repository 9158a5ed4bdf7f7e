"""Chunks that cannot be fitted are named, and what needs the rows in memory is refused."""

import re
import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from stream_problems import CHUNKS, MODELS, blocks_of, chunked, mapped, rows, weights

from discreg import (
    DRMClassifier,
    DRMClassifierCV,
    LDMClassifier,
    LRRRClassifier,
    LRRRClassifierCV,
    LSRClassifier,
    LSRClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
)
from discreg.blocks.source import ChunkError

every_model = pytest.mark.parametrize("name", MODELS)
EVEN = CHUNKS["even"]


def with_chunk(X, number, change):
    """Chunks of which one is changed when it is computed."""

    def changed(block, block_info=None):
        return change(block) if block_info[0]["chunk-location"][0] == number else block

    return chunked(X, EVEN).map_blocks(changed, dtype=X.dtype, meta=X[:0])


@every_model
@pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_a_missing_or_infinite_number(name, value, said):
    X, y = rows()
    X[3 * 60 + 5, 2] = value
    with pytest.raises(ChunkError, match=rf"Chunk 3: .*X contains {said}"):
        clone(MODELS[name]).fit(chunked(X, EVEN), y)


@every_model
@pytest.mark.parametrize("sparsely", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("which", ["chunk", "class"])
def test_a_missing_number_in_rows_without_weight(name, sparsely, which):
    X, y = rows()
    X[3 * 60 + 5, 2] = np.nan
    X = sparse.csr_array(X) if sparsely else X
    without = np.arange(len(y)) // 60 == 3
    if which == "class":
        without &= y == y[3 * 60 + 5]
    with pytest.raises(ChunkError, match=r"Chunk 3: .*X contains NaN"):
        clone(MODELS[name]).fit(chunked(X, EVEN), y, sample_weight=1.0 - without)


def test_a_missing_number_in_a_memory_map(tmp_path):
    X, y = rows()
    X[100, 2] = np.nan
    with blocks_of(30, X), pytest.raises(ChunkError, match=r"Chunk 3: .*X contains NaN"):
        LSRClassifier().fit(mapped(X, tmp_path), y)


@every_model
def test_a_chunk_that_raises(name):
    X, y = rows()

    def fail(block):
        raise OSError("the disk is gone")

    with pytest.raises(ChunkError, match=r"Chunk 2: .*OSError: the disk is gone"):
        clone(MODELS[name]).fit(with_chunk(X, 2, fail), y)


def test_labels_that_raise():
    X, y = rows()

    def fail(block):
        raise OSError("the disk is gone")

    lazy = chunked(y, EVEN).map_blocks(fail, dtype=y.dtype, meta=y[:0])
    with pytest.raises(ChunkError, match=r"Chunk \d: .*OSError: the disk is gone"):
        LSRClassifier().fit(chunked(X, EVEN), lazy)


@every_model
def test_a_chunk_with_other_columns(name):
    X, y = rows()
    lazy = with_chunk(X, 1, lambda block: block[:, :4])
    with pytest.raises(ChunkError, match="Chunk 1: X has 4 columns, but the first chunk has 6"):
        clone(MODELS[name]).fit(lazy, y)


def test_a_chunk_with_other_rows_than_labels():
    X, y = rows()
    lazy = with_chunk(X, 1, lambda block: block[:50])
    with pytest.raises(ChunkError, match="Chunk 1: X has 50 rows, but y has 60 labels"):
        LSRClassifier().fit(lazy, y)


def test_labels_that_change_between_passes():
    X, y = rows()
    passes = iter(range(100))

    def changing(block):
        return block if next(passes) < 4 else block + 10

    lazy = chunked(y, EVEN).map_blocks(changing, dtype=y.dtype, meta=y[:0])
    message = r"Chunk \d: y contains the label 1\d, which is not one of the classes \[0, 1, 2\]"
    with pytest.raises(ChunkError, match=message):
        ReLSRClassifier().fit(chunked(X, EVEN), lazy)


@pytest.mark.parametrize(
    ("sample_weight", "message"),
    [
        (np.where(np.arange(240) == 70, -1.0, 1.0), "Chunk 1: sample_weight must be finite and"),
        (np.ones(100), "X has 240 rows, but sample_weight has 100 entries"),
        (np.ones((240, 2)), "sample_weight must have one dimension"),
        (np.zeros(240), "zero total weight by sample_weight"),
    ],
)
def test_weights_that_cannot_be(sample_weight, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        LSRClassifier().fit(chunked(X, EVEN), y, sample_weight)


@every_model
def test_weights_are_small_or_large_all_together_only(name):
    X, y = rows()
    weights = 10.0 ** np.linspace(-200, 0, len(y))
    expected = clone(MODELS[name]).fit(X[180:], y[180:], sample_weight=weights[180:])
    model = clone(MODELS[name]).fit(chunked(X, EVEN), y, sample_weight=weights)
    assert np.isfinite(model.decision_function(X)).all()
    if "DRM" not in name:  # whose features are drawn from all rows
        np.testing.assert_allclose(
            model.decision_function(X), expected.decision_function(X), rtol=1e-5, atol=1e-5
        )
    with pytest.raises(ValueError, match="sample_weight sums to 1e-150"):
        clone(MODELS[name]).fit(chunked(X, EVEN), y, sample_weight=np.full(len(y), 1e-150 / len(y)))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(240), "one class only: 0.0"),
        (np.linspace(0, 1, 240), r"Chunk \d: Unknown label type"),
        (np.zeros(100), "X has 240 rows, but y has 100 entries"),
        (da.zeros(100, chunks=50), "X has 240 rows, but y has 100 entries"),
        (np.zeros((240, 2)), "y must have one dimension"),
    ],
)
def test_labels_that_cannot_be(labels, message):
    X, _ = rows()
    with pytest.raises(ValueError, match=message):
        LSRClassifier().fit(chunked(X, EVEN), labels)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels(missing):
    X, y = rows()
    words = np.array(["ant", "bee", "cow"], dtype=object)[y]
    words[70] = missing
    message = "Chunk 1: y has missing labels"
    with pytest.raises(ChunkError, match=message):
        LSRClassifier().fit(chunked(X, EVEN), chunked(words, EVEN))
    numbers = y.astype(float)
    numbers[70] = np.nan
    with pytest.raises(ChunkError, match="Chunk 1: y has missing"):
        LSRClassifier().fit(chunked(X, EVEN), numbers)


def test_several_columns_of_labels():
    X, y = rows()
    two = np.column_stack([y, y])
    for labels in (chunked(two, EVEN), dd.from_pandas(pd.DataFrame(two), npartitions=2)):
        with pytest.raises(ValueError, match="y must have one column; it has 2"):
            LSRClassifier().fit(chunked(X, EVEN), labels)
    with pytest.raises(ValueError, match="y is None"):
        LSRClassifier().fit(chunked(X, EVEN), None)


@pytest.mark.parametrize(
    "search",
    [
        LSRClassifierCV(),
        LRRRClassifierCV(),
        ReLSRClassifierCV(),
        DRMClassifierCV(),
        ODMClassifierCV(),
    ],
)
def test_searches_need_the_rows_in_memory(search):
    X, y = rows()
    with pytest.raises(ValueError, match="holds rows out and needs them in memory"):
        search.fit(chunked(X, EVEN), y)


def test_labels_of_a_memory_map_that_cannot_be(tmp_path):
    X, y = rows()
    with blocks_of(50, X):
        with pytest.raises(ValueError, match="one label for each of the 240 rows"):
            LSRClassifier().fit(mapped(X, tmp_path), y[:100])
        with pytest.raises(ValueError, match="one number for each of the 240 samples"):
            LSRClassifier().fit(mapped(X, tmp_path), y, np.ones(100))


def test_squares_that_overflow():
    X, y = rows()
    for name in ("LSR", "LRRR", "SLRR", "ReLSR", "DRM", "ODM"):
        with pytest.raises(ValueError, match="squares of the features overflow"):
            clone(MODELS[name]).fit(chunked(1e200 * X, EVEN), y)


def test_rows_that_are_not_there():
    X, y = rows()
    with pytest.raises(ValueError, match="X has no rows"):
        LSRClassifier().fit(chunked(X[:0], (0, 0)), y[:0])
    with pytest.raises(ValueError, match="two dimensions"):
        LSRClassifier().fit(chunked(X, EVEN)[:, 0], y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LSRClassifier(kernel="rbf", n_components=None), "kernel='rbf' needs the rows in memory"),
        (LRRRClassifier(kernel="poly", n_components=None), "kernel='poly' needs the rows in mem"),
        (DRMClassifier(n_components=None), "kernel='rbf' needs the rows in mem.*n_components"),
        (DRMClassifier(kernel="linear", solver="closed"), "solver='closed' needs the rows"),
        (DRMClassifier(kernel="linear", penalty="lasso"), "penalty='lasso' needs the rows"),
        (DRMClassifier(kernel="precomputed"), "precomputed kernel has to be in memory"),
        (ODMClassifier(n_components=None), "kernel='rbf'"),
        (ODMClassifier(kernel="linear", solver="dcd"), "solver='dcd'"),
        (LDMClassifier(kernel="linear"), "LDMClassifier"),
    ],
)
def test_what_needs_the_rows_in_memory_is_refused_on_dask(model, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        clone(model).fit(chunked(X, EVEN), y)


def test_a_solver_that_would_not_be_the_same_is_refused():
    """In memory "auto" means another solver for more features than samples."""
    X, y = rows()
    wide = np.hstack([X] * 50)
    with pytest.raises(ValueError, match="Use solver="):
        ODMClassifier(kernel="linear").fit(chunked(wide, EVEN), y)
    in_memory = DRMClassifier(kernel="linear", beta=1.0).fit(wide, y)
    on_dask = clone(in_memory).fit(chunked(wide, EVEN), y)
    assert (in_memory.solver_, on_dask.solver_) == ("closed", "scatter")
    scores = in_memory.decision_function(wide)
    np.testing.assert_allclose(on_dask.decision_function(wide), scores, atol=1e-8)


@pytest.mark.parametrize("model", [LSRClassifier(kernel="rbf"), DRMClassifier()])
def test_a_memory_map_of_a_kernel_model_is_read_as_a_whole(model, tmp_path):
    X, y = rows()
    with blocks_of(50, X):
        found = clone(model).fit(mapped(X, tmp_path), y)
    np.testing.assert_allclose(
        found.decision_function(X), clone(model).fit(X, y).decision_function(X), atol=1e-10
    )


def test_new_rows_that_do_not_fit_are_refused_at_once():
    X, y = rows()
    model = LSRClassifier().fit(X, y)
    with pytest.raises(ValueError, match="6 features"):
        model.predict(chunked(X, EVEN)[:, :4])
    with pytest.raises(NotFittedError):
        LSRClassifier().predict(chunked(X, EVEN))


def test_without_dask_the_error_says_how_to_install_it(monkeypatch):
    X, y = rows()
    lazy = chunked(X, EVEN)
    model = LSRClassifier().fit(X, y)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    for call in (lambda: LSRClassifier().fit(lazy, y), lambda: model.predict(lazy)):
        with pytest.raises(ImportError, match=re.escape('pip install "discreg[dask]"')):
            call()


def test_what_needs_the_training_rows_is_refused_afterwards():
    X, y = rows()
    model = DRMClassifier(kernel="linear").fit(chunked(X, EVEN), y, weights())
    assert not hasattr(model, "X_fit_")
    with pytest.raises(ValueError, match="representation needs the training rows"):
        model.representation(X)
