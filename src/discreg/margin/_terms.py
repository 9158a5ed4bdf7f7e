"""The loss of a margin and its dual, for ODM and for the hinge: one family of both.

Every loss here is the largest value over a multiplier a of

    −a z + a · low − u_low a²/2   for 0 ≤ a ≤ upper,      −a z + a · high − u_high a²/2   for a < 0,

a convex, piecewise quadratic function ℓ(z) that is zero for margins between `low` and `high`.

- ODM, objective (7): low = 1 − D, high = 1 + D, u = m / (2 C s) with C1 below and C2 above, no
  upper limit: ℓ(z) = (C1 s/m) max(0, 1 − D − z)² + (C2 s/m) max(0, z − 1 − D)².
- Hinge of LDM, objective (5): low = 1, high = ∞, u = 0, upper = C s/m:
  ℓ(z) = (C s/m) max(0, 1 − z).

The multiplier that attains it is a = −ℓ'(z): one signed multiplier a sample takes the place of the
two of the dual (19), of which one is always zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Terms"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """The losses of all samples of one problem."""

    low: float
    high: float
    ridge_low: Array
    ridge_high: Array
    upper: Array

    @classmethod
    def odm(cls, weights: Array, C1: float, C2: float, D: float) -> Terms:
        """Losses of ODM for samples that each count `weights` times."""
        total = float(weights.sum())
        return cls(
            low=1.0 - D,
            high=1.0 + D,
            ridge_low=total / (2.0 * C1 * weights),
            ridge_high=total / (2.0 * C2 * weights),
            upper=np.full(len(weights), np.inf),
        )

    @classmethod
    def hinge(cls, weights: Array, C: float) -> Terms:
        """Losses of the soft-margin SVM and of LDM."""
        none = np.zeros(len(weights))
        upper = C * weights / float(weights.sum())
        return cls(low=1.0, high=np.inf, ridge_low=none, ridge_high=none, upper=upper)

    @property
    def is_smooth(self) -> bool:
        """Whether the losses have a derivative everywhere, and so the multipliers are unique."""
        return bool(np.all(self.ridge_low > 0))

    def arrays(self) -> tuple[float, float, Array, Array, Array]:
        """Everything, in the order in which compiled loops take it."""
        return self.low, self.high, self.ridge_low, self.ridge_high, self.upper

    def take(self, samples: NDArray[np.intp]) -> Terms:
        """The losses of some samples."""
        return Terms(
            self.low,
            self.high,
            self.ridge_low[samples],
            self.ridge_high[samples],
            self.upper[samples],
        )

    def multipliers(self, margins: Array) -> Array:
        """The multiplier −ℓ'(z) of each margin."""
        below, above = self._beyond(margins)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            pulled = np.where(below > 0, np.minimum(below / self.ridge_low, self.upper), 0.0)
            pushed = np.where(above > 0, above / self.ridge_high, 0.0)
        return pulled - pushed

    def curvature(self, margins: Array) -> Array:
        """The second derivative ℓ''(z) of each margin, for losses that are smooth."""
        below, above = self._beyond(margins)
        return np.where(below > 0, 1 / self.ridge_low, 0.0) + np.where(
            above > 0, 1 / self.ridge_high, 0.0
        )

    def loss(self, margins: Array) -> float:
        """Sum of the losses."""
        a = self.multipliers(margins)
        return float(self.gains(a).sum() - a @ margins)

    def gains(self, multipliers: Array) -> Array:
        """What each multiplier earns in the dual: −ℓ*(−a)."""
        pulled, pushed = np.maximum(multipliers, 0.0), np.minimum(multipliers, 0.0)
        gain = pulled * (self.low - 0.5 * self.ridge_low * pulled)
        if np.isfinite(self.high):
            gain += pushed * (self.high - 0.5 * self.ridge_high * pushed)
        return gain

    def gap(self, multipliers: Array, margins: Array) -> float:
        """Duality gap Σ ℓ(z) + ℓ*(−a) + a z of multipliers, for the margins they bring."""
        return self.loss(margins) + float(multipliers @ margins - self.gains(multipliers).sum())

    def _beyond(self, margins: Array) -> tuple[Array, Array]:
        """How far margins are below `low` and above `high`."""
        return np.maximum(self.low - margins, 0.0), np.maximum(margins - self.high, 0.0)
