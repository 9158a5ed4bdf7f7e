"""Nested cross-validation of the models on one table."""

from __future__ import annotations

import hashlib
import time
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from discreg import __version__
from discreg.comparison.candidates.models import STEP, ComparedModel, Models
from discreg.comparison.candidates.tuning import Shape, TuningPlan
from discreg.comparison.protocol.folds import Folds, Part, RowFacts
from discreg.comparison.protocol.scoring import Predictions, Scoring, is_imbalanced
from discreg.comparison.words import listed
from discreg.tables.column_types import MAX_CATEGORIES
from discreg.tables.expected import expected_columns
from discreg.tables.preprocessor import TablePreprocessor
from discreg.tables.table import Table

from .experiment import Key, Outcome

__all__ = ["NestedCrossValidation", "predictions_of", "table_shape", "take"]

N_LISTED = 12  # most names in a message
N_WARNINGS = 5  # most warnings that are stored of a fit


@dataclass(frozen=True, eq=False)
class NestedCrossValidation:
    """Experiment: nested cross-validation of models on one table.

    Parameters
    ----------
    table : Table
        The data, with groups, weights and times if it has them.
    folds : Folds
        Training and test rows.
    models : Models
        The models.
    scoring : Scoring
        The metric that selects parameters and ranks models.
    seed : int
        Seed of the inner folds and of the models.
    """

    table: Table
    folds: Folds
    models: Models
    scoring: Scoring
    seed: int = 0

    def settings(self) -> dict[str, str]:
        """Settings that results depend on; models can be added and left out later."""
        return {
            "data": f"{self.table.name} ({self.table.fingerprint})",
            "columns": listed([column.name for column in self.table.columns], N_LISTED),
            "classes": listed(list(self.table.class_counts), N_LISTED),
            "metric": self.scoring.name
            if self.scoring.positive is None
            else f"{self.scoring.name} of {self.scoring.classes[self.scoring.positive]}",
            "folds": f"{self.folds.text} ({_fingerprint(self.folds)})",
            "seed": str(self.seed),
            "discreg": __version__,
        }

    def keys(self) -> list[Key]:
        """List all fits fold by fold, so that a stopped run has all models; slow models first."""
        slow_first = sorted(self.models.compared, key=lambda model: -model.seconds)
        return [
            Key(self.table.name, model.key, repeat, fold)
            for repeat, parts in enumerate(self.folds.repeats)
            for fold in range(len(parts))
            for model in slow_first
        ]

    def run(self, key: Key) -> Outcome:
        """Fit a model to the training rows of a fold and score the test rows."""
        model = self.model_of(key)
        train, test = self.part(key.repeat, key.fold)
        weights = self.table.weights
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.perf_counter()
            fitted = self.fitted(model, train)
            ended = time.perf_counter()
            X = take(self.table.X, test)
            fitted.predict(X)
            predicted = time.perf_counter()
            found = predictions_of(fitted, X, self.classes)
            values = self.scoring.of_fold(
                fitted, X, self.y[test], found, None if weights is None else weights[test]
            )
        values |= {"fit_seconds": ended - began, "predict_seconds": predicted - ended}
        arrays = {
            "rows": test.astype(np.int32),
            "labels": found.labels.astype(np.int32),
            "params": np.array(selected_parameters(fitted)),
        }
        if found.probabilities is not None:
            arrays["probabilities"] = found.probabilities.astype(np.float32)
        if found.scores is not None:
            arrays["scores"] = found.scores.astype(np.float32)
        texts = sorted({" ".join(str(each.message).split()) for each in caught})
        return Outcome(values, arrays, tuple(texts[:N_WARNINGS]))

    def final(self, name: str) -> Pipeline:
        """Fit a model to all rows that are no test table.

        The model has the selected parameters and no search.
        """
        rows = np.arange(len(self.y))
        if self.table.test is not None:
            rows = np.flatnonzero(~self.table.test)
        return without_search(self.fitted(self.models.named(name), rows))

    def fitted(self, model: ComparedModel, rows: NDArray[np.intp]) -> Pipeline:
        """Fit a model to some rows."""
        table, facts = self.table, self.facts.take(rows)
        weights = None if table.weights is None else table.weights[rows]
        made = self.pipeline(model, rows)
        step, last = made.steps[-1]
        arguments = model.fit_arguments(last, facts, weights).items()
        given = {f"{step}__{name}": value for name, value in arguments}
        return made.fit(take(table.X, rows), table.y[rows], **given)

    def pipeline(self, model: ComparedModel, rows: NDArray[np.intp]) -> Pipeline:
        """Create the unfitted pipeline of a model for some training rows."""
        made = model.make(self.search(len(rows)))
        if model.is_whole:
            return made
        return Pipeline([("columns", self._preprocessor(model)), (STEP, made)])

    def search(self, n_rows: int) -> TuningPlan:
        """Describe how models select their parameters on some rows."""
        both = is_imbalanced(self.scoring.counts)
        return TuningPlan(
            table_shape(self.table, n_rows),
            self.scoring.for_search,
            self.scoring.scorer,
            (None, "balanced") if both else (None,),
            self.scoring.given is None and not both,
            self.seed,
        )

    def _preprocessor(self, model: ComparedModel) -> Any:
        """Create the unfitted transformer to features; sparse data stay sparse."""
        if not isinstance(self.table.X, pd.DataFrame):
            return MaxAbsScaler()
        # The types are those of the whole table, so that all folds use the same columns.
        kinds = expected_columns(self.table).kinds
        return TablePreprocessor(scale=model.scales, kinds=kinds)

    @cached_property
    def classes(self) -> NDArray[Any]:
        """All labels of the table."""
        return np.unique(self.table.y)

    @cached_property
    def y(self) -> NDArray[np.intp]:
        """Class indices of all rows."""
        return np.searchsorted(self.classes, self.table.y)

    @cached_property
    def facts(self) -> RowFacts:
        """Labels, groups and times."""
        return RowFacts(self.table.y, self.table.groups, self.table.time)

    def part(self, repeat: int, fold: int) -> Part:
        """Return the training rows and the test rows of a fold."""
        return self.folds.repeats[repeat][fold]

    def model_of(self, key: Key) -> ComparedModel:
        """Return the model of a key."""
        return next(model for model in self.models.compared if model.key == key.model)


def table_shape(table: Table, n_rows: int) -> Shape:
    """Return the size of a fit of some rows of a table."""
    n_columns = table.X.shape[1]
    if isinstance(table.X, pd.DataFrame):
        n_columns = sum(
            min(each.n_distinct, MAX_CATEGORIES) if each.kind == "categorical" else 1
            for each in table.columns
            if each.name in table.X
        )
    counts = np.array(list(table.class_counts.values()))
    return Shape(
        n_rows,
        n_columns,
        len(counts),
        is_sparse=not isinstance(table.X, pd.DataFrame),
        n_weights=2 if is_imbalanced(counts) else 1,
    )


def take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Select rows of a frame or a sparse array."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def without_search(fitted: Pipeline) -> Pipeline:
    """Replace the search in the last step by the model that it selected."""
    *before, (last, model) = fitted.steps
    return Pipeline([*before, (last, getattr(model, "best_estimator_", model))])


def selected_parameters(fitted: Pipeline) -> str:
    """Write the selected parameters, such as "C=0.1, class_weight=balanced"."""
    model = fitted.steps[-1][1]
    params = getattr(model, "best_params_", None) or {}
    return ", ".join(f"{name}={_short(value)}" for name, value in sorted(params.items()))


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def predictions_of(fitted: Any, X: Any, classes: NDArray[Any]) -> Predictions:
    """Predict rows; columns are those of all classes, also of those not in the training rows."""
    known = np.searchsorted(classes, fitted.classes_)
    labels = np.searchsorted(classes, fitted.predict(X))
    probabilities = scores = None
    if hasattr(fitted, "predict_proba"):
        probabilities = np.zeros((len(labels), len(classes)))
        probabilities[:, known] = fitted.predict_proba(X)
    if hasattr(fitted, "decision_function"):
        scores = _aligned(np.asarray(fitted.decision_function(X)), known, len(classes))
    return Predictions(labels, probabilities, scores)


def _aligned(scores: NDArray[Any], known: NDArray[np.intp], n_classes: int) -> NDArray[Any] | None:
    """Return one score per class, or of the second of two; None for scores of pairs."""
    if scores.ndim == 1:
        if n_classes == 2:
            return scores
        scores = np.column_stack([-scores, scores])
    if scores.shape[1] != len(known):
        return None
    if n_classes == 2 and len(known) == 2:
        return np.asarray(scores[:, 1] - scores[:, 0])
    every = np.full((len(scores), n_classes), scores.min() - 1)
    every[:, known] = scores
    return every


def _fingerprint(folds: Folds) -> str:
    digest = hashlib.sha256()
    for number, repeat in enumerate(folds.repeats):
        for train, test in repeat:
            digest.update(f"{number}".encode())
            digest.update(np.asarray(train, dtype=np.int64).tobytes() + b"|")
            digest.update(np.asarray(test, dtype=np.int64).tobytes() + b"|")
    return digest.hexdigest()[:12]
