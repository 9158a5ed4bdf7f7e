"""A model with its parameter search, which respects groups and the order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.utils.metaestimators import available_if

from discreg.base.search import ClassifierSearch
from discreg.comparison.running.folds import RowFacts, inner_folds

PART = 20_000  # rows on which scikit-learn's models select parameters if there are more
NEIGHBORS = (3, 9, 15, 30, 60)


@dataclass(frozen=True)
class TuningPlan:
    """How a model selects its parameters on some training rows."""

    n_rows: int
    n_classes: int
    scoring: Any  # for searches of discreg: the name of a metric of labels, or a scorer
    scorer: Callable[..., float]  # for searches of scikit-learn
    seed: int = 0

    @property
    def neighbors(self) -> list[int]:
        """Numbers of neighbours that the folds of a search have."""
        return [k for k in NEIGHBORS if k <= self.n_rows // 3] or [1]

    def own(self, model: Any, *, leave_one_out: bool = False) -> Tuned:
        """Tune a search of discreg."""
        model.set_params(scoring=self.scoring)
        return Tuned(model, leave_one_out=leave_one_out, random_state=self.seed)

    def grid(self, model: BaseEstimator, **grid: Any) -> Tuned:
        """Tune a model of another package by a grid."""
        search = GridSearchCV(model, grid, scoring=self.scorer)
        return Tuned(search, most_rows=PART, random_state=self.seed)


def _decision_loss(
    y: NDArray[Any], scores: NDArray[Any], sample_weight: NDArray[Any] | None = None
) -> float:
    """Compute the log-loss of decision values after calibration on the same rows."""
    columns = scores.reshape(len(y), -1) / max(float(np.std(scores)), np.finfo(float).tiny)
    fitted = LogisticRegression().fit(columns, y, sample_weight)
    shares = fitted.predict_proba(columns)
    return float(log_loss(y, shares, labels=fitted.classes_, sample_weight=sample_weight))


DECISION_LOSS = make_scorer(
    _decision_loss, response_method="decision_function", greater_is_better=False
)


class _Delegating(ClassifierMixin, BaseEstimator):
    """A classifier that delegates predictions to `best_estimator_`."""

    best_estimator_: Any

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels."""
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(lambda self: hasattr(self.best_estimator_, "predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Predict class probabilities."""
        return np.asarray(self.best_estimator_.predict_proba(X))

    @available_if(lambda self: hasattr(self.best_estimator_, "decision_function"))
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Compute decision values."""
        return np.asarray(self.best_estimator_.decision_function(X))


class Calibrated(_Delegating):
    """A classifier without probabilities, calibrated on held-out decision values.

    Parameters
    ----------
    estimator : classifier
        It has `decision_function` and no `predict_proba`.
    random_state : int, default=0
        Seed of the folds, which keep groups together and never look ahead in time.
    """

    def __init__(self, estimator: Any, *, random_state: int = 0) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: NDArray[Any],
        sample_weight: NDArray[np.float64] | None = None,
        groups: NDArray[np.intp] | None = None,
        time: NDArray[np.float64] | None = None,
    ) -> Self:
        """Calibrate the decision values of held-out rows, and fit to all rows."""
        facts = RowFacts(np.asarray(y), groups, time)
        folds = inner_folds(facts, self.random_state)
        # Folds in the order of time do not hold all rows out; each of them is then calibrated.
        model = CalibratedClassifierCV(
            clone(self.estimator), cv=folds, ensemble=facts.time is not None
        )
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.best_estimator_ = model.fit(X, y, **given)
        self.classes_ = model.classes_
        return self


class Tuned(_Delegating):
    """A search whose folds keep groups together, or never look ahead in time.

    A model without probabilities is calibrated afterwards.

    Parameters
    ----------
    search : GridSearchCV or search of discreg
        Its `cv` is replaced by three folds of the training rows.
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
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    """

    def __init__(
        self,
        search: Any,
        *,
        leave_one_out: bool = False,
        most_rows: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.search = search
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
        weights = None if sample_weight is None else np.asarray(sample_weight)
        search = clone(self.search)
        if isinstance(search, ClassifierSearch):
            self._fit_own(search, X, facts, weights)
        else:
            self._fit_grid(search, X, facts, weights)
        self.classes_ = self.best_estimator_.classes_
        return self

    def _fit_own(self, search: Any, X: Any, facts: RowFacts, weights: Any) -> None:
        if not self.leave_one_out or facts.time is not None:
            search.set_params(cv=inner_folds(facts, self.random_state))
        given = {} if weights is None else {"sample_weight": weights}
        if facts.groups is not None:
            given["groups"] = facts.groups
        search.fit(X, facts.y, **given)
        self.best_params_ = dict(search.best_params_)
        self.best_estimator_ = search.best_estimator_

    def _fit_grid(self, search: Any, X: Any, facts: RowFacts, weights: Any) -> None:
        rows, model = self._rows(facts), clone(search.estimator)
        needs_calibration = not hasattr(model, "predict_proba")
        grid = ParameterGrid(search.param_grid)
        self.best_params_ = dict(grid[0])
        if len(grid) > 1:
            part = X if len(rows) == len(facts.y) else X[rows]
            given = {} if weights is None else {"sample_weight": weights[rows]}
            search.set_params(cv=inner_folds(facts.take(rows), self.random_state), refit=False)
            if needs_calibration:
                search.set_params(scoring=DECISION_LOSS)
            self.best_params_ = dict(search.fit(part, facts.y[rows], **given).best_params_)
        model.set_params(**self.best_params_)
        given = {} if weights is None else {"sample_weight": weights}
        if needs_calibration:
            model = Calibrated(model, random_state=self.random_state)
            model.fit(X, facts.y, groups=facts.groups, time=facts.time, **given)
            model = model.best_estimator_
        else:
            model.fit(X, facts.y, **given)
        self.best_estimator_ = model

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
