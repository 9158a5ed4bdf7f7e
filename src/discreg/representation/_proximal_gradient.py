"""Accelerated proximal gradient with duality gaps, for any penalty ρ(‖·‖_{q,r}).

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

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.rows import row_dots
from discreg.linalg.types import Array

from ._iterative import Iterations
from ._penalties import Penalty, prox
from ._problem import Operator

__all__ = ["solve_penalised"]


TINY = np.finfo(np.float64).tiny


class _State(NamedTuple):
    """Iterates of the points that have not converged, one row or entry per point."""

    b: Array  # √s K_x
    k_xx: Array
    U: Array
    QU: Array
    ahead: Array  # U extrapolated by the momentum
    Q_ahead: Array
    momentum: Array  # t of FISTA
    bound: Array  # largest lower bound of P + ½ k(x, x) so far

    def keep(self, rows: NDArray[np.bool_]) -> _State:
        return _State(*(part[rows] for part in self))


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
    slices = operator.groups.slices
    c = np.sqrt(operator.groups.weights)
    step = 1 / max(lipschitz, TINY)
    n_points = len(K_x)
    coef = np.zeros(K_x.shape)
    n_iter = np.zeros(n_points, dtype=np.intp)
    lowest = np.zeros(n_points)  # the objective at the start, u = 0
    gap = np.empty(n_points)
    history: list[Array] = []
    zeros = np.zeros(K_x.shape)
    state = _State(
        b=K_x * c,
        k_xx=np.asarray(k_xx, dtype=np.float64),
        U=zeros,
        QU=zeros,
        ahead=zeros,
        Q_ahead=zeros,
        momentum=np.ones(n_points),
        bound=np.zeros(n_points),
    )
    active = np.arange(n_points)
    for iteration in range(max_iter + 1):
        if iteration > 0:
            state = _advance(state, operator, c, step, beta, penalty)
        objective, bound = _objective_and_bound(state, beta, penalty, slices, c)
        state = state._replace(bound=np.maximum(state.bound, bound))
        half = 0.5 * state.k_xx
        coef[active] = state.U
        n_iter[active] = iteration
        lowest[active] = np.minimum(lowest[active], objective)
        gap[active] = np.maximum(objective + half - state.bound, 0.0) / np.maximum(half, TINY)
        history.append(lowest.copy())
        open_ = gap[active] > tol
        if not open_.all():
            state, active = state.keep(open_), active[open_]
        if len(active) == 0:
            break
    return Iterations(coef * c, np.array(history), n_iter, gap <= tol, gap)


def _advance(
    state: _State, operator: Operator, c: Array, step: float, beta: float, penalty: Penalty
) -> _State:
    """Take one step of FISTA with adaptive restart of the momentum.

    Q times the extrapolated point is also extrapolated, so that a step needs one product.
    """
    slices = operator.groups.slices
    U = prox(state.ahead - step * (state.Q_ahead - state.b), step * beta, penalty, slices, c)
    QU = operator.apply(U * c) * c
    moved = U - state.U
    turned = row_dots(state.ahead - U, moved) > 0
    momentum = np.where(turned, 1.0, 0.5 + np.sqrt(0.25 + state.momentum**2))
    carry = np.where(turned, 0.0, (state.momentum - 1) / momentum)[:, None]
    return state._replace(
        U=U,
        QU=QU,
        ahead=U + carry * moved,
        Q_ahead=QU + carry * (QU - state.QU),
        momentum=momentum,
    )


def _objective_and_bound(
    state: _State, beta: float, penalty: Penalty, slices: Sequence[slice], c: Array
) -> tuple[Array, Array]:
    """Compute P(u) and the largest D(κ) over κ ≥ 0; see the module docstring."""
    linear = row_dots(state.b, state.U)
    quadratic = row_dots(state.QU, state.U)
    objective = 0.5 * quadratic - linear + beta * penalty.value(state.U, slices, c)
    gain = np.maximum(state.k_xx - linear, 0.0)
    curvature = np.maximum(state.k_xx - 2 * linear + quadratic, 0.0)
    dual = penalty.dual_norm(state.b - state.QU, slices, c)
    if penalty.half_square:
        curvature += dual**2 / beta
    kappa = gain / np.maximum(curvature, TINY)
    if penalty.half_square:
        return objective, 0.5 * gain * kappa  # also if the square of `dual` overflows
    kappa = np.minimum(kappa, beta / np.maximum(dual, TINY))
    return objective, gain * kappa - 0.5 * curvature * kappa**2
