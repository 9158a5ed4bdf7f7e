"""The losses of ODM and of LDM: one object for each model, which all its solvers take.

For margins z of samples with the shares p of the total weight, both models minimise

    ½‖w‖² + λ1 var(z) − λ2 mean(z) + Σ p ℓ(z),

where ℓ(z) is the largest value over a multiplier a of

    −a z + a · low − u_low a²/2   for 0 ≤ a ≤ upper,      −a z + a · high − u_high a²/2   for a < 0,

a convex, piecewise quadratic function that is zero for margins between `low` and `high`.

- ODM, objective (7): low = 1 − D, high = 1 + D, u = 1/(2 C) with C1 below and C2 above, no upper
  limit: ℓ(z) = C1 max(0, 1 − D − z)² + C2 max(0, z − 1 − D)². λ1 and λ2 are zero.
- LDM, objective (5): low = 1, high = ∞, u = 0, upper = C: the hinge ℓ(z) = C max(0, 1 − z).

The multiplier that attains ℓ is a = −ℓ'(z): one signed multiplier for each sample takes the place
of the two of the dual (19), of which one is always zero. Value, derivatives and conjugate of ℓ are
in `_loss_loops`, where compiled loops call them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MarginLoss", "Numbers", "SampleLosses", "mean_and_variance"]

Array = NDArray[np.float64]
Numbers = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class MarginLoss:
    """The loss of a model: ℓ for a margin of weight one, and the weights λ1 and λ2."""

    low: float
    high: float
    ridge_low: float
    ridge_high: float
    upper: float
    lambda1: float = 0.0
    lambda2: float = 0.0

    @classmethod
    def odm(cls, C1: float, C2: float, D: float) -> MarginLoss:
        """Squared losses on both sides of a band about one."""
        return cls(1.0 - D, 1.0 + D, 1.0 / (2.0 * C1), 1.0 / (2.0 * C2), np.inf)

    @classmethod
    def ldm(cls, C: float, lambda1: float, lambda2: float) -> MarginLoss:
        """The hinge, and the variance and the mean of the margins."""
        return cls(1.0, np.inf, 0.0, 0.0, C, lambda1, lambda2)

    @property
    def is_smooth(self) -> bool:
        """Whether ℓ has a derivative everywhere, and so the multipliers are unique."""
        return self.ridge_low > 0

    def numbers(self, total: float = 1.0) -> Numbers:
        """ℓ/total, in the order in which compiled loops take it."""
        ridges = total * self.ridge_low, total * self.ridge_high
        return self.low, self.high, *ridges, self.upper / total

    def of_samples(self, weights: Array) -> SampleLosses:
        """The losses p ℓ of samples, with p their shares of the weights."""
        return self.scaled(weights / float(weights.sum()))

    def scaled(self, factors: Array) -> SampleLosses:
        """The losses of samples, ℓ times a factor of each."""
        return SampleLosses(
            self.low,
            self.high,
            self.ridge_low / factors,
            self.ridge_high / factors,
            self.upper * factors,
            self.lambda2 * factors,
        )


@dataclass(frozen=True)
class SampleLosses:
    """The losses of the samples of one problem, apart from the variance of their margins."""

    low: float
    high: float
    ridge_low: Array
    ridge_high: Array
    upper: Array
    tilt: Array  # that the mean margin adds to the multipliers

    @property
    def is_smooth(self) -> bool:
        """Whether the losses have a derivative everywhere, and so the multipliers are unique."""
        return bool(np.all(self.ridge_low > 0))

    def arrays(self) -> tuple[float, float, Array, Array, Array]:
        """The fields of ℓ, in the order in which compiled loops take them."""
        return self.low, self.high, self.ridge_low, self.ridge_high, self.upper

    def take(self, samples: NDArray[np.intp]) -> SampleLosses:
        """The losses of some samples."""
        arrays = (self.ridge_low, self.ridge_high, self.upper, self.tilt)
        return SampleLosses(self.low, self.high, *(array[samples] for array in arrays))

    def evaluate(self, margins: Array) -> tuple[float, Array, Array]:
        """Sum of the losses, multipliers −ℓ' and curvatures ℓ''."""
        from . import _loss_loops

        multipliers, curvatures = np.empty_like(margins), np.empty_like(margins)
        value = _loss_loops.evaluate(margins, self.arrays(), multipliers, curvatures)
        return float(value), multipliers, curvatures

    def value(self, margins: Array) -> float:
        """Sum of the losses."""
        return self.evaluate(margins)[0]

    def multipliers(self, margins: Array) -> Array:
        """The multiplier −ℓ'(z) of each margin."""
        return self.evaluate(margins)[1]

    def gaps(self, multipliers: Array, margins: Array) -> Array:
        """Duality gap ℓ(z) + ℓ*(−a) + a z of each sample, zero for a = −ℓ'(z)."""
        from . import _loss_loops

        gaps: Array = _loss_loops.gaps(multipliers, margins, self.arrays())
        return gaps

    def minimum_along(
        self, margins: Array, direction: Array, slope: float = 0.0, curvature: float = 0.0
    ) -> float:
        """Minimiser over t of slope · t + curvature · t²/2 + Σ ℓ(margin + t · direction)."""
        from . import _loss_loops

        arrays = self.arrays()
        return float(_loss_loops.minimum_along(margins, direction, arrays, slope, curvature))


def mean_and_variance(margins: Array, weights: Any) -> tuple[float, float]:
    """Weighted mean and variance."""
    mean = float(weights @ margins) / float(weights.sum())
    return mean, float(weights @ (margins - mean) ** 2) / float(weights.sum())
