"""The metric that decides a comparison, and the scores of held-out predictions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    get_scorer,
    get_scorer_names,
    log_loss,
    make_scorer,
    recall_score,
    roc_auc_score,
)
from sklearn.utils.metaestimators import available_if

from discreg.base.early_checks import is_of_single_samples, scorer_of
from discreg.base.errors import InputError
from discreg.base.metrics import METRICS
from discreg.tables.formats import nearest

__all__ = ["Predictions", "Scoring", "is_imbalanced", "ranking_columns", "row_losses"]

RARE_SHARE, RARE_ROWS = 0.2, 30  # a class below one of them makes a table imbalanced
# Metrics of the registry under the names that scikit-learn gives to their scorers.
SCORERS = {
    "f1_macro": "macro_f1",
    "neg_log_loss": "log_loss",
    "neg_brier_score": "brier",
    "roc_auc_ovr": "roc_auc",
}
OF_ALL_CLASSES = ("balanced_accuracy", "g_mean", "macro_f1")


def is_imbalanced(counts: NDArray[Any]) -> bool:
    """Return whether the rarest class is so rare that accuracy says little about it."""
    return bool(counts.min() < RARE_SHARE * counts.sum() or counts.min() < RARE_ROWS)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of some rows; columns are in the order of all classes of the table."""

    labels: NDArray[np.intp]  # class indices
    probabilities: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None  # one column per class; for two classes one dimension

    @property
    def ranking(self) -> NDArray[Any] | None:
        """Return one column per class whose order ranks rows; None if the model has no scores."""
        return ranking_columns(self.probabilities, self.scores)


def ranking_columns(
    probabilities: NDArray[Any] | None, scores: NDArray[Any] | None
) -> NDArray[Any] | None:
    """Return one column per class whose order ranks rows; None if there is neither.

    With several classes, decision values of different rows need not be comparable.
    """
    if scores is None or (scores.ndim == 2 and probabilities is not None):
        return probabilities
    return scores if scores.ndim == 2 else np.column_stack([-scores, scores])


@dataclass(frozen=True, eq=False)
class Scoring:
    """What a comparison measures.

    Parameters
    ----------
    given : str, callable or None
        Name of a metric or of a scorer of scikit-learn, or a scorer. None means accuracy, or
        balanced accuracy if the table is imbalanced.
    classes, counts : ndarray of shape (n_classes,)
        Class labels, and the number of rows of each.
    pos_label : label, optional
        With two classes, the one that precision, recall and their like refer to; the rarer class
        by default.
    """

    given: str | Callable[..., float] | None
    classes: NDArray[Any]
    counts: NDArray[np.intp]
    pos_label: Any = None

    @property
    def rarest(self) -> int:
        """Index of the rarest class; the last one if there are several."""
        return len(self.counts) - 1 - int(np.argmin(self.counts[::-1]))

    @cached_property
    def positive(self) -> int | None:
        """Index of the positive class; None if there are more than two classes."""
        if self.pos_label is None:
            return self.rarest if len(self.classes) == 2 else None
        if len(self.classes) != 2:
            raise InputError("pos_label needs a target of two classes.")
        places = np.flatnonzero(self.classes.astype(str) == str(self.pos_label))
        if not len(places):
            labels = ", ".join(f"'{label}'" for label in self.classes)
            raise InputError(f"pos_label '{self.pos_label}' is no class; they are {labels}.")
        return int(places[0])

    @property
    def name(self) -> str:
        """Name of the metric in results."""
        if self.given is None:
            return "balanced_accuracy" if is_imbalanced(self.counts) else "accuracy"
        if isinstance(self.given, str):
            return SCORERS.get(self.given, self.given)
        name = getattr(self.given, "__name__", None) or str(self.given)
        return f"{name} (own)" if name in METRICS else name

    @cached_property
    def scorer(self) -> Any:
        """Scorer for searches of scikit-learn; greater is better."""
        if callable(self.given):
            return self.given
        metric = METRICS.get(self.name)
        if metric is not None and metric.score is not None:
            return make_scorer(metric.of_labels, labels=self.classes)
        if self.name == "rare_recall":
            rarest = self.classes[self.rarest]
            return make_scorer(recall_score, labels=[rarest], average="macro", zero_division=0)
        return self._with_classes(get_scorer(self._scorer_name()))

    @property
    def for_search(self) -> str | Callable[..., float]:
        """The `scoring` of searches of discreg, which have names for metrics of labels."""
        metric = METRICS.get(self.name)
        return self.name if metric is not None and metric.score is not None else self.scorer

    @property
    def needs_probabilities(self) -> bool:
        """Whether models without probabilities cannot be scored."""
        return getattr(self.scorer, "_response_method", "predict") == "predict_proba"

    def check(self) -> None:
        """Raise an error if the metric is not known or not defined for these classes."""
        if len(self.classes) > 2 and self.name == "average_precision":
            raise InputError("average_precision needs a target of two classes.")
        if not (self.given is None or isinstance(self.given, str) or callable(self.given)):
            raise InputError(f"scoring is the name of a metric or a scorer, not {self.given!r}.")
        scorer = self.scorer
        if _is_metric(self.given):
            raise InputError(
                f"scoring is {self.name}, a function of labels and not a scorer. Give "
                f"make_scorer({self.name}) of sklearn.metrics."
            )
        if not callable(self.given):
            if scorer._score_func.__module__ == "sklearn.metrics._regression":
                raise InputError(f"scoring '{self.given}' cannot be used: it is of regression.")
            perfect = _Predicted(self.classes, _perfect(len(self.classes)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    scorer(perfect, np.arange(len(self.classes)), self.classes)
                except Exception as error:
                    raise InputError(f"scoring '{self.given}' cannot be used: {error}") from error

    def of_fold(
        self,
        model: Any,
        X: Any,
        y: NDArray[np.intp],
        found: Predictions,
        weights: NDArray[np.float64] | None,
    ) -> dict[str, float]:
        """Compute all metrics of the test rows of a fold; NaN where one is undefined."""
        values = self._standard(y, found, weights)
        if self.name not in values and METRICS.get(self.name) is None:
            values[self.name] = np.nan
            if len(np.unique(y)) == len(self.classes):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    values[self.name] = _call(self.scorer, model, X, self.classes[y], weights)
        return values

    def of_repeat(
        self, y: NDArray[np.intp], found: Predictions, weights: NDArray[np.float64] | None
    ) -> dict[str, float]:
        """Compute the metrics of labels from all held-out rows of a repeat.

        Scores of different fits are not on one scale, so that ranks of rows of different folds are
        not compared: AUC and average precision are left out.
        """
        standard = self._standard(y, found, weights)
        values = {name: standard[name] for name in (*OF_ALL_CLASSES, "rare_recall")}
        if METRICS.get(self.name) is None and is_of_single_samples(self.scorer):
            predicted = _Predicted(self.classes, found)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values[self.name] = _call(
                    self.scorer, predicted, np.arange(len(y)), self.classes[y], weights
                )
        return values

    def _standard(
        self, y: NDArray[np.intp], found: Predictions, weights: NDArray[np.float64] | None
    ) -> dict[str, float]:
        n_classes = len(self.classes)
        confusion = confusion_matrix(
            y, found.labels, labels=np.arange(n_classes), sample_weight=weights
        )
        actual = confusion.sum(axis=1)
        is_complete = bool((actual > 0).all())
        values = {
            name: float(each.score(confusion)) if is_complete or name == "accuracy" else np.nan
            for name, each in METRICS.items()
            if each.score
        }
        own = actual[self.rarest]
        values["rare_recall"] = confusion[self.rarest, self.rarest] / own if own > 0 else np.nan
        if (ranking := found.ranking) is not None:
            values |= self._of_ranking(y, ranking, weights, is_complete=is_complete)
        if found.probabilities is not None:
            losses = row_losses(y, found.probabilities)
            values |= {name: np.average(each, weights=weights) for name, each in losses.items()}
        return {name: float(value) for name, value in values.items()}

    def _of_ranking(
        self,
        y: NDArray[np.intp],
        ranking: NDArray[Any],
        weights: NDArray[np.float64] | None,
        *,
        is_complete: bool,
    ) -> dict[str, float]:
        """Compute AUC (macro one-vs-rest for several classes) and average precision."""
        names = ["roc_auc"] if self.positive is None else ["roc_auc", "average_precision"]
        if not is_complete or not np.isfinite(ranking).all():
            return dict.fromkeys(names, np.nan)
        if self.positive is None:
            each = [
                roc_auc_score(y == k, ranking[:, k], sample_weight=weights)
                for k in range(ranking.shape[1])
            ]
            return {"roc_auc": float(np.mean(each))}
        truth, column = y == self.positive, ranking[:, self.positive]
        return {
            "roc_auc": roc_auc_score(truth, column, sample_weight=weights),
            "average_precision": average_precision_score(truth, column, sample_weight=weights),
        }

    def _scorer_name(self) -> str:
        by_metric = {metric: name for name, metric in SCORERS.items()}
        name = by_metric.get(self.name, self.name)
        if name == "roc_auc_ovr" and len(self.classes) == 2:
            name = "roc_auc"
        if name not in get_scorer_names():
            usable = [each for each, of in METRICS.items() if of.needs not in ("clock", "fit")]
            known = [*usable, *get_scorer_names()]
            hint = nearest(name, known)
            meant = f" Did you mean {hint}?" if hint else ""
            raise InputError(
                f"There is no metric '{self.given}'.{meant} scoring is a scorer of scikit-learn, "
                "such as balanced_accuracy, f1, roc_auc or neg_log_loss, or g_mean."
            )
        return name

    def _with_classes(self, scorer: Any) -> Any:
        """Give a scorer of scikit-learn the positive class, or all classes."""
        options = dict(scorer._kwargs)
        accepted = inspect.signature(scorer._score_func).parameters
        if self.positive is not None and "pos_label" in accepted:
            options.setdefault("pos_label", self.classes[self.positive])
        if "labels" in accepted and scorer._score_func is log_loss:
            options.setdefault("labels", self.classes)
        if options == scorer._kwargs:
            return scorer_of(scorer, None, self.classes)
        return make_scorer(
            scorer._score_func,
            response_method=scorer._response_method,
            greater_is_better=scorer._sign > 0,
            **options,
        )


def row_losses(y: NDArray[np.intp], probabilities: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Compute the log-loss and the Brier score of each row; with two classes, that of one class."""
    shares = np.asarray(probabilities, dtype=np.float64)
    n_classes = shares.shape[1]
    squares = ((shares - np.eye(n_classes)[y]) ** 2).sum(axis=1) / (2 if n_classes == 2 else 1)
    own = np.clip(shares[np.arange(len(y)), y], np.finfo(np.float32).eps, 1)
    return {"log_loss": -np.log(own), "brier": squares}


def _call(scorer: Callable[..., float], model: Any, X: Any, y: NDArray[Any], weights: Any) -> float:
    """Call a scorer, with weights if it accepts them; NaN if it raises ValueError."""
    try:
        if weights is not None:
            try:
                return float(scorer(model, X, y, sample_weight=weights))
            except TypeError:  # the scorer takes no weights
                pass
        return float(scorer(model, X, y))
    except ValueError:
        return float("nan")


def _is_metric(given: Any) -> bool:
    """Return whether this is a function of true and predicted labels."""
    return inspect.isfunction(given) and "y_true" in inspect.signature(given).parameters


def _perfect(n_classes: int) -> Predictions:
    truth = np.eye(n_classes)
    scores = truth[:, 1] - truth[:, 0] if n_classes == 2 else truth
    return Predictions(np.arange(n_classes), truth, scores)


class _Predicted(ClassifierMixin, BaseEstimator):
    """A classifier that repeats predictions; X holds the positions of the rows."""

    def __init__(self, classes: NDArray[Any], found: Predictions) -> None:
        self.classes = classes
        self.found = found

    @property
    def classes_(self) -> NDArray[Any]:
        return self.classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self.classes[self.found.labels[X]])

    @available_if(lambda self: self.found.probabilities is not None)
    def predict_proba(self, X: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self.found.probabilities)[X]

    @available_if(lambda self: self.found.scores is not None)
    def decision_function(self, X: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self.found.scores)[X]
