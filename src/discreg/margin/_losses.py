"""Losses of ODM and LDM, used by all solvers.

For margins z of samples with shares p of the total weight, both models minimise

    ½‖w‖² + λ1 var(z) − λ2 mean(z) + Σ p ℓ(z),

where ℓ(z) is the largest value over a multiplier a of

    −a z + a · low − u_low a²/2   for 0 ≤ a ≤ upper,      −a z + a · high − u_high a²/2   for a < 0,

a convex, piecewise quadratic function that is zero for margins between `low` and `high`.

- ODM, objective (7): low = 1 − D, high = 1 + D, u = 1/(2 C) with C1 below and C2 above, no upper
  limit: ℓ(z) = C1 max(0, 1 − D − z)² + C2 max(0, z − 1 − D)². λ1 and λ2 are zero.
- LDM, objective (5): low = 1, high = ∞, u = 0, upper = C: the hinge ℓ(z) = C max(0, 1 − z).

The maximum is attained at a = −ℓ'(z). The dual (19) has two multipliers per sample, and one of them
is always zero; one signed multiplier replaces both. `_loops` implements ℓ for compiled loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreg.linalg.types import Array

ROUNDING = 1e-13  # of the derivative by the intercept, relative to the sum of its terms

Numbers = tuple[float, float, float, float, float]
LossArrays = tuple[float, float, Array, Array, Array]


PATIENCE = 5  # idle passes before coordinate descent ends
CLEARLY = 0.99  # ratio of gaps below which a gap is clearly smaller


@dataclass(frozen=True)
class MarginLoss:
    """Parameters of the loss of a model: those of ℓ, and the weights λ1 and λ2."""

    low: float
    high: float
    ridge_low: float
    ridge_high: float
    upper: float
    lambda1: float = 0.0
    lambda2: float = 0.0

    def __post_init__(self) -> None:
        is_squared = min(self.ridge_low, self.ridge_high) > 0 and self.upper == np.inf
        is_hinge = self.ridge_low == self.ridge_high == 0 and self.high == np.inf
        if not (is_squared or is_hinge):
            raise ValueError(
                "A loss is squared on both sides (both ridges positive, upper infinite) or a hinge "
                "(both ridges zero, high infinite)."
            )
        if self.low > self.high:
            raise ValueError(f"low={self.low} must not exceed high={self.high}.")
        if is_squared and (self.lambda1 or self.lambda2):
            raise ValueError("lambda1 and lambda2 belong to the hinge.")

    @classmethod
    def odm(cls, C1: float, C2: float, D: float) -> MarginLoss:
        """Create the loss of ODM: squared losses on both sides of a band around one."""
        return cls(1.0 - D, 1.0 + D, 1.0 / (2.0 * C1), 1.0 / (2.0 * C2), np.inf)

    @classmethod
    def ldm(cls, C: float, lambda1: float, lambda2: float) -> MarginLoss:
        """Create the loss of LDM: the hinge, and the variance and the mean of the margins."""
        return cls(1.0, np.inf, 0.0, 0.0, C, lambda1, lambda2)

    @property
    def is_smooth(self) -> bool:
        """Whether ℓ is differentiable, so that the multipliers are unique."""
        return self.ridge_low > 0

    @property
    def total_of_multipliers(self) -> float:
        """Bound 4 max(C1, C2) of Σ |a| at the optimum of ODM, where the mean loss is at most C1."""
        return 2.0 / min(self.ridge_low, self.ridge_high)

    def numbers(self, total: float = 1.0) -> Numbers:
        """Return the parameters of ℓ/total, in the order that compiled loops expect."""
        ridges = total * self.ridge_low, total * self.ridge_high
        return self.low, self.high, *ridges, self.upper / total

    def of_samples(self, weights: Array) -> SampleLosses:
        """Create the losses p ℓ of samples, where p is the share of a sample in the weights."""
        return self.scaled(weights / float(weights.sum()))

    @np.errstate(over="ignore")  # the multiplier of an infinite ridge is zero
    def scaled(self, factors: Array) -> SampleLosses:
        """Create the losses of samples: ℓ times one factor per sample."""
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
    """Losses of the samples of one problem, without the variance of their margins."""

    low: float
    high: float
    ridge_low: Array
    ridge_high: Array
    upper: Array
    tilt: Array  # term of λ2, added to the multipliers

    @cached_property
    def is_smooth(self) -> bool:
        """Whether the losses are differentiable, so that the multipliers are unique."""
        return bool(np.all(self.ridge_low > 0))

    def arrays(self) -> LossArrays:
        """Return the parameters of ℓ, in the order that compiled loops expect."""
        return self.low, self.high, self.ridge_low, self.ridge_high, self.upper

    def evaluate(self, margins: Array) -> tuple[float, Array, Array]:
        """Compute the sum of the losses, the multipliers −ℓ' and the curvatures ℓ''.

        At the kink of the hinge the multiplier is zero.
        """
        short = self.low - margins
        if not self.is_smooth:
            multipliers = self.upper * (short > 0)
            return float(multipliers @ short), multipliers, np.zeros_like(margins)
        beyond = self.high - margins  # negative above the band
        curvatures = (short > 0) * self._low_curvatures
        curvatures += (beyond < 0) * self._high_curvatures
        distances = np.maximum(short, np.minimum(beyond, 0.0))
        multipliers = distances * curvatures
        return 0.5 * float(multipliers @ distances), multipliers, curvatures

    @cached_property
    def _low_curvatures(self) -> Array:
        return 1.0 / self.ridge_low

    @cached_property
    def _high_curvatures(self) -> Array:
        return 1.0 / self.ridge_high

    def value(self, margins: Array) -> float:
        """Compute the sum of the losses."""
        return self.evaluate(margins)[0]

    def multipliers(self, margins: Array) -> Array:
        """Compute the multiplier −ℓ'(z) of each margin."""
        return self.evaluate(margins)[1]

    def gaps(self, multipliers: Array, margins: Array) -> Array:
        """Compute the duality gap ℓ(z) + ℓ*(−a) + a z of each sample; it is 0 for a = −ℓ'(z)."""
        short = np.maximum(self.low - margins, 0.0)
        if not self.is_smooth:
            return self.upper * short + multipliers * (margins - self.low)
        beyond = np.maximum(margins - self.high, 0.0)
        below = multipliers >= 0
        ridge = np.where(below, self.ridge_low, self.ridge_high)
        edge = np.where(below, self.low, self.high)
        gaps = short**2 / self.ridge_low + beyond**2 / self.ridge_high
        gaps += multipliers * (ridge * multipliers + 2.0 * (margins - edge))
        return 0.5 * gaps

    def intercept_step(
        self, margins: Array, y: Array, slope: float = 0.0, curvature: float = 0.0
    ) -> float:
        """Minimise slope · t + curvature · t²/2 + Σ ℓ(margin + y t) over t.

        The derivative A + B t is linear between the kinks of the losses. If the minimum is attained
        on an interval, the middle of it is returned: an end of it would change with every sample.
        """
        up = y > 0
        zeros = np.zeros_like(margins)
        bends, jumps = (self._low_curvatures, zeros) if self.is_smooth else (zeros, self.upper)
        # A loss on the left of its kink vanishes there, one on the right begins.
        kinks, left = y * (self.low - margins), up
        if self.is_smooth:
            kinks = np.concatenate([kinks, y * (self.high - margins)])
            left = np.concatenate([up, ~up])
            bends, jumps = np.concatenate([bends, self._high_curvatures]), np.tile(zeros, 2)
        order = np.argsort(kinks)
        kinks, left, jumps = kinks[order], left[order], jumps[order]
        bends = np.where(left, -bends[order], bends[order])
        terms = jumps - bends * kinks
        constant = slope + np.cumsum(np.append(-terms[left].sum(), terms))
        linear = curvature + np.cumsum(np.append(-bends[left].sum(), bends))
        before, after = constant[:-1] + linear[:-1] * kinks, constant[1:] + linear[1:] * kinks
        slack = ROUNDING * (abs(slope) + float(np.abs(terms).sum()))
        k = int(np.argmax(after >= -slack)) if np.any(after >= -slack) else len(kinks)
        if k < len(kinks) and before[k] <= slack:
            last = int(np.flatnonzero(before <= slack)[-1])
            step = float(kinks[k] + kinks[last]) / 2.0
        elif linear[k] > 0.0:
            step = float(-constant[k] / linear[k])
        else:
            step = float(kinks[min(k, len(kinks) - 1)])
        if self.is_smooth:  # without the rounding errors of the sums
            _, multipliers, curvatures = self.evaluate(margins + step * y)
            total = curvature + float(curvatures.sum())
            if total > 0.0:
                step -= (slope + curvature * step - float(y @ multipliers)) / total
        return step


def mean_and_variance(margins: Array, weights: Any) -> tuple[float, float]:
    """Compute the weighted mean and variance."""
    mean = float(weights @ margins) / float(weights.sum())
    return mean, float(weights @ (margins - mean) ** 2) / float(weights.sum())
