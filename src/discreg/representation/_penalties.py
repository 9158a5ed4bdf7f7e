"""The penalties ρ(‖v‖_{q,r}) of equation (4) of the DRM paper.

‖v‖_{q,r} is the r-norm of the q-norms of the classes. A sample of weight s stands for s copies that
share its coefficient v evenly, so the q-norm of a class is (Σ s^{1−q} |v|^q)^{1/q}. In coordinates
u = v/√s, with c = √s, that is

    q = 1: Σ c|u|,    q = 2: ‖u‖,    q = ∞: max |u|/c,

and the norms of q = 1 and q = ∞ stay dual to each other. All functions here take u and c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Penalty", "group_norms"]

Array = NDArray[np.float64]

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
    """ρ(‖·‖_{q,r}) with ρ(t) = t ("identity") or ρ(t) = t²/2 ("half_square").

    Attributes
    ----------
    q, r : {1, 2, inf}
        The norm within a class, and the norm of the classes' norms.
    rho : {"identity", "half_square"}
    """

    q: float
    r: float
    rho: str

    @classmethod
    def named(cls, name: str) -> Penalty:
        """The penalty of a name: ridge, lasso, group_lasso or exclusive_lasso."""
        if name not in NAMES:
            raise ValueError(f"penalty must be {ALLOWED}; got {name!r}.")
        return cls(*NAMES[name])

    @classmethod
    def of(cls, value: Any) -> Penalty:
        """The penalty of a name or of a triple (q, r, rho)."""
        if isinstance(value, str):
            return cls.named(value)
        try:
            q, r, rho = value
            known = q in EXPONENTS and r in EXPONENTS and rho in SHAPES
        except (TypeError, ValueError):
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
        """Whether it is ½‖u‖², for which the problem is a linear system."""
        return self == Penalty.named("ridge")

    def norm(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """‖u‖_{q,r} of each row."""
        return np.linalg.norm(group_norms(U, self.q, slices, c), ord=self.r, axis=1)

    def dual_norm(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """The largest ⟨u, z⟩ over ‖z‖_{q,r} ≤ 1, of each row u."""
        dual = Penalty(CONJUGATE[self.q], CONJUGATE[self.r], self.rho)
        return dual.norm(U, slices, c)

    def value(self, U: Array, slices: Sequence[slice], c: Array | None = None) -> Array:
        """ρ(‖u‖_{q,r}) of each row."""
        norm = self.norm(U, slices, c)
        return norm**2 / 2 if self.half_square else norm


def group_norms(U: Array, q: float, slices: Sequence[slice], c: Array | None = None) -> Array:
    """q-norms of the groups, one column a group; groups without samples have no column."""
    starts = [rows.start for rows in slices if rows.stop > rows.start]
    size = np.abs(U)
    if q == 2:
        return np.sqrt(np.add.reduceat(size * size, starts, axis=1))
    if q == 1:
        return np.add.reduceat(size if c is None else c * size, starts, axis=1)
    return np.maximum.reduceat(size if c is None else size / c, starts, axis=1)
