"""
Coverage and size of prediction sets
====================================

Sets of classes at many confidence levels, on digits that the model has not seen. Left: the
coverage follows the wanted level. Right: a digit whose set has more than one class, and what is
in it.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from discreg import ReLSRClassifier
from discreg.inspection import PredictionSetDisplay

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16, y, train_size=600, stratify=y, random_state=0)
model = ReLSRClassifier().fit(X, y)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
PredictionSetDisplay.from_estimator(model, X_new, y_new, ax=left)

sets = model.predict_set(X_new, 0.99)
doubtful = np.flatnonzero(sets.sum(axis=1) > 1)[:8]
rows = [np.pad(X_new[each].reshape(8, 8), ((5, 1), (3, 3))) for each in doubtful]
right.imshow(np.vstack([np.hstack(rows[:4]), np.hstack(rows[4:])]), cmap="gray_r")
for place, each in enumerate(doubtful):
    text = " or ".join(str(label) for label in np.flatnonzero(sets[each]))
    across, down = 14 * (place % 4) + 6.5, 14 * (place // 4) + 3
    right.text(across, down, text, ha="center", color="#D55E00", fontsize=8)
right.set_axis_off()
right.set_title("sets of several digits at 99 %")
