"""Facts about a table or a comparison that a reader must know before using scores or a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from discreg.tables.column_types import IDENTIFIER_NAME
from discreg.tables.frames import quoted
from discreg.tables.table import Table

from .running.folds import Part
from .statistics.evidence import Evidence
from .words import listed, percent

FEWEST_VALUES = 10  # that repeat, so that a column can be an identifier
MOST_ROWS_PER_VALUE = 20
NEARLY_CONSTANT = 0.95  # share of pairs of rows of one value with the same label
# Names of columns that identify what the rows belong to.
UNIT = r"(?:patient|subject|participant|person|customer|client|user|donor|specimen|household)s?"
UNIT_NAME = re.compile(rf"{UNIT}(?:[\W_]?(?:no|nr|num|number|code|key|name))?", re.IGNORECASE)
CODE = re.compile(r"[A-Za-z]{0,4}[-_ ]?\d+")  # such as P007
FEW_ROWS = 10
MANY_CLASSES = 20
COPIES = 0.01  # smallest share of copied rows that is reported
FEWEST_COPIES = 5
MANY_COPIES = 0.1
DRIFT_LEVEL = 1e-4
DRIFT = 0.3  # rank correlation with time
IN_ORDER = 0.99
# Columns that predict the label alone.
N_FOLDS = 5
MOST_ROWS = 10_000  # of each class, more rows are left out
FEWEST_ROWS = 10  # of the rarest class; with fewer, a column can fit by chance
NEAR_ONE = 0.99
FURTHER_LEAVES = 2  # of a tree, beyond the number of classes
N_LISTED = 4  # most names in a sentence


@dataclass(frozen=True)
class Flag:
    """A warning that is printed, stored and shown at the top of the report.

    Attributes
    ----------
    kind : str
        Short name, such as "repeating identifier", "predicts the target", "duplicates",
        "time order", "free text", "rare class", "not judged".
    text : str
        One or two sentences: what was found, and what to do.
    level : {"danger", "note"}
        "danger" where the scores of the comparison are not those of new rows. Such a flag replaces
        the recommendation.
    columns : tuple of str
        Columns that it is about.
    headline : str
        What is wrong with the scores, for a sentence, if the level is "danger".
    remedy : dict
        The argument of `discreg.compare` that gives scores of new rows, if there is one.
    """

    kind: str
    text: str
    level: Literal["danger", "note"] = "note"
    columns: tuple[str, ...] = ()
    headline: str = ""
    remedy: Mapping[str, str] = field(default_factory=dict)


def find_flags(table: Table, parts: Sequence[Part]) -> list[Flag]:
    """Find what a reader must know about a table before using scores or a model.

    Parameters
    ----------
    table : Table
        The table with all of its columns.
    parts : sequence of parts
        Training rows and test rows of each fold.
    """
    repeating = _repeating(table)
    flags = [_identifier_flag(each) for each in repeating if _crossing(each.codes, parts).any()]
    if isinstance(table.X, pd.DataFrame):
        X = table.X.drop(columns=[each.name for each in repeating], errors="ignore")
        flags += _telling_flags(X, table)
        flags += _time_flags(X, table)
        flags += _text_flags(table)
        flags += _copy_flags(X, table.y, parts)
    return [*flags, *_class_flags(table)]


def repeating_identifiers(table: Table) -> list[str]:
    """Return the columns whose values name groups of rows; they must not be features."""
    return [each.name for each in _repeating(table)]


def default_groups(table: Table) -> tuple[str, NDArray[np.intp]] | None:
    """Return the repeating identifier all of whose rows have one label, and groups of the rows.

    Of several, the one with the fewest values. A row without a value is a group of its own.
    """
    found = [each for each in _repeating(table) if each.agreement == 1]
    if not found:
        return None
    chosen = min(found, key=lambda each: each.codes.max())
    alone = chosen.codes < 0
    codes = chosen.codes.copy()
    codes[alone] = codes.max() + 1 + np.arange(alone.sum())
    return chosen.name, codes


def _crossing(codes: NDArray[Any], parts: Sequence[Part]) -> NDArray[np.bool_]:
    """Return the rows whose code is that of a training row of the fold that tests them."""
    crossing = np.zeros(len(codes), dtype=bool)
    for train, test in parts:
        crossing[test] |= np.isin(codes[test], codes[train])
    return crossing & (codes >= 0)


@dataclass(frozen=True, eq=False)
class _Repeating:
    """A column that names groups of rows."""

    name: str
    codes: NDArray[np.intp]  # -1 for a missing value
    agreement: float  # share of pairs of rows with one value that have the same label
    by_chance: float  # the same share of all pairs of rows


def _repeating(table: Table) -> list[_Repeating]:
    if not isinstance(table.X, pd.DataFrame):
        return []
    _, y = np.unique(table.y, return_inverse=True)
    shares = np.bincount(y) / len(y)
    by_chance = float((shares**2).sum())
    found = []
    for column in table.columns:
        frame = table.X if column.name in table.X else table.identifiers
        if column.name not in frame or column.kind in ("date", "text", "boolean"):
            continue
        values = frame[column.name].to_numpy()
        if values.dtype.kind == "f" and not _is_whole(values):
            continue
        codes, vocabulary = pd.factorize(values, sort=True)
        sizes = np.bincount(codes[codes >= 0])
        if (sizes > 1).sum() < FEWEST_VALUES:
            continue
        agreement = _agreement(codes, y)
        is_named = IDENTIFIER_NAME.fullmatch(column.name) or UNIT_NAME.fullmatch(column.name)
        if is_named or _names_groups(vocabulary, codes, y, agreement, by_chance):
            found.append(_Repeating(column.name, codes, agreement, by_chance))
    return found


def _is_whole(values: NDArray[np.float64]) -> bool:
    present = values[~np.isnan(values)]
    return bool((present == np.round(present)).all())


def _agreement(codes: NDArray[np.intp], y: NDArray[np.intp]) -> float:
    """Compute the share of pairs of rows with the same value that have the same label."""
    present = codes >= 0
    counts = np.zeros((codes.max() + 1, y.max() + 1))
    np.add.at(counts, (codes[present], y[present]), 1)
    sizes = counts.sum(axis=1)
    same = (counts * (counts - 1)).sum()
    return float(same / (sizes * (sizes - 1)).sum())


def _names_groups(
    vocabulary: NDArray[Any],
    codes: NDArray[np.intp],
    y: NDArray[np.intp],
    agreement: float,
    by_chance: float,
) -> bool:
    """Return whether values have few rows with one label, and are not themselves a feature."""
    if agreement < NEARLY_CONSTANT or by_chance > NEARLY_CONSTANT**2:
        return False
    is_text = vocabulary.dtype == object
    are_codes = is_text and np.mean([CODE.fullmatch(text) is not None for text in vocabulary]) > 0.9
    if not are_codes and (codes >= 0).sum() > MOST_ROWS_PER_VALUE * len(vocabulary):
        return False
    return is_text or not _is_ordered(codes, y)


def _is_ordered(codes: NDArray[np.intp], y: NDArray[np.intp]) -> bool:
    """Return whether near numbers have the same label, as those of a feature have.

    The labels of successive numbers are compared with those of numbers in random order.
    """
    counts = np.zeros((codes.max() + 1, y.max() + 1))
    np.add.at(counts, (codes[codes >= 0], y[codes >= 0]), 1)
    labels = counts.argmax(axis=1)
    shares = np.bincount(labels) / len(labels)
    by_chance = float((shares**2).sum())
    same = float((labels[1:] == labels[:-1]).mean())
    deviation = np.sqrt(by_chance * (1 - by_chance) / (len(labels) - 1))
    return bool(same > by_chance + 3 * deviation)


def _identifier_flag(found: _Repeating) -> Flag:
    present = found.codes[found.codes >= 0]
    excess = (found.agreement - found.by_chance) / max(1 - found.by_chance, 1e-12)
    is_danger = excess > 0.5
    same = (
        f", and {'all' if found.agreement == 1 else 'nearly all'} rows with the same value have "
        "the same label"
        if found.agreement >= NEARLY_CONSTANT and is_danger
        else ""
    )
    advice = (
        "With rows of a value in training and test, scores are too good for new values"
        if is_danger
        else "If a model will be applied to new values, folds must not divide the rows of a value"
    )
    return Flag(
        "repeating identifier",
        f"Column '{found.name}' names {len(np.unique(present)):,} groups in {len(present):,} "
        f"rows{same}. {advice}: compare with --groups '{found.name}' (in Python, "
        f"groups={found.name!r}). The column is not used as a feature.",
        "danger" if is_danger else "note",
        (found.name,),
        f"rows of the same '{found.name}' were in training and test",
        {"groups": found.name},
    )


def _telling_flags(X: pd.DataFrame, table: Table) -> Iterator[Flag]:
    kinds = {column.name: column.kind for column in table.columns}
    _, y = np.unique(table.y, return_inverse=True)
    found = telling_columns(X[[name for name in X if kinds[name] != "text"]], y)
    for name, score in found.items():
        yield Flag(
            "predicts the target",
            f"Column '{name}' alone predicts '{table.target}' (balanced accuracy {score:.3f}). If "
            "it is known only together with the label, or after it, the scores mean nothing: leave "
            f"it out with --drop '{name}' (in Python, drop={name!r}); if it is a feature like any "
            f"other, use --accept '{name}'.",
            "danger",
            (name,),
            f"the column '{name}' alone predicts '{table.target}'",
            {"drop": name},
        )


def _time_flags(X: pd.DataFrame, table: Table) -> Iterator[Flag]:
    """Report dates with which labels or features change, and rows in the order of a date."""
    if table.time is not None:
        return
    dates = [name for name in X if X[name].dtype.kind == "M"]
    for name in dates:
        days = X[name].to_numpy()
        known = ~np.isnat(days)
        time = days[known].astype(np.int64).astype(np.float64)
        if len(np.unique(time)) < FEWEST_VALUES:
            continue
        changes = _drift(time, X.drop(columns=dates)[known], table.y[known])
        order = stats.spearmanr(time, np.flatnonzero(known)).statistic
        if not changes and abs(order) < IN_ORDER:
            continue
        begin = "later" if order >= 0 else "earlier"
        what = (
            f"{changes} with the date '{name}'"
            if changes
            else f"The rows are in the order of '{name}' ({begin} dates follow)"
        )
        yield Flag(
            "time order",
            f"{what}. If the model will predict later rows, random folds show scores that it will "
            f"not reach: compare with --time-column '{name}' (in Python, time_column={name!r}).",
            "danger" if changes else "note",
            (name,),
            f"the table changes with '{name}', and training rows were later than test rows",
            {"time_column": name},
        )


def find_test_flags(table: Table) -> list[Flag]:
    """Find rows of the test table that are equal to rows of the training table."""
    test = table.test
    if test is None or not isinstance(table.X, pd.DataFrame):
        return []
    part = np.arange(len(table.y)), len(table.y) + np.arange(len(test.y))
    y = np.concatenate([table.y, test.y])
    return list(_copy_flags(pd.concat([table.X, test.X], ignore_index=True), y, [part]))


def _drift(time: NDArray[np.float64], X: pd.DataFrame, y: NDArray[Any]) -> str:
    """Say whether the label, or else a numeric column, changes with time."""
    _, codes = np.unique(y, return_inverse=True)
    parts = [time[codes == code] for code in np.unique(codes)]
    if len(parts) > 1 and stats.kruskal(*parts).pvalue < DRIFT_LEVEL:
        return "The label changes"
    drifting = []
    for name in X:
        values = X[name].to_numpy()
        if values.dtype.kind != "f" or len(np.unique(values[~np.isnan(values)])) < 3:
            continue
        found = stats.spearmanr(time, values, nan_policy="omit")
        if abs(found.statistic) > DRIFT and found.pvalue * X.shape[1] < DRIFT_LEVEL:
            drifting.append(name)
    if not drifting:
        return ""
    return f"{'Column' if len(drifting) == 1 else 'Columns'} {quoted(drifting)} " + (
        "changes" if len(drifting) == 1 else "change"
    )


def _text_flags(table: Table) -> Iterator[Flag]:
    for column in table.columns:
        if column.kind == "text":
            yield Flag(
                "free text",
                f"Column '{column.name}' is free text. It becomes a few features of latent "
                "semantic analysis; models of language are not compared.",
                columns=(column.name,),
            )


def _copy_flags(X: pd.DataFrame, y: NDArray[Any], parts: Sequence[Part]) -> Iterator[Flag]:
    """Report test rows that are equal to a training row, if that cannot be chance."""
    if not any(X[name].nunique() > MANY_CLASSES for name in X):
        return  # rows of a few categories are equal by chance
    labels = pd.Series(y, index=X.index)
    rows = pd.util.hash_pandas_object(pd.concat([X, labels], axis=1), index=False)
    n_copies = int(_crossing(pd.factorize(rows)[0], parts).sum())
    share = n_copies / len(rows)
    if n_copies < FEWEST_COPIES or share < COPIES or _expected_copies(X, y) > n_copies / 10:
        return
    yield Flag(
        "duplicates",
        f"{n_copies:,} of {len(rows):,} rows ({percent(share)}) are equal to a training row when "
        "they are tested, label included. If they are copies, scores are too good: remove them, or "
        "keep them together with --groups. If they are different rows, use --accept duplicates.",
        "danger" if share >= MANY_COPIES else "note",
        (),
        f"{percent(share)} of the test rows were copies of training rows",
    )


def _expected_copies(X: pd.DataFrame, y: NDArray[Any]) -> int:
    """Count equal rows after shuffling each column among the rows of each class."""
    rng = np.random.default_rng(0)
    rows = [np.flatnonzero(y == label) for label in np.unique(y)]
    shuffled = {}
    for name in X:
        values = X[name].to_numpy().copy()
        for each in rows:
            values[each] = values[rng.permutation(each)]
        shuffled[name] = values
    hashes = pd.util.hash_pandas_object(pd.DataFrame(shuffled), index=False)
    return int(hashes.duplicated(keep=False).sum())


def _class_flags(table: Table) -> Iterator[Flag]:
    rare = {label: count for label, count in table.class_counts.items() if count < FEW_ROWS}
    if rare:
        rows = [f"'{label}' ({count})" for label, count in list(rare.items())[:8]]
        more = f" and {len(rare) - 8} more" if len(rare) > 8 else ""
        yield Flag(
            "rare class",
            f"{'One class has' if len(rare) == 1 else f'{len(rare)} classes have'} fewer than "
            f"{FEW_ROWS} rows: {', '.join(rows)}{more}. Recall of so few rows is hardly known; "
            "collect more, or join classes.",
        )
    if len(table.class_counts) > MANY_CLASSES and table.y.dtype.kind == "i":
        yield Flag(
            "many classes",
            f"Target '{table.target}' has {len(table.class_counts)} different whole numbers, which "
            "are compared as classes without an order. If it is a score, divide it into classes.",
        )


def telling_columns(X: pd.DataFrame, y: NDArray[np.intp]) -> dict[str, float]:
    """Find the columns that alone predict the class of nearly all rows.

    Parameters
    ----------
    X : DataFrame
        Numbers, dates and categories.
    y : ndarray of shape (n_samples,)
        Class indices.

    Returns
    -------
    dict
        Column names and their cross-validated balanced accuracies, if at least 0.99. Numbers are
        divided by a small tree, and of each category the most frequent class is predicted.
    """
    if np.bincount(y).min() < FEWEST_ROWS:
        return {}
    rows = _some_rows(y)
    y = y[rows]
    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(y, y))
    found = {}
    for name in X:
        values = X[name].to_numpy()[rows]
        score = (
            _of_categories(values, y, folds)
            if values.dtype == object
            else _of_numbers(_as_numbers(values), y, folds)
        )
        if score >= NEAR_ONE:
            found[str(name)] = score
    return found


def _some_rows(y: NDArray[np.intp]) -> NDArray[np.intp]:
    """Choose at most `MOST_ROWS` rows of each class."""
    rng = np.random.default_rng(0)
    places = [np.flatnonzero(y == label) for label in np.unique(y)]
    chosen = [
        rng.choice(each, MOST_ROWS, False) if len(each) > MOST_ROWS else each for each in places
    ]
    return np.sort(np.concatenate(chosen))


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind == "M":
        numbers = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        return np.where(np.isnat(values), np.nan, numbers)
    return values.astype(np.float64)


def _of_numbers(values: NDArray[np.float64], y: NDArray[np.intp], folds: Any) -> float:
    if not _may_separate(values, y):
        return 0.0
    limit = np.finfo(np.float32).max / len(values)  # trees add up numbers of 32 bits
    column = np.clip(values, -limit, limit)[:, None]
    tree = DecisionTreeClassifier(
        max_leaf_nodes=len(np.unique(y)) + FURTHER_LEAVES, class_weight="balanced", random_state=0
    )
    predicted = np.empty_like(y)
    for train, test in folds:
        predicted[test] = tree.fit(column[train], y[train]).predict(column[test])
    return float(balanced_accuracy_score(y, predicted))


def _may_separate(values: NDArray[np.float64], y: NDArray[np.intp]) -> bool:
    """Return False if sorted values have labels that change too often for a small tree.

    Each leaf begins with a change of the label, and each row in the wrong leaf makes two.
    """
    sizes = np.bincount(y)
    most_errors = np.ceil((1 - NEAR_ONE) * len(sizes) * sizes.max())
    labels = y[np.lexsort((y, values))]
    n_changes = np.count_nonzero(labels[1:] != labels[:-1])
    return bool(n_changes < len(sizes) + FURTHER_LEAVES + 2 * most_errors)


def _of_categories(values: NDArray[Any], y: NDArray[np.intp], folds: Any) -> float:
    codes, _ = pd.factorize(values, use_na_sentinel=False)
    n_classes, n_categories = int(y.max()) + 1, int(codes.max()) + 1
    sizes = np.bincount(y, minlength=n_classes)
    cells = codes * n_classes + y
    predicted = np.empty_like(y)
    for train, test in folds:
        counts = np.bincount(cells[train], minlength=n_categories * n_classes)
        shares = counts.reshape(n_categories, n_classes) / sizes
        predicted[test] = shares.argmax(axis=1)[codes[test]]
    return float(balanced_accuracy_score(y, predicted))


def score_flags(evidence: Evidence, model: str | None) -> list[Flag]:
    """Report classes that a model never recognises, and models that were not judged."""
    flags = []
    if model is not None:
        sample = evidence.sample(model)
        missed = [
            f"“{sample.classes[place]}”"
            for place in np.flatnonzero((sample.counts > 0) & (np.diag(sample.confusion) == 0))
        ]
        if missed:
            label = "class" if len(missed) == 1 else "classes"
            flags.append(
                Flag(
                    "recall 0",
                    f"{model} labels no row of the {label} {listed(missed, N_LISTED)} correctly by "
                    f"{sample.rule.text}. Its probabilities may rank them all the same; look at "
                    "the thresholds.",
                )
            )
    if evidence.not_judged:
        verb = "was" if len(evidence.not_judged) == 1 else "were"
        names = listed(list(evidence.not_judged), N_LISTED)
        flags.append(
            Flag("not judged", f"{names} {verb} not judged; the ranking gives the reasons.")
        )
    return flags
