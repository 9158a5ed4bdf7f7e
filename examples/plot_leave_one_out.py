"""
Leave-one-out without refits
============================

``LSRClassifierCV`` computes the leave-one-out accuracy of all penalties from one decomposition.
It equals that of refits (crosses, for a few penalties). The accuracy on new samples has its
maximum at nearly the same penalty, while the accuracy on training samples says nothing.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import LeaveOneOut, cross_val_score, train_test_split

from discreg import LSRClassifier, LSRClassifierCV

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16, y, train_size=150, stratify=y, random_state=0)
betas = np.geomspace(1e-5, 10, 19)
search = LSRClassifierCV(betas=betas).fit(X, y)
tried = search.cv_results_["param_beta"].astype(float)
order = np.argsort(tried)

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.semilogx(
    tried[order],
    search.cv_results_["mean_test_score"][order],
    color="#D55E00",
    label="leave-one-out",
)
fits = [LSRClassifier(beta=beta, probability=False).fit(X, y) for beta in betas]
ax.semilogx(
    betas, [fit.score(X_new, y_new) for fit in fits], "--", color="#0072B2", label="new samples"
)
ax.semilogx(
    betas, [fit.score(X, y) for fit in fits], ":", color="#8C8C8C", label="training samples"
)
few = betas[::6]
refits = [
    cross_val_score(LSRClassifier(beta=beta, probability=False), X, y, cv=LeaveOneOut()).mean()
    for beta in few
]
ax.semilogx(few, refits, "x", color="black", label="leave-one-out by refits")
ax.set(xlabel="beta", ylabel="accuracy")
ax.legend()
