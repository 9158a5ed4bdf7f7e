"""Comparisons that never ran, for tests of verdicts, of what is printed and of what is shown."""

from functools import cache

import numpy as np

from discreg.comparison.flags import Flag
from discreg.comparison.report.findings import ColumnSummary, Findings
from discreg.comparison.result import Comparison
from discreg.comparison.statistics.evidence import Contender, Evidence
from discreg.comparison.statistics.performance import measure
from discreg.comparison.statistics.scores import summary_table
from discreg.comparison.statistics.verdict import decide
from discreg.tables.classifier import Rule

HOSTILE = "<img src=x onerror=console.error('run')>" + "x" * 120
HOSTILE_NAMES = (
    HOSTILE,
    "</script><script>console.error('script')</script>",
    "{{ findings }}{% raw %}",
    "肿瘤 ورم Ωμέγα",
    "a\x00b\nc\u202ed",
    "$\\frac{1}{$ &amp; --> ]]>",
)
COLUMNS = (
    ColumnSummary("age", "numeric", 0, 71, "standardised"),
    ColumnSummary("crp", "numeric", 212, 1604, "standardised", {"control": 200, "case": 12}),
    ColumnSummary("patient_id", "identifier", 0, 2134, "not used"),
)


def evidence_of(skills, *, shares=(0.6, 0.4), n=400, n_folds=10, seed=0, classes=None, **changes):
    """Held-out probabilities: a model of skill s knows the log-odds s z of labels from z."""
    chance = np.random.default_rng(seed)
    shares = np.array(shares) / np.sum(shares)
    n_classes = len(shares)
    z = chance.normal(size=(n, n_classes))
    odds = shares * np.exp(z)
    truth = odds / odds.sum(axis=1, keepdims=True)
    y = (chance.random((n, 1)) > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)
    frequencies = np.bincount(y, minlength=n_classes) / n
    held_out = {}
    for name, skill in {**skills, "majority": 0.0}.items():
        noise = chance.normal(size=z.shape) * 0.05 * (skill > 0)
        found = (shares if skill else frequencies) * np.exp(skill * z + noise)
        held_out[name] = found / found.sum(axis=1, keepdims=True)
    positive = int(np.argmin(frequencies)) if n_classes == 2 else None
    settings = {
        "metric": "log_loss",
        "classes": np.array(classes or [f"class {k}" for k in range(n_classes)]),
        "y": y,
        "rows": np.arange(n),
        "folds": np.arange(n) * n_folds // n,
        "held_out": held_out,
        "contenders": {
            name: Contender(origin="discreg" if name == "Auto" else "scikit-learn")
            for name in held_out
        },
        "test_to_train": 1 / (n_folds - 1),
        "rule": Rule(positive=positive),
    }
    return Evidence(**settings | changes)


def comparison_of(evidence, flags=(), **changes):
    """The comparison of this evidence; any field of its findings can be changed."""
    verdict = decide(evidence, flags)
    sizes = [40.0, 100.0, 300.0]
    settings = {
        "name": "rare",
        "source": "data/rare.csv",
        "target": "diagnosis",
        "date": "2026-11-18",
        "command": "discreg compare data/rare.csv --target diagnosis",
        "folds": "10 stratified folds",
        "n_features": 2,
        "class_counts": {
            str(label): int(count)
            for label, count in zip(evidence.classes, np.bincount(evidence.y), strict=True)
        },
        "flags": flags,
        "columns": COLUMNS,
        "model_file": "model.skops" if verdict.recommended else None,
        "importance": [
            {"feature": name, "mean": 0.1, "low": 0.0, "high": 0.2, "correlated": ["crp"]}
            for name in ("age", "crp")
        ],
        "learning_curve": [
            {"n": n, "mean": 0.6 - n / 3000, "low": 0.4, "high": 0.7} for n in sizes
        ],
        "methods": "Classifiers were compared.",
        "versions": {"discreg": "0.2.0"},
        "n_parameters": 2,
    }
    return Comparison(
        evidence=evidence,
        verdict=verdict,
        table=summary_table(evidence),
        findings=Findings(**settings | changes),
    )


@cache
def rare():
    """A table with few cases, and a test table."""
    evidence = evidence_of(
        {"Auto": 0.9, "ReLSR": 0.7}, shares=(0.93, 0.07), n=900, classes=("control", "case")
    )
    numbers = measure(evidence.sample("Auto"))
    parts = [("women", 500, numbers), ("men", 400, numbers)]
    return comparison_of(evidence, test=numbers, n_test=50, subgroup="sex", subgroups=parts)


@cache
def flagged():
    """A table with a red flag."""
    flag = Flag(
        "repeating identifier",
        "Column 'patient_id' names 60 groups.",
        "danger",
        ("patient_id",),
        "rows of the same 'patient_id' were in training and test",
        {"groups": "patient_id"},
    )
    return comparison_of(evidence_of({"Auto": 1.0}), [flag])


@cache
def hostile():
    """Models, classes and columns with names that no page should interpret."""
    evidence = evidence_of(
        {name: 1.0 - k / 20 for k, name in enumerate(HOSTILE_NAMES)},
        shares=(1,) * len(HOSTILE_NAMES),
        classes=HOSTILE_NAMES,
        left_out={f"{HOSTILE} 2": HOSTILE},
    )
    return comparison_of(
        evidence,
        [Flag("duplicates", name, columns=(name,)) for name in HOSTILE_NAMES],
        name=HOSTILE,
        source=HOSTILE,
        target=HOSTILE,
        command=HOSTILE,
        folds=HOSTILE,
        columns=[ColumnSummary(name, name, 1, 2, name, {name: 1}) for name in HOSTILE_NAMES],
        methods=HOSTILE,
        versions={HOSTILE: HOSTILE},
        incomplete=HOSTILE,
    )
