"""
Training samples that represent a digit
=======================================

Left: a new digit, and the training samples with the largest weights in its representation.
Middle: all weights, by class. Right: exact leave-one-out accuracy over alpha and beta.

The picture of the guide is made by ``python examples/plot_representation.py
docs/images/representation.png``.
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from discreg import DRMClassifier, DRMClassifierCV

OWN, OTHER = "#D55E00", "#8C8C8C"
N_SHOWN = 3
ALPHAS = BETAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def draw_digits(axes: Axes, digit: np.ndarray, samples: np.ndarray, weights: np.ndarray) -> None:
    """Draw the digit, and the samples with the largest weights."""
    order = np.argsort(-weights)[:N_SHOWN]
    pictures = [digit, *samples[order]]
    row = np.hstack([np.pad(picture.reshape(8, 8), 1) for picture in pictures])
    axes.imshow(row, cmap="gray_r")
    captions = ["new", *(f"{weights[sample]:.2f}" for sample in order)]
    for place, caption in enumerate(captions):
        axes.text(10 * place + 4.5, 11.5, caption, ha="center")
    axes.set_title("a digit and the samples that explain it")
    axes.axis("off")


def draw_weights(axes: Axes, weights: np.ndarray, y: np.ndarray, predicted: int) -> None:
    """Draw the weights of all training samples by class."""
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, size=len(y))
    colours = np.where(y == predicted, OWN, OTHER)
    axes.scatter(y + noise, weights, s=8, c=colours, linewidths=0)
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_xticks(np.unique(y))
    axes.set_xlabel("class of the training sample")
    axes.set_ylabel("weight")
    axes.set_title("its representation")


def draw_grid(axes: Axes, search: DRMClassifierCV) -> None:
    """Draw the leave-one-out accuracy of every pair of alpha and beta."""
    results = search.cv_results_
    alphas, betas = np.unique(results["param_alpha"]), np.unique(results["param_beta"])
    table = np.empty((len(alphas), len(betas)))
    for setting, score in zip(results["params"], results["mean_test_score"], strict=True):
        row = np.searchsorted(alphas, setting["alpha"])
        table[row, np.searchsorted(betas, setting["beta"])] = score
    image = axes.imshow(table, origin="lower", cmap="cividis", aspect="auto")
    axes.set_xticks(range(len(betas)), [f"{beta:g}" for beta in betas])
    axes.set_yticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    axes.set_xlabel("beta")
    axes.set_ylabel("alpha")
    axes.set_title("leave-one-out accuracy")
    plt.colorbar(image, ax=axes)


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X, X_new, y, _ = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
    model = DRMClassifier().fit(X, y)
    weights = model.representation(X_new[:1])[0]
    search = DRMClassifierCV(alphas=ALPHAS, betas=BETAS, gammas=["scale"]).fit(X, y)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    draw_digits(left, X_new[0], X, weights)
    draw_weights(middle, weights, y, model.predict(X_new[:1])[0])
    draw_grid(right, search)
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=110)


main()
