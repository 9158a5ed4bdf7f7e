"""Default penalties of LRRR and SLRR: accuracy over many data sets, by five folds.

Run ``python benchmarks/lowrank_defaults.py``. The data are read from the folder named by
``DISCREG_DATA``, or from ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _timing import Table, write_page
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from discreg import LRRRClassifier, SLRRClassifier

DATA = Path(os.environ.get("DISCREG_DATA", Path(__file__).parents[2] / "shared" / "data"))
RIDGE_BETAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SPARSE_BETAS = (0.1, 0.3, 1.0, 3.0, 10.0)
MOST_ROWS = 1_000
MOST_FEATURES = 12_000
FEW_ENTRIES = 400_000  # of the data sets that SLRR is tried on


def data_sets():
    """scikit-learn's, and all shared ones of a size; at most MOST_ROWS rows by chance."""
    for loader in (load_iris, load_wine, load_breast_cancer, load_digits):
        yield loader.__name__[5:], *loader(return_X_y=True)
    for path in sorted(DATA.glob("*.npz")):
        with np.load(path) as stored:
            if "X" in stored and stored["X"].ndim == 2 and stored["X"].shape[1] <= MOST_FEATURES:
                yield path.stem, stored["X"].astype(float), stored["y"]
    for path in sorted(DATA.glob("*.csv.gz")):
        table = pd.read_csv(path)
        features = table.iloc[:, :-1].select_dtypes("number")
        if features.shape[1]:
            yield path.stem.removesuffix(".csv"), features.to_numpy(float), table.iloc[:, -1]


def accuracies():
    """Mean accuracy of every setting on every data set, features standardised."""
    rng = np.random.default_rng(0)
    for name, X, labels in data_sets():
        y = np.unique(np.asarray(labels), return_inverse=True)[1]
        frequent = np.isin(y, np.flatnonzero(np.bincount(y) >= 5))
        X, y = X[frequent], y[frequent]
        if len(y) > MOST_ROWS:
            rows = rng.choice(len(y), MOST_ROWS, replace=False)
            X, y = X[rows], y[rows]
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        models = {
            "Ridge": RidgeClassifier(),
            **{f"LRRR {beta:g}": LRRRClassifier(beta=beta) for beta in RIDGE_BETAS},
        }
        if X.size <= FEW_ENTRIES:
            models |= {f"SLRR {beta:g}": SLRRClassifier(beta=beta) for beta in SPARSE_BETAS}
        row = {"data": name}
        for label, model in models.items():
            pipeline = make_pipeline(StandardScaler(), model)
            row[label] = cross_val_score(pipeline, X, y, cv=folds).mean()
        print(row, flush=True)
        yield row


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)  # classes with fewer samples than folds
    with threadpool_limits(1):
        table = pd.DataFrame(list(accuracies())).set_index("data")
    tables = []
    for family in ("LRRR", "SLRR"):
        part = table[[column for column in table if column.startswith((family, "Ridge"))]].dropna()
        summary = pd.DataFrame(
            {
                "mean accuracy": part.mean(),
                "mean loss against the best": part.rsub(part.max(axis=1), axis=0).mean(),
                "largest loss": part.rsub(part.max(axis=1), axis=0).max(),
                "best on": (part.eq(part.max(axis=1), axis=0)).sum(),
            }
        )
        rows = [
            (index, *(f"{value:.4f}" for value in row[:3]), int(row.iloc[3]))
            for index, row in summary.iterrows()
        ]
        tables.append(
            Table(
                f"{family} on {len(part)} data sets",
                "Accuracy by five folds, features standardised, at full rank; RidgeClassifier at "
                "its default beside it.",
                ["setting", *summary.columns],
                rows,
            )
        )
    columns = list(table.columns)
    rows = [
        (name, *("" if np.isnan(value) else f"{value:.3f}" for value in row))
        for name, row in zip(table.index, table.to_numpy(), strict=True)
    ]
    tables.append(Table("By data set", "Mean accuracy.", ["data", *columns], rows))
    print(write_page("lowrank_defaults", tables))


if __name__ == "__main__":
    main()
