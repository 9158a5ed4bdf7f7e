"""Base class of the low-rank searches: candidates for the rank, and `transform`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from discreg.base.candidates import candidates_of
from discreg.base.held_out import HeldOut, Setting
from discreg.base.regression import Prepared
from discreg.base.search import ClassifierSearch
from discreg.blocks.lazy import lazily
from discreg.blocks.validation import (
    encode_labels,
)
from discreg.linalg.rows import matmul
from discreg.linalg.types import Array, Indices, MatrixLike, RealArray

from ._indicators import Indicators
from ._leave_groups_out import leave_groups_out_by_rank
from ._leave_one_out import leave_one_out_by_rank
from ._ranks import ranked_ridge, scores_by_rank
from ._subspace import largest_rank

__all__ = ["LowRankSearch", "given_ranks", "held_out_by_rank", "leave_groups_out", "leave_one_out"]

ROUNDING = 1e-12


class LowRankSearch(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierSearch):
    """Base class of the searches over the rank."""

    ranks: Any
    fit_intercept: bool

    def _rank_candidates(self, X: Any, y: NDArray[Any]) -> list[int]:
        """List the candidates for the rank, the smallest first."""
        largest = len(encode_labels(y)[0]) - int(self.fit_intercept)
        if self.kernel == "linear":
            largest = min(largest, X.shape[1])
        if self.ranks is None:
            return self._default_ranks(largest)
        return given_ranks(self.ranks, largest)

    def _default_ranks(self, largest: int) -> list[int]:
        return list(range(1, largest + 1))

    @lazily
    def transform(self, X: MatrixLike) -> RealArray:
        """Project samples onto the discriminative subspace of the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        projected : ndarray of shape (n_samples, `rank_`)
        """
        return np.asarray(self._best().transform(X))

    @property
    def _n_features_out(self) -> int:
        return int(self.best_estimator_._n_features_out)


def given_ranks(ranks: Any, largest: int) -> list[int]:
    """Check the candidates for the rank and return distinct values, the smallest first."""
    given = candidates_of(
        "ranks",
        ranks,
        lambda values: (values >= 1) & (values <= largest) & (values == np.round(values)),
        f"whole and from 1 to {largest}, the largest rank of these data",
    )
    return [int(rank) for rank in given[::-1]]


def held_out_by_rank(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    X_test: Any,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Yield held-out scores of LRRR, or of LRLR if the settings have no beta.

    One solve per penalty gives the models of all ranks.
    """
    prepared = classifier._prepare(X, y, sample_weight)
    largest = largest_rank(prepared)  # a fold may lack a class
    indicators = Indicators.of(prepared)
    shift = indicators.shift * indicators.scale
    cross = prepared.cross(X_test)
    for beta, settings in groupby(penalties, key=_beta):
        ranked = ranked_ridge(prepared, beta)
        scalings, means = prepared.regression.predictor(
            ranked.projected[:, :largest] * indicators.scale
        )
        projected = matmul(cross, scalings) - means
        by_rank = list(scores_by_rank(projected, ranked.directions[:, :largest], shift))
        for setting in settings:
            yield HeldOut(by_rank[min(setting["rank"], largest) - 1], prepared.classes)


def leave_one_out(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Yield the leave-one-out scores of LRRR, or of LRLR if the settings have no beta."""
    prepared = classifier._prepare(X, y, sample_weight)
    shares = 1.0 / np.maximum(prepared.copies, 1.0)
    sizes = prepared.sizes[prepared.y]
    lost = sizes - shares * prepared.copies <= ROUNDING * sizes  # not counted

    def left_out(betas: list[float], ranks: list[int]) -> Iterator[Array]:
        return leave_one_out_by_rank(prepared, np.where(lost, 0.0, shares), betas, ranks)

    yield from _each_setting(prepared, penalties, left_out)


def leave_groups_out(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    penalties: Sequence[Setting],
    groups: Indices,
) -> Iterator[HeldOut]:
    """Yield the scores without groups of LRRR, or of LRLR if the settings have no beta."""
    prepared = classifier._prepare(X, y, sample_weight)

    def left_out(betas: list[float], ranks: list[int]) -> Iterator[Array]:
        return leave_groups_out_by_rank(prepared, groups, betas, ranks)

    yield from _each_setting(prepared, penalties, left_out)


def _each_setting(
    prepared: Prepared,
    penalties: Sequence[Setting],
    left_out: Callable[[list[float], list[int]], Iterator[Array]],
) -> Iterator[HeldOut]:
    """Yield the scores of each setting."""
    paths = [(beta, list(path)) for beta, path in groupby(penalties, key=_beta)]
    ranks = sorted({setting["rank"] for setting in penalties})
    by_beta = left_out([beta for beta, _ in paths], ranks)
    for (_, path), by_rank in zip(paths, by_beta, strict=True):
        for setting in path:
            yield HeldOut(by_rank[ranks.index(setting["rank"])], prepared.classes)


def _beta(setting: Setting) -> float:
    return float(setting.get("beta", 0.0))
