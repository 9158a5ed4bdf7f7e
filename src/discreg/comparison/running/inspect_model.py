"""What the recommended model uses and how it gains from rows: importance and learning curve."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.feature_selection import f_classif

from discreg.tables.preprocessor import TablePreprocessor

from .experiment import Key, Outcome
from .nested_cv import NestedCrossValidation, predictions_of, take
from .store import Store

__all__ = ["ModelInspection"]

N_FOLDS = 3  # of the first repeat
N_PERMUTATIONS = 5
MOST_COLUMNS = 100  # columns that are permuted: those that differ most between the classes
SHARES = (0.1, 0.2, 0.4, 0.7)  # of the training rows
FEWEST_ROWS = 3  # of each class
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class ModelInspection:
    """Experiment: fits of one model that show what it uses.

    Importance is the decrease of the score of held-out rows when the cells of a column are
    permuted; the learning curve is the score after fits to a part of the training rows.

    Parameters
    ----------
    experiment : NestedCrossValidation
        The comparison.
    name : str
        The model.
    with_curve : bool
        Whether there are fits for the learning curve.
    """

    experiment: NestedCrossValidation
    name: str
    with_curve: bool = True

    def settings(self) -> dict[str, str]:
        """Settings of the comparison."""
        return self.experiment.settings()

    def keys(self) -> list[Key]:
        """List the fits; the number of a repeat is that of a share of the rows."""
        folds = range(min(N_FOLDS, len(self.experiment.folds.repeats[0])))
        keys = [self._key("importance", 0, fold) for fold in folds]
        if self.with_curve:
            keys += [self._key("curve", k, fold) for k in range(len(SHARES)) for fold in folds]
        return keys

    def seconds(self, of_fit: float) -> float:
        """Estimate the time of all fits from that of a fit to all training rows."""
        return N_FOLDS * of_fit * (1 + sum(SHARES) * self.with_curve)

    def _key(self, what: str, number: int, fold: int) -> Key:
        model = self.experiment.models.named(self.name)
        return Key(f"{what} of {self.experiment.table.name}", model.key, number, fold)

    @staticmethod
    def has(key: Key, experiment: NestedCrossValidation) -> bool:
        """Return whether a key is one of an inspection rather than of the comparison."""
        return key.dataset != experiment.table.name

    def run(self, key: Key) -> Outcome:
        """Fit the model to the training rows of a fold, or to a part of them."""
        train, test = self.experiment.part(0, key.fold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fits of the comparison have the same ones
            if key.dataset.startswith("importance"):
                return self._importance(train, test)
            return self._on_a_part(train, test, SHARES[key.repeat])

    def _on_a_part(self, train: NDArray[np.intp], test: NDArray[np.intp], share: float) -> Outcome:
        this = self.experiment
        part = _part(this.y[train], this.facts.take(train).groups, share)
        sizes = np.bincount(this.y[train[part]], minlength=len(this.classes))
        if sizes.min() < min(FEWEST_ROWS, np.bincount(this.y[train]).min()):
            return Outcome({"n": np.nan})
        fitted = this.fitted(this.models.named(self.name), train[part])
        X = take(this.table.X, test)
        weights = None if this.table.weights is None else this.table.weights[test]
        found = predictions_of(fitted, X, this.classes)
        values = this.scoring.of_fold(fitted, X, this.y[test], found, weights)
        return Outcome({"n": len(part), "score": values[this.scoring.name]})

    def _importance(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> Outcome:
        this = self.experiment
        model = this.models.named(self.name)
        fitted = this.fitted(model, train)
        X, y = take(this.table.X, test), this.table.y[test]
        scorer = this.scoring.scorer
        columns = fitted.steps[0][1]
        if not model.is_whole and isinstance(columns, TablePreprocessor):
            features = columns.transform(X)
            of_features = columns.columns_of_features()
            names = _most_different(
                columns.transform(take(this.table.X, train)), this.y[train], of_features
            )
            drops = _decreases(
                lambda values: scorer(fitted.steps[-1][1], values, y),
                features,
                {name: np.flatnonzero(of_features == name) for name in names},
            )
        elif isinstance(X, pd.DataFrame):
            names = list(X)[:MOST_COLUMNS]
            drops = _decreases_of_frame(lambda frame: scorer(fitted, frame, y), X, names)
        else:
            return Outcome({"n": np.nan})
        return Outcome({}, {"columns": np.array(names, dtype=str), "decreases": drops})

    def importance(self, store: Store) -> pd.DataFrame | None:
        """Return feature, mean, low and high, the most important one first; None without fits."""
        found: dict[str, list[float]] = {}
        n_folds = 0
        for key in self.keys():
            names, drops = store.array(key, "columns"), store.array(key, "decreases")
            if names is not None and drops is not None:
                n_folds += 1
                for name, drop in zip(names.tolist(), drops.tolist(), strict=True):
                    found.setdefault(name, []).append(drop)
        rows = [
            (name, *self._interval(np.array(drops)))
            for name, drops in found.items()
            if len(drops) == n_folds
        ]
        if not rows:
            return None
        frame = pd.DataFrame(rows, columns=["feature", "mean", "low", "high"])
        return frame.sort_values("mean", ascending=False, kind="stable", ignore_index=True)

    def learning_curve(self, store: Store, results: pd.DataFrame) -> pd.DataFrame | None:
        """Return n, mean, low and high by the number of training rows; None without fits."""
        stored = store.results()
        stored = stored[stored["dataset"] == f"curve of {self.experiment.table.name}"]
        stored = stored[stored["model"] == self.experiment.models.named(self.name).key]
        wide = stored.pivot_table(index=["repeat", "fold"], columns="metric", values="value")
        rows = []
        if {"n", "score"} <= {*wide}:
            for _, part in wide.dropna().groupby("repeat"):
                if len(part) >= 2:
                    rows.append((part["n"].mean(), *self._interval(part["score"].to_numpy())))
        whole = results[
            (results["model"] == self.name)
            & (results["metric"] == self.experiment.scoring.name)
            & (results["repeat"] == 0)
            & results["fold"].between(0, N_FOLDS - 1)
        ]["value"].dropna()
        sizes = [len(train) for train, _ in self.experiment.folds.repeats[0][:N_FOLDS]]
        if not rows or len(whole) < 2:
            return None
        rows.append((float(np.mean(sizes)), *self._interval(whole.to_numpy())))
        frame = pd.DataFrame(rows, columns=["n", "mean", "low", "high"])
        return frame.astype({"n": int})

    def _interval(self, values: NDArray[np.float64]) -> tuple[float, float, float]:
        """Return mean and 95 % interval, corrected for the overlap of training sets."""
        n, mean = len(values), float(values.mean())
        if n < 2:
            return mean, np.nan, np.nan
        error = values.std(ddof=1) * np.sqrt(1 / n + self.experiment.folds.test_to_train)
        reach = float(stats.t.isf(LEVEL / 2, n - 1) * error)
        return mean, mean - reach, mean + reach


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


def _most_different(
    features: NDArray[np.float64], y: NDArray[np.intp], columns: NDArray[Any]
) -> list[str]:
    """Return the columns to permute, at most `MOST_COLUMNS`."""
    names = list(dict.fromkeys(columns.tolist()))
    if len(names) <= MOST_COLUMNS:
        return names
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.nan_to_num(f_classif(features, y)[0])
    best = pd.Series(scores).groupby(columns).max().sort_values(ascending=False, kind="stable")
    return [str(name) for name in best.index[:MOST_COLUMNS]]


def _decreases(
    score: Callable[[Any], float], values: Any, places: dict[str, NDArray[np.intp]]
) -> NDArray[np.float64]:
    """Compute the mean decrease of a score when some features are permuted together."""
    chance = np.random.default_rng(0)
    best = score(values)
    drops = []
    for here in places.values():
        changed = values.copy()
        found = []
        for _ in range(N_PERMUTATIONS):
            changed[:, here] = values[chance.permutation(len(values))][:, here]
            found.append(best - score(changed))
        drops.append(np.mean(found))
    return np.array(drops)


def _decreases_of_frame(
    score: Callable[[Any], float], frame: pd.DataFrame, names: list[str]
) -> NDArray[np.float64]:
    """Compute the mean decrease of a score when the cells of a column are permuted."""
    chance = np.random.default_rng(0)
    best = score(frame)
    drops = []
    for name in names:
        found = []
        for _ in range(N_PERMUTATIONS):
            order = chance.permutation(len(frame))
            cells = frame[name].iloc[order].set_axis(frame.index)
            found.append(best - score(frame.assign(**{name: cells})))
        drops.append(np.mean(found))
    return np.array(drops)
