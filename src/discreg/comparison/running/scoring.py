"""The metric that tunes and ranks models, and the default decision rule."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, get_scorer_names, log_loss, make_scorer

from discreg.base.errors import InputError
from discreg.base.metrics import METRICS
from discreg.base.search import scorer_of
from discreg.tables.classifier import Rule
from discreg.tables.frames import nearest

RARE_SHARE, RARE_ROWS = 0.2, 30  # a class below one of them is rare
# Metrics of the registry under the names that scikit-learn gives to their scorers.
SCORERS = {
    "f1_macro": "macro_f1",
    "neg_log_loss": "log_loss",
    "neg_brier_score": "brier",
    "roc_auc_ovr": "roc_auc",
}
# Metrics that are computed from held-out probabilities; others are called with the fitted model.
MEASURED = (
    *("log_loss", "brier", "roc_auc", "average_precision"),
    *("accuracy", "balanced_accuracy", "g_mean", "macro_f1"),
)
BALANCED = ("balanced_accuracy", "g_mean")


@dataclass(frozen=True, eq=False)
class Scoring:
    """The metric of a comparison.

    Parameters
    ----------
    given : str, callable or None
        Name of a metric or of a scorer of scikit-learn, or a scorer. None means log-loss.
    classes, counts : ndarray of shape (n_classes,)
        Class labels, and the number of rows of each.
    pos_label : label, optional
        With two classes, the positive one; the rarer class by default.
    """

    given: str | Callable[..., float] | None
    classes: NDArray[Any]
    counts: NDArray[Any]
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
            return "log_loss"
        if isinstance(self.given, str):
            return SCORERS.get(self.given, self.given)
        name = getattr(self.given, "__name__", None) or str(self.given)
        return f"{name} (own)" if name in METRICS else name

    @property
    def rule(self) -> Rule:
        """The default decision rule.

        The most probable class; if one of two classes is rare, or if the metric weighs classes
        equally, the threshold of the prior.
        """
        shares = self.counts / self.counts.sum()
        is_rare = shares.min() < RARE_SHARE or self.counts.min() < RARE_ROWS
        if self.name in BALANCED or (is_rare and len(shares) == 2 and self.name != "accuracy"):
            weights = tuple(float(each) for each in (1 / shares) / (1 / shares).sum())
            name = "the threshold of the prior" if len(shares) == 2 else "probability over prior"
            return Rule(name, weights, self.positive)
        return Rule(positive=self.positive)

    @cached_property
    def scorer(self) -> Any:
        """Scorer for searches; greater is better."""
        if callable(self.given):
            return self.given
        known = METRICS.get(self.name)
        if known is not None and known.score is not None:
            return make_scorer(known.of_labels, labels=self.classes)
        return self._with_classes(get_scorer(self._scorer_name()))

    @property
    def for_search(self) -> str | Callable[..., float]:
        """The `scoring` of searches of discreg, which have names for metrics of labels."""
        known = METRICS.get(self.name)
        return self.name if known is not None and known.score is not None else self.scorer

    def check(self) -> None:
        """Raise an error if the metric is not known or not defined for these classes."""
        if len(self.classes) > 2 and self.name == "average_precision":
            raise InputError("average_precision needs a target of two classes.")
        if not (self.given is None or isinstance(self.given, str) or callable(self.given)):
            raise InputError(f"scoring is the name of a metric or a scorer, not {self.given!r}.")
        scorer = self.scorer
        if inspect.isfunction(self.given) and "y_true" in inspect.signature(self.given).parameters:
            raise InputError(
                f"scoring is {self.name}, a function of labels and not a scorer. Give "
                f"make_scorer({self.name}) of sklearn.metrics."
            )
        if not callable(self.given):
            if scorer._score_func.__module__ == "sklearn.metrics._regression":
                raise InputError(f"scoring '{self.given}' cannot be used: it is of regression.")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    X = np.eye(len(self.classes))
                    scorer(LogisticRegression().fit(X, self.classes), X, self.classes)
                except Exception as error:
                    raise InputError(f"scoring '{self.given}' cannot be used: {error}") from error

    def of_model(
        self, model: Any, X: Any, y: NDArray[np.intp], weights: NDArray[np.float64] | None
    ) -> float:
        """Call the scorer with a fitted model; NaN if it is undefined for these rows."""
        labels = self.classes[y]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if weights is not None:
                    try:
                        return float(self.scorer(model, X, labels, sample_weight=weights))
                    except TypeError:  # the scorer takes no weights
                        pass
                return float(self.scorer(model, X, labels))
            except ValueError:
                return float("nan")

    def _scorer_name(self) -> str:
        by_metric = {ours: name for name, ours in SCORERS.items()}
        name = by_metric.get(self.name, self.name)
        if name == "roc_auc_ovr" and len(self.classes) == 2:
            name = "roc_auc"
        if name not in get_scorer_names():
            usable = [each for each, of in METRICS.items() if of.needs not in ("clock", "fit")]
            hint = nearest(name, [*usable, *get_scorer_names()])
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
