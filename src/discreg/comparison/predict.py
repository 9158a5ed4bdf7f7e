"""Prediction and evaluation of the rows of a file with a saved model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError
from discreg.model_files import load_model
from discreg.tables.classifier import TableClassifier, read_new_rows
from discreg.tables.frames import quoted

from .statistics.performance import Measured, subgroups
from .statistics.sample import Sample
from .words import listed

ROW, LABEL, SET, NOTE = "row", "label", "prediction set", "note"  # columns of the result
DIVIDER = " | "  # between the labels of a set
N_LISTED = 5  # most names in a note


# Beginnings of formulas. Apostrophes belong to it so that different labels stay different. A sign
# alone, as in the labels + and -, is no formula.
FORMULA = re.compile(r"'*\s*[=+@\-\uff1d\uff0b\uff20\uff0d](?!\Z)")


@dataclass(frozen=True)
class Predicted:
    """Predictions of new rows, and notes on these rows."""

    labels: pd.DataFrame  # row numbers, kept columns, labels, probabilities, and marks of rows
    notes: tuple[str, ...]


def predict(
    model_file: str | PathLike[str],
    data: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    confidence_level: float | None = None,
    recall: float | None = None,
    max_bytes: int | None = None,
) -> Predicted:
    """Predict labels and probabilities of the rows of a file.

    Parameters
    ----------
    model_file : str or path
        A model written by a comparison.
    data : str or path
        The file of new rows.
    keep : sequence of str
        Columns of the file to repeat in the result, such as identifiers.
    confidence_level : float, optional
        Adds prediction sets, which contain the true class with this probability.
    recall : float, optional
        With two classes, predict the positive class from the threshold on that reaches this recall.
    max_bytes : int, optional
        See `load_model`.
    """
    model = _loaded(model_file, max_bytes)
    _check_options(model, confidence_level, recall)
    X, kept = read_new_rows(data, model.expected, keep)
    if not X.shape[0]:
        raise InputError(f"{data} has no rows to predict.")
    marks, notes = _marks(model, X)
    labels = model.predict(X) if recall is None else model.predict_at(X, recall)
    parts = [
        pd.DataFrame({ROW: range(1, X.shape[0] + 1)}),
        _renamed(kept, model.classes_),
        pd.DataFrame({LABEL: labels}),
        pd.DataFrame(model.predict_proba(X), columns=_probability_names(model.classes_)),
    ]
    if confidence_level is not None:
        sets = model.predict_set(X, confidence_level)
        texts = [DIVIDER.join(map(str, model.classes_[row])) for row in sets]
        parts.append(pd.DataFrame({SET: texts}))
    if any(marks):
        parts.append(pd.DataFrame({NOTE: marks}))
    if recall is None and model.decision.weights:
        notes.append(f"labels follow {model.decision.text}")
    if recall is not None:
        point, name = model.point_at(recall), model.classes_[model.decision.positive or 0]
        notes.append(
            f"rows with a probability of '{name}' of at least {point['threshold']:.3g} are "
            f"labelled '{name}'; this threshold reached a recall of {point['recall']:.3f} (95 % "
            f"interval {point['low']:.3f} to {point['high']:.3f}) on held-out rows"
        )
    return Predicted(pd.concat(parts, axis=1), tuple(notes))


def score_rows(
    model: TableClassifier, X: Any, y: NDArray[np.intp], weights: Any = None, groups: Any = None
) -> Sample:
    """Predict rows that a fitted model has not seen; y are the indices of their classes."""
    return Sample(
        classes=np.asarray(model.classes_),
        y=y,
        probabilities=np.asarray(model.predict_proba(X), dtype=np.float64),
        rule=model.decision,
        rows=np.arange(len(y)),
        weights=weights,
        groups=groups,
    )


@dataclass(frozen=True)
class Evaluated:
    """The evaluation of a saved model on labelled rows."""

    model: str
    source: str
    sample: Sample
    notes: tuple[str, ...]
    subgroup: str | None = None
    subgroups: Sequence[tuple[str, int, Sequence[Measured]]] = ()


def evaluate(
    model_file: str | PathLike[str],
    data: str | PathLike[str],
    *,
    target: str | None = None,
    groups: str | None = None,
    subgroup: str | None = None,
    max_bytes: int | None = None,
) -> Evaluated:
    """Score a saved model on the labelled rows of a file.

    Parameters
    ----------
    model_file : str or path
        A model written by a comparison.
    data : str or path
        The file of labelled rows.
    target : str, optional
        Column of the labels; by default that of the comparison.
    groups : str, optional
        Column of groups, which are drawn together by the bootstrap.
    subgroup : str, optional
        Column for whose values the numbers are also computed.
    max_bytes : int, optional
        See `load_model`.
    """
    model = _loaded(model_file, max_bytes)
    target = target or model.target
    if target is None:
        raise InputError("The model does not know the column of the labels. Give --target.")
    wanted = list(dict.fromkeys([target, *filter(None, (groups, subgroup))]))
    X, columns = read_new_rows(data, model.expected, wanted)
    known = {str(label): place for place, label in enumerate(model.classes_)}
    labels = columns[target].astype(object)
    given = labels.notna() & (labels.astype(str).str.strip() != "")
    places = labels[given].map(lambda label: _place_of(label, known))
    if places.isna().any():
        strange = labels[given][places.isna()].astype(str).unique()
        raise InputError(
            f"{data}: column '{target}' has labels that the model does not know: "
            f"{quoted(strange)}. Its classes are {quoted(known)}."
        )
    rows = np.flatnonzero(given)
    if not len(rows):
        raise InputError(f"{data} has no row with a label in column '{target}'.")
    X = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
    _, notes = _marks(model, X)
    if len(rows) < len(labels):
        notes.append(f"{len(labels) - len(rows)} rows without a label were left out")
    codes = None if groups is None else pd.factorize(columns[groups].iloc[rows])[0]
    sample = score_rows(model, X, places.to_numpy(dtype=np.intp), groups=codes)
    parts = [] if subgroup is None else subgroups(sample, columns[subgroup].iloc[rows].to_numpy())
    name = type(model.pipeline[-1]).__name__
    return Evaluated(name, str(data), sample, tuple(notes), subgroup, parts)


def _place_of(label: Any, known: dict[str, int]) -> int | None:
    """Return the class of a label, which a file may write as 1, 1.0, true or True."""
    texts = [str(label), str(label).strip().capitalize()]
    if isinstance(label, float | str):
        with suppress(ValueError):
            texts.append(f"{float(label):g}")
    return next((known[text] for text in texts if text in known), None)


def _loaded(model_file: str | PathLike[str], max_bytes: int | None) -> TableClassifier:
    model = load_model(model_file, max_bytes=max_bytes)
    if isinstance(model, TableClassifier):
        return model
    raise InputError(
        f"{model_file} contains a {type(model).__name__}, which takes arrays and not tables. "
        "Load it with discreg.load_model and call its predict method."
    )


def _check_options(
    model: TableClassifier, confidence_level: float | None, recall: float | None
) -> None:
    """Raise an error before the file is read if the model cannot do what is asked."""
    if confidence_level is not None:
        if not 0 < confidence_level < 1:
            raise InputError(f"A confidence level is between 0 and 1, not {confidence_level:g}.")
        if not hasattr(model, "predict_set"):
            name = type(model.pipeline[-1]).__name__
            raise InputError(
                f"{name} has no prediction sets; the models of discreg with probabilities have "
                "them. Compare again with --candidates, or omit --confidence-level."
            )
    if recall is not None:
        model.point_at(recall)


def _probability_names(classes: Iterable[Any]) -> list[str]:
    return [f"probability of {label}" for label in classes]


def _renamed(kept: pd.DataFrame, classes: Iterable[Any]) -> pd.DataFrame:
    """Rename kept columns that have the name of a column of predictions."""
    written = {ROW, LABEL, SET, NOTE, *_probability_names(classes)}
    return kept.rename(columns={name: f"{name} (file)" for name in kept if name in written})


def check_output(output: Path, *sources: Path) -> None:
    """Raise an error if writing would replace a file that does not contain predictions."""
    for source in sources:
        if output.exists() and source.exists() and output.samefile(source):
            raise InputError(f"{output} is read by this command; give another file with --output.")
    try:
        with output.open(encoding="utf-8", errors="replace") as file:
            header = file.readline(10_000)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{output} cannot be written ({error}).") from error
    if header and not (header.startswith(f'"{ROW}",') and f'"{LABEL}"' in header):
        raise InputError(
            f"{output} exists and was not written by discreg predict; give another file with "
            "--output, or remove it."
        )


def _marks(model: TableClassifier, X: Any) -> tuple[list[str], list[str]]:
    """Mark rows with missing cells and unseen categories; write notes on these columns."""
    marks: list[list[str]] = [[] for _ in range(X.shape[0])]
    notes = []
    if not isinstance(X, pd.DataFrame):
        return [""] * X.shape[0], []
    for name, categories in model.categories.items():
        cells = X[name]
        strange = (cells.notna() & ~cells.isin(categories)).to_numpy()
        if strange.any():
            shown = np.unique(cells[strange].astype(str))
            notes.append(
                f"column '{name}' has categories that the model was not fitted to in "
                f"{strange.sum()} of {len(X)} rows: {quoted(shown)}"
            )
            for row in np.flatnonzero(strange):
                marks[row].append(f"unseen category in {name}")
    imputed = [name for name in X if name not in model.categories]
    gaps = X[imputed].isna().to_numpy()
    for row in np.flatnonzero(gaps.any(axis=1)):
        names = listed([imputed[place] for place in np.flatnonzero(gaps[row])], N_LISTED)
        marks[row].append(f"missing {names}")
    if gaps.any():
        notes.append(
            f"{gaps.any(axis=1).sum()} of {len(X)} rows have missing cells, which were replaced by "
            "values of the training table; they are marked"
        )
    return ["; ".join(each) for each in marks], notes


def without_formulas(predicted: Predicted) -> Predicted:
    """Put an apostrophe before texts that a spreadsheet would execute as formulas."""
    formulas: dict[str, None] = {}
    columns = {}
    for name, column in predicted.labels.items():
        found = [cell for cell in column.dropna().unique() if _is_formula(cell)]
        columns[name] = column.replace({cell: f"'{cell}" for cell in found}) if found else column
        formulas |= dict.fromkeys(found)
    if not formulas:
        return predicted
    note = (
        f"texts that a spreadsheet would execute as formulas begin with an apostrophe in the "
        f"file: {quoted(formulas)}; --raw writes them unchanged"
    )
    return Predicted(pd.DataFrame(columns), (*predicted.notes, note))


def _is_formula(label: object) -> bool:
    if not isinstance(label, str) or FORMULA.match(label) is None:
        return False
    try:
        float(label)
    except ValueError:
        return True
    return False
