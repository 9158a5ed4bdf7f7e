r"""What leaving out a row does to the within-class scatter in the penalty.

Let d = φ − m_k be the deviation of a row from the mean of its class k of total weight n_k. Without
u units of the row the scatter is S_w − u n_k / (n_k − u) ddᵀ, so that with the weight ω of the
scatter the penalty loses κ‖Wᵀd‖², κ = ω u n_k / (n_k − u). For the variables v = Zᵀθ of the row and
q = Wᵀd = Dᵀθ, at the solution with half the Hessian H, this alone changes v by

    Δ = κ E (I − κF)⁻¹ q      and adds      κ E (I − κF)⁻¹ Eᵀ      to A = ZᵀH⁻¹Z,

where E = ZᵀH⁻¹D and F = DᵀH⁻¹D. Both are exact while no row changes its piece of the loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from discreg.linalg.rows import row_dots
from discreg.linalg.types import Array, Indices

__all__ = ["Deviations", "scalar_effects"]

ROUNDING = 1e-12  # smallest part 1 − κF of a penalty that is left


class Deviations(NamedTuple):
    """Deviations of rows from the means of their classes, and the weights κ of their squares."""

    rows: Array
    weights: Array

    @classmethod
    def of(
        cls,
        features: Array,
        y: Indices,
        units: Array,
        class_totals: tuple[Array, Array],
        omega: float,
    ) -> Deviations:
        """Compute them for rows of Φ, from the sums of the rows and the weights of the classes."""
        totals, weights = class_totals
        means = totals / np.where(weights > 0, weights, 1.0)
        sizes = weights[y]
        # The only row of a class has no deviation.
        others = np.where(sizes - units > ROUNDING * sizes, sizes - units, np.inf)
        return cls(features - means.T[y], omega * units * sizes / others)

    def effects(self, inverse: Array, Z: Array, theta: Array, y: Indices) -> tuple[Array, Array]:
        """Compute Δ and the change of A for the inverse of H over all classes together.

        `Z` and `theta` may have another column for the intercept. The last variable is the centre
        of the class if H has centres.
        """
        (n_rows, size), (width, n_classes) = self.rows.shape, theta.shape
        first = n_classes * width
        has_centres = len(inverse) > first
        cross = np.zeros((n_rows, n_classes + has_centres, n_classes))
        own = np.zeros((n_rows, n_classes, n_classes))
        for j in range(n_classes):
            image = self.rows @ inverse[j * width : j * width + size]
            of_classes = image[:, :first].reshape(n_rows, n_classes, width)
            cross[:, :n_classes, j] = np.einsum("ijk,ik->ij", of_classes, Z)
            own[:, :, j] = np.einsum("ijk,ik->ij", of_classes[:, :, :size], self.rows)
            if has_centres:
                cross[:, -1, j] = image[np.arange(n_rows), first + y]
        scaled = self.weights[:, None, None] * cross
        systems = np.eye(n_classes) - self.weights[:, None, None] * own
        right = np.concatenate(
            [(self.rows @ theta[:size])[:, :, None], cross.transpose(0, 2, 1)], axis=2
        )
        found = scaled @ np.linalg.solve(systems, right)
        return found[:, :, 0], found[:, :, 1:]

    def effects_by_class(self, roots: Any, Z: Array, theta: Array) -> tuple[Array, Array]:
        """Compute Δ and the change of A if the classes have systems of their own.

        For each class, `roots` has B with BᵀB the inverse of H.
        """
        size = self.rows.shape[1]
        spread = self.rows @ theta[:size]
        moves, leverages = np.empty_like(spread), np.empty_like(spread)
        for j, root in enumerate(roots):
            image, of_rows = self.rows @ root[:, :size].T, Z @ root.T
            moves[:, j], leverages[:, j] = scalar_effects(
                row_dots(of_rows, image), row_dots(image, image), spread[:, j], self.weights
            )
        return moves, leverages


def scalar_effects(cross: Array, own: Array, spread: Any, weights: Array) -> tuple[Array, Array]:
    """Compute Δ and the change of A from E, F, q and κ of a variable; NaN if nothing is left."""
    left = 1.0 - weights * own
    factors = weights * cross / np.where(left > ROUNDING, left, np.nan)
    return factors * spread, factors * cross
