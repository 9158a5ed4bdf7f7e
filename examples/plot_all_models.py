"""
Decision regions of all models
==============================

Three classes: two half moons and a ball above them. The linear models (top) draw straight lines;
with an RBF kernel (bottom) all of them follow the moons. Colours are the predicted classes;
stronger colours mean larger probabilities. The number is the accuracy on new samples.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_moons

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LDMClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReLSRClassifier,
)

COLOURS = np.array([[0, 114, 178], [230, 159, 0], [0, 158, 115]]) / 255


def samples(seed):
    rng = np.random.default_rng(seed)
    X, y = make_moons(200, noise=0.2, random_state=seed)
    ball = rng.normal([0.5, 1.6], 0.3, size=(60, 2))
    return np.vstack([X, ball]), np.append(y, np.full(60, 2))


X, y = samples(0)
X_new, y_new = samples(1)
models = [LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier, LRRRClassifier]
models += [DRMClassifier, ODMClassifier, LDMClassifier]
grid = np.meshgrid(np.linspace(-1.8, 2.8, 120), np.linspace(-1.4, 2.6, 120))
points = np.stack([each.ravel() for each in grid], axis=1)

figure, axes = plt.subplots(2, len(models), figsize=(16, 4.4), layout="constrained")
for row, kernel in zip(axes, ("linear", "rbf"), strict=True):
    for ax, model in zip(row, models, strict=True):
        fitted = model(kernel=kernel).fit(X, y)
        shares = fitted.predict_proba(points)
        strength = (shares.max(axis=1, keepdims=True) - 1 / 3) * 0.9
        picture = 1 - strength * (1 - COLOURS[shares.argmax(axis=1)])
        ax.imshow(picture.reshape(*grid[0].shape, 3), origin="lower", extent=(-1.8, 2.8, -1.4, 2.6))
        ax.scatter(*X.T, c=COLOURS[y], s=5, edgecolors="white", linewidths=0.2)
        ax.text(2.7, -1.3, f"{fitted.score(X_new, y_new):.2f}", ha="right")
        ax.set(xticks=[], yticks=[], title=model.__name__.removesuffix("Classifier"))
    row[0].set_ylabel(kernel)
