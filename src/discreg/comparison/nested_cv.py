"""Every candidate on one table: nested cross-validation as an experiment, and what it found."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline

from discreg import __version__
from discreg.base.errors import InputError
from discreg.tables.table import Table

from .candidates import SLOWEST, WITH_KERNEL, Candidate, Shape, chosen
from .experiment import Key, Outcome
from .metrics import counts, label_scores, probability_scores
from .words import listed

if TYPE_CHECKING:
    from .store import Store

__all__ = ["Comparison", "long_frame", "write_parquet"]

N_FOLDS, N_REPEATS, N_INNER_FOLDS = 5, 2, 3
N_LISTED = 12  # names that a message spells out


@dataclass(frozen=True)
class Comparison:
    """Nested cross-validation of candidates on one table.

    Parameters
    ----------
    table : Table
        The data; its own folds are used where it has some.
    models : sequence of str, optional
        Names of candidates; None: all.
    n_repeats, n_folds : int
        Of the stratified folds by chance. A class of fewer rows than folds is missing in the test
        part of some.
    seed : int
        Of the chance in folds.
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
        """Fold by fold, so that what is done early compares all models; the slowest first.

        Processes then wait little for the last of them.
        """
        names = [candidate.name for candidate in self.candidates]
        return [
            Key(self.table.name, name, repeat, fold)
            for repeat in range(1 if self.has_folds else self.n_repeats)
            for fold in range(self.folds)
            for name in sorted(names, key=lambda name: name not in SLOWEST)
        ]

    def check(self) -> None:
        """Refuse what no candidate can be judged on."""
        if not self.candidates:
            raise InputError("There is nothing to compare. " + " ".join(self.left_out()))
        for fold in range(self.folds):
            train, _ = self._parts(0, fold)
            labels = np.unique(self.table.y[train])
            if len(labels) < 2:
                raise InputError(
                    f"Every row outside fold {fold + 1} of {self.folds} is of class '{labels[0]}': "
                    "there is nothing to learn from. Give folds that each leave two classes."
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
        """A candidate fitted to all rows, without the search that tuned it; and its seconds."""
        began = time.perf_counter()
        pipeline = self.pipeline(name, self.table.y).fit(self.table.X, self.table.y)
        seconds = time.perf_counter() - began
        steps = dict(pipeline.steps)
        last = pipeline.steps[-1][0]
        steps[last] = getattr(steps[last], "best_estimator_", steps[last])
        return Pipeline(list(steps.items())), seconds

    @property
    def has_folds(self) -> bool:
        """Whether the table says in which fold a row is tested."""
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
        """The candidates that can be had for data of this shape."""
        shape = self._shape()
        return tuple(each for each in chosen(self.models) if each.left_out(shape) is None)

    def left_out(self) -> list[str]:
        """Sentences on candidates that cannot be had for data of this shape."""
        shape = self._shape()
        reasons = ((each.name, each.left_out(shape)) for each in chosen(self.models))
        return [f"{name} is left out: {reason}." for name, reason in reasons if reason]

    def judged_by(self) -> list[str]:
        """Sentences on how the models are judged."""
        given = f"The {self.folds} folds that the table gives, each held out once."
        times = "once" if self.n_repeats == 1 else f"{self.n_repeats} times"
        drawn = (
            f"{self.n_repeats} x {self.folds}-fold stratified cross-validation: every row is held "
            f"out {times}."
        )
        rarest = min(self.table.class_counts.values())
        fewer = (
            [f"The rarest class has {rarest} rows, so that some folds test none of them."]
            if not self.has_folds and rarest < self.folds
            else []
        )
        if not self.has_folds and self.folds < self.n_folds:
            fewer = [f"No class has more than {self.folds} rows, so that there are no more folds."]
        with_kernel = [each.name for each in self.candidates if each.name in WITH_KERNEL]
        linear = (
            [f"The kernel of {listed(with_kernel)} is linear because there are so many rows."]
            if with_kernel and self._shape().kernel == "linear"
            else []
        )
        return [
            given if self.has_folds else drawn,
            *fewer,
            "Missing values, categories and scales are learnt from the training rows of each fold "
            "alone, and so are the models' parameters: by exact leave-one-out (LSR, LRRR, DRM, "
            f"RidgeCV) or by up to {N_INNER_FOLDS} folds of the training rows (the others).",
            *linear,
            *self.left_out(),
            "Seconds are those of one fit with its tuning, on one core.",
        ]

    def pipeline(self, name: str, y: NDArray[Any]) -> Pipeline:
        """The unfitted candidate with all that comes before it, for rows with these labels."""
        from discreg.tables.preprocessing import preprocessor

        (candidate,) = chosen([name])
        smallest = int(np.unique(y, return_counts=True)[1].min())
        n_folds = max(2, min(N_INNER_FOLDS, smallest))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed)
        model = candidate.make(self._shape(), folds)
        return make_pipeline(preprocessor(self.table, scale=True), model)

    def _shape(self) -> Shape:
        is_sparse = not isinstance(self.table.X, pd.DataFrame)
        return Shape(len(self.table.y), len(self.table.class_counts), is_sparse)

    def _parts(self, repeat: int, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train on and rows held out."""
        if self.table.folds is not None:
            held_out = self.table.folds == np.unique(self.table.folds)[fold]
            train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        else:
            splitter = StratifiedKFold(self.folds, shuffle=True, random_state=self.seed + repeat)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of rare classes, on which `judged_by` has a word
                train, test = list(splitter.split(self.table.y, self.table.y))[fold]
        return train, test

    def _judge(self, model: Pipeline, X: Any, y: NDArray[Any], predicted: NDArray[Any]) -> Outcome:
        confusion = counts(y, predicted, self.classes)
        values = label_scores(confusion)
        if hasattr(model, "predict_proba"):
            values |= probability_scores(y, model.predict_proba(X), model.classes_)
        arrays = {"confusion": confusion}
        if hasattr(model, "decision_function"):
            margins = _margins(model.decision_function(X), y, model.classes_)
            if margins is not None:
                arrays["margins"] = margins
        arrays |= dict(_traces(model[-1]))
        return Outcome(values, arrays)


def long_frame(store: Store) -> pd.DataFrame:
    """All results as a long table, unique on its first five columns."""
    columns = ["dataset", "model", "repeat", "fold", "metric", "value"]
    return pd.DataFrame(store.results(), columns=columns)


def write_parquet(results: pd.DataFrame, path: Path) -> None:
    """Write a table of results; a reader finds the old file or the new one, never a part."""
    draft = path.with_name(f".{path.name}.draft")
    results.to_parquet(draft, index=False)
    draft.replace(path)


def _rows(X: Any, rows: NDArray[np.intp]) -> Any:
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def _margins(
    scores: NDArray[Any], y: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.float32] | None:
    """Lead of the true class over the best other one, relative to the mean size of a lead."""
    if scores.ndim == 2 and scores.shape[1] != len(classes):  # one score for each pair of classes
        return None
    known = np.isin(y, classes)
    truth = np.searchsorted(classes, y[known])
    if scores.ndim == 1:
        leads = np.where(truth == 1, scores[known], -scores[known])
    else:
        scores = scores[known].astype(np.float64)
        place = np.arange(len(truth)), truth
        own = scores[place]
        scores[place] = -np.inf
        leads = own - scores.max(axis=1)
    size = float(np.abs(leads).mean()) if len(leads) else 0.0
    return (leads / size).astype(np.float32) if size > 0 else None


def _traces(model: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """What a fitted model tells of its way: objective by iteration, inner scores by rank."""
    best = getattr(model, "best_estimator_", model)
    history = getattr(best, "objective_history_", None)
    if history is not None and len(history) > 1:
        yield "history", np.asarray(history, dtype=np.float64)
    results = getattr(model, "cv_results_", None)
    if results is not None and "rank" in results["params"][0]:
        ranks = np.array([params["rank"] for params in results["params"]])
        scores = np.asarray(results["mean_test_score"])
        each = np.unique(ranks)
        if len(each) > 1:
            best_scores = [scores[ranks == rank].max() for rank in each]
            yield "rank_scores", np.array([each, best_scores])
