"""The low-rank models as the paper writes them: scatter matrices and d × d iterations."""

import cvxpy as cp
import numpy as np
from scipy import linalg


def indicators(y, weights=None):
    """Normalised class indicators of section 2.1, for rows that count `weights` times."""
    hot = np.eye(y.max() + 1)[y]
    weights = np.ones(len(y)) if weights is None else weights
    return hot / np.sqrt(weights @ hot)


def score_scale(y, weights=None):
    """√(n/c), by which the coefficients of a fitted model exceed the paper's W."""
    return np.sqrt((len(y) if weights is None else np.sum(weights)) / len(np.unique(y)))


def paper_coefficients(model, y, weights=None):
    """The paper's W of a fitted model, one column per class for any number of classes."""
    return model.scalings_ @ model.directions_.T / score_scale(y, weights)


def centre(X, weights=None):
    return X - np.average(X, axis=0, weights=weights)


def scatters(X, y):
    """Total and between-class scatter (10) of centred rows."""
    moments = X.T @ indicators(y)
    return X.T @ X, moments @ moments.T


def paper_solution(X, y, rank, penalty):
    """W = AB by Algorithms 1 and 2, `penalty` a d × d matrix: A by (21), B by (18)."""
    total, between = scatters(X, y)
    matrix = total + penalty
    _, vectors = linalg.eigh(between, matrix)
    A = vectors[:, ::-1][:, :rank]
    B = np.linalg.solve(A.T @ matrix @ A, A.T @ X.T @ indicators(y))
    return A @ B, A


def objective(X, Y, W, beta, weights=None):
    """Equation (16)."""
    weights = np.ones(len(X)) if weights is None else weights
    return weights @ np.sum((Y - X @ W) ** 2, axis=1) + beta * np.sum(W**2)


def sparse_objective(X, Y, W, beta, weights=None):
    """Equation (24)."""
    return objective(X, Y, W, 0.0, weights) + beta * np.linalg.norm(W, axis=1).sum()


def sparse_optimum(X, Y, beta, weights=None):
    """Equation (24) at full rank by an interior-point method: objective and coefficients."""
    weights = np.ones(len(X)) if weights is None else weights
    W = cp.Variable((X.shape[1], Y.shape[1]))
    residuals = cp.multiply(np.sqrt(weights)[:, None], Y - X @ W)
    value = cp.sum_squares(residuals) + beta * cp.sum(cp.norm(W, 2, axis=1))
    problem = cp.Problem(cp.Minimize(value))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value, W.value


def paper_reweighting(X, y, rank, beta, n_iter):
    """Algorithm 3 with its d × d matrices: the coefficients after each iteration."""
    D = np.ones(X.shape[1])
    for _ in range(n_iter):
        W, _ = paper_solution(X, y, rank, beta * np.diag(D))
        D = 1 / (2 * np.linalg.norm(W, axis=1))
        yield W


def by_restarts(X, Y, rank, beta, n_starts, rng, n_iter=300):
    """Least objective of (24) that descents from random directions reach, by their own means.

    Proximal gradient steps on A alternate with Procrustes steps on V.
    """
    step = 1 / (2 * np.linalg.norm(X, 2) ** 2)
    least = np.inf
    for _ in range(n_starts):
        V, _ = np.linalg.qr(rng.normal(size=(Y.shape[1], rank)))
        A = rng.normal(size=(X.shape[1], rank)) * 0.1
        for _ in range(n_iter):
            for _ in range(5):
                A = A + 2 * step * X.T @ (Y @ V - X @ A)
                norms = np.linalg.norm(A, axis=1, keepdims=True)
                A = A * np.maximum(1 - step * beta / np.maximum(norms, 1e-300), 0)
            left, _, right = np.linalg.svd(Y.T @ X @ A, full_matrices=False)
            V = left @ right
        least = min(least, sparse_objective(X, Y, A @ V.T, beta))
    return least
