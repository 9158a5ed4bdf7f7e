"""Paths of solutions of LDM while single samples leave (decremental learning).

The forces of a sample change continuously, and so do all margins and multipliers, linearly while no
sample changes its place. At the end of a linear piece one margin gets to the kink, or one
multiplier gets to zero or to its limit. First the limit and the tilt of the sample decrease; then,
for the variance, the force ψ on its deviation d from the mean margin grows until ψ = ω d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.types import Array, Indices

__all__ = ["KINK", "LIMIT", "ZERO", "Paths", "Rates"]

ZERO, KINK, LIMIT = 0, 1, 2
ROUNDING = 1e-11  # of rates, relative to the largest one of the path


@dataclass(frozen=True)
class Rates:
    """Derivatives of the margins, the multipliers, the limits and the deviations."""

    margins: Array
    multipliers: Array
    limits: Array  # of the samples that leave
    deviations: Array


class Paths:
    """Paths of several refits, one row each, until they end.

    Parameters
    ----------
    rows, shares : ndarray of shape (n_paths,)
        Samples of which a share leaves.
    omega, deviations : ndarray of shape (n_paths,)
        Of these samples.
    places, margins, multipliers, limits : ndarray of shape (n_samples,)
        Of the fit.
    """

    def __init__(
        self,
        rows: Indices,
        shares: Array,
        omega: Array,
        deviations: Array,
        places: NDArray[np.int8],
        margins: Array,
        multipliers: Array,
        limits: Array,
    ) -> None:
        self.rows, self.shares, self.omega, self.deviations = rows, shares, omega, deviations.copy()
        self.places: NDArray[np.int8] = np.repeat(places[None], len(rows), axis=0)
        self.margins, self.multipliers, self.limits = (
            np.repeat(each[None], len(rows), axis=0) for each in (margins, multipliers, limits)
        )
        self.numbers = np.arange(len(rows))
        self.left = np.ones(len(rows))  # share of the first part that is left
        self.force = np.zeros(len(rows))  # ψ
        self.signs = np.zeros(len(rows))  # of ψ in the second part, 0 in the first part

    @property
    def own(self) -> Any:
        """Index of the entries of the samples that leave."""
        return np.arange(len(self.rows)), self.rows

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Drop the other paths."""
        if not which.all():
            for name, values in vars(self).items():
                setattr(self, name, values[which])

    def advance(self, rates: Rates) -> tuple[Indices, Array]:
        """Go to the ends of the linear pieces; return paths that end and the margins there."""
        lengths, to_limit = self._lengths(rates)
        first = lengths.argmin(axis=1)
        which = np.arange(len(self.rows))
        second = self.signs != 0
        slopes = self.signs - self.omega * rates.deviations
        with np.errstate(all="ignore"):
            ends = np.where(second, (self.omega * self.deviations - self.force) / slopes, self.left)
        steps = np.minimum(lengths[which, first], ends)
        sane = np.isfinite(steps) & (steps >= 0)
        steps = np.where(sane, steps, 0.0)
        self.margins += steps[:, None] * rates.margins
        self.multipliers += steps[:, None] * rates.multipliers
        self.limits[self.own] += steps * rates.limits
        self.deviations += steps * rates.deviations
        self.force += steps * self.signs
        self.left -= np.where(second, 0.0, steps)

        at_end = lengths[which, first] >= ends
        turns, samples = which[~at_end], first[~at_end]
        before = self.places[turns, samples]
        leaves = np.where(to_limit[turns, samples], LIMIT, ZERO)
        self.places[turns, samples] = np.where(before == KINK, leaves, KINK)

        starts = at_end & ~second
        self.signs[starts] = np.sign(self.omega * self.deviations)[starts]
        gone = starts & (self.shares >= 1.0)
        self.places[which[gone], self.rows[gone]] = ZERO
        over = sane & at_end & (self.signs == 0) | sane & at_end & second
        found = self.numbers[over], self.margins[self.own][over]
        self.keep(sane & ~over)
        return found

    def _lengths(self, rates: Rates) -> tuple[Array, NDArray[np.bool_]]:
        """Compute how far each sample is from another place, and which get to their limits."""
        margins, multipliers = rates.margins, rates.multipliers
        tiny = ROUNDING * np.abs(margins).max(axis=1, keepdims=True)
        small = ROUNDING * np.abs(multipliers).max(axis=1, keepdims=True)
        approach = multipliers.copy()  # to the limits
        approach[self.own] -= rates.limits
        at_kink = self.places == KINK
        with np.errstate(all="ignore"):
            falls = at_kink & (multipliers < -small)
            rises = at_kink & (approach > small)
            to_zero = np.where(falls, self.multipliers / -multipliers, np.inf)
            to_limit = np.where(rises, (self.limits - self.multipliers) / approach, np.inf)
            moves = (self.places == ZERO) & (margins < -tiny)
            moves |= (self.places == LIMIT) & (margins > tiny)
            to_kink = np.where(moves, (1.0 - self.margins) / margins, np.inf)
        lengths = np.minimum(np.minimum(to_zero, to_limit), to_kink)
        gone = (self.signs != 0) & (self.shares >= 1.0)
        lengths[self.own] = np.where(gone, np.inf, lengths[self.own])
        return np.maximum(lengths, 0.0), to_limit < to_zero
