"""
What AutoClassifier has tried
=============================

``AutoClassifier`` tries kernels, trees, boosting and logistic regression on held-out samples and
combines the best. ``LeaderboardDisplay`` draws the held-out log-loss of the best candidate of each
kind; filled points are members.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from discreg import AutoClassifier
from discreg.inspection import LeaderboardDisplay

X, y = load_breast_cancer(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=200, stratify=y, random_state=0)
model = AutoClassifier().fit(X, y)

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
LeaderboardDisplay.from_estimator(model, ax=ax)
print(f"expected accuracy {model.held_out_accuracy_:.3f}")
print(f"accuracy on new samples {model.score(X_new, y_new):.3f}")
