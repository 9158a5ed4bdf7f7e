"""How often verdicts and intervals of a comparison are right, on tables with known probabilities.

Run ``python benchmarks/verdicts.py [N_SEEDS]``. Rows of the page are stored when they are measured,
and those that are stored with as many seeds are not measured again. Tables are those of
``simulate.py``, which is expected on the path of imports: they have two or four classes, signal or
none, rare classes, or groups of rows. For every table the recommended model is fitted to all rows,
and its expected log-loss on new rows is computed from the true probabilities.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from _timing import RESULTS, Table, write_page
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from discreg.comparison.candidates.models import plan_models
from discreg.comparison.running.folds import RowFacts, draw_folds
from discreg.comparison.running.nested_cv import NestedCrossValidation
from discreg.comparison.running.scoring import Scoring
from discreg.comparison.statistics.evidence import Contender, Evidence
from discreg.comparison.statistics.verdict import decide
from discreg.tables.table import as_table

N_NEW = 20_000  # rows on which the true log-loss of a model is computed
QUICK = {
    name: make_pipeline(StandardScaler(), model)
    for name, model in {
        "Logistic": LogisticRegression(),
        "LDA": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
        "Bayes": GaussianNB(),
        "KNN": KNeighborsClassifier(15),
        "Tree": DecisionTreeClassifier(min_samples_leaf=20),
    }.items()
}
TUNED = ["Auto", "Logistic", "LRRR"]
FEW = ("50/50 signal", "70/30 noise", "patients, noise")  # tables for tuned models
TABLES = {  # name: kind of table, and rows
    "50/50 signal": ("logit", 200),
    "50/50 noise": ("noise", 200),
    "70/30 signal": ("seventy", 200),
    "70/30 noise": ("skewed", 200),
    "80/20 signal": ("eighty", 300),
    "80/20 noise": ("eighty, noise", 300),
    "5 % cases": ("rare", 600),
    "nonlinear": ("ring", 300),
    "four classes": ("four", 300),
    "patients, signal": ("grouped", 300),
    "patients, noise": ("grouped_noise", 300),
}
# Variants of `simulate.py`: intercept, and strength of two features.
VARIANTS = {
    "seventy": (-1.05, 1.0),
    "eighty": (-1.8, 1.0),
    "eighty, noise": (-1.386, 0.0),
    "weak": (-0.8, 0.6),
}
POWER = (100, 200, 300)  # rows of the tables on which log-loss and accuracy are compared


def drawn(kind: str, n: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Draw a table of `simulate.py` or a variant."""
    from simulate import draw

    if kind not in VARIANTS:
        return draw(kind, n, seed)
    rng = np.random.default_rng([7, n, seed])
    X = rng.standard_normal((n, 5))
    shift, strength = VARIANTS[kind]
    p = 1 / (1 + np.exp(-(strength * (X[:, 0] - 0.8 * X[:, 1]) + shift)))
    return X, (rng.random(n) < p).astype(int), np.column_stack([1 - p, p]), None


def compared(
    kind: str, n: int, seed: int, candidates: Any, metric: str | None = None
) -> tuple[Any, float]:
    """Compare models on a table; return the verdict and the true log-loss of its model."""
    warnings.simplefilter("ignore")
    X, y, _, groups = drawn(kind, n, seed)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    table = as_table(frame, y, groups=groups)
    classes, counts = np.unique(y, return_counts=True)
    folds = draw_folds(RowFacts(table.y, table.groups), seed=seed)
    models = plan_models(n, candidates=candidates)
    scoring = Scoring(metric, classes, counts)
    experiment = NestedCrossValidation(table, folds, models, scoring, seed)
    parts = folds.parts()
    held_out = {
        model.name: np.vstack([predicted(experiment.fitted(model, a), frame, b) for a, b in parts])
        for model in models.compared
    }
    evidence = Evidence(
        metric=scoring.name,
        classes=classes,
        y=np.searchsorted(classes, y),
        rows=np.concatenate([test for _, test in parts]),
        folds=np.repeat(np.arange(len(parts)), [len(test) for _, test in parts]),
        held_out=held_out,
        contenders={model.name: Contender() for model in models.compared},
        test_to_train=folds.test_to_train,
        rule=scoring.rule,
        groups=table.groups,
    )
    verdict = decide(evidence)
    if verdict.best is None:
        return verdict, np.nan
    fitted = experiment.fitted(models.named(verdict.best), np.arange(n))
    X_new, _, P_new, _ = drawn(kind, N_NEW, 10_000 + seed)
    new = pd.DataFrame(X_new, columns=list(frame))
    shares = np.clip(fitted.predict_proba(new), np.finfo(np.float32).eps, 1)
    return verdict, float(np.mean((-P_new * np.log(shares)).sum(axis=1)))


def predicted(fitted: Any, frame: pd.DataFrame, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Predict the probabilities of some rows."""
    return np.asarray(fitted.predict_proba(frame.iloc[rows]))


def coverage_row(name: str, n_seeds: int, candidates: Any) -> list[str]:
    """Compare models on tables of one kind; return a row of the page."""
    kind, n = TABLES[name]
    found = [compared(kind, n, seed, candidates) for seed in range(n_seeds)]
    covered = [v.estimate.low <= truth <= v.estimate.high for v, truth in found if v.estimate]
    width = [v.estimate.high - v.estimate.low for v, _ in found if v.estimate]
    bias = [v.estimate.corrected - truth for v, truth in found if v.estimate]
    kinds = [v.kind for v, _ in found]
    return [
        name,
        f"{n}",
        f"{n_seeds}",
        f"{np.mean(covered):.3f}",
        f"{np.mean(width):.3f}",
        f"{np.mean(bias):+.4f}",
        f"{np.mean([v.recommended is not None for v, _ in found]):.3f}",
        f"{np.mean([kind == 'not enough evidence' for kind in kinds]):.3f}",
        f"{np.mean([v.stability for v, _ in found if v.stability is not None]):.2f}",
    ]


def power_row(n: int, n_seeds: int, candidates: Any) -> list[str]:
    """Share of tables with a weak signal on which a model is better than the class frequencies."""
    row = [f"{n}", f"{n_seeds}"]
    for metric in (None, "accuracy"):
        found = [compared("weak", n, seed, candidates, metric) for seed in range(n_seeds)]
        informed = [(v.p_informed or 0) >= 0.95 for v, _ in found]
        row += [f"{np.mean(informed):.2f}"]
    return row


class _Stored:
    """Rows of the page, in a file."""

    def __init__(self) -> None:
        self._path = RESULTS / "verdicts.json"
        self.rows = json.loads(self._path.read_text())["rows"] if self._path.exists() else {}

    def row(self, name: str, n_seeds: int, measure: Callable[[], list[str]]) -> list[str]:
        """Return a stored row, or measure and store it."""
        key = f"{name}, {n_seeds} tables"
        if key not in self.rows:
            self.rows[key] = measure()
            self._path.write_text(json.dumps({"rows": self.rows}, indent=1) + "\n")
        print(key, *self.rows[key], sep=" | ", flush=True)
        return list(self.rows[key])


def main(n_seeds: int) -> None:
    """Simulate and write the page."""
    header = ("table", "rows", "tables", "coverage", "width", "bias", "recommended")
    header += ("not enough evidence", "stability")
    stored, tables = _Stored(), []
    for title, candidates, seeds, kinds in (
        ("Five quick models", QUICK, n_seeds, tuple(TABLES)),
        ("Tuned models", TUNED, max(5, n_seeds // 10), FEW),
    ):
        rows = [
            stored.row(
                f"{title}: {name}",
                seeds,
                lambda name=name, seeds=seeds, candidates=candidates: coverage_row(
                    name, seeds, candidates
                ),
            )
            for name in kinds
        ]
        text = (
            f"Models: {', '.join(candidates)}, 10 folds. Coverage: share of tables in which the "
            "95 % interval of the estimate contains the log-loss of the described model, fitted to "
            "all rows, on new rows. Bias: mean of the corrected estimate minus that log-loss. "
            "Recommended: share of tables with a recommendation; on noise, these are false winners."
        )
        tables.append(Table(title, text, header, rows))
    rows = [
        stored.row(f"Power: {n}", n_seeds, lambda n=n: power_row(n, n_seeds, QUICK)) for n in POWER
    ]
    tables.append(
        Table(
            "Power",
            "Share of tables with a weak signal (31 % cases) on which a model is better than the "
            "class frequencies with a probability of at least 0.95, if models are tuned and judged "
            "by log-loss, and by accuracy against the majority class.",
            ("rows", "tables", "log-loss", "accuracy"),
            rows,
        )
    )
    write_page("verdicts", tables)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
