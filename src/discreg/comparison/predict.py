"""Prediction of the rows of a file with a saved model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from discreg.base.errors import InputError
from discreg.model_files import load_model
from discreg.tables.classifier import TableClassifier
from discreg.tables.formats import quoted
from discreg.tables.table import read_features

__all__ = ["Predicted", "predict", "without_formulas"]

# Beginnings of formulas. Apostrophes belong to it so that different labels stay different.
FORMULA = re.compile(r"'*\s*[=+@\-\uff1d\uff0b\uff20\uff0d]")


@dataclass(frozen=True)
class Predicted:
    """Labels of new rows, and notes on these rows."""

    labels: pd.DataFrame  # with probabilities if the model has them
    notes: tuple[str, ...]


def predict(
    model_file: str | PathLike[str], data: str | PathLike[str], *, max_bytes: int | None = None
) -> Predicted:
    """Predict the labels of the rows of a file, with probabilities if the model has them."""
    model = load_model(model_file, max_bytes=max_bytes)
    if not isinstance(model, TableClassifier):
        raise InputError(
            f"{model_file} contains a {type(model).__name__}, which takes arrays and not tables. "
            "Load it with discreg.load_model and call its predict method."
        )
    X = read_features(data, model.expected)
    if not X.shape[0]:
        raise InputError(f"{data} has no rows to predict.")
    predicted = pd.DataFrame({"label": model.predict(X)})
    if hasattr(model, "predict_proba"):
        names = [f"probability of {label}" for label in model.classes_]
        probabilities = pd.DataFrame(model.predict_proba(X), columns=names)
        predicted = pd.concat([predicted, probabilities], axis=1)
    return Predicted(predicted, tuple(_unseen_categories(model, X)))


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
    """Put an apostrophe before labels that a spreadsheet would execute as formulas."""
    labels = predicted.labels["label"]
    formulas = [label for label in labels.unique() if _is_formula(label)]
    if not formulas:
        return predicted
    safe = labels.replace({label: f"'{label}" for label in formulas})
    note = (
        f"labels that a spreadsheet would execute as formulas begin with an apostrophe in the "
        f"file: {quoted(formulas)}; --raw writes them unchanged"
    )
    return Predicted(predicted.labels.assign(label=safe), (*predicted.notes, note))


def _is_formula(label: object) -> bool:
    if not isinstance(label, str) or FORMULA.match(label) is None:
        return False
    try:
        float(label)
    except ValueError:
        return True
    return False
