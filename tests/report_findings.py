"""Findings of comparisons that never ran, for tests of what is printed and shown."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from discreg.base.metrics import counts, label_scores, metric
from discreg.comparison.candidates.contender import Contender
from discreg.comparison.flags.flag import Flag
from discreg.comparison.report.findings import ColumnSummary, Findings
from discreg.comparison.statistics.evidence import Evidence, HeldOutPredictions
from discreg.comparison.statistics.summary import summary_table
from discreg.comparison.statistics.verdict import decide

MODELS = {  # origin and skill, in the order of simplicity
    "majority": ("scikit-learn", 0.0),
    "LSR": ("discreg", 0.93),
    "ReLSR": ("discreg", 0.96),
    "GReLSR": ("discreg", 0.95),
    "Logistic": ("scikit-learn", 0.97),
    "LDA": ("scikit-learn", 0.9),
    "LDM": ("discreg", 0.98),
    "ODM": ("discreg", 0.99),
    "KNN": ("scikit-learn", 0.66),
    "DRM": ("discreg", 1.02),
    "RandomForest": ("scikit-learn", 0.85),
    "HistGradientBoosting": ("scikit-learn", 0.8),
    "Auto": ("discreg", 1.03),
}
HOSTILE = "<img src=x onerror=console.error('run')>" + "x" * 120
HOSTILE_NAMES = (
    HOSTILE,
    "</script><script>console.error('script')</script>",
    "{{ findings }}{% raw %}",
    "肿瘤 ورم Ωμέγα",
    "a\x00b\nc\u202ed",
    'O\'Brien & "Söhne" <b>bold</b>',
    "$\\frac{1}{$ &amp; --> ]]>",
)
PARAMS = ("beta=0.1, class_weight=balanced", "beta=1, class_weight=balanced", "beta=0.1")
COLUMNS = (
    ColumnSummary("age", "numeric", 0, 71, "standardised"),
    ColumnSummary(
        "crp", "numeric", 212, 1604, "missing values: median and indicator; standardised"
    ),
    ColumnSummary("ward", "categorical", 3, 9, "one indicator column per category"),
    ColumnSummary("admitted", "date", 0, 702, "year, month, day of the week, days since the first"),
    ColumnSummary("note", "free text", 1890, 240, "frequencies of words"),
    ColumnSummary("patient_id", "identifier", 0, 2134, "not used"),
    ColumnSummary("hospital", "constant", 0, 1, "not used"),
)
USAGE_SHELL = "discreg predict out/model.skops new.csv --output predicted.csv --recall 0.9"
USAGE_PYTHON = """\
from discreg import load_model
from discreg.tables.table import read_features

model = load_model("out/model.skops")  # no pickle: only known types are loaded
model.predict_proba(read_features("new.csv", model.expected))
"""
METHODS = (
    "Classifiers were compared with discreg 0.2.0 by nested cross-validation (5 stratified folds, "
    "repeated twice). Every model was tuned on the training part of each fold by balanced "
    "accuracy, with and without class weights. Intervals are corrected for overlapping training "
    "sets (Nadeau and Bengio, 2003). Probabilities of practical equivalence (difference below "
    "0.01) are from the Bayesian correlated t-test (Benavoli et al., 2017)."
)


def evidence_of(
    classes=("control", "case"),
    *,
    shares=(0.975, 0.025),
    n=2134,
    models=MODELS,
    separation=2.2,
    metric_name="balanced_accuracy",
    n_folds=5,
    n_repeats=2,
    seed=0,
    **changes,
):
    """Held-out predictions of models of known skill, and their scores on every fold."""
    chance = np.random.default_rng(seed)
    n_classes = len(classes)
    y = chance.permutation(np.repeat(np.arange(n_classes), _sizes(shares, n)))
    prior = np.bincount(y, minlength=n_classes) / n
    rarest = int(prior.argmin())
    truth = np.eye(n_classes)[y]
    shared = chance.normal(size=(n, n_classes))
    rows, held_out = [], {}
    for place, (model, (_, skill)) in enumerate(models.items()):
        held_out[model] = []
        for repeat in range(n_repeats):
            folds = _folds(y, n_folds, np.random.default_rng(repeat))
            noise = 0.85 * shared + 0.5 * chance.normal(size=(n, n_classes))
            evidence = skill * separation * truth + noise * (skill > 0)
            logits = skill * separation * evidence / 0.97 + np.log(prior)
            probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            weighted = evidence if skill else np.tile(prior, (n, 1))
            labels = weighted.argmax(axis=1)
            held_out[model].append(
                HeldOutPredictions(
                    rows=np.arange(n), folds=folds, labels=labels, probabilities=probabilities
                )
            )
            for fold in range(n_folds):
                test = folds == fold
                values = _scores(y[test], labels[test], probabilities[test], rarest)
                values["fit_seconds"] = 0.01 * (place + 1) ** 2.2
                values["predict_seconds"] = 0.0004 * (place + 1)
                rows += [(model, repeat, fold, name, value) for name, value in values.items()]
    settings = {
        "metric": metric_name,
        "classes": np.array(classes),
        "y": y,
        "positive": rarest if n_classes == 2 else None,
        "rarest": rarest,
        "n_folds": n_folds,
        "n_repeats": n_repeats,
        "test_to_train": 1 / (n_folds - 1),
        "contenders": {
            model: Contender(name=model, origin=origin, place=place, keeps_rows=model == "DRM")
            for place, (model, (origin, _)) in enumerate(models.items())
        },
        "results": pd.DataFrame(rows, columns=["model", "repeat", "fold", "metric", "value"]),
        "held_out": held_out,
        "params": {
            model: [PARAMS[fold % 3] for fold in range(n_folds * n_repeats)]
            for model in models
            if model != "majority"
        },
    }
    return Evidence(**settings | changes)


def _sizes(shares, n):
    sizes = np.maximum(np.floor(np.array(shares) / sum(shares) * n).astype(int), 1)
    sizes[sizes.argmax()] += n - sizes.sum()
    return sizes


def _folds(y, n_folds, chance):
    folds = np.empty(len(y), dtype=np.intp)
    for place in np.unique(y):
        own = chance.permutation(np.flatnonzero(y == place))
        folds[own] = np.arange(len(own)) % n_folds
    return folds


def _scores(y, labels, probabilities, rarest):
    n_classes = probabilities.shape[1]
    truth = np.eye(n_classes)[y]
    here = np.bincount(y, minlength=n_classes)
    aucs = [
        roc_auc_score(y == place, probabilities[:, place])
        for place in range(n_classes)
        if 0 < here[place] < len(y)
    ]
    scores = label_scores(counts(y, labels, np.arange(n_classes)))
    scores["rare_recall"] = (labels[y == rarest] == rarest).mean() if here[rarest] else np.nan
    scores["roc_auc"] = np.mean(aucs) if aucs else np.nan
    if n_classes == 2 and here[rarest]:
        scores["average_precision"] = average_precision_score(y == rarest, probabilities[:, rarest])
    scores["log_loss"] = -np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-15)).mean()
    scores["brier"] = ((probabilities - truth) ** 2).sum(axis=1).mean()
    return scores


def findings_of(evidence, **changes):
    """Findings for this evidence; any field can be changed."""
    verdict = decide(evidence)
    chance = np.random.default_rng(1)
    features = [column.name for column in COLUMNS if column.treatment != "not used"]
    strength = np.sort(chance.exponential(0.03, len(features)))[::-1]
    sizes = np.linspace(0.2, 1, 5) * 0.8 * len(evidence.y)
    score = 0.85 - 1.5 / np.sqrt(sizes)
    recommended = verdict.recommended
    settings = {
        "name": "rare",
        "source": "data/rare.csv",
        "target": "diagnosis",
        "date": "2026-11-18",
        "command": "discreg compare data/rare.csv --target diagnosis --output out",
        "folds": "5 stratified folds, repeated twice",
        "metric_title": metric(evidence.metric).title,
        "evidence": evidence,
        "table": summary_table(evidence),
        "verdict": verdict,
        "n_features": len(features),
        "class_counts": {
            str(label): int(count)
            for label, count in zip(evidence.classes, np.bincount(evidence.y), strict=True)
        },
        "columns": COLUMNS,
        "model_file": "out/model.skops" if recommended else None,
        "keeps_rows": bool(recommended and evidence.contenders[recommended].keeps_rows),
        "importance": pd.DataFrame(
            {
                "feature": features,
                "mean": strength,
                "low": strength - 0.015,
                "high": strength + 0.015,
            }
        )
        if recommended
        else None,
        "learning_curve": pd.DataFrame(
            {"n": sizes.astype(int), "mean": score, "low": score - 0.03, "high": score + 0.03}
        )
        if recommended
        else None,
        "usage_shell": USAGE_SHELL if recommended else "",
        "usage_python": USAGE_PYTHON if recommended else "",
        "methods": METHODS,
        "versions": {"discreg": "0.2.0", "Python": "3.13.1", "scikit-learn": "1.9.0"},
    }
    return Findings(**settings | changes)


@cache
def rare():
    """A medical table with 53 cases in 2,134 rows."""
    return findings_of(evidence_of())


@cache
def ten_classes():
    """Ten unequal classes, models that are close to each other, one that failed."""
    classes = (*(f"species {letter}" for letter in "ABCDEFGHI"), "Iris setosa × versicolor")
    evidence = evidence_of(
        classes,
        shares=tuple(range(20, 10, -1)),
        n=900,
        separation=1.9,
        metric_name="accuracy",
        left_out={
            "LRRR": "one tuned fit of 5,000 columns would take about 40 minutes",
            "SVC": "its fits exceeded 60 s",
        },
    )
    return findings_of(
        evidence,
        name="species",
        source="species.parquet",
        target="species",
        command="discreg compare species.parquet --target species",
    )


@cache
def nothing_learned():
    """Labels that do not depend on the features: no model is recommended."""
    models = {model: (origin, 0.02 * (skill > 0)) for model, (origin, skill) in MODELS.items()}
    evidence = evidence_of(
        ("no", "yes"), shares=(0.6, 0.4), n=300, models=models, metric_name="accuracy"
    )
    return findings_of(evidence, name="noise", source="noise.csv", target="responder")


@cache
def hostile():
    """Eighteen models and many classes with names that no page should interpret."""
    names = [*HOSTILE_NAMES, *(f"package.module.VeryLongModelName{k}" for k in range(10))]
    models = {"majority": ("scikit-learn", 0.0)} | {
        name: (("own", "discreg", "scikit-learn")[k % 3], 1.1 - 0.02 * k)
        for k, name in enumerate(names)
    }
    classes = (*HOSTILE_NAMES, *(f"class {k}" for k in range(7)))
    evidence = evidence_of(
        classes,
        shares=(1,) * len(classes),
        n=400,
        models=models,
        separation=3.0,
        left_out={HOSTILE_NAMES[1] + " 2": HOSTILE},
    )
    columns = tuple(replace(COLUMNS[0], name=name, treatment=name) for name in HOSTILE_NAMES)
    return findings_of(
        evidence,
        name=HOSTILE,
        source=HOSTILE,
        target=HOSTILE,
        command=HOSTILE,
        folds=HOSTILE,
        columns=columns,
        flags=[Flag("duplicates", name, "danger", (name,)) for name in HOSTILE_NAMES],
        importance=pd.DataFrame({"feature": HOSTILE_NAMES, "mean": 0.1, "low": 0.05, "high": 0.2}),
        usage_shell="x" * 300,
        usage_python=HOSTILE_NAMES[1],
        methods=HOSTILE,
        versions={HOSTILE: HOSTILE},
        incomplete=HOSTILE,
        show_rows=True,
    )
