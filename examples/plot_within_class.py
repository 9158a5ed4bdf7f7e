"""
Faces in different light
========================

Forty people, four pictures of each for training, four in new light for testing. Left: pictures of
two people; the light changes a picture more than the person does. Right: ``within_class``
penalises directions in which the pictures of one person differ, and the accuracy on new light
rises. Above a value it falls again.
"""

import numpy as np
from matplotlib import pyplot as plt

from discreg import LSRClassifier, ReLSRClassifier

rng = np.random.default_rng(0)
line = np.linspace(-1, 1, 16)
pixels = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
centres = rng.uniform(-1, 1, (30, 2))
bumps = np.exp(-4 * ((pixels[:, None] - centres) ** 2).sum(axis=2)).T
light = np.array([pixels[:, 0], pixels[:, 1], (pixels**2).sum(axis=1)])
person = np.repeat(np.arange(40), 8)
X = rng.standard_normal((40, 30))[person] @ bumps + 3 * rng.standard_normal((320, 3)) @ light
X += 0.9 * rng.standard_normal(X.shape)
train = np.tile(np.arange(8) < 4, 40)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
rows = [np.hstack([X[8 * who + shot].reshape(16, 16) for shot in range(5)]) for who in (0, 1)]
left.imshow(np.vstack(rows), cmap="gray")
left.set_axis_off()
left.set_title("two people in five lights")

weights = np.array([0, 0.03, 0.1, 0.3, 1, 3, 10, 30])
for model, colour in ((LSRClassifier, "#4D4D4D"), (ReLSRClassifier, "#D55E00")):
    fits = [
        model(within_class=weight, probability=False).fit(X[train], person[train])
        for weight in weights
    ]
    scores = [fit.score(X[~train], person[~train]) for fit in fits]
    right.plot(weights, scores, "o-", color=colour, label=model.__name__)
right.set_xscale("symlog", linthresh=0.03)
right.set(xlabel="within_class", ylabel="accuracy in new light")
right.legend()
