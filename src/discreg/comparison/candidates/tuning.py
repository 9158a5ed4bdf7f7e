"""A model with its parameter search, which respects groups and the order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.utils.metaestimators import available_if

from discreg.base.search import ClassifierSearch
from discreg.comparison.protocol.folds import RowFacts, inner_folds
from discreg.linalg.types import ClassWeight

__all__ = ["Shape", "Tuned", "TuningPlan"]

PART = 20_000  # rows on which scikit-learn's models select parameters if there are more


@dataclass(frozen=True)
class Shape:
    """Size of a fit, which the cost of a model depends on."""

    n_rows: int  # training rows of a fold
    n_columns: int  # features after encoding
    n_classes: int
    is_sparse: bool = False
    n_weights: int = 1  # class weights to try

    @property
    def cells(self) -> float:
        """Number of values, in millions."""
        return self.n_rows * self.n_columns / 1e6

    @property
    def solve(self) -> float:
        """Operations of one least squares solution, in 1e9."""
        small, large = sorted((self.n_rows, self.n_columns))
        return small**2 * large / 1e9


@dataclass(frozen=True)
class TuningPlan:
    """How a model selects its parameters."""

    shape: Shape
    scoring: Any  # for searches of discreg: the name of a metric of labels, or a scorer
    scorer: Callable[..., float]  # for searches of scikit-learn
    class_weights: tuple[ClassWeight, ...] = (None,)
    is_default: bool = False  # whether the metric is accuracy and nobody asked for it
    seed: int = 0

    def own(self, model: Any, *, leave_one_out: bool = False) -> Tuned:
        """Tune a search of discreg."""
        model.set_params(scoring=self.scoring)
        return Tuned(
            model,
            class_weights=self.class_weights,
            leave_one_out=leave_one_out,
            random_state=self.seed,
        )

    def grid(
        self, model: BaseEstimator, weights: str | None = "class_weight", **grid: Any
    ) -> Tuned:
        """Tune a model of scikit-learn by a grid; `weights` is its parameter of class weights."""
        if weights == "class_weight":
            grid["class_weight"] = list(self.class_weights)
        elif weights == "priors" and len(self.class_weights) > 1:
            n_classes = self.shape.n_classes
            grid["priors"] = [None, [1 / n_classes] * n_classes]
        search = GridSearchCV(model, grid, scoring=self.scorer)
        return Tuned(search, most_rows=PART, random_state=self.seed)


def _best_has(name: str) -> Any:
    return available_if(lambda self: hasattr(self.best_estimator_, name))


class Tuned(ClassifierMixin, BaseEstimator):
    """A search whose folds keep groups together, or never look ahead in time.

    Parameters
    ----------
    search : GridSearchCV or search of discreg
        Its `cv` is replaced by three folds of the training rows.
    class_weights : sequence, default=(None,)
        Class weights to try with a search of discreg; the best held-out score decides.
    leave_one_out : bool, default=False
        Whether the `cv` of the search is kept, which leaves rows or groups out. With times, folds
        replace it all the same.
    most_rows : int, default=None
        Rows on which parameters are selected; the selected ones are fitted to all rows.
    random_state : int, default=0
        Seed of the folds and of the rows.

    Attributes
    ----------
    best_estimator_ : estimator
        The model with the selected parameters, fitted to all rows.
    best_params_ : dict
        The selected parameters.
    best_score_ : float
        Mean held-out score of the selected parameters.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    """

    def __init__(
        self,
        search: Any,
        *,
        class_weights: Sequence[ClassWeight] = (None,),
        leave_one_out: bool = False,
        most_rows: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.search = search
        self.class_weights = class_weights
        self.leave_one_out = leave_one_out
        self.most_rows = most_rows
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: NDArray[Any],
        sample_weight: NDArray[np.float64] | None = None,
        groups: NDArray[np.intp] | None = None,
        time: NDArray[np.float64] | None = None,
    ) -> Self:
        """Select parameters on held-out rows, and fit the model with them to all rows."""
        facts = RowFacts(np.asarray(y), groups, time)
        rows = self._rows(facts)
        is_part = len(rows) < len(y)
        part = (X[rows], facts.take(rows)) if is_part else (X, facts)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        searches = [
            self._searched(*part, None if weights is None else weights[rows], class_weight)
            for class_weight in self.class_weights
        ]
        best = max(range(len(searches)), key=lambda k: (_finite(searches[k].best_score_), -k))
        search = searches[best]
        self.best_score_, self.best_params_ = search.best_score_, dict(search.best_params_)
        if len(self.class_weights) > 1:
            self.best_params_["class_weight"] = self.class_weights[best]
        self.best_estimator_ = search.best_estimator_
        if is_part:
            given = {} if weights is None else {"sample_weight": weights}
            self.best_estimator_ = clone(search.best_estimator_).fit(X, y, **given)
        self.classes_ = self.best_estimator_.classes_
        return self

    def _searched(
        self,
        X: Any,
        facts: RowFacts,
        weights: NDArray[np.float64] | None,
        class_weight: ClassWeight,
    ) -> Any:
        search = clone(self.search)
        if not self.leave_one_out or facts.time is not None:
            search.set_params(cv=inner_folds(facts, self.random_state))
        given: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if isinstance(search, ClassifierSearch):
            if class_weight is not None:
                search.set_params(class_weight=class_weight)
            if facts.groups is not None:
                given["groups"] = facts.groups
        elif len(grid := ParameterGrid(search.param_grid)) == 1:
            return _Single(clone(search.estimator).set_params(**grid[0]).fit(X, facts.y, **given))
        return search.fit(X, facts.y, **given)

    def _rows(self, facts: RowFacts) -> NDArray[np.intp]:
        """Draw the rows that select parameters: whole groups, or the same share of each class."""
        n_rows = len(facts.y)
        if self.most_rows is None or n_rows <= self.most_rows:
            return np.arange(n_rows)
        chance = np.random.default_rng(self.random_state)
        units = np.arange(n_rows) if facts.groups is None else facts.groups
        share = self.most_rows / n_rows
        chosen: list[NDArray[Any]] = []
        for label in np.unique(facts.y):
            here = np.unique(units[facts.y == label])
            n_drawn = min(len(here), max(10, round(share * len(here))))
            chosen.append(chance.choice(here, n_drawn, replace=False))
        return np.flatnonzero(np.isin(units, np.concatenate(chosen)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels."""
        return np.asarray(self.best_estimator_.predict(X))

    @_best_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Predict class probabilities."""
        return np.asarray(self.best_estimator_.predict_proba(X))

    @_best_has("decision_function")
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Compute decision values."""
        return np.asarray(self.best_estimator_.decision_function(X))


@dataclass(frozen=True)
class _Single:
    """Result of a search with one setting, which needs no held-out scores."""

    best_estimator_: Any
    best_score_: float = float("nan")
    best_params_: dict[str, Any] = field(default_factory=dict)


def _finite(score: float) -> float:
    return -np.inf if np.isnan(score) else score
