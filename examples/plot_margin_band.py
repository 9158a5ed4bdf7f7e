"""
The margin band of ODM
======================

ODM wants all margins near one, neither smaller nor larger. Samples inside of the band from 1 - D
to 1 + D have no loss and are not support vectors. A wider band (right) leaves fewer of them.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs

from discreg import ODMClassifier

X, y = make_blobs(160, centers=[[-1.5, -0.5], [1.5, 0.5]], cluster_std=0.9, random_state=2)
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=True)
across = np.array([-5.0, 5.0])
for ax, D in zip(axes, (0.1, 0.4, 0.8), strict=True):
    model = ODMClassifier(kernel="linear", D=D, C1=100, C2=50, solver="dcd").fit(X, y)
    support = np.isin(np.arange(len(y)), model.support_)
    colours = np.where(y == 1, "#D55E00", "#0072B2")
    ax.scatter(*X[~support].T, facecolors="none", edgecolors=colours[~support], s=18)
    ax.scatter(*X[support].T, c=colours[support], s=18)
    (slope, rise), level = model.coef_[0], model.intercept_[0]
    for margin, style in ((0, "-"), (1 - D, ":"), (1 + D, ":"), (D - 1, ":"), (-1 - D, ":")):
        ax.plot(across, (margin - level - slope * across) / rise, "k" + style, linewidth=1)
    ax.set(xlim=(-4.2, 4.2), ylim=(-3.2, 3.2), xticks=[], yticks=[])
    ax.set_title(f"D={D}: {support.sum()} of {len(y)} are support vectors")
