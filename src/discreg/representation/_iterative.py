"""Algorithms 3 to 6: iterations for a batch of test points, the rows of a matrix.

Iterations stop by the paper's rule ‖w⁽ᵗ⁺¹⁾ − w⁽ᵗ⁾‖ ≤ tol; points that satisfy it leave the batch.
With sample weights s, the iterations use the coordinates u = v / √s. There the penalty has no
weights, and a step for a sample of weight s equals that for s repeated samples.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.factorisation import EPS
from discreg.linalg.rows import row_dots
from discreg.linalg.types import Array, Indices

from ._problem import Operator

__all__ = ["ALGORITHMS", "Iterations", "Quadratic", "iterate", "largest_eigenvalue"]

GROWTH = 2.0  # η of Algorithm 6
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


Step = Generator[tuple[Array, Array], NDArray[np.bool_], None]


def gradient_descent(
    problem: Quadratic, b: Array, U: Array, eigenvalue: float | None, backtracking: bool
) -> Step:
    """Run Algorithm 3: gradient descent with the exact line search (16)."""
    gradient = problem.curved(U) - b
    while True:
        image = problem.curved(gradient)
        length = _ratio(row_dots(gradient, gradient), row_dots(gradient, image))[:, None]
        U = U - length * gradient
        gradient = gradient - length * image
        kept = yield U, gradient
        U, gradient, b = U[kept], gradient[kept], b[kept]


def proximal_point(
    problem: Quadratic, b: Array, U: Array, eigenvalue: float, backtracking: bool
) -> Step:
    """Run Algorithms 4 and 5: w ← (K_x − Qw + cw) / (β + c), equation (18)."""
    gradient = problem.curved(U) - b
    while True:
        U = U - gradient / (problem.beta + eigenvalue)
        gradient = problem.curved(U) - b
        kept = yield U, gradient
        U, gradient, b = U[kept], gradient[kept], b[kept]


def accelerated(
    problem: Quadratic, b: Array, U: Array, eigenvalue: float, backtracking: bool
) -> Step:
    """Run Algorithm 6: accelerated proximal gradient, with or without backtracking by (25)."""
    ahead = U  # v of the paper
    image = problem.curved(U)
    image_ahead = image
    inertia = 1.0  # d of the paper
    # b of (25): c + β without backtracking; with backtracking a smaller value that is increased.
    bound = np.full(len(U), problem.beta + eigenvalue)
    if backtracking:
        bound = np.full(len(U), problem.beta + 1e-3 * eigenvalue)
    while True:
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
        kept = yield U, image - b
        U, image, ahead, image_ahead = U[kept], image[kept], ahead[kept], image_ahead[kept]
        b, bound = b[kept], bound[kept]


Algorithm = Callable[[Quadratic, Array, Array, Any, bool], Step]
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
    """Run an algorithm for a batch of test points.

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
    n_points = len(b)
    coef, gradient = U.copy(), problem.curved(U) - b
    objective = _objective(U, gradient, b)
    history = [objective.copy()]
    n_iter = np.zeros(n_points, dtype=np.intp)
    running = np.arange(n_points)
    steps = ALGORITHMS[algorithm](problem, b, U, eigenvalue, backtracking)
    kept = None
    for _ in range(max_iter if n_points else 0):
        U_next, slope = next(steps) if kept is None else steps.send(kept)
        moved = np.sqrt(row_dots(U_next - coef[running], U_next - coef[running]))
        coef[running], gradient[running] = U_next, slope
        n_iter[running] += 1
        objective[running] = _objective(U_next, slope, b[running])
        history.append(objective.copy())
        kept = moved > tol
        running = running[kept]
        if not len(running):
            break
    converged = np.ones(n_points, dtype=bool)
    converged[running] = False
    # Strong convexity with constant β: f(u) − min f ≤ ‖∇f(u)‖² / (2β).
    scale = np.maximum(k_xx, np.finfo(float).tiny)
    gap = row_dots(gradient, gradient) / (problem.beta * scale)
    return Iterations(coef * root, np.array(history), n_iter, converged, gap)


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


def _objective(U: Array, gradient: Array, b: Array) -> Array:
    """Compute ½ uᵀAu − uᵀb from the gradient Au − b."""
    return 0.5 * row_dots(U, gradient - b)


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Divide, with quotient zero where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)
