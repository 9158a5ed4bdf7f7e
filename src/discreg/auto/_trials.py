"""Held-out scores of candidates, each a machine with penalties."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from discreg.base.calibration import Temperature, fit_temperature, log_probabilities
from discreg.base.early_checks import leavable_rows
from discreg.base.held_out import Fold, HeldOut, HeldOutScores, Setting, held_out_path
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, Indices

from ._machines import FAMILIES, Machine, TrainingSize

__all__ = [
    "Samples",
    "Scorer",
    "Trial",
    "constant_trial",
    "losses_of",
    "metrics_of",
    "results_of",
    "try_machine",
]

KEPT_BY_SCORER = 4  # candidates of a path that can become members, because scores are often equal
MOST_JUDGED = 5_000  # samples whose held-out scores are used
FEWEST_OF_CLASS = 10
N_FOLDS = 5
UNKNOWN = dict.fromkeys(("score", "log_loss", "accuracy", "balanced_accuracy"), np.nan)


@dataclass(frozen=True)
class Samples:
    """Training samples and how they are held out.

    Attributes
    ----------
    X : dict
        Features by scaling.
    y : ndarray of shape (n_samples,)
        Class indices.
    copies : ndarray of shape (n_samples,)
        Sample weights, all positive.
    factors : ndarray of shape (n_classes,)
        Class weights of the population that the model is chosen for.
    hashes : ndarray of shape (n_samples,)
        Numbers that depend on the values of a row only. Parts of the samples and folds are drawn by
        them, so that neither the order of the rows nor repeated rows matter.
    judged : ndarray of shape (n_judged,)
        Indices of the samples that are judged when they are held out.
    groups : ndarray of shape (n_samples,) or None
        Groups that are held out as a whole.
    are_duplicates : bool
        Whether groups consist of equal rows.
    folds : list of folds
        Training and test rows, for machines without leave-one-out, and for all if `by_folds`.
    by_folds : bool
    """

    X: dict[str, Any]
    y: Indices
    copies: Array
    factors: Array
    hashes: NDArray[np.uint64]
    judged: Indices
    groups: Indices | None
    are_duplicates: bool
    folds: Sequence[Fold]
    by_folds: bool = False

    @classmethod
    def of(
        cls,
        X: dict[str, Any],
        y: Indices,
        copies: Array,
        factors: Array,
        hashes: NDArray[np.uint64],
        groups: Indices | None,
        *,
        are_duplicates: bool,
        by_folds: bool,
    ) -> Samples:
        """Decide which samples are judged, and split them into folds.

        A sample without which its class would have no samples is not judged. Of many samples, some
        are judged.
        """
        counted = leavable_rows(y, copies, groups, by_units=groups is None)
        given = None if are_duplicates else groups
        folds = _folds(y, hashes, given, np.flatnonzero(counted))
        judged = np.flatnonzero(counted)
        if len(judged) > MOST_JUDGED:
            judged = np.sort(judged[np.argsort(hashes[judged], kind="stable")[:MOST_JUDGED]])
        return cls(X, y, copies, factors, hashes, judged, groups, are_duplicates, folds, by_folds)

    def part(self, n_rows: int) -> Samples:
        """Return a stratified part of the samples, with at least ten of each class."""
        order = np.argsort(self.hashes, kind="stable")
        of_classes = [order[self.y[order] == k] for k in range(len(self.factors))]
        sizes = [max(n_rows * len(rows) // len(self.y), FEWEST_OF_CLASS) for rows in of_classes]
        chosen = [rows[:size] for rows, size in zip(of_classes, sizes, strict=True)]
        rows = np.sort(np.concatenate(chosen))
        groups = self.groups
        if groups is not None:
            groups = np.unique(groups[rows], return_inverse=True)[1]
        return Samples.of(
            {scaling: X[rows] for scaling, X in self.X.items()},
            self.y[rows],
            self.copies[rows],
            self.factors,
            self.hashes[rows],
            groups,
            are_duplicates=self.are_duplicates,
            by_folds=self.by_folds,
        )

    @property
    def size(self) -> TrainingSize:
        """Size of the training data."""
        n_features = next(iter(self.X.values())).shape[1]
        return TrainingSize(float(self.copies.sum()), n_features, len(self.factors))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Whether the class of each sample remains if the sample is held out."""
        by_units = self.groups is None
        return leavable_rows(self.y, self.copies, self.groups, by_units=by_units)

    @property
    def distinct(self) -> Indices:
        """Indices of the distinct rows in the order of their hashes."""
        return np.asarray(np.unique(self.hashes, return_index=True)[1])

    @property
    def units(self) -> Indices:
        """Numbers of the groups of the judged samples; without groups, of the samples."""
        groups = np.arange(len(self.y)) if self.groups is None else self.groups
        return np.asarray(np.unique(groups[self.judged], return_inverse=True)[1])

    @property
    def weights(self) -> Array:
        """Weights of the judged samples, with class weights."""
        return np.asarray((self.copies * self.factors[self.y])[self.judged])


@dataclass(frozen=True)
class Trial:
    """A candidate and how it did on held-out samples.

    Attributes
    ----------
    machine : Machine
    params : dict
        Penalties of the classifier.
    temperature : Temperature
    log_probabilities : ndarray of shape (n_judged, n_classes) or None
        Those of the held-out samples, if the candidate can become a member.
    score, log_loss, accuracy, balanced_accuracy : float
        Score by the user's scorer (larger is better), and three metrics.
    seconds : float
        Time of its part of the path.
    n_samples : int
        Number of training samples.
    held_out : str
        How samples were held out.
    """

    machine: Machine
    params: Setting
    temperature: Temperature
    log_probabilities: Array | None
    score: float
    log_loss: float
    accuracy: float
    balanced_accuracy: float
    seconds: float
    n_samples: int
    held_out: str

    @property
    def logs(self) -> Array:
        """Log-probabilities of the held-out samples of a candidate that can become a member."""
        assert self.log_probabilities is not None
        return self.log_probabilities

    @property
    def key(self) -> tuple[float, float, float]:
        """Smaller is better: the score, then the log-loss, then the accuracy."""
        return -self.score, self.log_loss, -self.accuracy


def _folds(
    y: Indices, hashes: NDArray[np.uint64], groups: Indices | None, counted: Indices
) -> list[Fold]:
    """Split the counted samples into test parts; all others are in the training parts.

    Without groups, the distinct rows of each class are dealt to the folds in the order of their
    hashes, so that equal rows are in the same fold.
    """
    if not len(counted):
        return []
    if groups is not None:
        splitter = StratifiedGroupKFold(min(N_FOLDS, len(np.unique(groups))))
        with warnings.catch_warnings():  # of classes with fewer samples than folds
            warnings.simplefilter("ignore", UserWarning)
            tests = [np.intersect1d(test, counted) for _, test in splitter.split(y, y, groups)]
    else:
        counted = counted[np.lexsort([y[counted], hashes[counted]])]
        distinct, firsts, places = np.unique(
            hashes[counted], return_index=True, return_inverse=True
        )
        order = np.lexsort([distinct, y[counted[firsts]]])
        numbers = np.empty(len(order), dtype=np.intp)
        numbers[order] = np.arange(len(order)) % N_FOLDS
        tests = [np.sort(counted[numbers[places] == number]) for number in range(N_FOLDS)]
    folds = [(np.setdiff1d(np.arange(len(y)), test), test) for test in tests if len(test)]
    return [(train, test) for train, test in folds if len(np.unique(y[train])) > 1]


Scorer = Callable[[Array, Samples], float]


def try_machine(
    machine: Machine, samples: Samples, known: Setting, scorer: Scorer | None
) -> list[Trial]:
    """Hold out samples for each penalty of a machine; the best trials come first.

    Penalties that cannot be fitted are left out. The best ones can become members.
    """
    penalties = FAMILIES[machine.family].penalties(machine, samples.size, known)
    started = time.perf_counter()
    found, held_out = _held_out_scores(machine, samples, penalties)
    seconds = (time.perf_counter() - started) / len(penalties)
    trials = []
    for params, scores in zip(penalties, found, strict=True):
        if scores is not None and np.isfinite(scores).all():
            trials.append(_judge(machine, params, scores, samples, scorer, seconds, held_out))
    trials.sort(key=lambda trial: trial.key)
    n_kept = 1 if scorer is None else KEPT_BY_SCORER
    return trials[:n_kept] + [replace(trial, log_probabilities=None) for trial in trials[n_kept:]]


def _held_out_scores(
    machine: Machine, samples: Samples, penalties: Sequence[Setting]
) -> tuple[list[Array | None], str]:
    """Compute scores of the judged samples for each setting, and say how they were held out."""
    family, groups = FAMILIES[machine.family], samples.groups
    if samples.by_folds or not family.leaves_out(groups=groups is not None):
        found = _fold_scores(machine, samples, penalties, samples.folds)
        return _judged(found, samples), f"{len(samples.folds)} folds"
    X, y, copies = samples.X[machine.scaling], samples.y, samples.copies
    path = held_out_path(family.search, machine.classifier(), X, y, copies, penalties, None, groups)
    found = [_all_rows(each, samples) for each, _ in path]
    what = "sample" if groups is None else "distinct row" if samples.are_duplicates else "group"
    return _judged(found, samples), f"one {what} at a time"


def _judged(found: Sequence[Array | None], samples: Samples) -> list[Array | None]:
    return [None if scores is None else scores[samples.judged] for scores in found]


def _fold_scores(
    machine: Machine, samples: Samples, penalties: Sequence[Setting], folds: Sequence[Fold]
) -> list[Array | None]:
    """Compute scores of the test rows of folds for each setting; None if a fit fails."""
    n_rows, n_classes = len(samples.y), samples.size.n_classes
    found: list[Array | None] = [np.full((n_rows, n_classes), np.nan) for _ in penalties]
    search, X = FAMILIES[machine.family].search, samples.X[machine.scaling]
    for fold in folds:
        given = search, machine.classifier(), X, samples.y, samples.copies, penalties, fold
        for k, (each, _) in enumerate(held_out_path(*given)):
            scores = found[k]
            if each.failure is not None or scores is None:
                found[k] = None
            else:
                scores[fold[1]] = _all_classes(each, n_classes)
    return found


def _all_classes(held_out: HeldOut, n_classes: int) -> Array:
    """Return scores of all classes; one that the fold has not learned is below the others."""
    if len(held_out.classes) == n_classes:
        return held_out.scores
    judge = HeldOutScores(np.arange(n_classes), held_out.classes, Temperature(1.0))
    lowest = held_out.scores.min(axis=1, keepdims=True)
    return judge._of_all_classes(held_out.scores, lowest - 1.0)


def _all_rows(held_out: HeldOut, samples: Samples) -> Array | None:
    """Return the scores of all samples, NaN where there are none."""
    if held_out.failure is not None:
        return None
    rows = slice(None) if held_out.rows is None else held_out.rows
    scores = np.full((len(samples.y), samples.size.n_classes), np.nan)
    scores[rows] = held_out.scores
    return scores


def _judge(
    machine: Machine,
    params: Setting,
    scores: Array,
    samples: Samples,
    scorer: Scorer | None,
    seconds: float,
    held_out: str,
) -> Trial:
    """Calibrate held-out scores and compute their metrics."""
    y, weights = samples.y[samples.judged], samples.weights
    temperature = fit_temperature(scores, y, weights, samples.copies[samples.judged])
    found = np.asarray(log_probabilities(scores, temperature), dtype=np.float64)
    metrics = metrics_of(found, samples, scorer)
    return Trial(
        machine, params, temperature, found, **metrics,
        seconds=seconds, n_samples=len(samples.y), held_out=held_out,
    )  # fmt: skip


def losses_of(found: Array, samples: Samples) -> Array:
    """Compute the log-loss, the error and the error by class of each judged sample.

    The weighted mean of the error by class is the mean error of the classes.
    """
    y, weights = samples.y[samples.judged], samples.weights
    wrong = found.argmax(axis=1) != y
    sums = class_sums(y, weights, found.shape[1])
    factors = weights.sum() / np.count_nonzero(sums) / np.where(sums > 0, sums, np.inf)
    return np.array([-found[np.arange(len(y)), y], wrong, wrong * factors[y]])


def metrics_of(found: Array, samples: Samples, scorer: Scorer | None) -> dict[str, Any]:
    """Compute the metrics of held-out log-probabilities."""
    means = losses_of(found, samples) @ samples.weights / samples.weights.sum()
    return {
        "score": -float(means[0]) if scorer is None else scorer(found, samples),
        "log_loss": float(means[0]),
        "accuracy": 1 - float(means[1]),
        "balanced_accuracy": 1 - float(means[2]),
    }


def constant_trial(samples: Samples, scorer: Scorer | None) -> Trial:
    """Judge the class frequencies of all samples."""
    shares = class_sums(
        samples.y, samples.copies * samples.factors[samples.y], len(samples.factors)
    )
    found = np.tile(np.log(shares / shares.sum()), (len(samples.judged), 1))
    machine = Machine("constant", "none", "none", None)
    metrics = metrics_of(found, samples, scorer) if len(found) else UNKNOWN
    return Trial(
        machine, {}, Temperature(1.0), found, **metrics,
        seconds=0.0, n_samples=len(samples.y), held_out="not held out",
    )  # fmt: skip


def results_of(
    trials: Sequence[Trial], members: Sequence[Trial], weights: Array
) -> dict[str, list[Any]]:
    """Describe trials, those on most samples and the best first, as the columns of a table."""
    shares = {id(member): weight for member, weight in zip(members, weights, strict=True)}
    order = sorted(trials, key=lambda trial: (-trial.n_samples, trial.key))
    columns = {
        name: [getattr(trial.machine, name) for trial in order]
        for name in ("family", "kernel", "gamma", "scaling", "class_weight", "n_components")
    }
    columns["params"] = [trial.params for trial in order]
    for name in ("score", "log_loss", "accuracy", "balanced_accuracy", "seconds", "n_samples",
                 "held_out"):  # fmt: skip
        columns[name] = [getattr(trial, name) for trial in order]
    columns["weight"] = [float(shares.get(id(trial), 0.0)) for trial in order]
    return columns
