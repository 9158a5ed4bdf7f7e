"""
Training samples that speak for a prediction
============================================

``explain_prediction`` divides the log-odds of the predicted label and the runner-up among the
training samples. Left: a digit. Then the training digits that speak loudest for the prediction,
and those that speak for the runner-up.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from discreg import AutoClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=200, stratify=y, random_state=0)
model = AutoClassifier().fit(X, y)
hardest = np.argmin(model.predict_proba(X_new[:300]).max(axis=1))
explanation = model.explain_prediction(X_new[hardest])
rows = [*explanation.rows_for(3), *explanation.rows_against(3)]

figure, axes = plt.subplots(1, 7, figsize=(11, 2.2), layout="constrained")
axes[0].imshow(X_new[hardest].reshape(8, 8), cmap="gray_r")
share = explanation.probabilities[explanation.label]
axes[0].set_title(f"is it {explanation.label} ({share:.0%})\nor {explanation.runner_up}?")
for ax, row in zip(axes[1:], rows, strict=True):
    ax.imshow(X[row.index].reshape(8, 8), cmap="Oranges" if row.contribution > 0 else "Blues")
    ax.set_title(f"a {row.label}\n{row.contribution:+.2f}")
for ax in axes:
    ax.set_axis_off()
