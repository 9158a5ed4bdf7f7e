"""What a fitted model minimises, computed anew from its coefficients in extended precision.

`answers` returns one `Answer` for each problem that a fit has solved: the objective at the model's
coefficients, and how far it may be from the minimum by the model's certificate and by rounding.
`Answer.rivals` are the objectives at other points, found by CVXPY or by least squares. The same
function evaluates all of them, so that a poor rival cannot raise a false alarm.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy as cp
import margin_oracles
import numpy as np
from low_rank_oracles import (
    indicators,
    objective,
    paper_coefficients,
    sparse_objective,
    sparse_optimum,
)
from oracles import convex_optimum

from .cases import Case

EXACT = np.longdouble
LEAST = 1e-290  # smaller numbers have factors that underflow
MANY = 32  # roundings of a number on its way into a coefficient, in units of the precision
NORMS = {
    "ridge": (2, 2, "half_square"),
    "lasso": (1, 1, "identity"),
    "group_lasso": (2, 1, "identity"),
    "exclusive_lasso": (1, 2, "half_square"),
}


@dataclass
class Answer:
    objective: float
    certified: float  # objective - minimum is at most this
    rounding: float  # change of the objective by rounding of coefficients and kernel values
    rivals: Callable[[], list[float]]


def answers(case: Case, model: Any, X: Any, y: Any, sample_weight: Any) -> list[Answer]:
    """The problems of a model fitted to dense rows (or a kernel matrix) and class indices.

    The list is empty where no objective is known to be minimised.
    """
    weights = np.ones(len(y)) if sample_weight is None else np.zeros(len(y)) + sample_weight
    given = case.params.get("class_weight")
    if given is not None:
        sizes = np.bincount(y, weights)
        factors = [
            1 / size if given == "balanced" else given.get(str(k), 1.0)
            for k, size in enumerate(sizes)
        ]
        unit = sizes.sum() / len(sizes) if given == "balanced" else 1.0
        weights = weights * unit * np.array(factors)[y]
    family = {
        **dict.fromkeys(("LSR", "DLSR", "ReLSR", "GReLSR"), _retargeted),
        **dict.fromkeys(("LRLR", "LRRR", "SLRR"), _low_rank),
        **dict.fromkeys(("ODM", "LDM"), _margin),
        "DRM": _representation,
        "ReducedRankRegression": partial(_reduced_rank, case),
    }.get(case.estimator.removesuffix("Classifier"))
    if family is None:
        return []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return family(model, X, y, weights)


@dataclass
class Rows:
    """Rows of features or a kernel matrix, with bounds of their rounding errors."""

    matrix: Any
    errors: Any
    is_gram: bool

    @classmethod
    def of(cls, model: Any, X: Any, weights: Any) -> Rows | None:
        """None for kernels that are not computed here."""
        if getattr(model, "_features", None) is not None:
            return cls(*components(model._features, X), False)
        if model.kernel == "linear":
            return cls(X.astype(EXACT), MANY * np.finfo(X.dtype).eps * np.abs(X), False)
        if model.kernel == "precomputed":
            return cls(X.astype(EXACT), MANY * np.finfo(X.dtype).eps * np.abs(X), True)
        known = kernel(model, X, X, width(model, X, weights))
        return None if known is None else cls(*known, True)

    def coefficients(self, model: Any) -> Any:
        """One row per problem or class; a kernel model stores those of its support vectors."""
        if not self.is_gram:
            return model.coef_.astype(EXACT)
        coefs = np.zeros((len(model.dual_coef_), len(self.matrix)), dtype=EXACT)
        coefs[:, getattr(model, "support_", slice(None))] = model.dual_coef_
        return coefs

    def norm(self, coef: Any) -> Any:
        """‖w‖², summed over columns of coefficients."""
        return np.sum(coef * (self.matrix @ coef if self.is_gram else coef))

    def norm_error(self, coef: Any, eps: float) -> Any:
        size = np.abs(coef)
        return np.sum(size * (self.errors @ size)) if self.is_gram else MANY * eps * np.sum(size**2)

    def features(self) -> tuple[Any, Callable[[Any], Any]]:
        """Features for an oracle, and the map from its coefficients to those of these rows."""
        matrix = self.matrix.astype(float)
        if not self.is_gram:
            return matrix, lambda coef: coef
        values, vectors = np.linalg.eigh(matrix)
        kept = values > 1e-13 * values.max()
        vectors, roots = vectors[:, kept], np.sqrt(values[kept])
        return vectors * roots, lambda coef: (vectors / roots) @ coef


def components(features: Any, X: Any) -> tuple[Any, Any]:
    """Components that approximate a kernel, and bounds of their rounding errors."""
    mapped, eps = features(X), MANY * np.finfo(float).eps
    if hasattr(features, "basis"):
        # Rounding of the kernel's values for the rows, and for the basis: of these the features are
        # combinations with coefficients K⁻¹k.
        whitening = np.abs(features.whitening)
        combinations = np.abs(mapped @ features.whitening.T).sum(axis=1)
        values = np.abs(features.kernel(X, features.basis))
        errors = eps * (values @ whitening + np.outer(combinations, whitening.sum(axis=0)))
    else:
        errors = eps * (1 + np.abs(X) @ np.abs(features.directions))
        errors = np.hstack([errors, errors])
    return mapped.astype(EXACT), errors + MANY * np.finfo(X.dtype).eps * np.abs(mapped)


def width(model: Any, X: Any, weights: Any) -> Any:
    """The parameter `gamma` as a number."""
    if model.gamma != "scale":
        return 1 / X.shape[1] if model.gamma in (None, "auto") else model.gamma
    A, share = X.astype(EXACT), weights / weights.sum()
    mean = share @ A.mean(axis=1)
    variance = share @ np.mean((A - mean) ** 2, axis=1)
    return 1 / (X.shape[1] * variance) if variance > 1e-30 * mean**2 else 1.0


def kernel(model: Any, X: Any, Y: Any, gamma: Any) -> tuple[Any, Any] | None:
    """Kernel values in extended precision, and bounds of their errors in double precision."""
    stored, eps = np.finfo(X.dtype).eps, np.finfo(float).eps  # of coefficients, of kernel values
    A, B = X.astype(EXACT), Y.astype(EXACT)
    size = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1)
    if model.kernel == "linear":
        return A @ B.T, MANY * stored * (np.abs(A) @ np.abs(B).T)
    if model.kernel == "rbf":
        K = np.exp(-gamma * np.sum((A[:, None] - B) ** 2, axis=2))
        return K, MANY * (stored * K + eps * gamma * size)
    if model.kernel == "poly" and model.degree == int(model.degree) < 5:
        K = (gamma * A @ B.T + model.coef0) ** int(model.degree)
        return K, MANY * stored * (gamma * size + abs(model.coef0)) ** model.degree
    return None


def quietly(solve: Callable[[], Any]) -> Any:
    """What an oracle finds, or None if it finds nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return solve()
    except (cp.SolverError, ArithmeticError, AttributeError, ValueError, TypeError):
        return None


# Regression onto learned targets ------------------------------------------------------------------


def _retargeted(model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    kind = type(model).__name__.removesuffix("Classifier").lower()
    rows, n_classes = Rows.of(model, X, weights), y.max() + 1
    group = getattr(model, "group_penalty", 0.0)
    within_class = getattr(model, "within_class", 0.0)
    # The difference of two classes determines both if the model treats them alike.
    is_known = n_classes > 2 or (model.fit_intercept and kind != "grelsr")
    if rows is None or not is_known or model.beta == 0:
        return []
    coef = rows.coefficients(model).T
    intercept = model.intercept_.astype(EXACT)
    if n_classes == 2:
        coef, intercept = np.hstack([-coef, coef]) / 2, (1 + np.array([-1, 1]) * intercept) / 2
    hot = np.eye(n_classes)[y]
    beta = model.beta
    if model.scale_beta:  # equation (15) of ReLSR
        share = weights / weights.sum()
        centred = rows.matrix - model.fit_intercept * (share @ rows.matrix)
        if rows.is_gram:
            centred = centred - model.fit_intercept * (centred @ share)[:, None]
            beta = beta * (share @ np.diag(centred))
        elif model.kernel != "linear":  # components
            beta = beta * (share @ np.sum(centred**2, axis=1))
        else:
            beta = beta * (weights @ np.sum(centred**2, axis=1)) / X.shape[1]

    def evaluate(coef: Any, intercept: Any) -> tuple[Any, Any, Any]:
        """The objective for the best targets and centres, residuals and deviations of scores."""
        scores = rows.matrix @ coef + intercept

        def mean_moves(centres: Any) -> Any:
            targets = best_targets(kind, scores, hot, group, centres[y])
            return targets, (weights * (np.sum(hot * targets, axis=1) - 1)) @ hot / (weights @ hot)

        # A centre is the mean of the moves; their difference has a slope from -1 to -1/(1 + group).
        low = high = np.zeros(n_classes, dtype=EXACT)
        if group:
            first = mean_moves(low)[1]
            low, high = (
                np.minimum(first, (1 + group) * first),
                np.maximum(first, (1 + group) * first),
            )
        for _ in range(100 if group else 0):
            middle = (low + high) / 2
            above = mean_moves(middle)[1] > middle
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        centres = (low + high) / 2
        targets = mean_moves(centres)[0]
        moves = np.sum(hot * targets, axis=1) - 1 - centres[y]
        value = weights @ (np.sum((scores - targets) ** 2, axis=1) + group * moves**2)
        of_class = weights[:, None] * hot
        spread = scores - hot @ ((of_class.T @ scores) / of_class.sum(axis=0)[:, None])
        value += within_class * (weights @ np.sum(spread**2, axis=1))
        return value + beta * rows.norm(coef), scores - targets, spread

    def rivals() -> list[float]:
        F, back = rows.features()
        options = {"weights": weights, "fit_intercept": model.fit_intercept}
        options |= {"within_class": within_class}
        solve: Any = ridge if kind == "lsr" else partial(convex_optimum, kind, group_penalty=group)
        best = quietly(lambda: solve(F, y, float(beta), **options))
        if best is None or best.coef is None:
            return []
        return [float(evaluate(back(best.coef), best.intercept * model.fit_intercept)[0])]

    value, residuals, spread = evaluate(coef, intercept)
    eps = np.finfo(X.dtype).eps
    moved = rows.errors @ np.abs(coef) + MANY * eps * np.abs(intercept)
    rounding = weights @ np.sum(2 * np.abs(residuals) * moved + moved**2, axis=1)
    both = 2 * moved.max(axis=0)  # also of the mean of a class
    rounding += within_class * (weights @ np.sum(2 * np.abs(spread) * both + both**2, axis=1))
    rounding += beta * rows.norm_error(coef, eps) + MANY * np.finfo(float).eps * value
    unit = max(float(value), np.finfo(float).eps * weights.sum())  # of a relative gap
    return [Answer(float(value), model.gap_ * unit, float(rounding), rivals)]


def best_targets(kind: str, scores: Any, hot: Any, group: float, centres: Any) -> Any:
    """The allowed targets that are closest to the scores."""
    if kind == "lsr":
        return hot
    if kind == "dlsr":
        return np.where(hot, np.maximum(scores, 1), np.minimum(scores, 0))
    # The target of the true class is the largest mean of its score and the largest others plus 1.
    own = scores[hot == 1] + group * (1 + centres)
    others = np.sort(scores[hot == 0].reshape(len(scores), -1) + 1, axis=1)[:, ::-1]
    sums = np.column_stack([own, others]).cumsum(axis=1)
    top = (sums / (1 + group + np.arange(sums.shape[1]))).max(axis=1, keepdims=True)
    return np.where(hot, top, np.minimum(scores, top - 1))


@dataclass
class ridge:
    """Ridge regression onto zero-one targets, as one problem of least squares."""

    F: Any
    y: Any
    beta: float
    weights: Any
    fit_intercept: bool
    within_class: float = 0.0

    def __post_init__(self) -> None:
        targets = np.eye(self.y.max() + 1)[self.y]
        means = [
            np.average(A, axis=0, weights=self.weights) * self.fit_intercept
            for A in (self.F, targets)
        ]
        F, Y, weights = self.F - means[0], targets - means[1], self.weights
        if self.within_class > 0:  # the deviations from the classes are samples with targets of 0
            of_class = weights[:, None] * targets
            own = self.F - targets @ ((of_class.T @ self.F) / of_class.sum(axis=0)[:, None])
            F, Y = np.vstack([F, own]), np.vstack([Y, 0 * Y])
            weights = np.concatenate([weights, self.within_class * weights])
        self.coef = penalised(F, Y, self.beta, weights)
        self.intercept = means[1] - means[0] @ self.coef


def penalised(F: Any, Y: Any, beta: float, weights: Any) -> Any:
    """Coefficients of least norm that minimise Σ s‖y − Wᵀf‖² + β‖W‖²."""
    root, n_features = np.sqrt(weights)[:, None], F.shape[1]
    left = np.vstack([root * F, np.sqrt(beta) * np.eye(n_features)])
    right = np.vstack([root * Y, np.zeros((n_features, Y.shape[1]))])
    return np.linalg.lstsq(left, right, rcond=None if beta else 1e-10)[0]


# Low-rank regression ------------------------------------------------------------------------------


def _low_rank(model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    beta = getattr(model, "beta", 0.0)
    is_sparse = hasattr(model, "gap_") and beta > 0
    if model.kernel != "linear" or model.class_weight is not None or (is_sparse and model.rank):
        return []
    W = paper_coefficients(model, y, weights).astype(EXACT)
    return _rank_answers(model, X, indicators(y, weights), W, beta, weights, is_sparse=is_sparse)


def _reduced_rank(case: Case, model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    Y = case.targets(y)
    Y = Y - model.fit_intercept * (weights @ Y / weights.sum())
    W = model.coef_.T.astype(EXACT)
    return _rank_answers(model, X, Y, W, model.beta, weights, is_sparse=False)


def _rank_answers(
    model: Any, X: Any, Y: Any, W: Any, beta: float, weights: Any, *, is_sparse: bool
) -> list[Answer]:
    """The problem of targets Y, centred if X is; rows of X are those that were given."""
    mean = model.fit_intercept * (weights @ X.astype(EXACT) / weights.sum())
    exact = X.astype(EXACT) - mean
    rows = exact.astype(float)

    def evaluate(W: Any) -> float:
        of = sparse_objective if is_sparse else objective
        return float(of(exact, Y, W, beta, weights))

    def rivals() -> list[float]:
        if is_sparse:
            best = quietly(lambda: sparse_optimum(rows, Y, beta, weights))
            return [] if best is None or best[1] is None else [evaluate(best[1])]
        whole = penalised(rows, Y, beta, weights)
        _, vectors = np.linalg.eigh((weights[:, None] * Y).T @ rows @ whole)
        V = vectors[:, ::-1][:, : model.rank_]
        return [evaluate(whole @ V @ V.T)]

    eps, value = np.finfo(X.dtype).eps, evaluate(W)
    moved = MANY * eps * (np.abs(X) + np.abs(mean)) @ np.abs(W)
    rounding = weights @ np.sum(2 * np.abs(Y - exact @ W) * moved + moved**2, axis=1)
    if is_sparse:
        rounding += MANY * eps * value
        return [Answer(value, model.gap_ * value, float(rounding), rivals)]
    sizes = np.linalg.svd(np.sqrt(weights)[:, None] * rows, compute_uv=False) ** 2
    unclear = (sizes < 1e-12 * sizes[0]) & (sizes > 1e-28 * sizes[0])
    if beta == 0 and (sizes[0] < 1e-12 * (weights @ X**2).sum() or unclear.any()):
        return []  # the rank of the data is a matter of rounding
    least = 0.0 if beta else sizes[sizes >= 1e-12 * sizes[0]].min()
    condition = (sizes[0] + beta) / (least + beta)
    rounding += MANY * eps * condition * float(weights @ np.sum(Y**2, axis=1))
    return [Answer(value, 0.0, float(rounding), rivals)]


# Margin distribution ------------------------------------------------------------------------------


def _margin(model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    rows = Rows.of(model, X, weights)
    if rows is None:
        return []
    is_odm = hasattr(model, "C1")
    names = ("C1", "C2", "D") if is_odm else ("C", "lambda1", "lambda2")
    params = {name: getattr(model, name) for name in names}
    of = margin_oracles.odm_objective if is_odm else margin_oracles.ldm_objective
    optimum = margin_oracles.odm_optimum if is_odm else margin_oracles.ldm_optimum
    coefs = rows.coefficients(model)

    def problem(number: int) -> Answer:
        signs = np.where(y == (number if len(coefs) > 1 else 1), 1.0, -1.0)
        coef, intercept = coefs[number], EXACT(model.intercept_[number])

        def evaluate(coef: Any, intercept: Any) -> Any:
            options = {"weights": weights, "gram": rows.is_gram}
            return of(rows.matrix, signs, coef, intercept, **options, **params)

        def rivals() -> list[float]:
            F, back = rows.features()
            options = {"weights": weights, "fit_intercept": model.fit_intercept}
            best = quietly(lambda: optimum(F, signs, **options, **params))
            if best is None:
                return []
            return [float(evaluate(back(best.coef), best.intercept * model.fit_intercept))]

        value, share, eps = (
            evaluate(coef, intercept),
            weights / weights.sum(),
            np.finfo(X.dtype).eps,
        )
        z = signs * (rows.matrix @ coef + intercept)
        moved = rows.errors @ np.abs(coef) + MANY * eps * abs(intercept)
        if is_odm:
            low, high = np.maximum(0, 1 - model.D - z), np.maximum(0, z - 1 - model.D)
            slope, bend = 2 * (model.C1 * low + model.C2 * high), model.C1 + model.C2
            unit = value
        else:
            bend, unit = 4 * model.lambda1, value + model.lambda2 * (share @ z)
            slope = model.C + model.lambda2 + 4 * model.lambda1 * np.abs(z - share @ z)
        rounding = share @ (slope * moved + bend * moved**2) + rows.norm_error(coef, eps)
        rounding += MANY * eps * unit + LEAST
        reported = np.atleast_1d(model.objective_)[number]
        assert abs(reported - value) <= rounding, (
            f"objective_ is {reported:.9g}, but the coefficients have {float(value):.9g}"
        )
        return Answer(float(value), model.gap_ * float(unit), float(rounding), rivals)

    return [problem(number) for number in range(len(coefs))]


# Representation by the training samples -----------------------------------------------------------


def _representation(model: Any, X: Any, y: Any, weights: Any) -> list[Answer]:
    """The representation of the mean of the training samples."""
    if hasattr(model, "n_components_") or not hasattr(model, "fit_order_"):
        return []  # without training samples after a fit in blocks
    X, y, s = X[weights > 0], y[weights > 0], weights[weights > 0]
    new = (s @ X / s.sum())[None].astype(X.dtype)
    gamma = width(model, X, s)
    found = [kernel(model, A, B, gamma) for A, B in ((X, X), (X, new), (new, new))]
    if model.kernel == "precomputed" or found[0] is None:
        return []
    (K, errors), (K_x, k_xx) = found[0], (found[1][0][:, 0], float(found[2][0][0, 0]))
    same = y[:, None] == y
    Q = K + model.alpha * (np.diag(np.diag(K) / s) - same * K / np.bincount(y, s)[y])
    root = np.sqrt(s)
    largest = float(np.linalg.eigvalsh((root[:, None] * Q * root).astype(float)).max())
    condition = 1 + largest / model.beta
    if condition > 1e9:
        return []
    q, r, rho = NORMS[model.penalty] if isinstance(model.penalty, str) else model.penalty

    def penalty(v: Any, times: Any, norm: Any, stack: Any) -> Any:
        """ρ(‖v‖_{q,r}) by NumPy or by CVXPY; a row that counts s times has s copies of v/s."""
        scaled = times(v, s ** (1 / q - 1))
        total = norm(stack([norm(scaled[y == k], q) for k in np.unique(y)]), r)
        return total**2 / 2 if rho == "half_square" else total

    def evaluate(v: Any) -> float:
        norm = penalty(
            v, np.multiply, lambda u, p: np.sum(np.abs(u) ** p) ** (1 / EXACT(p)), np.array
        )
        return float(v @ Q @ v / 2 - K_x @ v + model.beta * norm)

    def rivals() -> list[float]:
        w, k = cp.Variable(len(y)), K_x.astype(float)
        if (q, r, rho) == NORMS["ridge"]:
            matrix = Q + model.beta * np.diag(1 / s)
            return [evaluate(np.linalg.solve(matrix.astype(float), k))]
        quadratic = cp.quad_form(w, cp.psd_wrap(Q.astype(float))) / 2
        value = quadratic - k @ w + model.beta * penalty(w, cp.multiply, cp.norm, cp.hstack)
        quietly(lambda: cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL))
        return [] if w.value is None else [evaluate(w.value)]

    v = model.representation(new)[0][weights > 0].astype(EXACT)
    certified = 0.0
    if model.solver_ in ("gd", "ppa", "apg"):
        certified = float(model.convergence(new).gap[0]) * k_xx / 2
    rounding = (1 + model.alpha) * (np.abs(v) @ errors @ np.abs(v))
    rounding += MANY * np.finfo(X.dtype).eps * condition * k_xx
    return [Answer(evaluate(v), certified, float(rounding), rivals)]
