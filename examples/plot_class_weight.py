"""
Rare cases: class weights and thresholds
========================================

One sample in twenty is a case. Left: balanced class weights move the boundary of ReLSR towards
the frequent class. Right: the same trade can be made after the fit, by a threshold on the
probability. Both models have nearly the same curve: weights choose a point on it.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.metrics import PrecisionRecallDisplay, precision_score, recall_score

from discreg import ReLSRClassifier


def samples(seed):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(0, 1, (950, 2)), rng.normal([1.7, 1.7], 0.8, (50, 2))])
    return X, np.repeat([0, 1], [950, 50])


X, y = samples(0)
X_new, y_new = samples(1)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.scatter(*X.T, c=np.where(y == 1, "#D55E00", "#8C8C8C"), s=8)
for class_weight, colour in ((None, "#0072B2"), ("balanced", "#009E73")):
    model = ReLSRClassifier(class_weight=class_weight).fit(X, y)
    (slope, rise), level = model.coef_[0], model.intercept_[0]
    across = np.array([-2.0, 4.0])
    left.plot(across, -(level + slope * across) / rise, color=colour, label=f"{class_weight}")
    style = {"color": colour, "linestyle": "--" if class_weight else "-"}
    PrecisionRecallDisplay.from_estimator(
        model, X_new, y_new, ax=right, name=f"{class_weight}", curve_kwargs=style
    )
    found = model.predict(X_new)
    right.plot(recall_score(y_new, found), precision_score(y_new, found), "o", color=colour)
left.set(xlim=(-3.5, 4.5), ylim=(-3.5, 4.5))
left.legend(title="class_weight")
