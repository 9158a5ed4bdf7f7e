"""
Rows of the same patient
========================

Five rows per patient, and labels that have nothing to do with the features. Leave-one-out over
rows finds a patient's other rows and looks splendid. Leave-one-group-out shows the truth: a coin.
The wider the kernel, the less it can recognise patients.
"""

import numpy as np
from matplotlib import pyplot as plt

from discreg import LSRClassifier, LSRClassifierCV

rng = np.random.default_rng(0)
patient = np.repeat(np.arange(60), 5)
y = rng.integers(2, size=60)[patient]
X = rng.standard_normal((60, 20))[patient] + 0.3 * rng.standard_normal((300, 20))

gammas = np.geomspace(1e-4, 1, 9)
model = LSRClassifier(kernel="rbf", probability=False)
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for groups, label in ((None, "rows"), (patient, "patients")):
    scores = [
        LSRClassifierCV(model, betas=[0.01], gammas=[gamma]).fit(X, y, groups=groups).best_score_
        for gamma in gammas
    ]
    ax.semilogx(gammas, scores, "o-", label=f"left out: {label}")
ax.axhline(0.5, color="#8C8C8C", linestyle=":", label="a coin")
ax.set(xlabel="gamma", ylabel="held-out accuracy", ylim=(0.3, 1.03))
ax.legend()
