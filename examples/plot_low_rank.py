"""
Rank and features of low-rank regression
========================================

Left: accuracy of LRLR and LRRR on new digits for every rank; one fit gives all ranks. The dashed
lines are the accuracies at full rank. Middle: the singular values of SLRR's coefficients. Right:
the absolute values of these coefficients, one row per pixel.

The penalty of LRRR improves accuracy from rank three. With 200 samples of ten digits, full rank
is the best rank, unlike on the paper's data. SLRR is fitted with rank six and has six nonzero
singular values. Dark rows are pixels that SLRR does not use.

The picture of the guide is made by ``python examples/plot_low_rank.py docs/images/low_rank.png``.
"""

from __future__ import annotations

import sys

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from discreg import LRLRClassifier, LRRRClassifier, SLRRClassifier
from discreg.inspection import CoefficientDisplay, RankDisplay

RANK = 6


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, train_size=200, stratify=y, random_state=0)
    scaler = StandardScaler().fit(X)
    X, X_new = scaler.transform(X), scaler.transform(X_new)
    models = {"LRLR": LRLRClassifier(), "LRRR": LRRRClassifier(beta=100.0)}
    paths = {name: model.rank_path(X, y) for name, model in models.items()}
    sparse = SLRRClassifier(rank=RANK, beta=5.0).fit(X, y)

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for name, path in paths.items():
        RankDisplay.from_path(path, X_new, y_new, name=name, ax=left)
    left.set_title("accuracy on new digits")
    CoefficientDisplay.from_estimator(sparse, axes=(middle, right))
    middle.set_title(f"SLRR of rank {RANK}")
    right.set_title(f"{len(sparse.selected_features_)} of {X.shape[1]} pixels are used")
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=110)


main()
