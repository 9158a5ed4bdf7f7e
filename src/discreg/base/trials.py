"""Trials of settings on held-out samples: decision values, temperature and scores of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from discreg.blocks.kept_rows import KeptRows
from discreg.blocks.validation import class_weights, find_labels, row_weights, sample_weights
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Indices

from .calibration import Temperature, class_columns, fit_temperature, log_loss
from .callbacks import Task
from .folds import stratified_folds
from .held_out import Fold, HeldOut, Judged, Setting, Weights, held_out_path, weighted_score
from .left_out import LeftOut, calibrate

if TYPE_CHECKING:
    from .search import ClassifierSearch

__all__ = ["Trials"]


@dataclass(frozen=True)
class Trials:
    """Training samples, folds and scorer with which settings are tried.

    Attributes
    ----------
    search : type
        The class of the search, which computes held-out decision values.
    classifier : object
        The classifier with the parameters that are not searched.
    X, y, weights
        Training samples, labels and sample weights.
    folds : list
        Training and test rows of each fold; None means leave-one-out.
    scorer : callable
    n_jobs : int or None
    counts : ndarray of bool of shape (n_samples,)
        Whether a sample counts if it is held out.
    groups : ndarray of shape (n_samples,) or None
        Groups that are left out as a whole if there are no folds.
    """

    search: type[ClassifierSearch]
    classifier: Any
    X: Any
    y: NDArray[Any]
    weights: Weights
    folds: Sequence[Fold | None]
    scorer: Callable[..., float]
    n_jobs: int | None
    counts: NDArray[np.bool_]
    groups: Indices | None = None

    def on(self, rows: Indices) -> Trials:
        """Return trials on some of the samples, in as many folds or by leave-one-out."""
        folds, counts = self.folds, self.counts[rows]
        if folds != [None]:
            folds = list(stratified_folds(len(folds), self.y[rows], counts))
        columns = rows if self.classifier.kernel == "precomputed" else slice(None)
        weights = None if self.weights is None else self.weights[rows]
        return replace(
            self,
            X=self.X[rows][:, columns],
            y=self.y[rows],
            weights=weights,
            folds=folds,
            counts=counts,
        )

    def judge(
        self, settings: Sequence[tuple[Setting, Setting]], task: Task, name: str
    ) -> list[list[Judged]]:
        """Score settings, each given by kernel parameters and penalties, on each fold.

        Settings with the same kernel parameters that follow each other are one path of fits. The
        paths on each fold are the steps of a part of the task, which has this name.
        """
        paths = [
            (kernel, [penalty for _, penalty in path])
            for kernel, path in groupby(settings, key=itemgetter(0))
        ]
        jobs = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(held_out_path)(
                self.search,
                clone(self.classifier).set_params(**kernel),
                self.X,
                self.y,
                self.weights,
                penalties,
                fold,
                self.groups,
            )
            for kernel, penalties in paths
            for fold in self.folds
        )
        n_jobs = len(paths) * len(self.folds)
        part = task.begin(name, n_jobs)
        found = part.steps("path of fits", jobs, n_jobs)
        judged: list[list[Judged]] = []
        for _ in paths:
            of_path = [next(found) for _ in self.folds]
            judged += [self._judge_setting(fits) for fits in zip(*of_path, strict=True)]
        part.end()
        return judged

    def calibrate(self, best: Any, kernel: Setting, penalty: Setting) -> None:
        """Calibrate a fitted classifier on samples that are held out with their groups."""
        classifier = clone(self.classifier).set_params(**kernel)
        given = self.search, classifier, self.X, self.y, self.weights, [penalty]
        scores = np.full((len(self.y), len(best.classes_)), np.nan)
        for fold in self.folds:
            ((held_out, _),) = held_out_path(*given, fold, self.groups)
            if len(held_out.classes) == len(best.classes_):  # otherwise a class has no scores
                rows = np.arange(len(self.y)) if fold is None else fold[1]
                scores[rows if held_out.rows is None else rows[held_out.rows]] = held_out.scores
        y = find_labels(self.y, best.classes_)[1]
        copies = sample_weights(self.weights, len(y))
        weights = row_weights(self.weights, best.class_weight, best.classes_, y)
        seen = np.flatnonzero(weights > 0)
        units = np.minimum(copies, 1.0) * weights / np.where(copies > 0, copies, 1.0)
        kept = KeptRows(self.X, y, weights, units, np.zeros(len(y), np.uint64), np.arange(len(y)))
        left_out = LeftOut(scores[seen], is_exact=self.folds == [None])
        calibrate(
            best,
            kept.take(seen),
            left_out,
            seen=weights > 0,
            scores_of=lambda rows: class_columns(best.decision_function(self.X))[rows],
        )

    def _judge_setting(self, fits: Sequence[tuple[HeldOut, float]]) -> list[Judged]:
        """Score one setting on each fold from its held-out decision values."""
        tests = [slice(None) if fold is None else fold[1] for fold in self.folds]
        held_out = [
            each.checked(self.counts[test]) for (each, _), test in zip(fits, tests, strict=True)
        ]
        failure = next((each.failure for each in held_out if each.failure is not None), None)
        if failure is not None:
            return [
                Judged(np.nan, seconds, 0.0, True, np.nan, failure=failure) for _, seconds in fits
            ]
        classes = find_labels(self.y)[0]
        labels = [self.y[test] for test in tests]
        weights = [None if self.weights is None else self.weights[test] for test in tests]
        temperature, loss = _calibrated(self.classifier.class_weight, held_out, labels, weights)
        judged = []
        for number, (each, (_, seconds)) in enumerate(zip(held_out, fits, strict=True)):
            try:
                score, used = weighted_score(
                    self.scorer, each, labels[number], weights[number], classes, temperature
                )
            except ValueError as error:
                where = f"The test part of fold {number} cannot be scored. " * (len(fits) > 1)
                raise ValueError(f"{where}{error}") from error
            judged.append(
                Judged(score, seconds, each.gap, each.converged, loss, used, n_rows=len(self.y))
            )
        return judged


@np.errstate(over="ignore")
def _calibrated(
    class_weight: Any,
    held_out: Sequence[HeldOut],
    labels: Sequence[NDArray[Any]],
    weights: Sequence[Weights],
) -> tuple[Temperature, float]:
    """Compute the temperature and the log-loss over the held-out samples of all folds."""
    classes = np.unique(np.concatenate([*labels, *(each.classes for each in held_out)]))
    scores, indices, counts = [], [], []
    for each, y, given in zip(held_out, labels, weights, strict=True):
        if len(each.classes) < len(classes):
            continue  # this fold has no scores of some class
        weight = np.ones(len(y)) if given is None else given
        rows = np.flatnonzero(weight > 0) if each.rows is None else each.rows
        scores.append(each.scores[rows] if each.rows is None else each.scores)
        indices.append(find_labels(y[rows], classes)[1])
        counts.append(weight[rows] if each.weights is None else each.weights)
    if not scores:
        return Temperature(1.0), np.nan
    places, copies = np.concatenate(indices), np.concatenate(counts)
    sizes = class_sums(places, copies, len(classes))
    with np.errstate(divide="ignore"):  # no fold may hold out samples of a class
        row_weights = copies * class_weights(class_weight, classes, sizes)[places]
    temperature = fit_temperature(np.vstack(scores), places, row_weights, copies)
    return temperature, log_loss(np.vstack(scores), places, row_weights, temperature)
