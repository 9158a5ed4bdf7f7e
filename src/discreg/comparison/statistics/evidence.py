"""What the fits of a comparison leave: held-out probabilities of every model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreg.base.metrics import metric
from discreg.comparison.candidates.models import ComparedModel
from discreg.comparison.candidates.registry import MAJORITY
from discreg.comparison.running.nested_cv import NestedCrossValidation
from discreg.comparison.running.store import Key, Store
from discreg.comparison.words import duration
from discreg.tables.classifier import Rule

from .sample import Sample


@dataclass(frozen=True, kw_only=True)
class Contender:
    """What is known of a model besides its predictions.

    Attributes
    ----------
    origin : str
        "discreg", "scikit-learn", another package, or "own".
    keeps_rows : bool
        Whether a fitted model may contain training rows.
    params : sequence of str
        Selected parameters of each fit.
    seconds : tuple of two floats
        Median times of fitting and of predicting a fold; NaN if no fit ended.
    failure : str
        The first error of its fits; empty if there is none.
    n_failures : int
        Number of fits that failed.
    warnings : dict
        Warnings of its fits, and the number of fits with each.
    fold_scores : sequence of float
        Scores of the folds if the metric is not computed from probabilities; NaN if undefined.
    """

    origin: str = "scikit-learn"
    keeps_rows: bool = False
    params: Sequence[str] = ()
    seconds: tuple[float, float] = (float("nan"), float("nan"))
    failure: str = ""
    n_failures: int = 0
    warnings: Mapping[str, int] = field(default_factory=dict)
    fold_scores: Sequence[float] = ()

    @property
    def usual_params(self) -> str:
        """The parameters that were selected most often; ties go to the first fold."""
        return Counter(self.params).most_common(1)[0][0] if self.params else ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Results of the fits of a comparison on one table.

    Attributes
    ----------
    metric : str
        Name of the metric that decides.
    classes : ndarray of shape (n_classes,)
        Class labels.
    y : ndarray of shape (n_samples,)
        Class indices of all rows.
    rows, folds : ndarray of shape (n_predictions,)
        Row and fold of each held-out prediction. Rows occur several times if folds are repeated.
    held_out : dict
        By model, held-out probabilities of shape (n_predictions, n_classes); NaN where a fit is
        missing.
    contenders : dict
        All models that were planned, by name; "majority" always predicts the class frequencies.
    left_out : dict
        Models that were not run, and the reasons.
    test_to_train : float
        Ratio of the sizes of a test set and its training set.
    rule : Rule
        How labels follow from probabilities.
    weights, groups : ndarray of shape (n_samples,) or None
        Sample weights, and the group of each row if rows of a group are held out together.
    """

    metric: str
    classes: NDArray[np.generic]
    y: NDArray[np.intp]
    rows: NDArray[np.intp]
    folds: NDArray[np.intp]
    held_out: Mapping[str, NDArray[np.float64]]
    contenders: Mapping[str, Contender]
    left_out: Mapping[str, str] = field(default_factory=dict)
    test_to_train: float = 0.25
    rule: Rule = field(default_factory=Rule)
    weights: NDArray[np.float64] | None = None
    groups: NDArray[np.intp] | None = None

    @property
    def n_folds(self) -> int:
        """Number of planned folds of all repeats."""
        return int(self.folds.max()) + 1

    @cached_property
    def finished(self) -> Mapping[str, NDArray[np.bool_]]:
        """By model, whether each fold has predictions."""
        first = np.searchsorted(self.folds, np.arange(self.n_folds))
        return {name: ~np.isnan(found[first, 0]) for name, found in self.held_out.items()}

    @cached_property
    def common_folds(self) -> NDArray[np.intp]:
        """The finished folds that maximise (number of folds) x (models that have all of them)."""
        names = [
            name
            for name, each in self.contenders.items()
            if not each.n_failures and name != MAJORITY and self.finished[name].any()
        ]
        done = np.array([self.finished[name] for name in names or list(self.finished)])
        order = np.argsort(-done.sum(axis=0), kind="stable")
        together = np.minimum.accumulate(done[:, order], axis=1).sum(axis=0)
        kept = together * np.arange(1, len(order) + 1)
        if not kept.any():
            return order[:0]
        return np.sort(order[: len(order) - int(np.argmax(kept[::-1]))])  # ties: the most folds

    @cached_property
    def judged(self) -> list[str]:
        """Models that have all common folds, the majority class included."""
        if not len(self.common_folds):
            return []
        folds = self.common_folds
        return [
            name
            for name, each in self.contenders.items()
            if self.finished[name][folds].all()
            and (not len(each.fold_scores) or not np.isnan(np.array(each.fold_scores)[folds]).any())
        ]

    @cached_property
    def not_judged(self) -> dict[str, str]:
        """Models that are not compared, and the reasons."""
        reasons = {
            name: self._reason(name)
            for name in self.contenders
            if name not in self.judged and name != MAJORITY
        }
        return reasons | dict(self.left_out)

    def sample(self, model: str) -> Sample:
        """Return the held-out predictions of a model on the common folds.

        Labels follow the decision rule, but those of the class frequencies are the majority class.
        """
        kept = np.isin(self.folds, self.common_folds)
        if model not in self.judged:
            kept = ~np.isnan(self.held_out[model][:, 0])
        rows = self.rows[kept]
        return Sample(
            classes=self.classes,
            y=self.y[rows],
            probabilities=self.held_out[model][kept],
            rows=rows,
            folds=self.folds[kept],
            rule=Rule(positive=self.rule.positive) if model == MAJORITY else self.rule,
            test_to_train=self.test_to_train,
            weights=None if self.weights is None else self.weights[rows],
            groups=None if self.groups is None else self.groups[rows],
        )

    def scores_of_folds(self, model: str) -> list[float]:
        """Return the score of each fold of a judged model by the metric that decides."""
        given = self.contenders[model].fold_scores
        if len(given):
            return list(given)
        sample = self.sample(model)
        scorer = sample.scorer(self.metric)
        assert scorer is not None
        return list(scorer(sample.fold_weights))

    def _reason(self, name: str) -> str:
        n_done, planned = int(self.finished[name].sum()), self.n_folds
        each = self.contenders[name]
        if n_done == planned:
            return f"{metric(self.metric).title} is undefined in some folds"
        why = f"finished {n_done} of {planned} folds"
        if n_done and not each.failure:
            why += f"; one fit takes {duration(each.seconds[0])}"
        return f"{why}: {each.failure}" if each.failure else why


def collect(experiment: NestedCrossValidation, store: Store) -> Evidence:
    """Gather the held-out predictions of the models of an experiment."""
    table, parts = experiment.table, experiment.folds.parts()
    keys = [
        (repeat, fold)
        for repeat, folds in enumerate(experiment.folds.repeats)
        for fold in range(len(folds))
    ]
    sizes = [len(test) for _, test in parts]
    starts = np.cumsum([0, *sizes])
    held_out, contenders = {}, {}
    values = store.results().set_index([*Key._fields, "metric"])["value"].to_dict()
    failures, warnings = store.failures(), store.warnings()
    for model in experiment.models.compared:
        found = np.full((starts[-1], len(experiment.classes)), np.nan)
        of_model = [Key(table.name, model.key, *each) for each in keys]
        for number, key in enumerate(of_model):
            predicted = store.array(key, "probabilities")
            if predicted is not None:
                found[starts[number] : starts[number + 1]] = predicted
        held_out[model.name] = found
        contender = _contender(experiment, store, model, of_model, values)
        errors = [failures[key].strip() for key in of_model if key in failures]
        contenders[model.name] = replace(
            contender,
            failure=errors[0] if errors else "",
            n_failures=len(errors),
            warnings=dict(Counter(text for key in of_model for text in warnings.get(key, ()))),
        )
    return Evidence(
        metric=experiment.scoring.name,
        classes=experiment.classes,
        y=experiment.y,
        rows=np.concatenate([test for _, test in parts]),
        folds=np.repeat(np.arange(len(parts)), sizes),
        held_out=held_out,
        contenders=contenders,
        left_out=dict(experiment.models.left_out),
        test_to_train=experiment.folds.test_to_train,
        rule=experiment.scoring.rule,
        weights=table.weights,
        groups=table.groups,
    )


def _contender(
    experiment: NestedCrossValidation,
    store: Store,
    model: ComparedModel,
    keys: list[Key],
    values: dict[tuple[object, ...], float],
) -> Contender:
    params = [store.array(key, "params") for key in keys]
    times = [
        [values.get((*key, f"{name}_seconds"), np.nan) for key in keys]
        for name in ("fit", "predict")
    ]
    name = experiment.scoring.name
    scores = [values.get((*key, name), np.nan) for key in keys]
    fit, predict = (float(np.nanmedian(t)) if not np.isnan(t).all() else np.nan for t in times)
    return Contender(
        origin=model.origin,
        keeps_rows=model.keeps_rows,
        params=[str(each) for each in params if each is not None],
        seconds=(fit, predict),
        fold_scores=scores if not np.isnan(scores).all() else (),
    )
