"""
Calibrated probabilities
========================

Of the samples with a probability of 0.8, eight of ten should be positive. ``ReLSRClassifier`` and
``ODMClassifier`` calibrate their probabilities in ``fit``, on the scores of held-out training
samples. Naive Bayes is far too sure of itself.
"""

from matplotlib import pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from discreg import ODMClassifier, ReLSRClassifier

X, y = make_classification(
    4000, 20, n_informative=5, n_redundant=10, class_sep=0.6, flip_y=0.1, random_state=0
)
X, X_new, y, y_new = train_test_split(X, y, train_size=500, stratify=y, random_state=0)

figure, ax = plt.subplots(figsize=(5.4, 5), layout="constrained")
for model in (ReLSRClassifier(), ODMClassifier(), GaussianNB()):
    CalibrationDisplay.from_estimator(
        model.fit(X, y), X_new, y_new, n_bins=8, strategy="quantile", ax=ax
    )
