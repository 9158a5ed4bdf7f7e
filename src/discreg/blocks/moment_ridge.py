"""Ridge regression from the moments of the rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from discreg.linalg.group_lasso import Features
from discreg.linalg.ridge import NormalEquations
from discreg.linalg.types import Array

from .moments import Moments

__all__ = ["FeatureMoments", "MomentRegression"]


class MomentRegression(NormalEquations):
    """Ridge regression that needs only the moments of the rows.

    Parameters
    ----------
    moments : Moments
    centre : bool
        Whether to subtract the mean of the features, for an unpenalised intercept.
    """

    def __init__(self, moments: Moments, *, centre: bool) -> None:
        self.moments, self.centred = moments, centre
        self.n_features = len(moments.scatter)
        self.mean = moments.mean if centre else None
        self.trace = float(self.gram.trace())
        self.total, self.error = moments.total, moments.error

    @property
    def size(self) -> int:
        return len(self.moments.scatter)

    @cached_property
    def gram(self) -> Array:
        return self.moments.gram(centre=self.centred)

    def class_totals(self, y: Any = None, n_classes: int | None = None) -> tuple[Array, Array]:
        """Compute ΦᵀSY for the zero-one matrix Y of the classes, and the weight of each class."""
        totals = self.moments.class_totals(centre=self.centred)
        return self.without_constant(totals), self.moments.weights


class FeatureMoments(MomentRegression, Features):
    """Features of the group lasso that need only the moments of the rows."""

    def __init__(self, moments: Moments, *, centre: bool) -> None:
        super().__init__(moments, centre=centre)
        self._find_varying(self.gram.diagonal(), is_sparse=moments.is_sparse)
