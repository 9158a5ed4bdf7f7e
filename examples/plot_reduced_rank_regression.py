"""
Several targets on few common directions
========================================

Twenty noisy targets depend on two directions of the features. Five folds find the rank, and its
error on new samples is far below that of ridge regression, which has full rank.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV

from discreg import ReducedRankRegression

rng = np.random.default_rng(0)
directions, loadings = rng.standard_normal((15, 2)), rng.standard_normal((2, 20))
X, X_new = rng.standard_normal((60, 15)), rng.standard_normal((2000, 15))
Y = X @ directions @ loadings + 6 * rng.standard_normal((60, 20))
truth = X_new @ directions @ loadings


def error(model):
    return np.mean((model.fit(X, Y).predict(X_new) - truth) ** 2)


ranks = range(1, 13)
grid = {"rank": ranks, "beta": np.geomspace(0.1, 1000, 5)}
search = GridSearchCV(ReducedRankRegression(), grid, scoring="neg_mean_squared_error").fit(X, Y)
beta = search.best_params_["beta"]

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(
    ranks,
    [error(ReducedRankRegression(rank=rank, beta=beta)) for rank in ranks],
    "o-",
    label="reduced rank",
)
ax.axhline(
    error(RidgeCV(np.geomspace(0.1, 1000, 13))), color="#D55E00", linestyle="--", label="RidgeCV"
)
ax.axvline(search.best_params_["rank"], color="#8C8C8C", linestyle=":", label="chosen in folds")
ax.set(xlabel="rank", ylabel="squared error on new samples", ylim=(0, None))
ax.legend()
