"""Folds of a comparison: which rows train and which rows test, outside and inside a fit."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from discreg.base.errors import InputError

Rows = NDArray[np.intp]
Part = tuple[Rows, Rows]  # training rows and test rows

N_INNER_FOLDS, FEWEST_FOLDS = 3, 3
# Folds by the number of rows: of a small table, nearly all rows train.
FOLDS_BY_ROWS = ((5_000, 10), (50_000, 5))
TIME_FOLDS = 5


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What folds depend on, for all rows or for the training rows of a fold.

    Attributes
    ----------
    y : ndarray of shape (n_samples,)
        Labels.
    groups : ndarray of shape (n_samples,) or None
        Rows of a group are never on both sides of a split.
    time : ndarray of shape (n_samples,) or None
        No training row is later than, or as late as, a test row.
    """

    y: NDArray[Any]
    groups: NDArray[np.intp] | None = None
    time: NDArray[np.float64] | None = None

    def take(self, rows: Rows) -> RowFacts:
        """Select rows."""
        return RowFacts(
            self.y[rows],
            None if self.groups is None else self.groups[rows],
            None if self.time is None else self.time[rows],
        )


@dataclass(frozen=True, eq=False)
class Folds:
    """The splits of a comparison.

    Attributes
    ----------
    repeats : tuple of tuples of parts
        Training and test rows of the folds of each repeat. Test rows of a repeat do not overlap.
    text : str
        The folds in words, such as "5 stratified folds".
    notes : tuple of str
        Sentences on what is unusual.
    """

    repeats: tuple[tuple[Part, ...], ...]
    text: str
    notes: tuple[str, ...] = ()

    @property
    def test_to_train(self) -> float:
        """Mean ratio of the numbers of test rows and training rows."""
        return float(np.mean([len(test) / len(train) for train, test in self.parts()]))

    def parts(self) -> list[Part]:
        """List the parts of all repeats."""
        return [part for repeat in self.repeats for part in repeat]


def draw_folds(
    facts: RowFacts,
    *,
    cv: Any = None,
    given: NDArray[np.intp] | None = None,
    kept: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> Folds:
    """Split the rows of a table.

    Parameters
    ----------
    facts : RowFacts
        Labels, groups and times of all rows.
    cv : int, splitter or iterable of splits, optional
        Number of folds, a splitter of scikit-learn, or training and test rows of each fold. By
        default 10 folds, 5 above 5,000 rows, 3 above 50,000; a class with fewer rows (or groups)
        than folds reduces them to at least 3.
    given : ndarray of shape (n_samples,), optional
        The fold that tests each row.
    kept : ndarray of bool, optional
        Which rows of the data that the splits of `cv` refer to are in the table; by default all.
    seed : int
        Seed of random folds.
    """
    if given is not None:
        parts = [(np.flatnonzero(given != k), np.flatnonzero(given == k)) for k in np.unique(given)]
        folds = Folds((tuple(parts),), f"{len(parts)} folds that the table defines")
    elif cv is not None and not isinstance(cv, int | np.integer):
        folds = _own_folds(cv, facts, kept)
    else:
        if cv is not None and cv < 2:
            raise InputError(f"cv is {cv}. At least two folds are needed.")
        folds = _drawn(facts, None if cv is None else int(cv), seed)
    _check(folds, facts)
    return folds


def inner_folds(facts: RowFacts, seed: int) -> Any:
    """Return the splits that select parameters, as for the training rows of one fit."""
    smallest = int(np.unique(facts.y, return_counts=True)[1].min())
    n_folds = max(2, min(N_INNER_FOLDS, smallest))
    if facts.time is not None:
        parts: Iterable[Part] = _by_time(facts, N_INNER_FOLDS)
    elif facts.groups is not None:
        n_folds = min(n_folds, len(np.unique(facts.groups)))
        if n_folds < 2:
            raise InputError("The training rows of a fold belong to one group.")
        parts = _by_groups(facts, n_folds, seed)
    else:
        return StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    usable = [part for part in parts if _learnable(facts.y[part[0]])]
    if not usable:
        raise InputError(
            "No split of the training rows by groups or time leaves two classes for training."
        )
    return usable


def _drawn(facts: RowFacts, n_folds: int | None, seed: int) -> Folds:
    n_rows = len(facts.y)
    notes = []
    usual = next((n for most, n in FOLDS_BY_ROWS if n_rows <= most), FEWEST_FOLDS)
    wanted = n_folds or usual
    what = "rows" if facts.groups is None else "groups"
    rarest, largest = _fewest_and_most(facts)
    most, why = largest, f"the most frequent class has {largest} rows"
    if facts.groups is not None:
        most = len(np.unique(facts.groups))
        why = f"there are {most} groups"
    used = min(wanted, most)
    if n_folds is None and facts.time is None and rarest < used:
        used = max(min(FEWEST_FOLDS, used), rarest)
        why = f"the rarest class has {rarest} {what}"
    if used < wanted and facts.time is None:
        notes.append(f"There are {used} folds instead of {wanted}, because {why}.")
    if facts.time is None and rarest < used:
        notes.append(
            f"The rarest class has {rarest} {what}, so that some folds have no test row of it."
        )
    if used < 2:
        raise InputError("At least two groups of rows are needed for folds.")
    if facts.time is not None:
        parts = tuple(_by_time(facts, n_folds or TIME_FOLDS))
        text = f"{len(parts)} folds in the order of time: training rows are earlier than test rows"
        return Folds((parts,), text, tuple(notes))
    if facts.groups is not None:
        parts, kind = tuple(_by_groups(facts, used, seed)), "stratified folds of whole groups"
    else:
        splitter = StratifiedKFold(used, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a note says that a class is rare
            parts, kind = tuple(splitter.split(facts.y, facts.y)), "stratified folds"
    return Folds((parts,), f"{len(parts)} {kind}", tuple(notes))


def _fewest_and_most(facts: RowFacts) -> tuple[int, int]:
    """Count the rows, or the groups, of the rarest and of the most frequent class."""
    if facts.groups is None:
        sizes = np.unique(facts.y, return_counts=True)[1]
    else:
        sizes = np.array([len(np.unique(facts.groups[facts.y == k])) for k in np.unique(facts.y)])
    return int(sizes.min()), int(sizes.max())


def _by_groups(facts: RowFacts, n_folds: int, seed: int) -> Iterator[Part]:
    splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a note says that a class is rare
        for train, test in splitter.split(facts.y, facts.y, facts.groups):
            if len(test):
                yield train, test


def _by_time(facts: RowFacts, n_folds: int) -> Iterator[Part]:
    """Yield folds whose training rows are earlier; equal times are in one part."""
    assert facts.time is not None
    times, sizes = np.unique(facts.time, return_counts=True)
    ends = np.cumsum(sizes)
    wanted = len(facts.time) * np.arange(1, n_folds + 2) / (n_folds + 1)
    cuts = np.unique(np.searchsorted(ends, wanted - 1e-9).clip(0, len(times) - 1))
    for first, last in itertools.pairwise(cuts):
        train = np.flatnonzero(facts.time <= times[first])
        test = np.flatnonzero((facts.time > times[first]) & (facts.time <= times[last]))
        if facts.groups is not None:
            train = train[~np.isin(facts.groups[train], facts.groups[test])]
        if _learnable(facts.y[train]) and len(test):
            yield train, test


def _own_folds(cv: Any, facts: RowFacts, kept: NDArray[np.bool_] | None) -> Folds:
    """Take the splits of a splitter or an iterable; overlapping test rows begin a repeat."""
    n_rows = len(facts.y)
    if hasattr(cv, "split"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # groups are checked below
            splits = list(cv.split(np.zeros((n_rows, 1)), facts.y, facts.groups))
        text = f"{len(splits)} splits of {type(cv).__name__}"
    else:
        if not isinstance(cv, Iterable):
            raise InputError(
                f"cv is {cv!r}. Give the number of folds, a splitter or a list of splits."
            )
        kept = np.ones(n_rows, dtype=bool) if kept is None else kept
        place = np.where(kept, np.cumsum(kept) - 1, -1)
        splits = [_places(*_pair(split), place) for split in cv]
        text = "one given split" if len(splits) == 1 else f"{len(splits)} given splits"
    if not splits:
        raise InputError("cv gives no splits. Give the number of folds, or a list of splits.")
    repeats: list[list[Part]] = []
    tested: set[int] = set()
    for train, test in splits:
        if not repeats or not tested.isdisjoint(test.tolist()):
            repeats.append([])
            tested = set()
        repeats[-1].append((np.asarray(train), np.asarray(test)))
        tested.update(test.tolist())
    return Folds(tuple(map(tuple, repeats)), text)


def _pair(split: Any) -> tuple[Any, Any]:
    """Return the training rows and the test rows of a given split."""
    try:
        train, test = split
    except (TypeError, ValueError):
        raise InputError(
            f"cv contains {split!r}. A split is a pair of training rows and test rows."
        ) from None
    return train, test


def _places(train: Any, test: Any, place: Rows) -> Part:
    """Convert positions in the data to positions in the table, which may lack some rows."""
    found = []
    for rows in (np.asarray(train), np.asarray(test)):
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        if len(rows) and (rows.max() >= len(place) or rows.min() < 0):
            raise InputError("cv gives rows that the data do not have.")
        places = place[rows]
        found.append(places[places >= 0])
    return found[0], found[1]


def _learnable(y: NDArray[Any]) -> bool:
    return len(np.unique(y)) > 1


def _check(folds: Folds, facts: RowFacts) -> None:
    """Raise an error if a fold cannot be fitted, or shares rows or groups with its test rows."""
    parts: Sequence[Part] = folds.parts()
    if not parts:
        raise InputError(
            "No fold in the order of time has two classes in its training rows. Is the table "
            "sorted by class?"
        )
    for number, (train, test) in enumerate(parts, start=1):
        where = f"fold {number} of {len(parts)}"
        if not len(test):
            raise InputError(f"{where} has no test rows.")
        labels = np.unique(facts.y[train])
        if len(labels) < 2:
            which = f"belong to class '{labels[0]}'" if len(labels) else "are left out"
            raise InputError(
                f"All rows outside {where} {which}. The training rows of each fold need at least "
                "two classes."
            )
        if np.intersect1d(train, test).size:
            raise InputError(f"Training and test rows of {where} overlap.")
        if facts.time is not None and facts.time[train].max() >= facts.time[test].min():
            raise InputError(
                f"{where} has training rows that are not earlier than all test rows. With a column "
                "of times, give the number of folds, or splits in the order of time."
            )
        if facts.groups is not None:
            shared = np.intersect1d(facts.groups[train], facts.groups[test])
            if shared.size:
                raise InputError(
                    f"{where} has rows of the same group in training and test. Use a splitter that "
                    "respects groups, such as StratifiedGroupKFold."
                )
