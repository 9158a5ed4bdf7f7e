"""DRM problems with their exact solutions, by the formulas of the paper."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from discreg.representation._iterative import Quadratic, iterate, largest_eigenvalue
from discreg.representation._problem import Groups, KernelOperator

ALGORITHMS = ["gd", "ppa", "apg"]
VARIANTS = [("gd", False), ("ppa", False), ("apg", False), ("apg", True)]
every_variant = pytest.mark.parametrize(("algorithm", "backtracking"), VARIANTS)
TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def random_samples(sizes, n_features, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(y), n_features)) + rng.normal(size=(len(sizes), n_features))[y], y


def paper_matrix(K, y, alpha, beta=0.0):
    """K + αH − αB + βI of (14), entry by entry."""
    n = len(y)
    matrix = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            same_class = y[i] == y[j]
            matrix[i, j] = K[i, j] - alpha * same_class * K[i, j] / np.sum(y == y[i])
            matrix[i, j] += (i == j) * (alpha * K[i, i] + beta)
    return matrix


def paper_residuals(K, K_x, y, w):
    """δ of (11)."""
    residuals = []
    for c in np.unique(y):
        own, other = np.where(y == c, w, 0), np.where(y == c, 0, w)
        residuals.append(own @ K @ own + other @ K @ other - 2 * own @ K_x)
    return np.array(residuals)


class Problem:
    """A kernel problem of a few points with its exact solutions."""

    def __init__(self, alpha=0.5, beta=0.2, seed=0, weights=None):
        self.X, self.y = random_samples([9, 6, 4, 1], 5, seed)
        self.alpha, self.beta = alpha, beta
        self.weights = np.ones(20) if weights is None else np.asarray(weights, dtype=float)
        K = rbf_kernel(self.X, gamma=0.1)
        points = self.X[::4] + 0.3
        self.K_x = rbf_kernel(points, self.X, gamma=0.1)
        self.k_xx = np.ones(len(points))
        groups = Groups.of(self.y, self.weights, 4)
        self.operator = KernelOperator(groups, K, alpha)
        self.quadratic = Quadratic(self.operator, beta)
        self.root = np.sqrt(self.weights)
        # In the coordinates u = v / √s the iterations are those of the paper.
        self.Q = self.root[:, None] * self.operator.apply(np.eye(20)) * self.root
        self.spectrum = np.linalg.eigvalsh(self.Q)
        system = self.Q + beta * np.eye(20)
        self.optimum = np.linalg.solve(system, self.root[:, None] * self.K_x.T).T * self.root

    def objective(self, V):
        """f of (13) for each row."""
        U = V / self.root
        quadratic = np.einsum("ij,jk,ik->i", U, self.Q + self.beta * np.eye(20), U)
        return 0.5 * quadratic - np.sum(self.K_x * V, axis=1)

    def distance(self, V):
        """‖w − w*‖ of each row."""
        return np.linalg.norm((V - self.optimum) / self.root, axis=1)

    def iterate(self, algorithm, *, start=None, rows=slice(None), **params):
        params = {"eigenvalue": largest_eigenvalue(self.operator), **TIGHT, **params}
        K_x, k_xx = self.K_x[rows], self.k_xx[rows]
        return iterate(self.quadratic, K_x, k_xx, algorithm, start=start, **params)

    def path(self, algorithm, n_iter, **params):
        """w⁽⁰⁾, …, w⁽ⁿ⁾: the same iterations, stopped after each of them."""
        start = params.get("start")
        first = np.zeros_like(self.K_x) if start is None else start
        stops = range(1, n_iter + 1)
        params["tol"] = 0
        return [first, *(self.iterate(algorithm, max_iter=t, **params).coef for t in stops)]


def start_of(problem, seed=5):
    return np.random.default_rng(seed).normal(scale=3, size=problem.K_x.shape)
