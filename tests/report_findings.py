"""Findings of a comparison that never ran, for tests of its page."""

import numpy as np
import pandas as pd

from discreg.comparison.experiment import Key
from discreg.comparison.report import Findings

MODELS = (
    "LSRClassifierCV",
    "DLSRClassifierCV",
    "ReLSRClassifierCV",
    "GReLSRClassifierCV",
    "LRRRClassifierCV",
    "SLRRClassifierCV",
    "DRMClassifierCV",
    "DRMClassifierCV(rbf)",
    "ODMClassifierCV",
    "ODMClassifierCV(rbf)",
    "RidgeClassifierCV",
    "LinearSVC",
    "SVC(rbf)",
    "LogisticRegression",
    "KNeighborsClassifier",
    "RandomForestClassifier",
    "HistGradientBoostingClassifier",
    "LinearDiscriminantAnalysis",
)
N_FOLDS = 10
USAGE = """\
from discreg import load_model
from discreg.tables.table import read_features

model = load_model("model.skops")
print(model.predict(read_features("new.csv", model.expected)))
"""


def results_of(models, *, n_folds=N_FOLDS, seed=0):
    """Two repeats of five folds; models lose accuracy in their order."""
    chance = np.random.default_rng(seed)
    difficulty = chance.normal(scale=0.012, size=n_folds)
    rows = []
    for place, model in enumerate(models):
        accuracy = 0.945 - 0.0007 * place**1.8 + difficulty + chance.normal(0, 0.008, n_folds)
        scores = {
            "accuracy": accuracy,
            "balanced_accuracy": accuracy - 0.02,
            "g_mean": accuracy - 0.03,
            "macro_f1": accuracy - 0.015,
            "fit_seconds": np.full(n_folds, 0.004 * (place + 1) ** 1.7),
            "predict_seconds": np.full(n_folds, 0.0004 * (place + 1)),
        }
        if place % 3:
            scores["log_loss"] = 0.2 + 2 * (0.95 - accuracy)
        rows += [
            ("table", model, fold // 5, fold % 5, metric, value)
            for metric, values in scores.items()
            for fold, value in enumerate(values)
        ]
    return pd.DataFrame(rows, columns=["dataset", "model", "repeat", "fold", "metric", "value"])


def findings_of(*, models=MODELS, labels=("malignant", "benign", "unsure"), **changes):
    """Everything a page can show, or what is changed of it."""
    chance = np.random.default_rng(1)
    n_classes = len(labels)
    confusion = chance.poisson(1.5, size=(n_classes, n_classes)) + np.diag(
        chance.integers(40, 90, size=n_classes)
    )
    settings = {
        "name": "tumours.csv",
        "n_samples": 1200,
        "n_features": 64,
        "class_counts": {label: 30 + 47 * place for place, label in enumerate(labels)},
        "notes": (
            "Column “colour” has 5 categories: one-hot, 5 columns.",
            "3 columns have missing values (212 in all): the median of the training part.",
            "Column “batch” is constant: left out.",
        ),
        "judged_by": (
            "Stratified 5-fold cross-validation, repeated twice: 10 folds, the same for all.",
            "Every model is tuned by 3-fold cross-validation on the training part only.",
        ),
        "results": results_of(models),
        "n_folds": 5,
        "metric": "accuracy",
        "failures": {},
        "warnings": {
            Key("table", models[-1], 0, fold): ["Variables are collinear."] for fold in range(3)
        },
        "confusion": dict.fromkeys(models, confusion),
        "labels": labels,
        "margins": {model: chance.normal(1, 0.6, size=1200) for model in models},
        "rank_scores": {
            model: (np.arange(1, 10), 0.95 - 0.3 / np.arange(1, 10) ** (1 + place))
            for place, model in enumerate(models[4:6])
        },
        "histories": {
            model: 3 + 0.5 ** (np.arange(30) * (1 + place % 5) / 3)
            for place, model in enumerate(models[:9])
        },
        "model_file": "model.skops",
        "usage": USAGE,
        "versions": {"discreg": "0.1.0", "scikit-learn": "1.9.0", "numpy": "2.3.1"},
    }
    return Findings(**settings | changes)
