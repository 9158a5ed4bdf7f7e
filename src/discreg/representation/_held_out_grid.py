"""Held-out residuals of DRM for every setting of a grid: one by one, or by folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from discreg.base.calibration import fit_inverse_temperature, log_loss
from discreg.base.candidates import candidates_of
from discreg.base.old_search import HeldOutScores, Setting, weighted_score
from discreg.linalg.rows import row_norms

from . import DRMClassifier
from ._closed import ClosedForm
from ._held_out import LeaveOneOut, in_features
from ._leave_one_out import require_leavable
from ._penalties import Penalty
from ._problem import Groups, TrainingSamples, training_samples
from ._scatter import LossOfPrecisionError, ScatterForm, class_scatters
from ._solvers import choose_solver

__all__ = [
    "Failure",
    "held_out_by_folds",
    "held_out_one_by_one",
    "penalty_settings",
]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class Judged(NamedTuple):
    """Scores of one setting, one for each fold, and the log-loss of all held-out samples."""

    scores: list[float]
    log_loss: float
    failure: Failure | None = None


class Failure(NamedTuple):
    """Why a setting cannot be fitted."""

    reason: str


def _or_failure(function: Callable[..., Any], *arguments: Any, **named: float) -> Any:
    """What the function returns, or why it cannot."""
    try:
        return function(*arguments, **named)
    except ValueError as error:
        return Failure(str(error))


def penalty_settings(alphas: ArrayLike, betas: ArrayLike) -> list[Setting]:
    """All pairs of alpha and beta, the largest first."""
    candidates = {
        "alpha": candidates_of("alphas", alphas, lambda values: values >= 0, "not negative"),
        "beta": candidates_of("betas", betas, lambda values: values > 0, "positive"),
    }
    return [dict(zip(candidates, pair, strict=True)) for pair in product(*candidates.values())]


@dataclass(frozen=True)
class HeldOut:
    """Base of both kinds: the data, and how residuals of held-out samples are judged."""

    classifier: DRMClassifier
    X: Any
    groups: Groups
    classes: NDArray[Any]
    weights: Array

    def training(self, kernel: Setting) -> TrainingSamples:
        """Training data in order of their class, for one setting of the kernel."""
        classifier = clone(self.classifier).set_params(**kernel)
        random = check_random_state(classifier.random_state)
        training = training_samples(classifier, self.X, self.groups, self.weights, random)
        choose_solver(classifier, training, Penalty.of(classifier.penalty))  # or say why it cannot
        return training

    def _judge_part(
        self,
        scorer: Callable[..., float],
        tau: float,
        delta: Array,
        rows: Rows,
        labels: NDArray[Any],
        given: Array | None,
    ) -> float:
        judge = HeldOutScores(self.classes, tau)
        weights = None if given is None else given[rows]
        return weighted_score(scorer, judge, -delta, labels[rows], weights)


@dataclass(frozen=True)
class OneByOne(HeldOut):
    """Exact leave-one-out: one score for all samples together."""

    units: Array

    def residuals(self, kernel: Setting, penalties: Sequence[Setting]) -> Iterator[Array | Failure]:
        """δ of all samples, in order of their class, for each penalty."""
        training = _or_failure(self.training, kernel)
        held_out = LeaveOneOut(training, self.classifier.solver, self.units)
        for penalty in penalties:
            failed = isinstance(training, Failure)
            yield training if failed else _or_failure(held_out.residuals, **penalty)

    def judge(
        self,
        scorer: Callable[..., float],
        delta: Array | Failure,
        labels: NDArray[Any],
        given: Array | None,
    ) -> Judged:
        """Score and log-loss of one setting."""
        if isinstance(delta, Failure):
            return Judged([np.nan], np.inf, delta)
        groups = self.groups
        tau = fit_inverse_temperature(-delta, groups.y, groups.weights)
        score = self._judge_part(scorer, tau, delta, groups.order, labels, given)
        return Judged([score], log_loss(-delta, groups.y, groups.weights, tau))


@dataclass(frozen=True)
class ByFolds(HeldOut):
    """Any splitter: a score for each fold. Rows are positions in order of the class."""

    folds: list[tuple[Rows, Rows]]

    def residuals(
        self, kernel: Setting, penalties: Sequence[Setting]
    ) -> Iterator[list[Array] | Failure]:
        """δ of the test samples of every fold, for each penalty."""
        training = _or_failure(self.training, kernel)
        matrix = cache(lambda: training.matrix(copies=3))
        for penalty in penalties:
            failed = isinstance(training, Failure)
            yield training if failed else _or_failure(self._of_folds, training, matrix, **penalty)

    def _of_folds(
        self, training: TrainingSamples, matrix: Callable[[], Array], alpha: float, beta: float
    ) -> list[Array]:
        solver = self.classifier.solver
        if in_features(solver, training):
            try:
                return self._in_features(training, alpha, beta)
            except LossOfPrecisionError:
                if solver == "scatter":
                    raise
        return self._by_kernel(matrix(), alpha, beta)

    def _by_kernel(self, matrix: Array, alpha: float, beta: float) -> list[Array]:
        delta = []
        for train, test in self.folds:
            form = ClosedForm.of(matrix[np.ix_(train, train)], self._part(train), alpha, beta)
            K_x = matrix[np.ix_(test, train)]
            delta.append(form.residuals(form.represent(K_x), K_x))
        return delta

    def _in_features(self, training: TrainingSamples, alpha: float, beta: float) -> list[Array]:
        """AddableTuple over the samples of each fold are enough for the fits without it."""
        X, n_samples = training.X, len(self.groups.y)
        norms = row_norms(X)

        def scatters(rows: Rows) -> Array:
            return np.array(class_scatters(X[rows], norms[rows], self._part(rows), alpha, beta))

        def cover(parts: list[Rows]) -> bool:
            return np.array_equal(np.sort(np.concatenate(parts)), np.arange(n_samples))

        remaining: Iterable[Array]
        if not all(cover([train, test]) for train, test in self.folds):
            remaining = (scatters(train) for train, _ in self.folds)
        else:
            tests = [test for _, test in self.folds]
            size = len(tests) * self.groups.n_classes * X.shape[1] ** 2
            if cover(tests) and size <= 2 * n_samples * X.shape[1]:
                of_folds = [scatters(test) for test in tests]  # no larger than X, twice
                total = np.sum(of_folds, axis=0)
                remaining = (total - own for own in of_folds)
            else:
                total = scatters(np.arange(n_samples))
                remaining = (total - scatters(test) for test in tests)
        return [
            ScatterForm.from_scatters(list(own), self._part(train).totals, alpha, beta).residuals(
                X[test]
            )
            for own, (train, test) in zip(remaining, self.folds, strict=True)
        ]

    def _part(self, rows: Rows) -> Groups:
        groups = self.groups
        return Groups(rows, groups.y[rows], groups.weights[rows], groups.n_classes)

    def judge(
        self,
        scorer: Callable[..., float],
        delta: list[Array] | Failure,
        labels: NDArray[Any],
        given: Array | None,
    ) -> Judged:
        """Score of each fold and log-loss of all test samples of one setting."""
        if isinstance(delta, Failure):
            return Judged([np.nan] * len(self.folds), np.inf, delta)
        tested = np.concatenate([test for _, test in self.folds])
        y, weights, scores = self.groups.y[tested], self.groups.weights[tested], -np.vstack(delta)
        tau = fit_inverse_temperature(scores, y, weights)
        of_folds = []
        for number, (own, (_, test)) in enumerate(zip(delta, self.folds, strict=True)):
            rows = self.groups.order[test]
            try:
                of_folds.append(self._judge_part(scorer, tau, own, rows, labels, given))
            except ValueError as error:
                raise ValueError(
                    f"The test part of fold {number} cannot be scored. {error} With cv=None all "
                    "held-out samples are scored together."
                ) from error
        return Judged(of_folds, log_loss(scores, y, weights, tau))


def held_out_one_by_one(
    classifier: DRMClassifier,
    X: Any,
    indices: NDArray[np.intp],
    classes: NDArray[Any],
    given: Array | None,
    weights: Array,
) -> OneByOne:
    """Leave-one-out, once every class has a sample to spare."""
    groups = Groups.of(indices, weights, len(classes))
    units = weights if given is None else weights / np.maximum(given, 1.0)
    units = units[groups.order]
    require_leavable(groups, units, classes)
    return OneByOne(classifier, X, groups, classes, weights, units)


def held_out_by_folds(
    classifier: DRMClassifier,
    X: Any,
    labels: NDArray[Any],
    indices: NDArray[np.intp],
    classes: NDArray[Any],
    weights: Array,
    cv: Any,
    split_groups: ArrayLike | None,
) -> ByFolds:
    """The folds of a splitter, once every training part has all classes."""
    groups = Groups.of(indices, weights, len(classes))
    position = np.full(len(labels), -1)
    position[groups.order] = np.arange(len(groups.order))
    folds = []
    splits = check_cv(cv, labels, classifier=True).split(X, labels, split_groups)
    for number, parts in enumerate(splits):
        train, test = (np.sort(position[np.asarray(part)]) for part in parts)
        train, test = train[train >= 0], test[test >= 0]  # samples of weight zero are left out
        missing = np.setdiff1d(np.arange(len(classes)), groups.y[train])
        if len(missing):
            raise ValueError(
                f"The training part of fold {number} has no sample of class "
                f"{classes[missing[0]]!r}. Use fewer or stratified folds, or cv=None."
            )
        if not len(test):
            raise ValueError(
                f"The test part of fold {number} has no sample of positive weight. Leave samples "
                "of weight zero out, or use fewer folds."
            )
        folds.append((train, test))
    return ByFolds(classifier, X, groups, classes, weights, folds)
