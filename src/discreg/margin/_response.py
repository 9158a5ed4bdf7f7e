"""Response of the scores of linear ODM to forces on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from discreg.linalg.types import Array

from ._refits import cholesky, triangular

__all__ = ["FeatureResponse"]


@dataclass(frozen=True)
class FeatureResponse:
    """Response of scores to forces for linear models: zᵀH⁻¹z, with the intercept eliminated."""

    factor: Array  # lower Cholesky factor of the Hessian for centred features
    centre: Array | float
    of_intercept: float

    @classmethod
    def of(
        cls, gram: Array, moment: Array, curvature: float, origin: Array, *, fit_intercept: bool
    ) -> FeatureResponse:
        """Create it from Σ k, Σ k (x − origin) and Σ k (x − origin)(x − origin)ᵀ."""
        hessian, centre, of_intercept = gram.copy(), origin, 0.0
        if fit_intercept and curvature > 0:
            hessian -= np.outer(moment / curvature, moment)
            centre, of_intercept = origin + moment / curvature, 1.0 / curvature
        hessian[np.diag_indices_from(hessian)] += 1.0
        return cls(cholesky(hessian), centre, of_intercept)

    def half(self, X: Any) -> Array:
        """Compute the factor with which halfᵀ half + `of_intercept` are the responses."""
        dense = X.toarray() if sparse.issparse(X) else X
        return triangular(self.factor, (dense - self.centre).T)

    def __call__(self, X: Any) -> Array:
        """Compute the response of the score of each row to a force on it."""
        return np.asarray(np.square(self.half(X)).sum(axis=0) + self.of_intercept)
