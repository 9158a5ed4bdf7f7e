"""Nested cross-validation of the models on one table, importance of columns, and learning curve."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.feature_selection import f_classif
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from discreg import __version__
from discreg.comparison.candidates.models import STEP, ComparedModel, Models
from discreg.comparison.candidates.tuning import TuningPlan
from discreg.comparison.statistics.sample import LEVEL, Sample, corrected_scale
from discreg.comparison.words import listed
from discreg.tables.classifier import expected_columns
from discreg.tables.preprocessor import TablePreprocessor
from discreg.tables.table import Table

from .folds import Folds, Part, RowFacts
from .scoring import MEASURED, Scoring
from .store import CPU_SECONDS, Key, Outcome, Store

N_LISTED = 12  # most names in a message
N_WARNINGS = 5  # most warnings that are stored of a fit
MOST_COLUMNS = 50  # that are permuted: those that differ most between the classes
MOST_PERMUTED, MOST_CELLS = 5_000, 10_000_000  # rows and cells with permuted columns in a fold


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

    def check(self) -> None:
        """Raise an error before the first fit if the columns cannot be prepared for the models."""
        for model in self.models.compared:
            if not model.is_whole:
                self._preprocessor(model).fit(self.table.X)
                return

    def keys(self) -> list[Key]:
        """List all fits fold by fold, so that a stopped run has all models."""
        return [
            Key(self.table.name, model.key, repeat, fold)
            for repeat, parts in enumerate(self.folds.repeats)
            for fold in range(len(parts))
            for model in self.models.compared
        ]

    def run(self, key: Key) -> Outcome:
        """Fit a model to the training rows of a fold and predict the test rows."""
        model = self.model_of(key)
        train, test = self.part(key.repeat, key.fold)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began, cpu = time.perf_counter(), time.process_time()
            fitted = self.fitted(model, train)
            ended, cpu = time.perf_counter(), time.process_time() - cpu
            X = take(self.table.X, test)
            probabilities = probabilities_of(fitted, X, self.classes)
            values = {"fit_seconds": ended - began, "predict_seconds": time.perf_counter() - ended}
            values[CPU_SECONDS] = cpu
            if self.scoring.name not in MEASURED:
                weights = None if self.table.weights is None else self.table.weights[test]
                score = self.scoring.of_model(fitted, X, self.y[test], weights)
                values[self.scoring.name] = score
            arrays = {
                "probabilities": probabilities,
                "params": np.array(selected_parameters(fitted)),
                "losses": self._losses(fitted, test),
            }
        texts = sorted({" ".join(str(each.message).split()) for each in caught})
        return Outcome(values, arrays, tuple(texts[:N_WARNINGS]))

    def _losses(self, fitted: Any, test: NDArray[np.intp]) -> NDArray[np.float64]:
        """Compute the increase of the log-loss when the cells of each column are permuted.

        The rows of all columns are predicted at once.
        """
        names = self.permuted_columns
        if not names:
            return np.empty(0)
        chance = np.random.default_rng(0)
        n_cells = len(names) * self.table.X.shape[1]
        n_rows = max(1, min(MOST_PERMUTED // len(names), MOST_CELLS // n_cells))
        rows = chance.permutation(test)[:n_rows]
        n, X = len(rows), take(self.table.X, rows)
        own = np.tile(np.arange(n), len(names) + 1)  # the last part is not permuted
        stacked = X.iloc[own].reset_index(drop=True)
        for place, name in enumerate(names):
            order = own.copy()
            order[place * n : (place + 1) * n] = chance.permutation(n)
            stacked[name] = X[name].iloc[order].array
        losses = Sample(
            classes=self.classes,
            y=self.y[rows][own],
            probabilities=probabilities_of(fitted, stacked, self.classes),
            rule=self.scoring.rule,
            rows=rows[own],
        ).losses["log_loss"]
        weights = None if self.table.weights is None else self.table.weights[rows]
        means = np.average(losses.reshape(-1, n), axis=1, weights=weights)
        return np.asarray(means[:-1] - means[-1])

    def final(self, name: str) -> Pipeline:
        """Fit a model to all rows, with the selected parameters and no search."""
        return without_search(self.fitted(self.models.named(name), np.arange(len(self.y))))

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
        plan = TuningPlan(
            len(rows), len(self.classes), self.scoring.for_search, self.scoring.scorer, self.seed
        )
        made = model.make(plan)
        if model.is_whole:
            return made
        return Pipeline([("columns", self._preprocessor(model)), (STEP, made)])

    def _preprocessor(self, model: ComparedModel) -> Any:
        """Create the unfitted transformer to features; sparse data stay sparse."""
        if not isinstance(self.table.X, pd.DataFrame):
            return MaxAbsScaler()
        # The types are those of the whole table, so that all folds use the same columns.
        kinds = expected_columns(self.table).kinds
        return TablePreprocessor(scale=model.scales, kinds=kinds)

    @cached_property
    def permuted_columns(self) -> list[str]:
        """Columns whose importance is measured: all, or those that differ most by class."""
        X = self.table.X
        if not isinstance(X, pd.DataFrame):
            return []
        if X.shape[1] <= MOST_COLUMNS:
            return list(X)
        numbers = X.select_dtypes("number")
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.nan_to_num(f_classif(numbers.fillna(numbers.median()), self.y)[0])
        best = numbers.columns[np.argsort(-scores, kind="stable")]
        return [*X.columns.difference(numbers.columns, sort=False), *best][:MOST_COLUMNS]

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


def take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Select rows of a frame or a sparse array."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def without_search(fitted: Pipeline) -> Pipeline:
    """Replace the search in the last step by the model that it selected."""
    *before, (last, model) = fitted.steps
    return Pipeline([*before, (last, getattr(model, "best_estimator_", model))])


def selected_parameters(fitted: Pipeline) -> str:
    """Write the selected parameters, such as "C=0.1, gamma=scale"."""
    model = fitted.steps[-1][1]
    params = getattr(model, "best_params_", None) or {}
    return ", ".join(f"{name}={_short(value)}" for name, value in sorted(params.items()))


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def probabilities_of(fitted: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Predict rows; columns are those of all classes, also of those not in the training rows."""
    probabilities = np.zeros((X.shape[0], len(classes)))
    probabilities[:, np.searchsorted(classes, fitted.classes_)] = fitted.predict_proba(X)
    if not np.isfinite(probabilities).all():
        raise ValueError("the model predicts probabilities that are not finite")
    return probabilities


def _fingerprint(folds: Folds) -> str:
    digest = hashlib.sha256()
    for number, repeat in enumerate(folds.repeats):
        for train, test in repeat:
            digest.update(f"{number}".encode())
            digest.update(np.asarray(train, dtype=np.int64).tobytes() + b"|")
            digest.update(np.asarray(test, dtype=np.int64).tobytes() + b"|")
    return digest.hexdigest()[:12]


CURVE_FOLDS = 3
SHARES = (0.125, 0.25, 0.5)  # of the training rows; the scores after fits to all are known
FEWEST_ROWS = 3  # of each class
CORRELATED = 0.8  # absolute rank correlation of columns whose importance is shared
RANKED_ROWS = 5_000  # for rank correlations


def importance(experiment: NestedCrossValidation, store: Store, name: str) -> list[dict[str, Any]]:
    """Return feature, mean, low, high and correlated columns, the most important one first.

    Importance is the increase of the log-loss of held-out rows when a column is permuted.
    """
    keys, model = experiment.keys(), experiment.models.named(name)
    found = [store.array(key, "losses") for key in keys if key.model == model.key]
    losses = [each for each in found if each is not None]
    columns = experiment.permuted_columns
    if not losses or not columns:
        return []
    ranks = experiment.table.X.iloc[:RANKED_ROWS].select_dtypes("number").rank()
    rows = [
        {
            "feature": str(column),
            **_interval(of_column, experiment.folds.test_to_train),
            "correlated": _related(column, ranks[ranks.columns.intersection(columns)]),
        }
        for column, of_column in zip(columns, np.transpose(losses), strict=True)
    ]
    return sorted(rows, key=lambda row: -row["mean"])


def _related(name: str, ranks: pd.DataFrame) -> list[str]:
    """Return numeric columns that have a large rank correlation with a column."""
    if name not in ranks:
        return []
    others = ranks.drop(columns=name)
    return [str(each) for each in others.columns[others.corrwith(ranks[name]).abs() > CORRELATED]]


def _interval(values: Any, test_to_train: float) -> dict[str, float]:
    """Return mean and 95 % interval, corrected for the overlap of training sets."""
    mean = float(np.mean(values))
    scale, df = corrected_scale(values, test_to_train)
    reach = scale * float(stats.t.isf(LEVEL / 2, df)) if df else np.nan
    return {"mean": mean, "low": mean - reach, "high": mean + reach}


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Experiment: fits of one model to parts of the training rows of a few folds.

    Parameters
    ----------
    experiment : NestedCrossValidation
        The comparison.
    name : str
        The model.
    """

    experiment: NestedCrossValidation
    name: str

    def settings(self) -> dict[str, str]:
        """Settings of the comparison."""
        return self.experiment.settings()

    def keys(self) -> list[Key]:
        """List the fits; the number of a repeat is that of a share of the rows."""
        return [self._key(k, fold) for k in range(len(SHARES)) for fold in self._folds]

    def seconds(self, of_fit: float) -> float:
        """Estimate the time of all fits from that of a fit to all training rows."""
        return of_fit * len(self._folds) * sum(SHARES)

    @property
    def _folds(self) -> range:
        return range(min(CURVE_FOLDS, len(self.experiment.folds.repeats[0])))

    def _key(self, number: int, fold: int) -> Key:
        model = self.experiment.models.named(self.name)
        return Key(f"curve of {self.experiment.table.name}", model.key, number, fold)

    @staticmethod
    def has(key: Key, experiment: NestedCrossValidation) -> bool:
        """Return whether a key is one of a learning curve rather than of the comparison."""
        return key.dataset != experiment.table.name

    def run(self, key: Key) -> Outcome:
        """Fit the model to a part of the training rows of a fold."""
        this = self.experiment
        train, test = this.part(0, key.fold)
        train = train[_part(this.y[train], this.facts.take(train).groups, SHARES[key.repeat])]
        if np.bincount(this.y[train], minlength=len(this.classes)).min() < FEWEST_ROWS:
            return Outcome({"n": np.nan})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fits of the comparison have the same ones
            fitted = this.fitted(this.models.named(self.name), train)
            X = take(this.table.X, test)
            weights = None if this.table.weights is None else this.table.weights[test]
            if this.scoring.name not in MEASURED:
                score = this.scoring.of_model(fitted, X, this.y[test], weights)
            else:
                score = Sample(
                    classes=this.classes,
                    y=this.y[test],
                    probabilities=probabilities_of(fitted, X, this.classes),
                    rule=this.scoring.rule,
                    rows=test,
                    weights=weights,
                ).score(this.scoring.name)
        return Outcome({"n": len(train), "score": score})

    def points(self, store: Store, whole: Iterable[float]) -> list[dict[str, float]]:
        """Return n, mean, low and high by the number of training rows.

        `whole` are the scores of the folds after fits to all training rows.
        """
        values = store.results().set_index([*Key._fields, "metric"])["value"]
        found = {
            (share, fold): (values.get((*key, "n"), np.nan), values.get((*key, "score"), np.nan))
            for share in range(len(SHARES))
            for fold in self._folds
            for key in [self._key(share, fold)]
        }
        for fold, score in zip(self._folds, whole, strict=False):
            found[len(SHARES), fold] = len(self.experiment.part(0, fold)[0]), score
        frame = pd.DataFrame.from_dict(found, orient="index", columns=["n", "score"]).dropna()
        return [
            {
                "n": float(part["n"].mean()),
                **_interval(part["score"], self.experiment.folds.test_to_train),
            }
            for _, part in frame.groupby([share for share, _ in frame.index])
            if len(part) >= 2
        ]


def _part(y: NDArray[np.intp], groups: NDArray[np.intp] | None, share: float) -> NDArray[np.intp]:
    """Draw a share of the rows of each class, or of the groups."""
    chance = np.random.default_rng(0)
    if groups is not None:
        names = np.unique(groups)
        drawn = chance.permutation(names)[: max(2, round(share * len(names)))]
        return np.flatnonzero(np.isin(groups, drawn))
    parts = []
    for label in np.unique(y):
        rows = chance.permutation(np.flatnonzero(y == label))
        parts.append(rows[: max(min(FEWEST_ROWS, len(rows)), round(share * len(rows)))])
    return np.sort(np.concatenate(parts))
