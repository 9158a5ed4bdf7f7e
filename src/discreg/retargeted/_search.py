"""Candidate penalties and held-out scores along a path, shared by the ...CV classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.calibration import class_columns
from discreg.base.candidates import candidates_of
from discreg.base.held_out import HeldOut, Setting
from discreg.base.left_out import leavable_rows
from discreg.base.search import ClassifierSearch
from discreg.blocks.validation import check_params
from discreg.linalg.types import Array

from ._fit import LARGEST_WITHIN_CLASS, deciding_penalties, fit_path
from ._left_out import left_out

__all__ = ["BETAS", "RetargetedSearch", "beta_candidates"]

LARGEST_GAP = 3e-4  # of fits to compare settings; 1e-3 selects worse penalties
BETAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def beta_candidates(name: str, values: Any) -> list[float]:
    """Return the distinct candidates for a non-negative parameter, the largest first."""
    return candidates_of(name, values, lambda numbers: numbers >= 0, "not negative")


def held_out_on_path(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    X_test: Any,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Yield the scores of the test samples for each setting; fits start from the previous one."""
    for fitted in fit_path(classifier, X, y, sample_weight, penalties):
        scores = class_columns(fitted.decision_function(X_test))
        tol = fitted.get_params().get("tol", 0.0)  # LSR is solved in closed form
        yield HeldOut(scores, fitted.classes_, fitted.gap_, not fitted.gap_ > tol > 0)


def left_out_on_path(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Yield the leave-one-out scores of each setting; fits start from the previous one.

    With more than 2,000 samples, some of them are held out. The fits are less accurate than the
    last one of the search: their scores are off by about a hundredth of the margin.
    """
    tol = max(classifier.tol, LARGEST_GAP)
    deciding = deciding_penalties(classifier, penalties)
    classifier.set_params(probability=True, tol=tol, **deciding)
    prepared = classifier._prepare(X, y, sample_weight)
    kept = leavable_rows(prepared.kept, prepared.class_weights, prepared.classes, warn=False)
    factors = prepared.class_weights / prepared.sizes
    prepared.kept, start = kept, None
    for params in penalties:
        check_params(classifier.set_params(**params), classifier._constraints)
        solution = classifier._fit_prepared(prepared, start, to_rounding=False)
        start = solution.theta
        with np.errstate(all="ignore"):  # scores that are not finite are not used
            found = left_out(prepared, classifier._loss(), solution, classifier.rank, quick=True)
        yield HeldOut.of_left_out(found, kept, factors, prepared.classes, classifier.gap_, tol)


class RetargetedSearch(ClassifierSearch):
    """Base class of the ...CV classes: each fit starts from the solution of the previous one."""

    betas: Sequence[float]
    within_classes: Sequence[float]
    scale_beta: bool

    _has_leave_one_out = True
    _held_out = staticmethod(held_out_on_path)
    _leave_one_out = staticmethod(left_out_on_path)

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        settings = [{"beta": beta} for beta in beta_candidates("betas", self.betas)]
        within = candidates_of(
            "within_classes",
            self.within_classes,
            lambda values: (values >= 0) & (values <= LARGEST_WITHIN_CLASS),
            f"from 0 to {LARGEST_WITHIN_CLASS:g}",
        )
        if within == [0.0]:
            return settings
        return [{"within_class": each} | setting for each in within for setting in settings]

    def _for_share(self, penalty: Setting, share: float) -> Setting:
        """Return absolute penalties in proportion to the share of the samples.

        Relative ones stay for the linear kernel; for others, their unit does not depend on the
        number of samples.
        """
        if self.scale_beta and self.kernel == "linear":
            return penalty
        return penalty | {"beta": share * penalty["beta"]}
