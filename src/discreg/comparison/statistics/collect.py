"""From the store of a run to the evidence of its comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.comparison.protocol.scoring import Predictions
from discreg.comparison.running.experiment import Key
from discreg.comparison.running.nested_cv import NestedCrossValidation
from discreg.comparison.running.store import Store

from .evidence import WHOLE_REPEAT, Evidence, HeldOutPredictions

__all__ = ["collect"]

T = TypeVar("T")


def collect(experiment: NestedCrossValidation, store: Store) -> Evidence:
    """Gather the scores and the held-out predictions of the models of an experiment."""
    models = {model.key: model.name for model in experiment.models.compared}
    dataset = experiment.table.name
    results = store.results()
    results = results[(results["dataset"] == dataset) & results["model"].isin(list(models))]
    results = results.assign(model=results["model"].map(models)).drop(columns="dataset")
    held_out = {name: _held_out(experiment, store, key) for key, name in models.items()}
    held_out = {name: repeats for name, repeats in held_out.items() if repeats}
    scoring = experiment.scoring
    whole = _whole_repeats(experiment, results, held_out)
    order = {name: place for place, name in enumerate(models.values())}
    results = pd.concat([results, whole], ignore_index=True).infer_objects()
    results = results.sort_values(
        ["repeat", "fold", "model"],
        key=lambda column: column.map(order) if column.name == "model" else column,
        kind="stable",
    ).reset_index(drop=True)
    return Evidence(
        metric=scoring.name,
        classes=experiment.classes,
        y=experiment.y,
        weights=experiment.table.weights,
        groups=experiment.table.groups,
        positive=scoring.positive,
        rarest=scoring.rarest,
        n_folds=experiment.folds.n_folds,
        n_repeats=len(experiment.folds.repeats),
        test_to_train=experiment.folds.test_to_train,
        contenders={model.name: model.contender for model in experiment.models.compared},
        results=results,
        held_out=held_out,
        params={name: _params(experiment, store, key) for key, name in models.items()},
        failures=_renamed(store.failures(), dataset, models),
        warnings=_renamed(store.warnings(), dataset, models),
        left_out=dict(experiment.models.left_out),
    )


def _renamed(found: Mapping[Key, T], dataset: str, models: dict[str, str]) -> dict[Key, T]:
    return {
        key._replace(model=models[key.model]): value
        for key, value in found.items()
        if key.dataset == dataset and key.model in models
    }


def _keys(experiment: NestedCrossValidation, model: str) -> list[list[Key]]:
    """List the keys of the folds of each repeat."""
    return [
        [Key(experiment.table.name, model, repeat, fold) for fold in range(len(parts))]
        for repeat, parts in enumerate(experiment.folds.repeats)
    ]


def _params(experiment: NestedCrossValidation, store: Store, model: str) -> list[str]:
    found = (store.array(key, "params") for keys in _keys(experiment, model) for key in keys)
    return [str(each) for each in found if each is not None]


def _held_out(
    experiment: NestedCrossValidation, store: Store, model: str
) -> list[HeldOutPredictions]:
    """Join the predictions of the finished folds of each repeat."""
    joined = []
    for keys in _keys(experiment, model):
        rows = [store.array(key, "rows") for key in keys]
        done = [key for key, each in zip(keys, rows, strict=True) if each is not None]
        if not done:
            continue
        present = [each for each in rows if each is not None]
        folds = [np.full(len(each), key.fold) for key, each in zip(done, present, strict=True)]
        joined.append(
            HeldOutPredictions(
                rows=np.concatenate(present).astype(np.intp),
                folds=np.concatenate(folds).astype(np.intp),
                labels=np.asarray(_joined(store, done, "labels"), dtype=np.intp),
                probabilities=_joined(store, done, "probabilities"),
                scores=_joined(store, done, "scores"),
            )
        )
    return joined


def _joined(store: Store, keys: Sequence[Key], name: str) -> NDArray[Any] | None:
    """Join an array of some fits; None if a fit has none."""
    found = (store.array(key, name) for key in keys)
    arrays = [each for each in found if each is not None]
    return np.concatenate(arrays) if len(arrays) == len(keys) else None


def _whole_repeats(
    experiment: NestedCrossValidation,
    results: pd.DataFrame,
    held_out: dict[str, list[HeldOutPredictions]],
) -> pd.DataFrame:
    """Score all held-out rows of a repeat by the metrics that some fold does not define.

    A test part without rows of a class leaves its recall undefined, for all models alike.
    """
    columns = ["model", "repeat", "fold", "metric", "value"]
    if not _lacks_class(experiment):
        return pd.DataFrame(columns=columns).astype({"value": float})
    weights = experiment.table.weights
    rows = []
    for name, repeats in held_out.items():
        done = results[results["model"] == name].groupby("repeat")["fold"].nunique()
        numbers = [number for number in range(len(experiment.folds.repeats)) if number in done]
        for number, found in zip(numbers, repeats, strict=True):
            if done[number] < len(experiment.folds.repeats[number]):
                continue
            values = experiment.scoring.of_repeat(
                experiment.y[found.rows],
                Predictions(found.labels, found.probabilities, found.scores),
                None if weights is None else weights[found.rows],
            )
            rows += [(name, number, WHOLE_REPEAT, *item) for item in values.items()]
    return pd.DataFrame(rows, columns=columns).astype({"value": float})


def _lacks_class(experiment: NestedCrossValidation) -> bool:
    n_classes = len(experiment.classes)
    return any(
        len(np.unique(experiment.y[test])) < n_classes for _, test in experiment.folds.parts()
    )
