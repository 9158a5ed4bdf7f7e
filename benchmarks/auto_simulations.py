"""AutoClassifier on tables whose true probabilities are known: estimates, sets and verdicts.

    python benchmarks/auto_simulations.py                       # what is missing
    python benchmarks/auto_simulations.py --kinds noise logit   # a part
    python benchmarks/auto_simulations.py --draws 20            # fewer draws of each
    python benchmarks/auto_simulations.py --report              # the page of what is stored

One line per fit is appended to ``results/auto_simulations.csv``, so a run can be interrupted and
continued.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from _timing import RESULTS, write_table
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from discreg import AutoClassifier

PATH = RESULTS / "auto_simulations.csv"
N_NEW = 4_000
SIZES = {
    "logit": (30, 60, 120, 300),
    "ring": (30, 60, 120, 300),
    "wide": (30, 60, 120),
    "grouped": (60, 120, 240),
    "noise": (30, 60, 120, 300),
    "skewed": (60, 120, 300),
    "grouped noise": (120, 240),
    "modest": (300,),
    "rare": (450, 900, 3_000),
}
COLUMNS = (
    *("kind", "rows", "draw", "estimate", "accuracy", "estimated_loss", "loss", "best_loss"),
    *(
        "prior_loss",
        "coverage",
        "set_size",
        "kept",
        "auc",
        "logistic_auc",
        "logistic_loss",
        "seconds",
    ),
)
TEXT = (
    "Means over draws. Accuracy and log-loss are expected values on new rows, by the true "
    "probabilities; the bias is that of the held-out estimate, with its standard error. Coverage "
    "is that of sets at 90 %. A model is kept if it is judged better than the class frequencies. "
    "'modest' has a true log-loss 3 % below that of the class frequencies; 'rare' has 2 to 4 % of "
    "cases, five features, of which two count; 'wide' has 200 features."
)


def draw(kind: str, n_rows: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Draw features, labels, true probabilities and groups."""
    random = np.random.default_rng([sorted(SIZES).index(kind), n_rows, seed])
    n_features = 200 if kind == "wide" else 5
    X, groups = random.standard_normal((n_rows, n_features)), None
    if kind.startswith("grouped"):
        n_groups = n_rows // 6
        groups = np.arange(n_rows) % n_groups
        centres = 2 * random.standard_normal((n_groups, 5))
        X = centres[groups] + 0.3 * X
        slope = 0.7 if kind == "grouped" else 0.0
        y = (random.random(n_groups) < 1 / (1 + np.exp(-slope * centres[:, 0])))[groups]
        return X, y.astype(int), _binary(slope * X[:, 0]), groups
    logits = {
        "logit": X[:, 0] - 0.8 * X[:, 1],
        "ring": 2 * ((X[:, :2] ** 2).sum(axis=1) - 1.6),
        "wide": 0.6 * X[:, :10].sum(axis=1),
        "noise": np.zeros(n_rows),
        "skewed": np.full(n_rows, np.log(0.3 / 0.7)),
        "modest": 0.41 * X[:, 0],
        "rare": 1.2 * X[:, 0] - X[:, 1] - 4.6,
    }
    P = _binary(logits[kind])
    return X, (random.random(n_rows) < P[:, 1]).astype(int), P, groups


def _binary(logit: Any) -> Any:
    p = 1 / (1 + np.exp(-logit))
    return np.column_stack([1 - p, p])


def measure(kind: str, n_rows: int, seed: int) -> dict[str, Any] | None:
    """Fit a model to one draw; None if a class has fewer than two rows."""
    X, y, _, groups = draw(kind, n_rows, seed)
    if np.bincount(y, minlength=2).min() < 2:
        return None
    started = process_time()
    model = AutoClassifier().fit(X, y, groups=groups)
    seconds = process_time() - started
    X_new, y_new, P, _ = draw(kind, N_NEW, 1_000_000 + seed)
    logs, rows = np.log(model.predict_proba(X_new)), np.arange(len(X_new))
    sets = model.predict_set(X_new, 0.9)
    found = {
        "kind": kind, "rows": n_rows, "draw": seed, "seconds": seconds,
        "estimate": model.held_out_accuracy_, "accuracy": P[rows, model.predict(X_new)].mean(),
        "estimated_loss": model.held_out_log_loss_, "loss": -(P * logs).sum(axis=1).mean(),
        "best_loss": -(P * np.log(P)).sum(axis=1).mean(),
        "prior_loss": -(P.mean(axis=0) * np.log(P.mean(axis=0))).sum(),
        "coverage": (sets * P).sum(axis=1).mean(), "set_size": sets.sum(axis=1).mean(),
        "kept": int(len(model.estimators_) > 0),
    }  # fmt: skip
    if kind == "rare":
        logistic = make_pipeline(StandardScaler(), LogisticRegressionCV(scoring="neg_log_loss"))
        of_logistic = np.log(logistic.fit(X, y).predict_proba(X_new))
        found["auc"] = roc_auc_score(y_new, logs[:, 1])
        found["logistic_auc"] = roc_auc_score(y_new, of_logistic[:, 1])
        found["logistic_loss"] = -(P * of_logistic).sum(axis=1).mean()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=SIZES, default=tuple(SIZES))
    parser.add_argument("--rows", nargs="+", type=int)
    parser.add_argument("--draws", type=int, default=80)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    done = set()
    if PATH.exists():
        done = {
            tuple(row) for row in pd.read_csv(PATH)[["kind", "rows", "draw"]].to_numpy().tolist()
        }
    with threadpool_limits(1):
        for seed in range(options.draws):
            for kind in options.kinds:
                for n_rows in SIZES[kind]:
                    is_wanted = options.rows is None or n_rows in options.rows
                    if is_wanted and (kind, n_rows, seed) not in done and not options.report:
                        row = measure(kind, n_rows, seed)
                        if row is not None:
                            append(PATH, row)
    if options.report:
        report()


def append(path: Path, row: dict[str, Any]) -> None:
    """Append a row to the file."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        writer.writerow(
            {name: f"{v:.5g}" if isinstance(v, float) else v for name, v in row.items()}
        )


def report() -> None:
    """Write the page."""
    lines = []
    for (kind, n_rows), rows in pd.read_csv(PATH).groupby(["kind", "rows"], sort=False):
        bias = rows["estimate"] - rows["accuracy"]
        of_loss = rows["estimated_loss"] - rows["loss"]
        line = [
            str(kind), f"{n_rows:,}", str(len(rows)), f"{rows['accuracy'].mean():.3f}",
            f"{bias.mean():+.3f} ± {bias.std() / len(rows) ** 0.5:.3f}",
            *(f"{rows[name].mean():.3f}" for name in ("best_loss", "loss", "prior_loss")),
            f"{of_loss.mean():+.3f}", f"{rows['coverage'].mean():.3f}",
            f"{rows['kept'].mean():.2f}", f"{rows['seconds'].median():.2f}",
        ]  # fmt: skip
        if rows["auc"].notna().any():
            line.append(
                f"AUC {rows['auc'].mean():.3f} ({rows['logistic_auc'].mean():.3f}), log-loss "
                f"{rows['loss'].mean():.4f} ({rows['logistic_loss'].mean():.4f})"
            )
        lines.append([*line, *[""] * (13 - len(line))])
    header = (
        "kind", "rows", "draws", "accuracy", "bias of accuracy", "true log-loss", "log-loss",
        "of the frequencies", "bias of log-loss", "coverage", "kept", "seconds",
        "beside LogisticRegression",
    )  # fmt: skip
    print(
        write_table("auto_simulations", "AutoClassifier on simulated tables", TEXT, header, lines)
    )


if __name__ == "__main__":
    main()
