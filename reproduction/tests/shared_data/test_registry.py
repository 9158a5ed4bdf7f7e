"""The registry on real data: every file is declared, and scikit-learn gives the same samples."""

import csv

import numpy as np
import pytest
from conftest import DATA_FOLDER

from discreg_reproduction import _sources
from discreg_reproduction.registry import availability, entries, load

FILES = {
    source.name: entry
    for entry in reversed(entries().values())
    for source in entry.sources
    if source.kind == "file"
}
PRESENT = [name for name, place in availability(DATA_FOLDER).items() if place == "data directory"]


def from_scikit_learn(name):
    """What scikit-learn gives for a data set."""
    (source,) = (source for source in entries()[name].sources if source.kind == "sklearn")
    return _sources.read(source, None)


def test_every_file_of_the_index_is_declared_with_its_shape():
    with open(DATA_FOLDER / "index.csv", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            assert FILES[row["file"]].shape == (int(row["n"]), int(row["d"]))


def test_every_file_that_is_here_is_declared():
    files = [path for ending in ("*.npz", "*.csv.gz") for path in DATA_FOLDER.rglob(ending)]
    assert {path.relative_to(DATA_FOLDER).as_posix() for path in files} <= set(FILES)


@pytest.mark.parametrize("name", PRESENT)
def test_files_hold_what_the_registry_says(name):
    entry, data = entries()[name], load(name, DATA_FOLDER)
    assert data.X.shape == entry.shape
    assert data.X.dtype == np.float64
    values = data.X if isinstance(data.X, np.ndarray) else data.X.data
    assert np.isfinite(values).all()
    n_classes = len(np.unique(data.y))
    assert n_classes == (100 if name == "ar_100x26_32x32" else entry.n_classes)
    assert (data.folds is not None) == name.startswith("keel/")
    assert (data.n_train is not None) == (name in {"mnist", "shuttle", "usps_9298", "vowel"})


def test_official_training_sets():
    assert load("shuttle", DATA_FOLDER).n_train == 43500
    vowel = load("vowel", DATA_FOLDER)
    assert vowel.n_train == 528
    assert np.bincount(vowel.y[:528]).tolist() == [0] + [48] * 11


@pytest.mark.parametrize("name", ["iris", "wine", "optdigits_1797", "odm/wdbc"])
def test_scikit_learn_has_the_same_rows(name):
    here, there = load(name, DATA_FOLDER), from_scikit_learn(name)
    np.testing.assert_array_equal(there.X, here.X)
    np.testing.assert_array_equal(there.y, here.y)
