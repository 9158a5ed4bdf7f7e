"""Evidence of simulated comparisons: models predict a row correctly with a probability."""

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from discreg.base.metrics import METRICS
from discreg.comparison.candidates.contender import Contender
from discreg.comparison.statistics.evidence import Evidence, HeldOutPredictions

REPORTED = ("accuracy", "balanced_accuracy", "g_mean", "macro_f1")


def evidence_of(
    y,
    predicted,
    *,
    metric="accuracy",
    n_folds=5,
    n_repeats=2,
    seed=0,
    seconds=None,
    probabilities=None,
    **settings,
):
    """Make the evidence of predictions by model, an array of shape (n_repeats, n_samples) each."""
    y = np.asarray(y)
    n_classes = int(y.max()) + 1
    common = np.bincount(y).argmax()
    predicted = {**predicted, "majority": np.full((n_repeats, len(y)), common)}
    rows, held_out = [], {}
    parts = [folds_of(y, n_folds, seed + repeat) for repeat in range(n_repeats)]
    for model, repeats in predicted.items():
        held_out[model] = []
        for repeat, (folds, labels) in enumerate(zip(parts, repeats, strict=True)):
            shares = None if probabilities is None else probabilities.get(model)
            held_out[model].append(
                HeldOutPredictions(
                    rows=np.arange(len(y)),
                    folds=folds,
                    labels=labels,
                    probabilities=None if shares is None else shares[repeat],
                )
            )
            for fold in range(n_folds):
                test = folds == fold
                cells = np.bincount(n_classes * y[test] + labels[test], minlength=n_classes**2)
                table = cells.reshape(n_classes, n_classes)
                values = {name: METRICS[name].score(table) for name in REPORTED}
                values["fit_seconds"] = (seconds or {}).get(model, 1.0)
                rows += [(model, repeat, fold, name, value) for name, value in values.items()]
    names = [*predicted]
    return Evidence(
        **{
            "metric": metric,
            "classes": np.array([f"class {each}" for each in range(n_classes)]),
            "y": y,
            "rarest": int(np.bincount(y).argmin()),
            "n_folds": n_folds,
            "n_repeats": n_repeats,
            "test_to_train": 1 / (n_folds - 1),
            "contenders": {
                name: Contender(name=name, origin="discreg", place=place)
                for place, name in enumerate(names)
            },
            "results": pd.DataFrame(rows, columns=["model", "repeat", "fold", "metric", "value"]),
            "held_out": held_out,
            **settings,
        }
    )


def folds_of(y, n_folds, seed):
    folds = np.empty(len(y), dtype=int)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    for fold, (_, test) in enumerate(splitter.split(y, y)):
        folds[test] = fold
    return folds


def predictions(y, accuracy, rng, *, n_repeats=2, same=0.8):
    """Predict labels that are right with this probability; repeats agree on a part of the rows."""
    n_classes = int(y.max()) + 1
    wrong = (y + rng.integers(1, n_classes, size=len(y))) % n_classes
    draws = rng.random(len(y))
    found = []
    for _ in range(n_repeats):
        own = np.where(rng.random(len(y)) < same, draws, rng.random(len(y)))
        found.append(np.where(own < accuracy, y, wrong))
    return np.array(found)
