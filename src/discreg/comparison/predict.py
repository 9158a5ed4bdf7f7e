"""Prediction of the rows of a file with a saved model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreg.base.errors import InputError
from discreg.model_files import load_model
from discreg.tables.classifier import TableClassifier
from discreg.tables.formats import quoted
from discreg.tables.new_rows import read_new_rows

__all__ = ["Predicted", "check_output", "predict", "without_formulas"]

ROW, LABEL, SET = "row", "label", "prediction set"  # columns of the result
DIVIDER = " | "  # between the labels of a set


# Beginnings of formulas. Apostrophes belong to it so that different labels stay different.
FORMULA = re.compile(r"'*\s*[=+@\-\uff1d\uff0b\uff20\uff0d]")


@dataclass(frozen=True)
class Predicted:
    """Predictions of new rows, and notes on these rows."""

    labels: pd.DataFrame  # row numbers, kept columns, labels, and probabilities if there are any
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
    """Predict the labels of the rows of a file, with probabilities if the model has them.

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
    model = load_model(model_file, max_bytes=max_bytes)
    if not isinstance(model, TableClassifier):
        raise InputError(
            f"{model_file} contains a {type(model).__name__}, which takes arrays and not tables. "
            "Load it with discreg.load_model and call its predict method."
        )
    _check_options(model, confidence_level, recall)
    X, kept = read_new_rows(data, model.expected, keep)
    if not X.shape[0]:
        raise InputError(f"{data} has no rows to predict.")
    notes = list(_unseen_categories(model, X))
    labels = model.predict(X) if recall is None else model.predict_at(X, recall)
    parts = [
        pd.DataFrame({ROW: range(1, X.shape[0] + 1)}),
        _renamed(kept, model.classes_),
        pd.DataFrame({LABEL: labels}),
    ]
    if hasattr(model, "predict_proba"):
        names = _probability_names(model.classes_)
        parts.append(pd.DataFrame(model.predict_proba(X), columns=names))
    if confidence_level is not None:
        sets = model.predict_set(X, confidence_level)
        texts = [DIVIDER.join(map(str, model.classes_[row])) for row in sets]
        parts.append(pd.DataFrame({SET: texts}))
    if recall is not None:
        used = model.stored_recall(recall)
        threshold = (model.thresholds or {})[used]
        notes.append(
            f"rows with a probability of '{model.positive}' from {threshold:.3g} on are labelled "
            f"'{model.positive}', which found {used:.0%} of such rows when they were held out"
        )
    return Predicted(pd.concat(parts, axis=1), tuple(notes))


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
        model.stored_recall(recall)


def _probability_names(classes: Iterable[Any]) -> list[str]:
    return [f"probability of {label}" for label in classes]


def _renamed(kept: pd.DataFrame, classes: Iterable[Any]) -> pd.DataFrame:
    """Rename kept columns that have the name of a column of predictions."""
    written = {ROW, LABEL, SET, *_probability_names(classes)}
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


def _unseen_categories(model: TableClassifier, X: Any) -> Iterator[str]:
    """Yield a note on each column with categories that the model was not fitted to."""
    for name, categories in model.categories.items():
        cells = X[name].dropna()
        strange = cells[~cells.isin(categories)]
        if len(strange):
            yield (
                f"column '{name}' has categories that the model was not fitted to in "
                f"{len(strange)} of {len(X)} rows: {quoted(np.unique(strange))}"
            )


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
