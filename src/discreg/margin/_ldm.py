"""Large margin distribution machine, called ODM^L in the paper: model, search and solvers.

Most problems are solved as an SVM in a metric that includes the variance of the margins, see
`_variance`. With an intercept and a large kernel matrix, a dual without a factorisation is tried
first. For shares p of the total weight, λ1 var(z) is the maximum of Σ (r z − u r²/2) over r with
Σ r = 0, where u = 1/(2 λ1 p). So the dual (14) of LDM is

    min over h, r of ½ aᵀQa + Σ u r²/2 − Σ h,      a = h − r + λ2 p,      0 ≤ h ≤ C p,

with the constraints Σ y a = 0 and Σ r = 0. Their multipliers are the intercept and the mean of the
margins; if both are known, the problem is separable in the margins. Coordinate descent minimises
over the pair (h, r) of one sample in closed form, and the method of multipliers finds the
intercept and the mean at the same time. At the end, r of a few samples is changed so that the
constraints hold, which makes the gap rigorous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from discreg.base.classifier import with_inherited_docs
from discreg.base.search import candidates_of
from discreg.base.trials import Setting
from discreg.base.validation import Choice, Number
from discreg.linalg.kernels import require_kernel_memory
from discreg.linalg.resources import require_memory
from discreg.linalg.rows import matmul, rmatmul, row_norms
from discreg.linalg.types import Array, ClassWeight, KernelParams, Scoring, Splitting

from ._classifier import MarginClassifier, MarginSearch
from ._dual import PULL, Dual, DualSolution, GramDual, RowDual
from ._losses import MarginLoss, mean_and_variance
from ._problem import (
    SMALL,
    TINY,
    BinaryFit,
    BinaryProblem,
    fit_from_factor,
    solve,
    solve_dual_of_kernel,
)
from ._svrg import svrg
from ._variance import OVERFLOW, variance_gram, variance_rows, variance_term

MOST_PASSES = 100  # which take less time than a factorisation
# Step of the mean in the method of multipliers, relative to 1/λ1: the second derivative of the
# objective by the mean is at most 2 λ1.
MEAN_PULL = 5.0
SHARE = 0.7  # share of the tolerance for the gap before the constraints hold
TIGHTER = 0.3  # factor of that share if the gap is too large once they hold
CHANGED = 64  # number of samples of each class whose r is changed
HELD_MATRICES = 4  # matrices of the size of the kernel matrix in memory at the same time
HELD_ROWS = 3  # arrays of the size of the dense rows in memory at the same time
# Descent by pairs is slow where 2 λ1/m is larger; then up to so many samples a matrix is factored.
STIFF = 50.0
FACTORED = 2_000
AT_LIMIT = 1e-9  # relative distance of a multiplier from its limit due to rounding


def solve_ldm(problem: BinaryProblem) -> BinaryFit:
    """Fit LDM to labels ±1."""
    _require_bounded(problem)
    return svrg(problem) if problem.solver == "svrg" else _by_dual(problem)


def _require_bounded(problem: BinaryProblem) -> None:
    """Raise if the objective decreases without bound as the intercept grows."""
    loss, y, weights = problem.loss, problem.y, problem.training.weights
    losses = loss.upper * float(min(weights[y > 0].sum(), weights[y < 0].sum()))
    pull = loss.lambda2 * abs(float(weights @ y))
    if loss.lambda1 == 0 and problem.fit_intercept and pull > 0 and pull >= losses:
        raise ValueError(
            "With lambda1=0 and an intercept the objective has no minimum for class "
            f"{problem.positive!r} against the others: the slope of the mean margin is {pull:g}, "
            f"that of the losses at most {losses:g}. Use lambda1 > 0, a lambda2 below "
            f"{loss.lambda2 * losses / pull:g}, or fit_intercept=False."
        )


def _by_dual(problem: BinaryProblem) -> BinaryFit:
    """Solve the dual on rows or on a kernel matrix, whichever is smaller."""
    training = problem.training
    if problem.loss.lambda1 == 0:
        fit = solve_dual_of_kernel(problem)
        if problem.fit_intercept:
            return fit
        assert fit.warm is not None
        bound = _bound(problem, fit.warm[0], problem.training.diagonal)
        return replace(fit, bound=bound)
    if training.kernel is None and training.X.shape[1] < training.n_samples:
        return _in_features(problem, training.X)
    is_small = training.kernel is None and training.n_samples <= SMALL
    if is_small or not (training.kernel is None or training.kernel.is_bounded):
        # This keeps digits that a matrix with the variance loses if its values or λ1 are large.
        return fit_from_factor(training, _in_features(problem, training.factor))
    return _in_kernel(problem)


def _in_features(problem: BinaryProblem, X: Any) -> BinaryFit:
    """Solve LDM as an SVM on rows that include the variance."""
    training, y = problem.training, problem.y
    n_samples, n_features = X.shape
    require_memory(
        HELD_ROWS * 8 * n_samples * (n_features + 1),
        f"Rows of {n_samples:,} samples with {n_features:,} features that include the variance",
        "Use solver='svrg', which does not need them.",
    )
    carried = variance_rows(
        X, y, training.weights, problem.loss.lambda1, fit_intercept=problem.fit_intercept
    )
    dual = RowDual(carried.rows, y, problem.losses)
    solution = solve(problem, dual, fit_intercept=False)
    assert solution.state.coef is not None
    coef, shift = carried.coefficients(solution.state.coef)
    return _dual_fit(
        problem,
        dual,
        solution,
        scores=matmul(X, coef[:, None])[:, 0] + shift,
        shift=shift,
        diagonal=row_norms(carried.rows),
        coef=coef,
    )


def _in_kernel(problem: BinaryProblem) -> BinaryFit:
    """Solve LDM by pairs of multipliers, or as an SVM on a matrix that includes the variance.

    The latter needs a factorisation. It is better for small problems, which it solves to machine
    precision, and for large costs. Without an intercept, `_bound` needs its matrix.
    """
    training, y, lambda1 = problem.training, problem.y, problem.loss.lambda1
    passes, options = 0, problem.options
    stiff = 2.0 * lambda1 > STIFF * float(training.weights.sum())
    most = FACTORED if stiff else SMALL
    if problem.solver == "dcd" and problem.fit_intercept and training.n_samples > most:
        pairs = solve_pairs(problem)
        passes = pairs.n_iter
        if pairs.gap <= options.tol or passes == options.max_iter:
            return _pairs_fit(problem, pairs)
        rest = replace(options, max_iter=options.max_iter - passes)
        problem = replace(problem, options=rest, start=(np.nan_to_num(pairs.h), 0.0))
    require_kernel_memory(training.n_samples, copies=HELD_MATRICES)
    carried = variance_gram(
        training.damped_gram(lambda1),
        y,
        training.weights,
        lambda1,
        fit_intercept=problem.fit_intercept,
    )
    dual = GramDual(carried.gram(), y, problem.losses)
    solution = solve(problem, dual, fit_intercept=False)
    shift = carried.intercept(y * (solution.state.multipliers + dual.tilt))
    return _dual_fit(
        problem,
        dual,
        replace(solution, n_iter=passes + solution.n_iter),
        scores=solution.state.scores,
        shift=shift,
        diagonal=dual.gram.diagonal(),
        coef=None,
    )


def _pairs_fit(problem: BinaryProblem, pairs: Pairs) -> BinaryFit:
    training, theta = problem.training, pairs.theta
    scores = pairs.scores + pairs.shift
    linear = training.kernel is None
    return BinaryFit(
        training.intercept(pairs.shift, theta),
        problem.objective(float(theta @ pairs.scores), scores)[0],
        pairs.gap,
        pairs.n_iter,
        problem.statistics(scores),
        rmatmul(training.X, theta[:, None])[:, 0] if linear else None,
        theta,
        warm=(pairs.h, pairs.shift, pairs.r, pairs.mean),
        solver="dcd",
        limited=pairs.gap > problem.options.tol,
    )


def _dual_fit(
    problem: BinaryProblem,
    dual: Dual,
    solution: DualSolution,
    *,
    scores: Array,
    shift: float,
    diagonal: Array,
    coef: Array | None,
) -> BinaryFit:
    """Create the fit from the solution of the dual: θ = y (α + t) − A f, because w is stationary.

    Objective and gap are computed from this θ or from the coefficients. The matrix of the dual is
    inaccurate for a very large lambda1.
    """
    training, y, lambda1 = problem.training, problem.y, problem.loss.lambda1
    multipliers = solution.state.multipliers
    variance = variance_term(scores, y, training.weights, lambda1)
    theta = y * (multipliers + dual.tilt) - variance
    if coef is not None:
        square = float(coef @ coef)
        objective, convex = problem.objective(square, scores)
        # The dual value is linear in the matrix: half the error of its scores is missing.
        error = scores - (solution.state.scores + solution.shift)
        excess = max(0.5 * float(dual.signed(solution.state.multipliers) @ error), 0.0)
        lowest = dual.lower_bound(solution.state, solution.shift) - excess
    else:
        bare = training.gram @ theta
        square, scores = float(theta @ bare), bare + shift
        objective, convex = problem.objective(square, scores)
        # The dual of pairs at h = α and r = y A f, with what is left of its constraints.
        lowest = float(multipliers.sum()) - 0.5 * square
        ridge = 0.5 * training.weights.sum() / lambda1 / training.weights
        mean = float(training.weights @ (y * scores)) / float(training.weights.sum())
        lowest -= 0.5 * float(ridge @ variance**2) + abs(mean * float(y @ variance))
        if problem.fit_intercept:
            lowest -= abs(shift * float(theta.sum()))
        shift = training.intercept(shift, theta)
        if training.kernel is None:
            coef = rmatmul(training.X, theta[:, None])[:, 0]
    missing = objective - lowest
    gap = max(solution.gap, missing / max(convex, TINY))
    if not np.isfinite(missing) or gap < 0:
        raise ValueError(OVERFLOW.format(lambda1))
    bound = None if problem.fit_intercept else _bound(problem, multipliers, diagonal)
    return BinaryFit(
        shift,
        objective,
        gap,
        solution.n_iter,
        problem.statistics(scores),
        coef,
        theta,
        bound,
        warm=(multipliers, solution.shift),
        solver=solution.solver,
        limited=solution.limited,
    )


def _bound(problem: BinaryProblem, multipliers: Array, diagonal: Array) -> float:
    """Compute the bound of the leave-one-out error without an intercept, Theorem 2.

    It is (1/m) (Σ α h over 0 < α < C/m, plus the number of samples with α = C/m), where h is the
    diagonal of a matrix that still contains the sample. It bounds the error for α fixed at zero.
    """
    weights = problem.training.weights
    at_limit = multipliers >= (1.0 - AT_LIMIT) * problem.losses.upper
    inside = (multipliers > 0) & ~at_limit
    total = float(multipliers[inside] @ diagonal[inside]) + float(weights[at_limit].sum())
    return total / float(weights.sum())


@dataclass
class Pairs:
    """Multipliers h and r, coefficients y a and their scores, intercept and mean margin."""

    h: Array
    r: Array
    theta: Array
    scores: Array
    shift: float = 0.0
    mean: float = 1.0
    gap: float = np.inf  # relative duality gap; infinite until the constraints hold
    n_iter: int = 0


def solve_pairs(problem: BinaryProblem) -> Pairs:
    """Run passes over the samples until the relative gap is at most `tol`, at most 100 passes."""
    from ._loops import BLOCK, pair_pass

    options, losses, y = problem.options, problem.losses, problem.y
    weights, lambda1 = problem.training.weights, problem.loss.lambda1
    dual = GramDual(problem.training.gram, y, losses)
    ridge = weights.sum() / (2.0 * lambda1 * weights)
    pull = PULL * float(dual.gram.diagonal().mean())
    mean_pull = max(pull, MEAN_PULL / lambda1)
    random = np.random.default_rng(options.seed)
    work = np.empty((BLOCK + 2, BLOCK))
    pairs = _first_pairs(problem, dual)
    enough = SHARE * options.tol
    for pairs.n_iter in range(1, min(MOST_PASSES, options.max_iter) + 1):
        order = random.permutation(len(y))
        pair_pass(
            dual.gram, y, ridge, losses.tilt, losses.upper,
            pairs.shift, pairs.mean, pull, mean_pull,
            float(pairs.theta.sum()), float(pairs.r.sum()),
            pairs.h, pairs.r, pairs.scores, order, work,
        )  # fmt: skip
        pairs.theta = dual.signed(pairs.h - pairs.r)
        pairs.shift += pull * float(pairs.theta.sum())
        pairs.mean += mean_pull * float(pairs.r.sum())
        margins = y * (pairs.scores + pairs.shift)
        convex = _convex_part(problem, pairs, margins)
        errors = pairs.r - (margins - pairs.mean) / ridge
        gap = float(losses.gaps(pairs.h, margins).sum() + 0.5 * ridge @ errors**2)
        if gap <= enough * convex or pairs.n_iter == options.max_iter:
            _make_feasible(dual, pairs, weights)
            pairs.gap = _relative_gap(problem, pairs, ridge)
            if pairs.gap <= options.tol:
                break
            enough *= TIGHTER
    return pairs


def _first_pairs(problem: BinaryProblem, dual: GramDual) -> Pairs:
    """Return zeros, or the solution of another fit by pairs."""
    zeros = np.zeros(len(dual.y))
    h, shift, r, mean = zeros, 0.0, zeros, 1.0
    if problem.start is not None and len(problem.start) == 4:
        h, shift, r, mean = problem.start
    h = np.clip(h, 0.0, dual.losses.upper)
    theta = dual.signed(h - r)
    return Pairs(h, r.copy(), theta, dual.gram @ theta, shift, mean)


def _relative_gap(problem: BinaryProblem, pairs: Pairs, ridge: Array) -> float:
    """Compute the duality gap relative to the objective without the term of the mean."""
    tilt, margins = problem.losses.tilt, problem.y * (pairs.scores + pairs.shift)
    convex = _convex_part(problem, pairs, margins)
    square = float(pairs.theta @ pairs.scores)
    bound = float(pairs.h.sum() - 0.5 * ridge @ pairs.r**2) - 0.5 * square
    # What rounding leaves of the constraints.
    bound -= abs(float(pairs.theta.sum()) * pairs.shift) + abs(float(pairs.r.sum()) * pairs.mean)
    if not tilt.any():
        bound = max(bound, 0.0)  # without tilts the objective is not negative
    return max(convex - float(tilt @ margins) - bound, 0.0) / convex


def _convex_part(problem: BinaryProblem, pairs: Pairs, margins: Array) -> float:
    """Compute the objective without the term of the mean."""
    variance = mean_and_variance(margins, problem.training.weights)[1]
    square = float(pairs.theta @ pairs.scores)
    return 0.5 * square + problem.loss.lambda1 * variance + problem.losses.value(margins)


def _make_feasible(dual: GramDual, pairs: Pairs, weights: Array) -> None:
    """Change r of a few samples of each class so that Σ y a and Σ r are zero."""
    excess, total = float(pairs.theta.sum()), float(pairs.r.sum())
    steps = np.zeros(len(weights))
    for sign in (1.0, -1.0):
        samples = np.flatnonzero(dual.y == sign)
        heavy = samples[np.argsort(weights[samples], kind="stable")[-CHANGED:]]
        steps[heavy] = 0.5 * (total - sign * excess) * weights[heavy] / weights[heavy].sum()
    pairs.r -= steps
    pairs.theta += dual.y * steps
    pairs.scores += dual.gram @ (dual.y * steps)


class LDMClassifier(MarginClassifier):
    r"""Large margin distribution machine: SVM with terms for the mean and variance of the margins.

    Minimises objective (5) of the paper (called ODM\ :sup:`L` there) for margins
    :math:`z_i = y_i (w^\top \phi(x_i) + b)` of m samples:

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + \lambda_1 \operatorname{var}(z)
              - \lambda_2 \operatorname{mean}(z) + \frac{C}{m} \sum_i \max(0, 1 - z_i)

    With :math:`\lambda_1 = \lambda_2 = 0` this is the soft-margin SVM with parameter C/m. With
    more than two classes there is one problem for each class against all others.

    Parameters
    ----------
    C : float, default=1000.0
        Weight of the hinge losses, positive; it is divided by the number of samples.
    lambda1 : float, default=1000.0
        Weight of the variance of the margins, not negative. With values far below C the model is
        almost an SVM. The paper uses values up to 1/4.
    lambda2 : float, default=0.0
        Weight of the mean of the margins, not negative. With ``lambda1=0`` and an intercept, a
        large value raises an error, because the objective then has no minimum.
    kernel : str or callable, default="rbf"
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two rows. It must be positive semi-definite; negative eigenvalues down to -1e-5 times the
        Frobenius norm of the kernel matrix are rounding errors and count as zero.
    gamma : float, "scale", "auto" or None, default="scale"
        Width of the RBF, polynomial, sigmoid, Laplacian and chi2 kernels, as in
        :class:`sklearn.svm.SVC`.
    degree, coef0 : float, default=3 and 1
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components : int, "auto" or None, default="auto"
        Number of components that approximate the kernel, for many samples; None means the exact
        kernel. "auto" is exact for at most 10,000 rows in memory, and otherwise 1,000 components
        with a warning. Ignored with the linear kernel.
    approximation : {"nystroem", "random_features"}, default="nystroem"
        "nystroem" is the Nyström method, on training rows drawn at random. "random_features" are
        an even number of random Fourier features, for the kernels "rbf" and "laplacian".
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised. The paper's model has none.
    class_weight : dict, "balanced" or None, default=None
        Class weights, which multiply the sample weights. "balanced" gives every class the same
        total weight, taking sample weights into account.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.
    solver : {"auto", "active_set", "dcd", "svrg"}, default="auto"
        All solvers converge to the same optimum.

        - "dcd": dual coordinate descent, Algorithm 1. One factorisation includes the variance in
          the kernel matrix or in the rows of features. With ``lambda1 > 0`` this needs memory for
          dense rows, or for an n × n matrix if there are more features than samples. Kernel
          problems with an intercept and more than 1000 samples try to do without factorisation.
        - "active_set": a semismooth Newton method on the same dual, for at most 2000 free
          multipliers. "dcd" replaces it if it does not converge within `max_iter` steps.
        - "svrg": stochastic gradients, Algorithm 2, for ``kernel="linear"`` and many samples, with
          too many features for the other solvers. It converges slowly because the loss is not
          smooth.
        - "auto": "active_set" for a kernel other than linear with at most 300 samples, else "dcd".
    svrg_step : float, default=0.1
        First step size of "svrg", relative to 1/L with the largest smoothness constant L of the
        gradients of single samples or pairs; at most 1. An epoch that increases the objective is
        repeated with half the step. The default is that of Johnson and Zhang (2013), whose setup
        the paper takes.
    warm_start : bool, default=False
        Whether to start from the solution of the previous fit if shape, classes, kernel, solver
        and `fit_intercept` are the same. The number of samples may differ for "svrg".
    tol : float, default=1e-3
        Relative duality gap at which to stop. With 0 a fit continues until `max_iter` or until
        rounding prevents a smaller gap, and warns only if that gap is above 1e-6. Except for
        "svrg", problems with at most 1000 samples, or 1000 features for a linear kernel, are solved
        to machine precision if possible; `gap_` is the gap reached.
    max_iter : int, default=1000
        Maximum number of iterations of a two-class problem, see `n_iter_`.
    n_jobs : int, default=None
        Number of threads that fit the two-class problems of more than two classes.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples and of the components.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels. With two classes, the second is the positive one.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features for ``kernel="linear"``, or of the components of an
        approximated kernel.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    support_ : ndarray of shape (n_support,)
        Indices of the training samples with a non-zero coefficient θ in at least one problem: all
        samples unless both lambdas are zero, because mean and variance depend on every margin.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients θ of the support vectors; the score of x is Σ θ k(x, support vector) +
        intercept.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_support, n_features)
        The support vectors; not set for "precomputed".
    margins_ : MarginStatistics
        Weighted `mean` and `variance` and the `minimum` of the training margins; numbers for two
        classes, else arrays with one entry per class.
    loo_error_bound_ : float or ndarray of shape (n_classes,)
        Upper bound of the leave-one-out error of the two-class problems, Theorem 2. Only with
        ``fit_intercept=False``, and not after "svrg".
    objective_ : float or ndarray of shape (n_classes,)
        Value of the objective.
    gap_ : float
        Largest duality gap of the two-class problems, relative to the objective without the term
        of the mean, including the rounding of coefficients to float32 if X has this type.
    n_iter_ : int
        Largest number of iterations of the two-class problems: passes over the samples ("dcd"),
        linear systems ("active_set") or epochs ("svrg"). The steps that bring a small problem to
        machine precision afterwards are not counted.
    solver_ : str
        The solver that ran; "dcd" if it replaced "active_set" in at least one problem.
    n_components_ : int
        Number of components; only set if the kernel is approximated.
    kernel_error_ : float
        Root mean square error of the approximated kernel on some 500 training rows, relative to
        the root mean square of its values; only set if the kernel is approximated.
    inverse_temperature_ : float
        Factor of the decision values in `predict_proba`, fitted to held-out scores. This and the
        next three attributes are only set with ``probability=True``.
    class_offsets_ : ndarray of shape (n_classes,)
        What `predict_proba` adds to the logits of the classes; only set with a `class_weight`, or
        if the probabilities need it.
    held_out_by_ : str
        How training samples were held out: "one row at a time", "5 folds" or "2,000 rows".
    held_out_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples, each from a model without the sample; only set if
        all samples were held out.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    ODMClassifier : Squared losses that keep all margins close to one.
    LDMClassifierCV : Selects C, lambda1, lambda2 and gamma by cross-validation.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from discreg import LDMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LDMClassifier().fit(minmax_scale(X), y)
    >>> model.score(minmax_scale(X), y) > 0.95, model.gap_ < 1e-9
    (True, True)
    """

    _constraints = MarginClassifier._constraints | {
        "C": Number(0, closed="neither"),
        "lambda1": Number(0, closed="left"),
        "lambda2": Number(0, closed="left"),
        "solver": Choice(("auto", "active_set", "dcd", "svrg")),
    }

    def __init__(
        self,
        *,
        C: float = 1000.0,
        lambda1: float = 1000.0,
        lambda2: float = 0.0,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        solver: str = "auto",
        svrg_step: float = 0.1,
        warm_start: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.svrg_step = svrg_step
        self.warm_start = warm_start
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _loss(self) -> MarginLoss:
        return MarginLoss.ldm(self.C, self.lambda1, self.lambda2)

    def _solve(self, problem: BinaryProblem) -> BinaryFit:
        return solve_ldm(problem)


@with_inherited_docs
class LDMClassifierCV(MarginSearch):
    r"""Large margin distribution machine with its parameters selected by cross-validation.

    There is one kernel matrix per fold and gamma, and each fit starts from the previous solution.
    Fits to compare settings stop at 30 times `tol`.

    Parameters
    ----------
    Cs : array-like of float, default=(1e3,)
        Candidates for the weight of the hinge losses, positive and finite: classes that cannot be
        separated have no hard margin. More candidates take more time, and were about as accurate
        on average.
    lambda1s : array-like of float, default=(0, 1e3, 1e4)
        Candidates for the weight of the variance of the margins, not negative. If the best of the
        default values is the largest, up to three larger values are tried, each after the first
        only if the one before increased the score by more than 0.1 %; see
        ``cv_results_["beyond_grid"]``.
    lambda2s : array-like of float, default=(0,)
        Candidates for the weight of the mean of the margins, not negative.

    See Also
    --------
    LDMClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from discreg import LDMClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LDMClassifierCV(Cs=[10, 100], lambda1s=[1, 10], gammas=["scale"]).fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['C', 'gamma', 'lambda1', 'lambda2']
    >>> model.best_score_ > 0.9
    True
    """

    _classifier = LDMClassifier
    _continued = {"lambda1": "lambda1s", "gamma": "gammas"}

    def __init__(
        self,
        estimator: Any = None,
        *,
        Cs: Sequence[float] = (1e3,),
        lambda1s: Sequence[float] = (0.0, 1e3, 1e4),
        lambda2s: Sequence[float] = (0.0,),
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.Cs = Cs
        self.lambda1s = lambda1s
        self.lambda2s = lambda2s
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(self, classifier: Any, X: Any, y: Any, weights: Any) -> list[Setting]:
        """List all combinations of the penalties, sorted by `lambda1` to share factorisations."""
        Cs = candidates_of("Cs", self.Cs, lambda values: values > 0, "positive")
        lambda1s, lambda2s = (
            candidates_of(name, values, lambda values: values >= 0, "not negative")
            for name, values in (("lambda1s", self.lambda1s), ("lambda2s", self.lambda2s))
        )
        return [
            {"C": C, "lambda1": lambda1, "lambda2": lambda2}
            for lambda1, lambda2, C in product(lambda1s[::-1], lambda2s[::-1], Cs[::-1])
        ]
