"""Default alpha and beta of DRM by measurement on real data.

Run ``python benchmarks/drm_defaults.py``. Data and splits are those of ``default_penalties.py``: 40
% for training (at most 500 rows), the rest for testing. One default serves every set, so nothing is
tuned on a test part.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
from _timing import Table, write_page
from default_penalties import SETS, load, splits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from discreg import DRMClassifier, DRMClassifierCV

ALPHAS = (0.0, 1e-3, 1e-2, 0.1, 1.0, 10.0)
BETAS = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 10.0)
PEERS = {
    "DRM": DRMClassifier(),
    "DRM, leave-one-out": DRMClassifierCV(gammas=("scale",)),
    "SVC": SVC(),
    "KNeighborsClassifier": KNeighborsClassifier(),
}
KINDS = ("rbf, raw", "rbf, standardised", "linear, standardised")


def measure(scores, name, X, y) -> None:
    """Append test accuracies of every setting, and of the peers, on one data set."""
    for scaling, X_train, X_test, y_train, y_test in splits(X, y):
        for kernel in ("rbf", "linear"):
            kind = f"{kernel}, {scaling}"
            if kind not in KINDS:
                continue
            for alpha, beta in product(ALPHAS, BETAS):
                model = DRMClassifier(alpha=alpha, beta=beta, kernel=kernel)
                predicted = model.fit(X_train, y_train).predict(X_test)
                key = (kind, alpha, beta, name)
                scores.setdefault(("accuracy", *key), []).append(np.mean(predicted == y_test))
                scores.setdefault(("balanced", *key), []).append(
                    balanced_accuracy_score(y_test, predicted)
                )
        for peer, model in PEERS.items():
            predicted = model.fit(X_train, y_train).predict(X_test)
            scores.setdefault(("peer", "accuracy", peer, scaling, name), []).append(
                np.mean(predicted == y_test)
            )
            scores.setdefault(("peer", "balanced", peer, scaling, name), []).append(
                balanced_accuracy_score(y_test, predicted)
            )


def regrets(scores, measured, kind, names):
    """Mean points lost against the best setting of each set, for every alpha (row) and beta."""
    table = np.array(
        [
            [[100 * np.mean(scores[measured, kind, a, b, name]) for name in names] for b in BETAS]
            for a in ALPHAS
        ]
    )
    return (table.max(axis=(0, 1)) - table).mean(axis=2)


def main() -> None:
    scores: dict = {}
    names = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")
        for name in SETS:
            data = load(name)
            if data is None:
                print(f"missing: {name}")
                continue
            measure(scores, name, *data)
            names.append(name)
            print(name, flush=True)
    default = DRMClassifier()
    tables = []
    for measured, kind in product(("accuracy", "balanced"), KINDS):
        lost = regrets(scores, measured, kind, names)
        label = "accuracy" if measured == "accuracy" else "balanced accuracy"
        tables.append(
            Table(
                f"{label.capitalize()}, {kind}",
                f"Mean over {len(names)} data sets of the {label} (in points) lost against the "
                f"best pair of each set. The defaults are alpha {default.alpha:g} and beta "
                f"{default.beta:g}.",
                ["alpha \\ beta", *(f"{beta:g}" for beta in BETAS)],
                [
                    [f"{alpha:g}", *(f"{value:.2f}" for value in row)]
                    for alpha, row in zip(ALPHAS, lost, strict=True)
                ],
            )
        )
    rows = []
    for peer in PEERS:
        cells = [
            f"{100 * np.mean([np.mean(scores['peer', m, peer, s, n]) for n in names]):.2f}"
            for m in ("accuracy", "balanced")
            for s in ("raw", "standardised")
        ]
        rows.append([peer, *cells])
    tables.append(
        Table(
            "Defaults beside scikit-learn's",
            "Mean test accuracy and balanced accuracy, everything at its defaults with the RBF "
            "kernel; the second line chooses alpha and beta by leave-one-out on the training part. "
            "The first line is favoured: its alpha and beta were picked from the grid above by the "
            "results on these very test parts, those of the peers were not.",
            ["model", "raw", "standardised", "balanced, raw", "balanced, standardised"],
            rows,
        )
    )
    print(write_page("drm_defaults", tables))


if __name__ == "__main__":
    main()
