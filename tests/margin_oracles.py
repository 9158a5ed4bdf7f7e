"""Independent optima of ODM and LDM: convex programming, finished exactly on its active set.

Objectives (7) and (5) of the paper with sample weights s, m = Σ s, and margins z = y (Fw + b). The
rows of F are the samples, or rows of a factor of the kernel matrix. Labels y are -1 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11, "max_iter": 500}


@dataclass
class MarginOptimum:
    """Optimum of one binary problem; ``gap`` bounds how far its objective is from the least."""

    objective: float
    gap: float
    decision: np.ndarray  # Fw + b on the training rows
    coef: np.ndarray
    intercept: float
    multipliers: np.ndarray  # a of ODM (signed), α of LDM


def kernel_features(K) -> np.ndarray:
    """F with F Fᵀ = K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


def shares(y, weights):
    """s_i / m"""
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    return weights / weights.sum()


def scores_and_norm(X, coef, intercept, gram):
    """Fw + b and ‖w‖² of the coefficients w for rows X, or of θ for a kernel matrix X."""
    scores = X @ coef
    return scores + intercept, coef @ scores if gram else coef @ coef


def odm_objective(X, y, coef, intercept=0.0, *, C1, C2, D, weights=None, gram=False) -> float:
    """Objective (7); with ``gram`` X is the kernel matrix and ``coef`` is θ."""
    scores, norm = scores_and_norm(X, coef, intercept, gram)
    z = y * scores
    loss = C1 * np.maximum(0, 1 - D - z) ** 2 + C2 * np.maximum(0, z - 1 - D) ** 2
    return 0.5 * norm + shares(y, weights) @ loss


def ldm_objective(
    X, y, coef, intercept=0.0, *, C, lambda1, lambda2, weights=None, hinged=1.0, gram=False
) -> float:
    """Objective (5); ``hinged`` multiplies the hinge loss of each row (0: it has none).

    With C = ∞ it is that of the smallest multiple, at least 1, whose margins are at least 1.
    """
    scores, norm = scores_and_norm(X, coef, intercept, gram)
    z, share = y * scores, shares(y, weights)
    if np.isinf(C):
        if not z.min() > 0:
            return np.inf
        factor = max(1.0, 1 / z.min())
        z, norm, hinge = factor * z, factor**2 * norm, 0.0
    else:
        hinge = C * (share * hinged) @ np.maximum(0, 1 - z)
    mean = share @ z
    return 0.5 * norm + lambda1 * (share @ (z - mean) ** 2) - lambda2 * mean + hinge


def odm_optimum(F, y, *, C1, C2, D, weights=None, fit_intercept=True) -> MarginOptimum:
    """Solve (7) with Clarabel, then by Newton steps, each exact on its active rows."""
    share = shares(y, weights)
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    z = cp.multiply(y, F @ w + b)
    loss = C1 * cp.sum_squares(cp.multiply(np.sqrt(share), cp.pos(1 - D - z)))
    loss += C2 * cp.sum_squares(cp.multiply(np.sqrt(share), cp.pos(z - 1 - D)))
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(w) + loss), [] if fit_intercept else [b == 0]
    )
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    start = np.append(w.value, b.value if fit_intercept else 0.0)
    return odm_newton(F, y, start, C1=C1, C2=C2, D=D, weights=weights, fit_intercept=fit_intercept)


def odm_newton(F, y, start=None, *, C1, C2, D, weights=None, fit_intercept=True) -> MarginOptimum:
    """Semismooth Newton with halved steps from ``start`` (w, b)."""
    share = shares(y, weights)
    rows = np.column_stack([F, np.full(len(y), float(fit_intercept))])
    penalty = np.append(np.ones(F.shape[1]), 0.0)

    def value(v):
        return odm_objective(F, y, v[:-1], v[-1], C1=C1, C2=C2, D=D, weights=weights)

    def slopes(v):
        z = y * (rows @ v)
        low, high = np.maximum(0, 1 - D - z), np.maximum(0, z - 1 - D)
        curvature = 2 * share * (C1 * (low > 0) + C2 * (high > 0))
        return 2 * share * (C1 * low - C2 * high), curvature

    v = np.zeros(rows.shape[1]) if start is None else start
    for _ in range(50):
        a, curvature = slopes(v)
        gradient = penalty * v - rows.T @ (y * a)
        hessian = np.diag(penalty) + rows.T @ (curvature[:, None] * rows)
        if not (fit_intercept and curvature.any()):
            hessian[-1, -1] += 1.0  # nothing moves b: it stays
        step = np.linalg.solve(hessian, -gradient)
        size = 1.0
        while value(v + size * step) > value(v) and size > 1e-3:
            size /= 2
        if size <= 1e-3:
            break
        v = v + size * step
        if np.abs(step).max() <= 1e-13 * np.abs(v).max():
            break
    a, _ = slopes(v)
    w = F.T @ (y * a)
    with np.errstate(divide="ignore", invalid="ignore"):
        conjugate = np.where(
            a > 0, a**2 / (4 * C1 * share) - a * (1 - D), a**2 / (4 * C2 * share) - a * (1 + D)
        )
    dual = -0.5 * w @ w - np.sum(conjugate[a != 0])
    if fit_intercept:  # a dual point only where Σ y_i a_i = 0: charge what is left of it
        dual -= abs(y @ a) * (1 + abs(v[-1]))
    return MarginOptimum(value(v), value(v) - dual, rows @ v, v[:-1], v[-1], a)


def ldm_optimum(
    F, y, *, C, lambda1, lambda2, weights=None, fit_intercept=True, hinged=1.0
) -> MarginOptimum:
    """Solve (5) with Clarabel, then as linear equations on the rows with z = 1.

    C = ∞ is the hard margin.
    """
    share = shares(y, weights)
    hard = np.isinf(C)
    box = np.zeros(len(y)) if hard else C * share * hinged
    w, b, xi = cp.Variable(F.shape[1]), cp.Variable(), cp.Variable(len(y), nonneg=True)
    z = cp.multiply(y, F @ w + b)
    mean = share @ z
    variance = cp.sum_squares(cp.multiply(np.sqrt(share), z - mean))
    smooth = 0.5 * cp.sum_squares(w) + lambda1 * variance - lambda2 * mean
    margin = z >= 1 - (0 if hard else xi)
    constraints = [margin] if fit_intercept else [margin, b == 0]
    problem = cp.Problem(cp.Minimize(smooth + (0 if hard else box @ xi)), constraints)
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    if hard:
        box = np.full(len(y), 1e3 * margin.dual_value.max())  # no multiplier is at its limit

    rows = y[:, None] * np.column_stack([F, np.full(len(y), float(fit_intercept))])
    spread = np.diag(share) - np.outer(share, share)
    M = np.diag(np.append(np.ones(F.shape[1]), 0.0)) + 2 * lambda1 * rows.T @ spread @ rows
    v = np.append(w.value, b.value if fit_intercept else 0.0)
    alpha = np.clip(margin.dual_value, 0, box)

    def value(v):
        return ldm_objective(
            F,
            y,
            v[:-1],
            v[-1],
            C=C,
            lambda1=lambda1,
            lambda2=lambda2,
            weights=weights,
            hinged=hinged,
        )

    def gap(v, alpha):
        """Primal less dual value; a dual point with rounding left in b is charged for it."""
        r = rows.T @ (lambda2 * share + alpha)
        least = np.linalg.lstsq(M, r, rcond=1e-14)[0]
        left = np.abs(r - M @ least).max() * (1 + np.abs(v).max())
        return value(v) - (alpha.sum() - 0.5 * r @ least - left)

    candidates = [(gap(v, alpha), v, alpha)]
    for edge in (1e-3, 1e-5, 1e-7):
        at_one = (alpha > edge * box) & (alpha < (1 - edge) * box)
        rounded = np.where(alpha >= (1 - edge) * box, box, 0.0)
        E = rows[at_one]
        system = np.block([[M, -E.T], [E, np.zeros((len(E), len(E)))]])
        right = np.append(rows.T @ (lambda2 * share + rounded), np.ones(len(E)))
        solution = np.linalg.lstsq(system, right, rcond=1e-14)[0]
        solution[len(v) - 1] *= fit_intercept  # without one its column is empty: rounding
        polished = rounded.copy()
        polished[at_one] = solution[len(v) :]
        polished = np.clip(polished, 0, box)
        candidates.append((gap(solution[: len(v)], polished), solution[: len(v)], polished))
    gap_left, v, alpha = min(candidates, key=lambda candidate: candidate[0])
    return MarginOptimum(value(v), gap_left, y * (rows @ v), v[:-1], v[-1], alpha)


def ldm_hessian(K, y, *, lambda1) -> np.ndarray:
    """H = Y G (I + AG)⁻¹ Y of (14), without weights or intercept."""
    m = len(y)
    A = 2 * lambda1 * (m * np.eye(m) - np.outer(y, y)) / m**2
    return y[:, None] * (K @ np.linalg.inv(np.eye(m) + A @ K)) * y
