"""Independent answers that the models are compared with: convex programming and brute force."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import cvxpy as cp
import numpy as np

MODELS = ("lsr", "dlsr", "relsr", "grelsr")


@dataclass
class Optimum:
    """Solution of a model by an interior-point method."""

    objective: float
    coef: np.ndarray
    intercept: np.ndarray
    targets: np.ndarray


def convex_optimum(
    model,
    X,
    y,
    beta,
    *,
    weights=None,
    group_penalty=0.0,
    fit_intercept=True,
    within_class=0.0,
) -> Optimum:
    """Solve equation (4), (6), (10) of ReLSR or (18) of GReLSR as written, with Clarabel.

    The penalty of the within-class scatter is added to it.
    """
    n_samples, n_features = X.shape
    n_classes = int(y.max()) + 1
    weights = np.ones(n_samples) if weights is None else np.asarray(weights, dtype=float)
    true = np.eye(n_classes)[y]
    false = np.nonzero(true == 0)
    W = cp.Variable((n_features, n_classes))
    b = cp.Variable((1, n_classes))
    T = cp.Variable((n_samples, n_classes))
    centres = cp.Variable(n_classes)
    own = cp.sum(cp.multiply(true, T), axis=1)
    constraints = [] if fit_intercept else [b == 0]
    if model == "lsr":
        constraints += [true == T]
    elif model == "dlsr":
        constraints += [own >= 1, T[false] <= 0]
    else:
        margins = cp.reshape(own, (n_samples, 1), order="C") - T
        constraints += [margins[false] >= 1]
    root = np.sqrt(weights)
    residuals = cp.multiply(root[:, None], X @ W + np.ones((n_samples, 1)) @ b - T)
    objective = cp.sum_squares(residuals) + beta * cp.sum_squares(W)
    if within_class > 0:
        of_class = weights[:, None] * true
        deviations = X - true @ ((of_class.T @ X) / of_class.sum(axis=0)[:, None])
        objective += within_class * cp.sum_squares((root[:, None] * deviations) @ W)
    if model == "grelsr":
        spread = cp.multiply(root, own - 1 - true @ centres)
        objective += group_penalty * cp.sum_squares(spread)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return Optimum(problem.value, W.value, b.value.ravel(), T.value)


def best_row_targets(scores, true, group_penalty=0.0, centre=0.0):
    """Minimiser of one row's retargeting problem by trying every set of active constraints.

    With the classes of a set held at t_k - 1 the problem is one of least squares in t_k; the best
    feasible candidate is the optimum.
    """
    n_classes = len(scores)
    others = [j for j in range(n_classes) if j != true]
    best, best_value = None, np.inf
    for size in range(n_classes):
        for active in combinations(others, size):
            values = [scores[true], *(scores[j] + 1 for j in active)]
            top = (sum(values) + group_penalty * (1 + centre)) / (len(values) + group_penalty)
            targets = np.array(scores, dtype=float)
            targets[true] = top
            targets[list(active)] = top - 1
            if all(top - targets[j] >= 1 - 1e-12 for j in others):
                value = np.sum((scores - targets) ** 2) + group_penalty * (top - 1 - centre) ** 2
                if value < best_value:
                    best, best_value = targets, value
    return best
