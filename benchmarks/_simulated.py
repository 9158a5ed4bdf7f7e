"""Tables whose class probabilities are known, to check probabilities and prediction sets."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

KINDS = ("logit", "ring", "rare", "four", "separable", "wide", "noise")
FEWEST = 2  # training rows of each class


def draw(kind: str, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw normal columns, labels, and the true probabilities of the classes.

    Parameters
    ----------
    kind : str
        "logit" is linear and "ring" is not; "rare" has 5 % cases, "four" has four classes,
        "separable" hardly overlaps, "wide" has 200 columns, and "noise" is unrelated to them.
    n_rows : int
    seed : int
    """
    random = np.random.default_rng([KINDS.index(kind), n_rows, seed])
    while True:
        X = random.standard_normal((n_rows, 200 if kind == "wide" else 5))
        shares = true_shares(kind, X)
        y = (random.random((n_rows, 1)) > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)
        if np.bincount(y, minlength=shares.shape[1]).min() >= FEWEST:
            return X, y, shares


def true_shares(kind: str, X: np.ndarray) -> np.ndarray:
    """Compute the probabilities of the classes."""
    if kind == "four":
        scales, offsets = (1.2, 1.0, 0.8, 0.6), (0.8, 0.3, 0.0, -1.2)
        return softmax(X[:, :4] * scales + offsets, axis=1)
    logits = {
        "logit": X[:, 0] - 0.8 * X[:, 1],
        "ring": 2 * (X[:, 0] ** 2 + X[:, 1] ** 2 - 1.6),
        "rare": 1.2 * X[:, 0] - X[:, 1] - 3.6,
        "separable": 40 * X[:, 0],
        "wide": 0.6 * X[:, :10].sum(axis=1),
        "noise": np.zeros(len(X)),
    }[kind]
    return np.column_stack([expit(-logits), expit(logits)])
