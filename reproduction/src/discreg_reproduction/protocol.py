"""Definition of a study: the data sets, methods, splits and views of a table or figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline

from discreg.base.metrics import counts, label_scores
from discreg.comparison.running.store import Outcome

from .registry import Dataset
from .splits import Splits

__all__ = [
    "LevelLine",
    "Method",
    "ParamGrid",
    "Part",
    "Quick",
    "Study",
    "Sweep",
    "Tuned",
    "at",
    "judged",
    "series",
]


class Part(NamedTuple):
    """Samples of a data set, for training or for testing."""

    X: Any
    y: NDArray[Any]


class Method(Protocol):
    """One of the methods that a paper compares."""

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        """Fit to the training part and score on the test part."""


ParamGrid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Tuned:
    """A classifier with parameters selected by cross-validation on the training part.

    Parameters
    ----------
    estimator : classifier
        Cloned for every fit.
    grid : mapping, or a function from the training samples to one
        Candidate values. For a search such as `LRRRClassifierCV` these are parameters of its
        constructor; for every other classifier they are the grid of `GridSearchCV`. Without a grid
        the classifier is fitted directly.
    n_folds : int
        Number of random stratified folds; fewer if the smallest class has fewer samples.
    """

    estimator: BaseEstimator
    grid: ParamGrid | Callable[[Any], ParamGrid] = field(default_factory=dict)
    n_folds: int = 5

    def grid_of(self, train: Part) -> ParamGrid:
        """Return the candidate values for a training part."""
        return self.grid(train.X) if callable(self.grid) else self.grid

    def folds(self, train: Part, seed: int) -> StratifiedKFold:
        """Create the folds of a training part."""
        smallest = np.unique(train.y, return_counts=True)[1].min()
        n_folds = max(2, min(self.n_folds, int(smallest)))
        return StratifiedKFold(n_folds, shuffle=True, random_state=seed)

    def fitted(self, train: Part, seed: int) -> Any:
        """Fit the classifier with parameters selected on the training part."""
        grid, folds = self.grid_of(train), self.folds(train, seed)
        model = clone(self.estimator)
        for name in {"random_state", "estimator__random_state"} & model.get_params().keys():
            model.set_params(**{name: seed})
        if "cv" in model.get_params():
            return model.set_params(cv=folds, **grid).fit(*train)
        if not grid:
            return model.fit(*train)
        return GridSearchCV(model, dict(grid), cv=folds).fit(*train)

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        began = time.perf_counter()
        model = self.fitted(train, seed)
        seconds = time.perf_counter() - began
        return judged(model, test, fit_seconds=seconds)


@dataclass(frozen=True)
class Sweep:
    """A classifier at each of several values of a parameter, with scores named by `at`."""

    estimator: BaseEstimator
    parameter: str
    values: Sequence[Any]
    grid: ParamGrid = field(default_factory=dict)
    n_folds: int = 5

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        scores: dict[str, float] = {}
        for value in self.values:
            model = clone(self.estimator).set_params(**{self.parameter: value})
            outcome = Tuned(model, self.grid, self.n_folds).run(train, test, seed)
            scores |= at(self.parameter, value, outcome.values)
        return Outcome(scores)


@dataclass(frozen=True)
class LevelLine:
    """The accuracy of a method without the parameter, repeated for each of its values.

    `values` may be a function of the training part.
    """

    method: Method
    parameter: str
    values: Sequence[Any] | Callable[[Part], Sequence[Any]]

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        values = self.values(train) if callable(self.values) else self.values
        accuracy = self.method.run(train, test, seed).values["accuracy"]
        return series("accuracy", self.parameter, dict.fromkeys(values, accuracy))


def at(parameter: str, value: Any, scores: Mapping[str, float]) -> dict[str, float]:
    """Name scores after the value of a parameter: ``accuracy[rank=5]``."""
    text = value if isinstance(value, str) else f"{value:g}"
    return {f"{metric}[{parameter}={text}]": score for metric, score in scores.items()}


def series(metric: str, parameter: str, scores: Mapping[Any, float]) -> Outcome:
    """Create the outcome of one metric at several values of a parameter."""
    values: dict[str, float] = {}
    for value, score in scores.items():
        values |= at(parameter, value, {metric: float(score)})
    return Outcome(values)


def judged(model: Any, test: Part, **more: float) -> Outcome:
    """Score a fitted classifier on test samples; `more` values are added to the outcome."""
    classes = np.union1d(model.classes_, test.y)
    confusion = counts(test.y, model.predict(test.X), classes)
    return Outcome({**label_scores(confusion), **more}, {"confusion": confusion})


@dataclass(frozen=True)
class Quick:
    """The part of a study that a quick run uses: some of the data sets, and fewer repeats."""

    n_repeats: int = 1
    n_folds: int | None = None
    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Study:
    """One table or figure of a paper.

    Parameters
    ----------
    name : str
        Paper and table: ``"drm/table7"``.
    title : str
        Title in one line.
    datasets : mapping of str to str or Dataset
        Names in the paper to names in the registry, or to the data if the paper prints them.
    methods : mapping of str to Method
        Names in the paper to methods.
    splits : Splits
        Training and test splits of a data set.
    prepare : function of a Dataset, optional
        Preprocessing of a whole data set: scaling, drawing samples.
    scaler : transformer, optional
        Preprocessing fitted to the training part.
    metric : str
        The metric that the paper reports.
    views : tuple of str
        Views of the results: see ``discreg_reproduction.views``.
    variants : mapping of str to str
        Methods that the paper does not have, by another protocol, to those that they vary. They are
        shown beside the reported values of these and are not counted as compared values.
    tested_against : str, optional
        The method that the paper compares with all others by paired t-tests.
    choices : tuple of str
        Details that the paper does not state, and our choices.
    quick : Quick
        The part of the study that a quick run uses.
    shares : str, optional
        The study whose fits this study uses.
    """

    name: str
    title: str
    datasets: Mapping[str, str | Dataset]
    methods: Mapping[str, Method]
    splits: Splits
    prepare: Callable[[Dataset], Dataset] | None = None
    scaler: BaseEstimator | Pipeline | None = None
    metric: str = "accuracy"
    views: tuple[str, ...] = ("table",)
    variants: Mapping[str, str] = field(default_factory=dict)
    tested_against: str | None = None
    choices: tuple[str, ...] = ()
    quick: Quick = field(default_factory=Quick)
    shares: str | None = None

    @property
    def cells(self) -> list[tuple[str, str]]:
        """All pairs of a data set and a method."""
        return [(dataset, method) for dataset in self.datasets for method in self.methods]

    def parts(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Part, Part]:
        """Split a prepared data set into training and test part, and scale as in the paper."""
        train, test = self.splits.rows(dataset, repeat, fold)
        X_train, X_test = dataset.X[train], dataset.X[test]
        if self.scaler is not None:
            scaler = clone(self.scaler).fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        return Part(X_train, dataset.y[train]), Part(X_test, dataset.y[test])
