"""What a fitted model minimises, computed anew from its coefficients in extended precision.

`answers` returns one `Answer` for each problem that the fit has solved: the objective at the
model's coefficients, how far it may be from the minimum by the model's own certificate, and how far
by rounding. `Answer.rivals` are the objectives at other points, by CVXPY or by least squares. All
of them are evaluated by the same function, so that a poor rival cannot raise a false alarm.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import low_rank_oracles
import margin_oracles
import numpy as np
from oracles import convex_optimum

from .cases import Case

EXACT = np.longdouble
MANY = 32  # roundings of a number on its way into a coefficient, in units of the precision


@dataclass
class Answer:
    objective: float
    certified: float  # objective - minimum is at most this
    rounding: float  # change of the objective by rounding of coefficients and kernel values
    rivals: Callable[[], list[float]]


@dataclass
class Rows:
    """Rows of features, or the kernel matrix, with bounds of their rounding errors."""

    matrix: Any
    errors: Any
    gram: bool

    def norm(self, coef: Any) -> Any:
        """‖w‖² of the columns of coefficients, summed."""
        return np.sum(coef * (self.matrix @ coef if self.gram else coef))

    def norm_error(self, coef: Any, eps: float) -> Any:
        size = np.abs(coef)
        return np.sum(size * (self.errors @ size)) if self.gram else MANY * eps * np.sum(size**2)

    def features(self) -> tuple[Any, Callable[[Any], Any]]:
        """Features F for an oracle, and the map from its coefficients back to these rows."""
        matrix = self.matrix.astype(float)
        if not self.gram:
            scale = max(float(np.abs(matrix).max()), 1e-300)
            return matrix / scale, lambda coef: coef / scale
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        kept = values > 1e-13 * values.max()
        scale = np.sqrt(values.max())
        roots = np.sqrt(values[kept])
        return vectors[:, kept] * (
            roots / scale
        ), lambda coef: (vectors[:, kept] / roots) @ (coef / scale)


def answers(case: Case, model: Any, X: Any, y: Any, sample_weight: Any) -> list[Answer]:
    """The problems of a model fitted to dense rows (or a kernel matrix) and class indices."""
    name = case.estimator
    weights = np.ones(len(y)) if sample_weight is None else np.zeros(len(y)) + sample_weight
    with np.errstate(all="ignore"):
        if name in ("LSRClassifier", "DLSRClassifier", "ReLSRClassifier", "GReLSRClassifier"):
            return _retargeted(case, model, X, y, _times_class_weights(case, y, weights))
        if name in ("LRLRClassifier", "LRRRClassifier", "SLRRClassifier"):
            return _low_rank(model, X, y, weights)
        if name in ("ODMClassifier", "LDMClassifier"):
            return _margin(model, X, y, _times_class_weights(case, y, weights))
        if name == "DRMClassifier":
            return _representation(model, X, y, _times_class_weights(case, y, weights))
    return []


def _times_class_weights(case: Case, y: Any, weights: Any) -> Any:
    given = case.params.get("class_weight")
    if given is None:
        return weights
    if given == "balanced":
        sizes = np.bincount(y, weights)
        return weights * (sizes.sum() / (len(sizes) * sizes))[y]
    return weights * np.array([given.get(str(k), 1.0) for k in range(y.max() + 1)])[y]


def _kernel(model: Any, X: Any, Y: Any, gamma: float) -> tuple[Any, Any] | None:
    """Kernel values in extended precision, and bounds of the rounding errors of a computation."""
    stored, eps = np.finfo(X.dtype).eps, np.finfo(float).eps  # of coefficients, of kernel values
    A, B = X.astype(EXACT), Y.astype(EXACT)
    size = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1)
    if model.kernel == "precomputed":
        return A, MANY * stored * np.abs(A)
    if model.kernel == "rbf":
        K = np.exp(-gamma * np.sum((A[:, None] - B) ** 2, axis=2))
        return K, MANY * (stored * K + eps * gamma * size)
    if model.kernel == "poly" and model.degree == int(model.degree) < 5:
        K = (gamma * A @ B.T + model.coef0) ** int(model.degree)
        return K, MANY * stored * (gamma * size + abs(model.coef0)) ** model.degree
    return None


def _gamma(model: Any, X: Any, weights: Any) -> float:
    if model.gamma == "scale":
        mean = np.average(X.mean(axis=1), weights=weights)
        variance = np.average(np.mean((X - mean) ** 2, axis=1), weights=weights)
        return float(1 / (X.shape[1] * variance)) if variance > 1e-30 * mean**2 else 1.0
    return 1 / X.shape[1] if model.gamma in (None, "auto") else float(model.gamma)


def _rows(model: Any, X: Any, weights: Any) -> Rows | None:
    if model.kernel == "linear":
        return Rows(X.astype(EXACT), MANY * np.finfo(X.dtype).eps * np.abs(X), gram=False)
    found = _kernel(model, X, X, _gamma(model, X.astype(EXACT), weights))
    return None if found is None else Rows(*found, gram=True)


def _quietly(solve: Callable[[], Any]) -> Any:
    """What an oracle finds, or None if it finds nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return solve()
    except (cp.SolverError, ArithmeticError, ValueError, TypeError):
        return None


# Regression onto learned targets ------------------------------------------------------------------


def _retargeted(case: Case, model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    kind, n_classes = case.estimator.removesuffix("Classifier").lower(), y.max() + 1
    rows = _rows(model, X, weights)
    structured = getattr(model, "penalty", "l2") != "l2" or getattr(model, "rank", None) is not None
    # The difference of two classes determines both if they are treated alike.
    symmetric = model.fit_intercept and kind != "grelsr"
    if rows is None or structured or model.beta == 0 or (n_classes == 2 and not symmetric):
        return []
    coef = (model.dual_coef_ if rows.gram else model.coef_).T.astype(EXACT)
    intercept = model.intercept_.astype(EXACT)
    if n_classes == 2:
        coef = np.hstack([-coef, coef]) / 2
        intercept = np.array([1 - intercept[0], 1 + intercept[0]]) / 2
    group = model.group_penalty if kind == "grelsr" else 0.0
    beta = model.beta * (_unit_of_beta(model, rows, X, weights) if model.scale_beta else 1)

    def evaluate(coef: Any, intercept: Any, targets: Any) -> tuple[Any, Any]:
        """The objective with the best targets for the centres of given targets, and residuals."""
        scores = rows.matrix @ coef + intercept
        own = np.take_along_axis(targets, y[:, None], axis=1)[:, 0] - 1
        shares = np.eye(n_classes)[y] * weights[:, None]
        centres = own @ shares / shares.sum(axis=0)
        targets = _best_targets(kind, scores, y, group, centres[y])
        own = np.take_along_axis(targets, y[:, None], axis=1)[:, 0] - 1
        residuals = scores - targets
        value = weights @ (np.sum(residuals**2, axis=1) + group * (own - centres[y]) ** 2)
        return value + beta * rows.norm(coef), residuals

    def rivals() -> list[float]:
        F, back = rows.features()
        scaled = beta if rows.gram else beta / np.abs(X.astype(float)).max() ** 2
        scaled = float(scaled / rows.matrix.max() if rows.gram else scaled)
        solve = _ridge if kind == "lsr" else convex_optimum
        options = {"group_penalty": group} if kind == "grelsr" else {}
        if rows.gram:
            scaled = float(beta) / float(np.linalg.eigvalsh(rows.matrix.astype(float)).max())
        best = _quietly(
            lambda: solve(
                kind, F, y, scaled, weights=weights, fit_intercept=model.fit_intercept, **options
            )
        )
        if best is None or best.coef is None:
            return []
        return [
            float(evaluate(back(best.coef), best.intercept * model.fit_intercept, best.targets)[0])
        ]

    if group and not hasattr(model, "targets_"):
        return []  # after a fit in blocks the centres are unknown
    given = getattr(model, "targets_", np.eye(n_classes)[y]).astype(EXACT)
    value, residuals = evaluate(coef, intercept, given)
    eps = np.finfo(X.dtype).eps
    moved = rows.errors @ np.abs(coef) + MANY * eps * np.abs(intercept)
    rounding = weights @ np.sum(2 * np.abs(residuals) * moved + moved**2, axis=1)
    rounding += beta * rows.norm_error(coef, eps)
    return [Answer(float(value), model.gap_ * float(value), float(rounding), rivals)]


def _unit_of_beta(model: Any, rows: Rows, X: Any, weights: Any) -> Any:
    """Equation (15) of ReLSR."""
    share = weights / weights.sum()
    if rows.gram:
        mean = share @ rows.matrix
        diagonal = np.diag(rows.matrix) - model.fit_intercept * (2 * mean - share @ mean)
        return share @ diagonal
    centred = rows.matrix - model.fit_intercept * (share @ rows.matrix)
    return weights @ np.sum(centred**2, axis=1) / X.shape[1]


def _best_targets(kind: str, scores: Any, y: Any, group: float, centres: Any) -> Any:
    """The allowed targets that are closest to the scores."""
    true = np.eye(scores.shape[1])[y] == 1
    if kind == "lsr":
        return true.astype(EXACT)
    if kind == "dlsr":
        return np.where(true, np.maximum(scores, 1), np.minimum(scores, 0))
    # The target of the true class is the largest mean of its score with the largest others + 1.
    own = scores[true] + group * (1 + centres)
    others = np.sort(scores[~true].reshape(len(y), -1) + 1, axis=1)[:, ::-1]
    sums = np.column_stack([own, others]).cumsum(axis=1)
    top = (sums / (1 + group + np.arange(sums.shape[1]))).max(axis=1)
    return np.where(true, top[:, None], np.minimum(scores, top[:, None] - 1))


@dataclass
class _Ridge:
    coef: Any
    intercept: Any
    targets: Any


def _ridge(kind: str, F: Any, y: Any, beta: float, *, weights: Any, fit_intercept: bool) -> _Ridge:
    """Ridge regression onto zero-one targets as one least squares problem."""
    targets = np.eye(y.max() + 1)[y]
    means = [np.average(A, axis=0, weights=weights) * fit_intercept for A in (F, targets)]
    root = np.sqrt(weights)[:, None]
    penalty = np.sqrt(beta) * np.eye(F.shape[1])
    left = np.vstack([root * (F - means[0]), penalty])
    right = np.vstack([root * (targets - means[1]), np.zeros((F.shape[1], targets.shape[1]))])
    coef = np.linalg.lstsq(left, right, rcond=None)[0]
    return _Ridge(coef, means[1] - means[0] @ coef, targets)


# Low-rank regression ------------------------------------------------------------------------------


def _low_rank(model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    if model.kernel != "linear" or model.class_weight is not None:
        return []
    eps, beta = np.finfo(X.dtype).eps, getattr(model, "beta", 0.0)
    mean = model.fit_intercept * (weights @ X.astype(EXACT) / weights.sum())
    rows, Y = X.astype(EXACT) - mean, low_rank_oracles.indicators(y, weights)
    sparse = hasattr(model, "gap_") and beta > 0
    full = model.rank is None
    if sparse and not full:
        return []  # not convex
    of_coefficients = low_rank_oracles.sparse_objective if sparse else low_rank_oracles.objective

    def evaluate(W: Any) -> float:
        return float(of_coefficients(rows, Y, W, beta, weights))

    W = low_rank_oracles.paper_coefficients(model, y, weights).astype(EXACT)
    residuals = np.abs(Y - rows @ W)
    moved = MANY * eps * (np.abs(X) + np.abs(mean)) @ np.abs(W)
    rounding = weights @ np.sum(2 * residuals * moved + moved**2, axis=1)
    value = evaluate(W)
    scale = max(float(np.abs(rows).max()), 1e-300)
    scaled = rows.astype(float) / scale

    if sparse:

        def rivals() -> list[float]:
            best = _quietly(
                lambda: low_rank_oracles.sparse_optimum(scaled, Y, beta / scale, weights)
            )
            return [] if best is None or best[1] is None else [evaluate(best[1] / scale)]

        rounding += MANY * eps * value
        return [Answer(value, model.gap_ * value, float(rounding), rivals)]

    sizes = np.linalg.svd(np.sqrt(weights)[:, None] * scaled, compute_uv=False)
    unclear = (sizes < 1e-6 * sizes[0]) & (sizes > 1e-14 * sizes[0])
    if sizes[0] == 0 or (beta == 0 and unclear.any()):
        return []  # the rank of the data is a matter of rounding
    penalty = beta / scale**2
    least = min(sizes[sizes >= 1e-6 * sizes[0]]) ** 2 if beta == 0 else 0.0
    condition = (sizes[0] ** 2 + penalty) / (least + penalty)

    def closed_form() -> list[float]:
        root = np.sqrt(weights)[:, None]
        left = np.vstack([root * scaled, np.sqrt(penalty) * np.eye(X.shape[1])])
        right = np.vstack([root * Y, np.zeros((X.shape[1], Y.shape[1]))])
        whole = np.linalg.lstsq(left, right, rcond=1e-10 if beta == 0 else None)[0]
        _, vectors = np.linalg.eigh((root * Y).T @ (root * scaled) @ whole)
        V = vectors[:, ::-1][:, : model.rank_]
        return [evaluate(whole @ V @ V.T / scale)]

    rounding += MANY * eps * condition * len(model.classes_)
    return [Answer(value, 0.0, float(rounding), closed_form)]


# Margin distribution ------------------------------------------------------------------------------


def _margin(model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    rows = _rows(model, X, weights)
    if rows is None:
        return []
    names = ("C1", "C2", "D") if hasattr(model, "C1") else ("C", "lambda1", "lambda2")
    params = {name: getattr(model, name) for name in names}
    is_odm = "D" in params
    of_coefficients = margin_oracles.odm_objective if is_odm else margin_oracles.ldm_objective
    optimum = margin_oracles.odm_optimum if is_odm else margin_oracles.ldm_optimum
    coefs = getattr(model, "coef_", None)
    if rows.gram:
        coefs = np.zeros((len(model.dual_coef_), len(y)), dtype=EXACT)
        coefs[:, model.support_] = model.dual_coef_
    eps, found = np.finfo(X.dtype).eps, []
    reported = np.atleast_1d(model.objective_)
    for k, coef in enumerate(coefs.astype(EXACT)):
        signs = np.where(y == (k if len(coefs) > 1 else 1), 1.0, -1.0)
        intercept = EXACT(model.intercept_[k])

        def evaluate(coef: Any, intercept: Any, signs: Any = signs) -> Any:
            return of_coefficients(
                rows.matrix, signs, coef, intercept, weights=weights, gram=rows.gram, **params
            )

        def rivals(signs: Any = signs, evaluate: Any = evaluate) -> list[float]:
            F, back = rows.features()
            size = np.sqrt(
                float(np.linalg.eigvalsh(rows.matrix.astype(float)).max())
                if rows.gram
                else float(np.abs(X.astype(float)).max()) ** 2
            )
            best = _quietly(
                lambda: optimum(
                    F * size, signs, weights=weights, fit_intercept=model.fit_intercept, **params
                )
            )
            if best is None:
                return []
            point = back(best.coef * size)
            return [float(evaluate(point, best.intercept * model.fit_intercept))]

        value = evaluate(coef, intercept)
        z = signs * (rows.matrix @ coef + intercept)
        share = weights / weights.sum()
        moved = rows.errors @ np.abs(coef) + MANY * eps * abs(intercept)
        without_mean = value
        if is_odm:
            low, high = np.maximum(0, 1 - model.D - z), np.maximum(0, z - 1 - model.D)
            slope, bend = 2 * (model.C1 * low + model.C2 * high), model.C1 + model.C2
        else:
            mean = share @ z
            slope = model.C + model.lambda2 + 4 * model.lambda1 * np.abs(z - mean)
            bend, without_mean = 4 * model.lambda1, value + model.lambda2 * mean
        rounding = share @ (slope * moved + bend * moved**2) + rows.norm_error(coef, eps)
        rounding += MANY * eps * without_mean
        assert abs(reported[k] - value) <= rounding + 1e-6 * abs(without_mean), (
            f"objective_ is {reported[k]:g}, but the coefficients have {float(value):g}"
        )
        found.append(
            Answer(float(value), model.gap_ * float(without_mean), float(rounding), rivals)
        )
    return found


# Representation by the training samples -----------------------------------------------------------


def _representation(model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    """The representation of the mean of the training samples."""
    if model.n_components is not None or not hasattr(model, "fit_order_"):
        return []
    eps = np.finfo(X.dtype).eps
    seen = weights > 0
    share = weights / weights.sum()
    if model.kernel == "precomputed":
        K, new = X.astype(EXACT), (share @ X)[None]
        K_x, k_xx = new[0].astype(EXACT), share @ X @ share
        errors = MANY * eps * np.abs(K)
    elif model.kernel == "linear":
        new = (share @ X)[None]
        K, K_x, k_xx = (
            A @ B.T for A, B in ((X.astype(EXACT), X), (X.astype(EXACT), new), (new, new))
        )
        K_x, k_xx = K_x[:, 0], k_xx[0, 0]
        errors = MANY * eps * np.abs(X) @ np.abs(X).T
    else:
        new = (share @ X)[None]
        gamma = _gamma(model, X.astype(EXACT), weights)
        found = [_kernel(model, A, B, gamma) for A, B in ((X, X), (X, new), (new, new))]
        if found[0] is None:
            return []
        (K, errors), (K_x, _), (k_xx, _) = found
        K_x, k_xx = K_x[:, 0], k_xx[0, 0]
    K, K_x, y, errors = K[np.ix_(seen, seen)], K_x[seen], y[seen], errors[np.ix_(seen, seen)]
    s = weights[seen]
    same = y[:, None] == y
    Q = K + model.alpha * (np.diag(np.diag(K) / s) - same * K / np.bincount(y, s)[y])
    size = float(np.linalg.eigvalsh((np.sqrt(s)[:, None] * Q * np.sqrt(s)).astype(float)).max())
    condition = 1 + size / model.beta
    iterates = model.solver_ in ("gd", "ppa", "apg")
    if condition > 1e9 or k_xx == 0:
        return []

    names = {"ridge": (2, 2, "half_square"), "lasso": (1, 1, "identity")}
    names |= {"group_lasso": (2, 1, "identity"), "exclusive_lasso": (1, 2, "half_square")}
    q, r, rho = names[model.penalty] if isinstance(model.penalty, str) else model.penalty

    def norm_of_classes(size: Any) -> Any:
        """‖v‖_{q,r} for rows that count s times: each copy has the coefficient v/s."""
        each = np.array(
            [
                np.sum(size[y == k]) if q == 1 else np.sqrt(np.sum(size[y == k] ** 2 / s[y == k]))
                for k in np.unique(y)
            ]
        )
        return np.sum(each) if r == 1 else np.sqrt(np.sum(each**2))

    def evaluate(v: Any) -> float:
        norm = norm_of_classes(np.abs(v))
        penalty = norm**2 / 2 if rho == "half_square" else norm
        return float(v @ Q @ v / 2 - K_x @ v + model.beta * penalty)

    v = model.representation(new)[0][seen].astype(EXACT)
    certified = float(model.convergence(new).gap[0]) * float(k_xx) / 2 if iterates else 0.0
    bounds = np.abs(v) @ errors @ np.abs(v) * (1 + model.alpha)
    rounding = bounds + MANY * eps * condition * float(k_xx)

    def rivals() -> list[float]:
        if q == r == 2 and rho == "half_square":
            point = _quietly(
                lambda: np.linalg.solve(
                    (Q + model.beta * np.diag(1 / s)).astype(float), K_x.astype(float)
                )
            )
            return [] if point is None else [evaluate(point)]
        w = cp.Variable(len(y))
        root = np.linalg.cholesky((Q + 1e-13 * np.trace(Q) * np.eye(len(y))).astype(float))
        each = [
            cp.norm1(w[y == k])
            if q == 1
            else cp.norm2(cp.multiply(w[y == k], 1 / np.sqrt(s[y == k])))
            for k in np.unique(y)
        ]
        total = cp.sum(cp.hstack(each)) if r == 1 else cp.norm2(cp.hstack(each))
        penalty = cp.square(total) / 2 if rho == "half_square" else total
        value = cp.sum_squares(root.T @ w) / 2 - K_x.astype(float) @ w + model.beta * penalty
        _quietly(lambda: cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL))
        return [] if w.value is None else [evaluate(w.value)]

    return [Answer(evaluate(v), certified, float(rounding), rivals)]
