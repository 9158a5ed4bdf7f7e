"""The penalties ρ(‖v‖_{q,r}) of equation (4) of the DRM paper, and their proximal operators.

‖v‖_{q,r} is the r-norm of the q-norms of the classes. A sample of weight s is equivalent to s
repeated samples with the coefficient v/s each, so the q-norm of a class is
(Σ s^{1−q} |v|^q)^{1/q}. In coordinates u = v/√s, with c = √s, this is

    q = 1: Σ c|u|,    q = 2: ‖u‖,    q = ∞: max |u|/c,

and the norms of q = 1 and q = ∞ stay dual to each other. All functions here take u and c.

The proximal operators are exact for any q and r. The minimiser u of ½‖u − v‖² + step·ρ(‖u‖_{q,r})
separates once each class has its threshold τ: within the class it minimises ½‖u − v‖² + τ‖u‖_q.
With t the norms ‖u‖_q of the classes,

    r = 1: τ = step,
    r = 2: τ = step·t/‖t‖,
    r = ∞: Σ τ = step, and τ > 0 only where t is largest;

the half-square has step·‖t‖_r in place of step. Three remarks reduce the number of cases.

- q = r: all samples can be treated as one class.
- q = 2: u is a multiple of v in each class. The multiples are those of the problem with q = 1 whose
  classes have one coordinate each, the norm of v.
- q = ∞ and q = 1 need one level x per class: u is v clipped to [−cx, cx] for q = ∞, and v minus
  the clipped v for q = 1. The level is the norm t for q = ∞ and the threshold τ for q = 1. F(x) of
  `_prox_loops` is the threshold τ for q = ∞ and the norm t for q = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from discreg.linalg.types import Array

__all__ = ["NAMES", "Penalty", "prox"]


EXPONENTS = (1, 2, inf)
CONJUGATE: dict[float, float] = {1: inf, 2: 2, inf: 1}
SHAPES = ("identity", "half_square")
NAMES: dict[str, tuple[float, float, str]] = {
    "ridge": (2, 2, "half_square"),
    "lasso": (1, 1, "identity"),
    "group_lasso": (2, 1, "identity"),
    "exclusive_lasso": (1, 2, "half_square"),
}
ALLOWED = (
    f"{', '.join(map(repr, NAMES))} or a triple (q, r, rho) with q and r in {{1, 2, inf}} and rho "
    "'identity' or 'half_square'"
)


@dataclass(frozen=True)
class Penalty:
    """Penalty ρ(‖·‖_{q,r}) with ρ(t) = t ("identity") or ρ(t) = t²/2 ("half_square").

    Attributes
    ----------
    q, r : {1, 2, inf}
        The norm within a class, and the norm of the classes' norms.
    rho : {"identity", "half_square"}
        The function of the norm.

    Examples
    --------
    >>> import numpy as np
    >>> from discreg.representation import Penalty
    >>> lasso = Penalty(q=1, r=1, rho="identity")
    >>> lasso.value(np.array([[3.0, -4.0]]), [slice(0, 1), slice(1, 2)])
    array([7.])
    """

    q: float
    r: float
    rho: str

    @classmethod
    def of(cls, value: Any) -> Penalty:
        """Create the penalty from a name ("ridge", "lasso", ...) or a triple (q, r, rho)."""
        try:
            q, r, rho = NAMES[value] if isinstance(value, str) else value
            known = q in EXPONENTS and r in EXPONENTS and rho in SHAPES
        except (KeyError, TypeError, ValueError):
            known = False
        if not known:
            raise ValueError(f"penalty must be {ALLOWED}; got {value!r}.")
        return cls(q, r, rho)

    @property
    def half_square(self) -> bool:
        """Whether ρ is the half-square."""
        return self.rho == "half_square"

    @property
    def is_ridge(self) -> bool:
        """Whether the penalty is ½‖u‖², for which the problem is a linear system."""
        return self == Penalty.of("ridge")

    def of_copies(self, copies: float) -> float:
        """Compute ρ(‖w‖_{q,r}) of coefficients w divided among `copies` of each sample, for 1 of w.

        The q-norm of each class is multiplied by copies^(1/q − 1).
        """
        norm = float(copies ** (1 / self.q - 1))
        return norm**2 if self.half_square else norm

    def norm(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """Compute ‖u‖_{q,r} of each row."""
        return np.asarray(np.linalg.norm(group_norms(U, self.q, slices, c), ord=self.r, axis=1))

    def dual_norm(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """Compute the dual norm of each row u: the largest ⟨u, z⟩ over ‖z‖_{q,r} ≤ 1."""
        dual = Penalty(CONJUGATE[self.q], CONJUGATE[self.r], self.rho)
        return dual.norm(U, slices, c)

    def value(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """Compute ρ(‖u‖_{q,r}) of each row."""
        norm = self.norm(U, slices, c)
        return norm**2 / 2 if self.half_square else norm


def group_norms(U: Array, q: float, slices: Sequence[slice], c: Array | None = None) -> Array:
    """Compute the q-norms of the groups, one column per group that has samples."""
    starts = [rows.start for rows in slices if rows.stop > rows.start]
    size = np.abs(U)
    if q == 2:
        return np.sqrt(np.add.reduceat(size * size, starts, axis=1))
    if q == 1:
        return np.add.reduceat(size if c is None else c * size, starts, axis=1)
    return np.maximum.reduceat(size if c is None else size / c, starts, axis=1)


def prox(
    V: Array,
    step: float,
    penalty: Penalty,
    slices: Sequence[slice],
    weights: Array | None = None,
) -> Array:
    """Minimise ½‖u − v‖² + step·ρ(‖u‖_{q,r}) for each row v.

    Parameters
    ----------
    V : ndarray of shape (n_points, n_samples)
        The points, one per row.
    step : float
        At least zero.
    penalty : Penalty
    slices : sequence of slice
        The columns of each group: consecutive, from the first column to the last.
    weights : ndarray of shape (n_samples,), default=None
        The positive weights c of the coordinates: ``Σ c|u|`` for q = 1, ``max |u|/c`` for
        q = ∞. They are not used for q = 2. None means all ones.

    Returns
    -------
    U : ndarray of shape (n_points, n_samples)

    Examples
    --------
    >>> import numpy as np
    >>> from discreg.representation import Penalty, prox
    >>> lasso = Penalty(q=1, r=1, rho="identity")
    >>> prox(np.array([[3.0, -0.5]]), 1.0, lasso, [slice(0, 2)])
    array([[2., 0.]])
    """
    V = np.ascontiguousarray(V, dtype=np.float64)
    if step == 0 or V.size == 0:
        return V.copy()
    slices = [rows for rows in slices if rows.stop > rows.start]
    if penalty.q == penalty.r:
        slices = [slice(0, V.shape[1])]
    sizes = [rows.stop - rows.start for rows in slices]
    if penalty.q == 2:
        norms = group_norms(V, 2, slices)
        singles = [slice(i, i + 1) for i in range(len(slices))]
        shrunk = prox(norms, step, Penalty(1, penalty.r, penalty.rho), singles)
        factors = np.divide(shrunk, norms, out=np.zeros_like(norms), where=norms > 0)
        return np.asarray(V * np.repeat(factors, sizes, axis=1))
    c = np.ones(V.shape[1]) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    levels = np.repeat(_levels(np.abs(V), float(step), penalty, slices, c), sizes, axis=1)
    levels *= c
    clipped = np.clip(V, -levels, levels)
    return clipped if penalty.q == inf else V - clipped


def _levels(A: Array, step: float, penalty: Penalty, slices: list[slice], c: Array) -> Array:
    """Compute the levels x of each row, one column per group."""
    from . import _prox_loops as loops

    starts = np.array([0] + [rows.stop for rows in slices])
    levels = np.empty((len(A), len(slices)))
    q, r, half_square = penalty.q, penalty.r, penalty.half_square
    separable = len(slices) == 1 or r == (2 if half_square else 1)
    if separable and half_square:  # τ = step·t in each group
        loops.each_level(A, starts, c, 0.0, 1 / step if q == 1 else step, levels)
    elif separable and q == 1:  # τ = step
        levels.fill(step)
    elif separable:
        loops.each_level(A, starts, c, step, 0.0, levels)
    elif r == 2:
        loops.levels_at_norm(A, starts, c, step, q == inf, levels)
    elif q == 1:  # one norm t for all groups that reach it, Σ τ = step or step·t
        shift, slope = (0.0, step) if half_square else (step, 0.0)
        loops.levels_at_common_value(A, starts, c, shift, slope, levels)
    else:  # one threshold τ for all groups, Σ t = τ / step
        loops.levels_at_common_value(A, starts, c, 0.0, 1 / step, levels)
    if q == 1 and not (separable or half_square):
        # The minimiser is exactly zero here; rounding errors would leave small values.
        levels[penalty.dual_norm(A, slices, c) <= step] = inf
    return levels
