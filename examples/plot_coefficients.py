"""
What linear models look at
==========================

Coefficients of four digits, as pictures: red pixels raise its score, blue ones lower it.
LSR uses all pixels that vary. SLRR uses the same pixels for all digits, here little more than half
of them, and loses little accuracy.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from discreg import LSRClassifier, SLRRClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16, y, train_size=800, stratify=y, random_state=0)
figure, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
models = LSRClassifier(probability=False), SLRRClassifier(beta=2.0, probability=False)
for row, model in zip(axes, models, strict=True):
    model.fit(X, y)
    used = np.any(model.coef_ != 0, axis=0).sum()
    name = type(model).__name__.removesuffix("Classifier")
    row[0].set_ylabel(f"{name}: {used} pixels\naccuracy {model.score(X_new, y_new):.2f}")
    for ax, digit in zip(row, (0, 3, 6, 8), strict=True):
        largest = np.abs(model.coef_[digit]).max()
        ax.imshow(model.coef_[digit].reshape(8, 8), cmap="RdBu_r", vmin=-largest, vmax=largest)
        ax.set(xticks=[], yticks=[], title=str(digit))
