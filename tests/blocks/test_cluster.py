"""A cluster of two worker processes gives the same models, also when a worker dies."""

import os
import signal
import warnings

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone
from stream_problems import CHUNKS, MODELS, as_sparse, chunked, largest_difference, rows, weights

from discreg import LSRClassifier, ReLSRClassifier


@pytest.fixture
def cluster():
    """Two worker processes of one thread each."""
    settings = {"distributed.scheduler.allowed-failures": 5}
    with warnings.catch_warnings(), dask.config.set(settings):
        warnings.simplefilter("ignore")
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
            Client(workers) as client,
        ):
            yield client


@pytest.mark.full
def test_two_processes_give_the_models_of_one(cluster):
    X, y = rows()
    lengths = (130, 110)
    fits = [(model, X, weights()) for model in MODELS.values()]
    fits += [(MODELS[name], as_sparse(X), None) for name in ("LSR", "ReLSR")]
    for model, X, sample_weight in fits:
        expected = clone(model).fit(X, y, sample_weight)
        found = clone(model).fit(chunked(X, lengths), chunked(y, lengths), sample_weight)
        assert largest_difference(expected, found, X) < 1e-9


@pytest.mark.full
@pytest.mark.linux
def test_a_killed_worker_changes_nothing_and_an_error_names_its_chunk(cluster, tmp_path):
    X, y = rows()
    numbers = dask.array.from_array(np.arange(len(X)), chunks=30)
    flag = tmp_path / "killed"

    def read(some):
        if 100 in some and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return X[some]

    lazy = numbers.map_blocks(
        read, new_axis=1, chunks=(numbers.chunks[0], (X.shape[1],)), dtype=X.dtype, meta=X[:0]
    )
    model = ReLSRClassifier(tol=1e-12)
    found = clone(model).fit(lazy, y)
    assert flag.exists()
    assert largest_difference(clone(model).fit(X, y), found, X) < 1e-9
    X[130, 2] = np.nan
    with pytest.raises(ValueError, match=r"Chunk 2: .*X contains NaN"):
        LSRClassifier().fit(chunked(X, CHUNKS["even"]), y)
