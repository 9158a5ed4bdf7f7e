"""Algorithms 3 to 6: iterations for a batch of test points, the rows of a matrix.

Iterations stop by the paper's rule ‖w⁽ᵗ⁺¹⁾ − w⁽ᵗ⁾‖ ≤ tol; points that satisfy it leave the batch.
With sample weights s, the iterations use the coordinates u = v / √s. There the penalty has no
weights, and a step for a sample of weight s equals that for s repeated samples.

Accelerated proximal gradient with duality gaps, for any penalty ρ(‖·‖_{q,r}).

In coordinates u = v/√s the problem of a test point x, equation (9) of the DRM paper, is

    P(u) = ½ uᵀQu − bᵀu + β ρ(Ω(u)),

with √s on both sides of Q and b = √s K_x. Duality bounds the distance of u from the optimum. K with
K_x and k(x, x) is a Gram matrix and α(H − B) is positive semidefinite, so there are z and Φ with
ΦᵀΦ = Q, Φᵀz = b and zᵀz = k(x, x), and

    P(u) + ½ k(x, x) = ½ ‖z − Φu‖² + β ρ(Ω(u)) ≥ θᵀz − ½ ‖θ‖² − β ρ*(Ω°(Φᵀθ) / β)    for any θ,

where Ω° is the dual norm; ρ* is zero up to 1 and infinite beyond it for the identity, and the
half-square for the half-square. Take θ = κ(z − Φu), a multiple of the residual. With the negative
gradient g = b − Qu the bound is

    D(κ) = κ (k(x, x) − bᵀu) − ½ κ² (k(x, x) − 2bᵀu + uᵀQu) − β ρ*(κ Ω°(g) / β),

which needs no feature map; its best κ has a closed form. No u has an objective below D − ½ k(x, x).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.factorisation import EPS
from discreg.linalg.rows import row_dots
from discreg.linalg.types import Array, Indices

from ._problem import Operator, Penalty, prox

GROWTH = 2.0  # η of Algorithm 6
TINY = np.finfo(np.float64).tiny
LANCZOS_TOLERANCE = 1e-8
LANCZOS_STEPS = 100
LANCZOS_BATCH = 10  # steps between two tests of convergence
LANCZOS_FAILURE = 1e-10  # probability of an eigenvalue above the bound without convergence


class Iterations(NamedTuple):
    """Result of an iterative algorithm for a batch of test points.

    Attributes
    ----------
    coef : ndarray of shape (n_points, n)
        Representations.
    objective_history : ndarray of shape (n_iter + 1, n_points)
        Objective at the start and after each iteration; a point that has converged keeps its last
        value.
    n_iter : ndarray of shape (n_points,)
        Number of iterations of each point.
    converged : ndarray of shape (n_points,)
        Whether the stopping rule was met.
    gap : ndarray of shape (n_points,)
        Upper bound of (objective − minimum), relative to k(x, x) / 2.
    """

    coef: Array
    objective_history: Array
    n_iter: Indices
    converged: NDArray[np.bool_]
    gap: Array


@dataclass(frozen=True)
class Quadratic:
    """The objective f(u) = ½ uᵀ(S½QS½ + βI)u − uᵀS½K_x for the rows of a batch."""

    operator: Operator
    beta: float

    def curved(self, U: Array) -> Array:
        """Compute U (S½QS½ + βI)."""
        root = np.sqrt(self.operator.groups.weights)
        return self.operator.apply(U * root) * root + self.beta * U


class Reached(NamedTuple):
    """What an iteration has reached, one row or entry per point that is still iterated."""

    U: Array
    objective: Array
    gap: Array
    measure: Array  # what the stopping rule compares with `tol`


# Each yields the start and then every iterate, and receives which points are iterated further.
Step = Generator[tuple[Array, Array], NDArray[np.bool_], None]
Steps = Generator[Reached, NDArray[np.bool_], None]


def gradient_descent(problem: Quadratic, b: Array, U: Array, eigenvalue: float | None) -> Step:
    """Run Algorithm 3: gradient descent with the exact line search (16)."""
    gradient = problem.curved(U) - b
    while True:
        kept = yield U, gradient
        U, gradient = U[kept], gradient[kept]
        image = problem.curved(gradient)
        length = _ratio(row_dots(gradient, gradient), row_dots(gradient, image))[:, None]
        U = U - length * gradient
        gradient = gradient - length * image


def proximal_point(problem: Quadratic, b: Array, U: Array, eigenvalue: float) -> Step:
    """Run Algorithms 4 and 5: w ← (K_x − Qw + cw) / (β + c), equation (18)."""
    while True:
        gradient = problem.curved(U) - b
        kept = yield U, gradient
        U, b = U[kept] - gradient[kept] / (problem.beta + eigenvalue), b[kept]


def accelerated(
    problem: Quadratic, b: Array, U: Array, eigenvalue: float, *, backtracking: bool = False
) -> Step:
    """Run Algorithm 6: accelerated proximal gradient, with or without backtracking by (25)."""
    ahead = U  # v of the paper
    image = image_ahead = problem.curved(U)
    inertia = 1.0  # d of the paper
    # b of (25): c + β without backtracking; with backtracking a smaller value that is increased.
    bound = np.full(len(U), problem.beta + (1e-3 if backtracking else 1.0) * eigenvalue)
    while True:
        kept = yield U, image - b
        U, image, ahead, image_ahead = U[kept], image[kept], ahead[kept], image_ahead[kept]
        b, bound = b[kept], bound[kept]
        slope = image_ahead - b
        if backtracking:
            needed = _ratio(row_dots(slope, problem.curved(slope)), row_dots(slope, slope))
            short = bound < needed
            powers = np.ceil(np.log(needed[short] / bound[short]) / np.log(GROWTH))
            bound[short] *= GROWTH**powers
        following = ahead - slope / bound[:, None]
        following_image = problem.curved(following)
        inertia, previous = (1 + np.sqrt(1 + 4 * inertia**2)) / 2, inertia
        momentum = (previous - 1) / inertia
        # The map is linear, so that an iteration needs one product only.
        ahead = following + momentum * (following - U)
        image_ahead = following_image + momentum * (following_image - image)
        U, image = following, following_image


Algorithm = Callable[..., Step]
ALGORITHMS: dict[str, Algorithm] = {
    "gd": gradient_descent,
    "ppa": proximal_point,
    "apg": accelerated,
}


def iterate(
    problem: Quadratic,
    K_x: Array,
    k_xx: Array,
    algorithm: str,
    *,
    tol: float,
    max_iter: int,
    eigenvalue: float | None = None,
    backtracking: bool = False,
    start: Array | None = None,
) -> Iterations:
    """Run an algorithm of the ridge penalty for a batch of test points.

    Parameters
    ----------
    problem : Quadratic
    K_x : ndarray of shape (n_points, n)
        Kernel between the points and the training samples.
    k_xx : ndarray of shape (n_points,)
        Kernel of each point with itself.
    algorithm : {"gd", "ppa", "apg"}
    tol, max_iter
        Parameters of the stopping rule.
    eigenvalue : float
        The paper's c, an upper bound of the largest eigenvalue of Q; not used by "gd".
    backtracking : bool
        Whether "apg" finds the bound by (25) instead.
    start : ndarray of shape (n_points, n), optional
        Initial representations; zero by default.

    Returns
    -------
    Iterations
    """
    root = np.sqrt(problem.operator.groups.weights)
    b = K_x * root
    U = np.zeros_like(b) if start is None else start / root
    options = {"backtracking": True} if backtracking else {}
    steps = ALGORITHMS[algorithm](problem, b, U, eigenvalue, **options)
    found = _run(_judged(steps, problem.beta, b, k_xx), tol=tol, max_iter=max_iter)
    return found._replace(coef=found.coef * root)


def _judged(steps: Step, beta: float, b: Array, k_xx: Array) -> Steps:
    """Add objectives, gaps and the lengths of the steps to the iterates of the ridge penalty."""
    scale, moved = np.maximum(k_xx, TINY), np.full(len(b), np.inf)
    U, gradient = next(steps)
    while True:
        # Strong convexity with constant β: f(u) − min f ≤ ‖∇f(u)‖² / (2β).
        gap = row_dots(gradient, gradient) / (beta * scale)
        kept = yield Reached(U, 0.5 * row_dots(U, gradient - b), gap, moved)
        before, b, scale = U[kept], b[kept], scale[kept]
        U, gradient = steps.send(kept)
        moved = np.sqrt(row_dots(U - before, U - before))


def _run(steps: Steps, *, tol: float, max_iter: int) -> Iterations:
    """Iterate each point of a batch until its measure is at most `tol`."""
    reached = next(steps)
    coef, objective, gap = reached.U.copy(), reached.objective.copy(), reached.gap.copy()
    active, n_iter = np.arange(len(coef)), np.zeros(len(coef), dtype=np.intp)
    history, kept = [objective.copy()], reached.measure > tol
    while n_iter.max(initial=0) < max_iter and kept.any():
        active = active[kept]
        reached = steps.send(kept)
        coef[active], objective[active], gap[active] = reached[:3]
        n_iter[active] += 1
        history.append(objective.copy())
        kept = reached.measure > tol
    converged = np.ones(len(coef), dtype=bool)
    converged[active[kept]] = False
    return Iterations(coef, np.array(history), n_iter, converged, gap)


def largest_eigenvalue(operator: Operator) -> float:
    """Compute an upper bound of the largest eigenvalue of S½QS½ by Lanczos' method.

    The bound is the largest Ritz value plus the norm of its residual, once that norm is small. The
    tolerance is small, so that Lanczos' method does not stop at the second of two close
    eigenvalues. If too many eigenvalues are close to the largest, the residual stays large. Then
    the bound is the Ritz value θ divided by 1 − ε. From a random start, k steps in n dimensions
    leave an eigenvalue above θ / (1 − ε) with a probability of at most 1.648 √n e^(−(2k − 1)√ε)
    (Kuczyński and Woźniakowski, SIAM J. Matrix Anal. Appl. 13, 1992).

    The vectors are not reorthogonalised: rounding repeats Ritz values but does not raise the
    largest.
    """
    n = len(operator.groups.weights)
    root = np.sqrt(operator.groups.weights)
    vector = np.random.default_rng(0).standard_normal(n)
    vector /= np.linalg.norm(vector)
    previous, coupling = np.zeros(n), 0.0
    tridiagonal = np.zeros((LANCZOS_STEPS + 1, LANCZOS_STEPS + 1))
    for k in range(LANCZOS_STEPS):
        image = operator.apply((vector * root)[None])[0] * root - coupling * previous
        tridiagonal[k, k] = image @ vector
        image -= tridiagonal[k, k] * vector
        coupling = float(np.linalg.norm(image))
        done = not coupling > EPS * tridiagonal.max()  # also at NaN
        if done or (k + 1) % LANCZOS_BATCH == 0:
            if not np.isfinite(coupling) or not np.all(np.isfinite(tridiagonal)):
                raise ValueError(
                    "The kernel matrix times the sample weights is too large to be squared. Scale "
                    "the features, for example with sklearn.preprocessing.StandardScaler, or the "
                    "weights."
                )
            values, vectors = np.linalg.eigh(tridiagonal[: k + 1, : k + 1])
            value, residual = float(values[-1]), coupling * float(abs(vectors[-1, -1]))
            if done or residual <= LANCZOS_TOLERANCE * value:
                return max(value + residual, 0.0) * (1 + LANCZOS_TOLERANCE)
        tridiagonal[k, k + 1] = tridiagonal[k + 1, k] = coupling
        previous, vector = vector, image / coupling
    epsilon = (np.log(1.648 * np.sqrt(n) / LANCZOS_FAILURE) / (2 * LANCZOS_STEPS - 1)) ** 2
    return float(value / (1 - epsilon))


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Divide, with quotient zero where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)


def solve_penalised(
    operator: Operator,
    K_x: Array,
    k_xx: Array,
    beta: float,
    penalty: Penalty,
    *,
    tol: float,
    max_iter: int,
    lipschitz: float,
) -> Iterations:
    """Minimise ½ vᵀQv − K_xᵀv + β ρ(‖v‖_{q,r}) for a batch of test points.

    Parameters
    ----------
    operator : Operator
        Q and the groups. The kernel must be positive semidefinite.
    K_x : ndarray of shape (m, n)
        Kernel between the test points and the samples, in the order of the groups.
    k_xx : ndarray of shape (m,)
        Kernel of each test point with itself.
    beta : float
        Weight of the penalty, positive.
    penalty : Penalty
    tol : float
        A point has converged when its duality gap is at most `tol` times ½ k(x, x).
    max_iter : int
        Maximum number of iterations.
    lipschitz : float
        Upper bound of the largest eigenvalue of S^{1/2} Q S^{1/2}, with S = diag(s).

    Returns
    -------
    Iterations
        `objective_history` holds the lowest objective of each point so far.
    """
    c = np.sqrt(operator.groups.weights)
    steps = _fista(operator, K_x * c, k_xx, beta, penalty, 1 / max(lipschitz, TINY))
    found = _run(steps, tol=tol, max_iter=max_iter)
    return found._replace(coef=found.coef * c, converged=found.gap <= tol)


def _fista(
    operator: Operator, b: Array, k_xx: Array, beta: float, penalty: Penalty, step: float
) -> Steps:
    """Run FISTA with adaptive restart of the momentum, from zero.

    Q times the extrapolated point is also extrapolated, so that a step needs one product.
    """
    slices, c = operator.groups.slices, np.sqrt(operator.groups.weights)
    U = QU = ahead = Q_ahead = np.zeros(b.shape)
    momentum = np.ones(len(b))  # t of FISTA
    lowest, bound = np.zeros(len(b)), np.zeros(len(b))  # of P, and of its lower bound + ½ k(x, x)
    while True:
        linear, quadratic = row_dots(b, U), row_dots(QU, U)
        objective = 0.5 * quadratic - linear + beta * penalty.value(U, slices, c)
        gain = np.maximum(k_xx - linear, 0.0)
        curvature = np.maximum(k_xx - 2 * linear + quadratic, 0.0)
        dual = penalty.dual_norm(b - QU, slices, c)
        found = _largest_bound(gain, curvature, dual, beta, penalty)
        lowest, bound = np.minimum(lowest, objective), np.maximum(bound, found)
        half = 0.5 * k_xx
        gap = np.maximum(objective + half - bound, 0.0) / np.maximum(half, TINY)
        kept = yield Reached(U, lowest, gap, gap)
        b, U, QU, ahead, Q_ahead = b[kept], U[kept], QU[kept], ahead[kept], Q_ahead[kept]
        k_xx, momentum, lowest, bound = k_xx[kept], momentum[kept], lowest[kept], bound[kept]
        following = prox(ahead - step * (Q_ahead - b), step * beta, penalty, slices, c)
        image = operator.apply(following * c) * c
        moved = following - U
        turned = row_dots(ahead - following, moved) > 0
        previous = momentum
        momentum = np.where(turned, 1.0, 0.5 + np.sqrt(0.25 + previous**2))
        carry = np.where(turned, 0.0, (previous - 1) / momentum)[:, None]
        ahead, Q_ahead = following + carry * moved, image + carry * (image - QU)
        U, QU = following, image


def _largest_bound(
    gain: Array, curvature: Array, dual: Array, beta: float, penalty: Penalty
) -> Array:
    """Compute the largest D(κ) = κ gain − ½ κ² curvature − β ρ*(κ dual / β) over κ ≥ 0."""
    if penalty.half_square:
        curvature = curvature + dual**2 / beta
    kappa = gain / np.maximum(curvature, TINY)
    if penalty.half_square:
        return 0.5 * gain * kappa  # also if the square of `dual` overflows
    kappa = np.minimum(kappa, beta / np.maximum(dual, TINY))
    return gain * kappa - 0.5 * curvature * kappa**2
