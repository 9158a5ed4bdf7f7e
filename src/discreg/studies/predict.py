"""The job ``discreg predict``: labels and probabilities of new rows as CSV."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from .errors import StudyError
from .model_file import load_model
from .tables import read_features

__all__ = ["predict"]


def predict(model_file: str | PathLike[str], data: str | PathLike[str]) -> pd.DataFrame:
    """Label of each row of a file and, where the model has them, the classes' probabilities."""
    model = load_model(model_file)
    X = read_features(data, model.expected)
    if not X.shape[0]:
        raise StudyError(f"{data} has no rows to predict.")
    predicted = pd.DataFrame({"label": model.predict(X)})
    if hasattr(model, "predict_proba"):
        names = [f"probability of {label}" for label in model.classes_]
        probabilities = pd.DataFrame(model.predict_proba(X), columns=names)
        predicted = pd.concat([predicted, probabilities], axis=1)
    return predicted
