"""
Rejecting what was never seen
=============================

DRM is trained on the digits 0 to 7 and gets 8 and 9 as well. A digit of an unknown class is
represented badly by all training samples, so its residual is large. ``reject_above`` gives such
samples the ``unknown_label``. Left: residuals of known and unknown digits. Right: how many of
each are rejected, by the threshold.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from discreg import DRMClassifier

X, y = load_digits(return_X_y=True)
X = X / 16
known = y < 8
X_train, X_known, y_train, _ = train_test_split(
    X[known], y[known], train_size=500, stratify=y[known], random_state=0
)
model = DRMClassifier(kernel="rbf", gamma=0.05).fit(X_train, y_train)
residuals = {
    name: model.class_residuals(rows).min(axis=1) + 1  # k(x, x) is 1
    for name, rows in (("known, 0 to 7", X_known), ("unknown, 8 and 9", X[~known]))
}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
thresholds = np.linspace(0, 1.2, 60)
for (name, found), colour in zip(residuals.items(), ("#0072B2", "#D55E00"), strict=True):
    left.hist(
        found, bins=np.linspace(0, 1.2, 40), alpha=0.6, density=True, color=colour, label=name
    )
    shares = [np.mean(found > threshold) for threshold in thresholds]
    right.plot(thresholds, shares, color=colour, label=name)
left.set(xlabel="smallest residual", ylabel="density")
right.set(xlabel="threshold", ylabel="share of rejected digits")
left.legend()
