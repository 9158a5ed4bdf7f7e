"""Ridge regression on rows that are known by their moments alone."""

from __future__ import annotations

from typing import Any

from discreg.linalg.group_lasso import Features
from discreg.linalg.ridge import NormalEquations
from discreg.linalg.types import Array

from .moments import Moments

__all__ = ["FeatureMoments", "MomentRegression"]


class MomentRegression(NormalEquations):
    """Ridge regression on rows that are elsewhere, known by their moments.

    Parameters
    ----------
    moments : Moments
    centre : bool
        Whether the mean of the features is taken out, for an unpenalised intercept.
    """

    def __init__(self, moments: Moments, *, centre: bool) -> None:
        self.moments, self.centred = moments, centre
        self.size = self.n_features = len(moments.scatter)
        self.mean = moments.mean if centre else None
        self.gram = moments.gram(centre=centre)
        self.trace = float(self.gram.trace())
        self.total = moments.total

    def class_totals(self, y: Any = None, n_classes: int | None = None) -> tuple[Array, Array]:
        """ΦᵀSY for the zero-one matrix Y of the classes, and the weights of the classes."""
        return self.moments.class_totals(centre=self.centred), self.moments.weights


class FeatureMoments(MomentRegression, Features):
    """Features of rows that are elsewhere, known by their moments."""

    def __init__(self, moments: Moments, *, centre: bool) -> None:
        super().__init__(moments, centre=centre)
        self._find_varying(self.gram.diagonal(), is_sparse=moments.is_sparse)
