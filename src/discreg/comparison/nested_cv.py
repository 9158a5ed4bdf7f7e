"""Nested cross-validation of the candidate models on one table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from discreg import __version__
from discreg.base.errors import InputError
from discreg.base.metrics import counts, label_scores, probability_scores
from discreg.tables.expected import expected_columns
from discreg.tables.preprocessor import TablePreprocessor
from discreg.tables.table import Table

from .candidates import MANY_ROWS, Candidate, Shape, chosen
from .experiment import Key, Outcome
from .words import listed

__all__ = ["NestedCrossValidation"]

N_FOLDS, N_REPEATS, N_INNER_FOLDS = 5, 2, 3
N_LISTED = 12  # most names in a message


@dataclass(frozen=True)
class NestedCrossValidation:
    """Experiment: nested cross-validation of the candidates on one table.

    Parameters
    ----------
    table : Table
        The data; if the table has folds, these are used.
    models : sequence of str, optional
        Names of candidates; None means all.
    n_repeats, n_folds : int
        Repetitions and folds of stratified cross-validation. A class with fewer rows than folds is
        missing in the test rows of some folds.
    seed : int
        Seed of the random folds.
    """

    table: Table
    models: Sequence[str] | None = None
    n_repeats: int = N_REPEATS
    n_folds: int = N_FOLDS
    seed: int = 0

    def settings(self) -> dict[str, str]:
        return {
            "data": f"{self.table.name} ({self.table.fingerprint})",
            "columns": listed([column.name for column in self.table.columns], N_LISTED),
            "classes": listed(list(self.table.class_counts), N_LISTED),
            "models": ", ".join(candidate.name for candidate in self.candidates),
            "folds": "given" if self.has_folds else f"{self.n_repeats} x {self.folds}",
            "seed": str(self.seed),
            "discreg": __version__,
        }

    def keys(self) -> list[Key]:
        """List all fits fold by fold, so that a stopped run has all models; slow models first."""
        slow_first = sorted(self.candidates, key=lambda candidate: not candidate.is_slow)
        return [
            Key(self.table.name, candidate.name, repeat, fold)
            for repeat in range(1 if self.has_folds else self.n_repeats)
            for fold in range(self.folds)
            for candidate in slow_first
        ]

    def check(self) -> None:
        """Raise an error if no candidate can be evaluated on the data."""
        if not self.candidates:
            raise InputError("There is nothing to compare. " + " ".join(self.left_out()))
        for fold in range(self.folds):
            train, _ = self._parts(0, fold)
            labels = np.unique(self.table.y[train])
            if len(labels) < 2:
                raise InputError(
                    f"All rows outside fold {fold + 1} of {self.folds} belong to class "
                    f"'{labels[0]}'. The training rows of each fold need at least two classes."
                )

    def run(self, key: Key) -> Outcome:
        train, test = self._parts(key.repeat, key.fold)
        X, y = self.table.X, self.table.y
        model = self.pipeline(key.model, y[train])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.perf_counter()
            model.fit(_rows(X, train), y[train])
            fitted = time.perf_counter()
            predicted = model.predict(_rows(X, test))
            ended = time.perf_counter()
            outcome = self._judge(model, _rows(X, test), y[test], predicted)
        seconds = {"fit_seconds": fitted - began, "predict_seconds": ended - fitted}
        texts = tuple(sorted({" ".join(str(each.message).split()) for each in caught}))
        return Outcome({**outcome.values, **seconds}, outcome.arrays, texts)

    def final(self, name: str) -> tuple[Pipeline, float]:
        """Fit a candidate to all rows; return it without its parameter search, and the seconds."""
        began = time.perf_counter()
        pipeline = self.pipeline(name, self.table.y).fit(self.table.X, self.table.y)
        seconds = time.perf_counter() - began
        *before, (last, model) = pipeline.steps
        return Pipeline([*before, (last, getattr(model, "best_estimator_", model))]), seconds

    @property
    def has_folds(self) -> bool:
        """Whether the table defines the folds."""
        return self.table.folds is not None

    @cached_property
    def folds(self) -> int:
        """Number of folds."""
        if self.table.folds is not None:
            return len(np.unique(self.table.folds))
        return min(self.n_folds, max(self.table.class_counts.values()))

    @cached_property
    def classes(self) -> NDArray[Any]:
        """All labels of the table."""
        return np.unique(self.table.y)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates for data of this shape."""
        return tuple(each for each in chosen(self.models) if each.left_out(self._shape) is None)

    def left_out(self) -> list[str]:
        """Write sentences on candidates that are left out for data of this shape."""
        reasons = ((each.name, each.left_out(self._shape)) for each in chosen(self.models))
        return [f"{name} is left out: {reason}." for name, reason in reasons if reason]

    def judged_by(self) -> list[str]:
        """Write sentences on how the models are evaluated."""
        return [
            *self._about_folds(),
            "Preprocessing and parameter selection use only the training rows of each fold. LSR, "
            "LRRR, DRM and RidgeCV select parameters by exact leave-one-out, the other models by "
            f"cross-validation with up to {N_INNER_FOLDS} folds of the training rows.",
            *self._about_kernels(),
            *self.left_out(),
            "Times are for one fit, including parameter selection, on one core.",
        ]

    def _about_folds(self) -> list[str]:
        if self.has_folds:
            return [f"The table defines {self.folds} folds; each is held out once."]
        times = "once" if self.n_repeats == 1 else f"{self.n_repeats} times"
        sentences = [
            f"{self.n_repeats} x {self.folds}-fold stratified cross-validation: every row is held "
            f"out {times}."
        ]
        rarest = min(self.table.class_counts.values())
        if self.folds < self.n_folds:
            sentences += [
                f"There are only {self.folds} folds, because no class has more than {self.folds} "
                "rows."
            ]
        elif rarest < self.folds:
            sentences += [
                f"The rarest class has {rarest} rows, so that some folds have no test row of it."
            ]
        return sentences

    def _about_kernels(self) -> list[str]:
        names = [candidate.name for candidate in self.candidates if candidate.has_kernel]
        if not names or self._shape.kernel != "linear":
            return []
        return [
            f"The kernel of {listed(names)} is linear, because there are more than "
            f"{MANY_ROWS:,} rows."
        ]

    def pipeline(self, name: str, y: NDArray[Any]) -> Pipeline:
        """Create the unfitted pipeline of a candidate, for rows with these labels."""
        (candidate,) = chosen([name])
        smallest = int(np.unique(y, return_counts=True)[1].min())
        n_folds = max(2, min(N_INNER_FOLDS, smallest))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed)
        model = candidate.make(self._shape, folds)
        return make_pipeline(self._preprocessor(), model)

    def _preprocessor(self) -> TablePreprocessor | MaxAbsScaler:
        """Create the unfitted transformer to features; sparse data stay sparse."""
        if not isinstance(self.table.X, pd.DataFrame):
            return MaxAbsScaler()
        # The types are those of the whole table, so that all folds use the same columns.
        return TablePreprocessor(scale=True, kinds=expected_columns(self.table).kinds)

    @property
    def _shape(self) -> Shape:
        is_sparse = not isinstance(self.table.X, pd.DataFrame)
        return Shape(len(self.table.y), len(self.table.class_counts), is_sparse)

    def _parts(self, repeat: int, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the training rows and the test rows of a fold."""
        if self.table.folds is not None:
            held_out = self.table.folds == np.unique(self.table.folds)[fold]
            return np.flatnonzero(~held_out), np.flatnonzero(held_out)
        splitter = StratifiedKFold(self.folds, shuffle=True, random_state=self.seed + repeat)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `judged_by` mentions rare classes
            train, test = list(splitter.split(self.table.y, self.table.y))[fold]
        return train, test

    def _judge(self, model: Pipeline, X: Any, y: NDArray[Any], predicted: NDArray[Any]) -> Outcome:
        confusion = counts(y, predicted, self.classes)
        values = label_scores(confusion)
        if hasattr(model, "predict_proba"):
            values |= probability_scores(y, model.predict_proba(X), model.classes_)
        arrays = {
            "confusion": confusion,
            "margins": _margins(model, X, y),
            "history": _history(model[-1]),
            "rank_scores": _rank_scores(model[-1]),
        }
        return Outcome(values, {name: each for name, each in arrays.items() if each is not None})


def _rows(X: Any, rows: NDArray[np.intp]) -> Any:
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def _margins(model: Pipeline, X: Any, y: NDArray[Any]) -> NDArray[np.float32] | None:
    """Compute the margins of test rows, divided by their mean absolute value."""
    if not hasattr(model, "decision_function"):
        return None
    scores, classes = model.decision_function(X), model.classes_
    if scores.ndim == 2 and scores.shape[1] != len(classes):  # one score per pair of classes
        return None
    known = np.isin(y, classes)
    truth = np.searchsorted(classes, y[known])
    if scores.ndim == 1:
        margins = np.where(truth == 1, scores[known], -scores[known])
    else:
        scores = scores[known].astype(np.float64)
        place = np.arange(len(truth)), truth
        own = scores[place]
        scores[place] = -np.inf
        margins = own - scores.max(axis=1)
    size = float(np.abs(margins).mean()) if len(margins) else 0.0
    return (margins / size).astype(np.float32) if size > 0 else None


def _history(model: Any) -> NDArray[np.float64] | None:
    """Return the objective of each iteration, if the model has it."""
    history = getattr(getattr(model, "best_estimator_", model), "objective_history_", None)
    has_steps = history is not None and len(history) > 1
    return np.asarray(history, dtype=np.float64) if has_steps else None


def _rank_scores(model: Any) -> NDArray[np.float64] | None:
    """Return ranks and their best inner scores, if the model is a search over ranks."""
    results = getattr(model, "cv_results_", None)
    if results is None or "rank" not in results["params"][0]:
        return None
    ranks = np.array([params["rank"] for params in results["params"]])
    scores = np.asarray(results["mean_test_score"])
    tried = np.unique(ranks)
    best = [scores[ranks == rank].max() for rank in tried]
    return np.array([tried, best]) if len(tried) > 1 else None
