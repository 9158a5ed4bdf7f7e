"""The low-rank paper's experiments: accuracy of low rank against full rank on its data sets.

Five folds; penalties from the paper's range by five folds of the training part alone; accuracy at
every rank from half the number of classes up (section 4.2). Run
``python benchmarks/lowrank_protocol.py``. The data are read from the folder named by
``DISCREG_DATA``, or from ``../shared/data`` beside the repository; what is missing is left out.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _timing import Table, write_page
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from discreg import (
    LRLRClassifier,
    LRRRClassifier,
    LRRRClassifierCV,
    SLRRClassifier,
    SLRRClassifierCV,
)

DATA = Path(os.environ.get("DISCREG_DATA", Path(__file__).parents[2] / "shared" / "data"))
BETAS = tuple(10.0**power for power in range(5, -6, -1))
SPARSE_BETAS = (10.0, 3.0, 1.0, 0.3, 0.1)
PER_DIGIT = 15


def arrays(name: str):
    """Rows in [0, 1] and labels."""
    if name == "vowel":
        path = DATA / "vowel.csv.gz"
        if not path.exists():
            return None
        table = pd.read_csv(path)
        return table.filter(regex="F").to_numpy(float), table["y"].to_numpy() - 1
    source = {"BinAlpha36": "binalpha36", "BinAlpha26": "binalpha36", "Umist": "umist_32x32"}
    path = DATA / f"{source.get(name, 'mnist')}.npz"
    if not path.exists():
        return None
    with np.load(path) as stored:
        X, y = stored["X"].astype(float), stored["y"].astype(int)
    if name == "BinAlpha26":  # the letters, which come after the ten digits
        X, y = X[y >= np.unique(y)[10]], y[y >= np.unique(y)[10]]
    if name == "MNIST":
        rng = np.random.default_rng(0)
        rows = [rng.choice(np.flatnonzero(y == digit), PER_DIGIT, False) for digit in range(10)]
        X, y = X[np.concatenate(rows)], y[np.concatenate(rows)]
    return X / np.abs(X).max(), y


def best_per_rank(search, ranks):
    """The penalty of the best inner score at every rank, and the rank of the best of all."""
    results = pd.DataFrame(search.cv_results_["params"])
    results["score"] = search.cv_results_["mean_test_score"]
    chosen = {rank: results[results["rank"] == rank]["score"].idxmax() for rank in ranks}
    betas = {rank: results.loc[index, "beta"] for rank, index in chosen.items()}
    return betas, search.best_params_["rank"]


def accuracies(model: str, X, y, train, test, ranks):
    """Accuracy on the test part at every rank, and the rank that the training part chooses."""
    full = ranks[-1]
    if model == "LRLR":
        return LRLRClassifier().rank_path(X[train], y[train]).score(X[test], y[test])[
            np.array(ranks) - 1
        ], None
    inner = StratifiedKFold(5, shuffle=True, random_state=1)
    if model == "LRRR":
        search = LRRRClassifierCV(betas=BETAS, ranks=ranks, cv=inner).fit(X[train], y[train])
        betas, chosen = best_per_rank(search, ranks)
        paths = {
            beta: LRRRClassifier(beta=beta).rank_path(X[train], y[train]).score(X[test], y[test])
            for beta in set(betas.values())
        }
        return np.array([paths[betas[rank]][rank - 1] for rank in ranks]), chosen
    search = SLRRClassifierCV(betas=SPARSE_BETAS, ranks=[full], cv=inner).fit(X[train], y[train])
    beta = search.best_params_["beta"]
    return np.array(
        [
            SLRRClassifier(rank=rank, beta=beta).fit(X[train], y[train]).score(X[test], y[test])
            for rank in ranks
        ]
    ), None


def experiments():
    for name in ("Umist", "BinAlpha36", "BinAlpha26", "vowel", "MNIST"):
        data = arrays(name)
        if data is None:
            print(f"{name}: not in {DATA}, left out")
            continue
        X, y = data
        n_classes = len(np.unique(y))
        ranks = list(range((n_classes + 1) // 2, min(n_classes - 1, X.shape[1]) + 1))
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        for model in ("LRLR", "LRRR", "SLRR"):
            scores, chosen = [], []
            for train, test in folds:
                by_rank, rank = accuracies(model, X, y, train, test, ranks)
                scores.append(by_rank)
                chosen.append(by_rank[ranks.index(rank)] if rank is not None else np.nan)
            scores = np.array(scores)
            means = scores.mean(axis=0)
            best = int(means.argmax())
            difference = scores[:, best] - scores[:, -1]
            row = (
                f"{name}, {X.shape[0]:,} x {X.shape[1]:,}, {n_classes} classes",
                model,
                f"{means[-1]:.3f} ± {scores[:, -1].std():.3f}",
                ranks[best],
                f"{means[best]:.3f} ± {scores[:, best].std():.3f}",
                f"{difference.mean():+.3f} ± {difference.std():.3f}",
                f"{np.mean(chosen):.3f}" if model == "LRRR" else "",
            )
            print(*row, sep=" | ", flush=True)
            yield row


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        rows = list(experiments())
    text = (
        "Accuracy over 5 folds, mean ± standard deviation. Features are divided by their largest "
        "absolute value. Full rank is n_classes − 1, all that centred classes have. The best rank "
        "is that of the best mean on the test folds, as in the paper's Figure 2, so its advantage "
        "is an optimistic one; the last column lets the training part choose the rank. `beta` of "
        "LRRR is chosen for every rank from 10^-5 to 10^5; that of SLRR at full rank from 0.1 to "
        "10, around and above which no feature is left; smaller ones were left out for time."
    )
    header = ["data", "model", "full rank", "best rank", "at it", "difference", "rank chosen"]
    print(write_page("lowrank_protocol", [Table("Low rank against full rank", text, header, rows)]))


if __name__ == "__main__":
    main()
