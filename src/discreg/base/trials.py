"""Trials of settings on held-out samples, and the rounds in which a search tries them.

With many samples, all settings are tried on a part of them and the best ones on more. Default grids
are continued beyond their edges.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from discreg.linalg.resources import threads_for_fit
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, Indices

from .calibration import Temperature, fit_temperature, log_loss, one_column_if_binary, probabilities
from .caller import Task
from .held_out import Fold, holdout_folds, prior_offsets
from .validation import LabelledRows

if TYPE_CHECKING:
    from .search import ClassifierSearch


Setting = dict[str, Any]
MOST_REPEATED = 1_000_000  # rows that are repeated for a scorer without weights
Weights = Array | None


@dataclass(frozen=True)
class HeldOut:
    """Decision values of one setting on held-out samples.

    Attributes
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Decision values.
    classes : ndarray of shape (n_classes,)
        Class labels of the columns.
    gap : float
        Optimality gap of the fit.
    converged : bool
        Whether the gap is at most `tol`.
    rows : ndarray or None
        Indices of the held-out samples that have scores; None means all of them.
    failure : str or None
        The reason why the setting cannot be fitted, if there is one.
    """

    scores: NDArray[Any]
    classes: NDArray[Any]
    gap: float = 0.0
    converged: bool = True
    rows: Indices | None = None
    failure: str | None = None

    @classmethod
    def failed(cls, reason: object) -> HeldOut:
        """Create the result of a setting that cannot be fitted."""
        return cls(np.empty((0, 0)), np.empty(0), failure=str(reason))

    def checked(self, counts: NDArray[np.bool_]) -> HeldOut:
        """Return the result without the samples that do not count; failed if it is not finite."""
        if self.failure is not None:
            return self
        rows = np.arange(len(counts)) if self.rows is None else self.rows
        kept = counts[rows]
        if not np.all(np.isfinite(self.scores[kept])):
            return HeldOut.failed(
                "The other samples do not determine the scores of some sample. Use larger "
                "penalties, more samples, or cv=5."
            )
        if kept.all():
            return self
        return replace(self, scores=self.scores[kept], rows=rows[kept])


class Judged(NamedTuple):
    """The score of one setting on one fold, with the time and the convergence of its fit."""

    score: float
    seconds: float
    gap: float
    converged: bool
    log_loss: float
    used_weights: bool = True
    failure: str | None = None
    n_rows: int = 0  # samples of the trial


class ScoresAsClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that takes decision values as its input, so that any scorer can be applied.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels.
    learned : ndarray
        Class labels of the decision values. Other classes have lower values and no probability.
    temperature : Temperature
        Conversion of the decision values in `predict_proba`.
    """

    def __init__(
        self, classes: NDArray[Any], learned: NDArray[Any], temperature: Temperature
    ) -> None:
        self.classes = classes
        self.learned = learned
        self.temperature = temperature

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels."""
        return self.classes

    def decision_function(self, scores: Array) -> Array:
        """Return the scores in scikit-learn's shape: one value per sample for two classes."""
        lowest = scores.min(axis=1, keepdims=True)
        return one_column_if_binary(self._of_all_classes(scores, lowest - 1.0))

    def predict(self, scores: Array) -> NDArray[Any]:
        """Predict the label of the largest score."""
        return np.asarray(self.learned[scores.argmax(axis=1)])

    def score(self, scores: Array, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy without checking the labels again for every setting."""
        return float(np.average(self.predict(scores) == y, weights=sample_weight))

    def predict_proba(self, scores: Array) -> NDArray[Any]:
        """Compute probabilities from the scores."""
        places = np.searchsorted(self.classes, self.learned)
        offsets, prior = (
            None if each is None else each[places]
            for each in (self.temperature.offsets, self.temperature.prior)
        )
        of_learned = replace(self.temperature, offsets=offsets, prior=prior)
        found = probabilities(scores, of_learned)
        return self._of_all_classes(found, np.zeros((len(scores), 1)))

    def _of_all_classes(self, values: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
        """Return the columns of all classes, with the column `other` where none was learned."""
        if len(self.learned) == len(self.classes):
            return values
        of_all = np.repeat(other, len(self.classes), axis=1)
        of_all[:, np.searchsorted(self.classes, self.learned)] = values
        return of_all


def held_out_path(
    search: type[ClassifierSearch],
    classifier: Any,
    rows: LabelledRows,
    penalties: Sequence[Setting],
    fold: Fold | None,
    groups: Indices | None = None,
) -> list[tuple[HeldOut, float]]:
    """Compute held-out scores and fitting times of all settings on one fold or by leave-one-out.

    Without a fold, whole groups are left out if there are any.

    If a setting cannot be fitted, the remaining settings of the fold count as failed.
    """
    X, y, weights = rows.X, rows.labels, rows.sample_weights
    if not sparse.issparse(X):
        X = np.asarray(X)  # joblib may pass a memory map, which would be fitted in blocks
    if fold is not None:
        train, test = fold
        train = train[weights[train] > 0]  # a class may have samples of weight zero only
        if isinstance(classifier.class_weight, dict):
            known = set(y[train].tolist())
            given = {k: v for k, v in classifier.class_weight.items() if k in known}
            classifier.set_params(class_weight=given)
        columns = train if rows.is_kernel else slice(None)
        training = X[train][:, columns], y[train], weights[train]
        path = search._held_out(classifier, *training, X[test][:, columns], penalties)
    elif groups is not None:
        path = search._leave_groups_out(classifier, X, y, weights, penalties, groups)
    else:
        path = search._leave_one_out(classifier, X, y, weights, penalties)
    fits: list[tuple[HeldOut, float]] = []
    with threads_for_fit(X, classifier.kernel):
        for _ in penalties:
            started = time.perf_counter()
            try:
                held_out = next(path)
            except ValueError as error:
                left = len(penalties) - len(fits)
                return fits + [(HeldOut.failed(error), time.perf_counter() - started)] * left
            fits.append((held_out, time.perf_counter() - started))
    return fits


def weighted_score(
    scorer: Callable[..., float],
    held_out: HeldOut,
    rows: LabelledRows,
    temperature: Temperature,
) -> tuple[float, bool]:
    """Score held-out samples; also return whether the scorer used their weights.

    A scorer that accepts no weights gets rows of whole weights as often as they count.
    """
    judge = ScoresAsClassifier(rows.classes, held_out.classes, temperature)
    scores, places = held_out.scores, slice(None) if held_out.rows is None else held_out.rows
    y, weights = rows.labels[places], rows.sample_weights[places]
    used = bool(np.all(weights == 1))
    if not used:
        try:
            return float(scorer(judge, scores, y, sample_weight=weights)), True
        except TypeError as error:
            if "sample_weight" not in str(error):
                raise
        times = np.rint(weights)
        used = bool(np.all(times == weights)) and times.sum() <= MOST_REPEATED
        if used:
            repeated = np.repeat(np.arange(len(y)), times.astype(np.intp))
            scores, y = scores[repeated], y[repeated]
    return float(scorer(judge, scores, y)), used


def cv_results(
    grid: Sequence[Setting],
    scores: Array,
    times: Array | None,
    failed: NDArray[np.bool_],
    n_rows: Indices,
) -> dict[str, Any]:
    """Build the results of a search under the names of `sklearn.model_selection.GridSearchCV`.

    `scores` and `times` have one column per fold. Without `times` there is one column, the score of
    all held-out samples together. Only settings that have `failed` may have no score. Settings
    that were tried on more samples, `n_rows`, have better ranks.
    """
    results: dict[str, Any] = {"params": list(grid)}
    for name in grid[0]:
        results[f"param_{name}"] = np.ma.masked_array([setting[name] for setting in grid])
    if times is not None:
        results["mean_fit_time"] = times.mean(axis=1)
        results["std_fit_time"] = times.std(axis=1)
        for number, column in enumerate(scores.T):
            results[f"split{number}_test_score"] = column
        results["std_test_score"] = scores.std(axis=1)
    means = results["mean_test_score"] = scores.mean(axis=1)
    scored = means[~failed]
    if not np.all(np.isfinite(scored)):
        raise ValueError(
            f"The scorer returned {scored[~np.isfinite(scored)][0]} for at least one setting, so "
            "that no setting is best. Use a scorer that is defined on every fold, or fewer folds."
        )
    results["n_samples"] = n_rows
    keys = np.column_stack([-n_rows * ~failed, -np.where(failed, -np.inf, means)])
    ranks = rankdata(np.unique(keys, axis=0, return_inverse=True)[1].ravel(), method="min")
    results["rank_test_score"] = ranks.astype(np.int32)
    return results


@dataclass(frozen=True)
class Trials:
    """Training samples, folds and scorer with which settings are tried.

    Attributes
    ----------
    search : type
        The class of the search, which computes held-out decision values.
    classifier : object
        The classifier with the parameters that are not searched.
    rows : LabelledRows
        Training samples.
    folds : list
        Training and test rows of each fold; None means leave-one-out.
    scorer : callable
    n_jobs : int or None
    counts : ndarray of bool of shape (n_samples,)
        Whether a sample counts if it is held out.
    groups : ndarray of shape (n_samples,) or None
        Groups that are left out as a whole.
    """

    search: type[ClassifierSearch]
    classifier: Any
    rows: LabelledRows
    folds: Sequence[Fold | None]
    scorer: Callable[..., float]
    n_jobs: int | None
    counts: NDArray[np.bool_]
    groups: Indices | None = None

    def on(self, places: Indices) -> Trials:
        """Return trials on some of the samples, in as many folds or by leave-one-out."""
        rows, folds = self.rows.take(places), self.folds
        if folds != [None]:
            folds = [*holdout_folds(rows.keys, rows.y, rows.sample_weights)]
        return replace(self, rows=rows, folds=folds, counts=self.counts[places])

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
                self.rows,
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

    def _judge_setting(self, fits: Sequence[tuple[HeldOut, float]]) -> list[Judged]:
        """Score one setting on each fold from its held-out decision values."""
        tests = [slice(None) if fold is None else fold[1] for fold in self.folds]
        held_out = [
            each.checked(self.counts if test is None else self.counts[test])
            for (each, _), test in zip(fits, tests, strict=True)
        ]
        failure = next((each.failure for each in held_out if each.failure is not None), None)
        if failure is not None:
            return [
                Judged(np.nan, seconds, 0.0, True, np.nan, failure=failure) for _, seconds in fits
            ]
        parts = [self.rows if fold is None else self.rows.take(fold[1]) for fold in self.folds]
        temperature, loss = _calibrated(self.classifier, held_out, parts)
        judged = []
        for number, (each, (_, seconds)) in enumerate(zip(held_out, fits, strict=True)):
            try:
                score, used = weighted_score(self.scorer, each, parts[number], temperature)
            except ValueError as error:
                where = f"The test part of fold {number} cannot be scored. " * (len(fits) > 1)
                raise ValueError(f"{where}{error}") from error
            judged.append(
                Judged(
                    score, seconds, each.gap, each.converged, loss, used, n_rows=len(self.rows.y)
                )
            )
        return judged


@np.errstate(over="ignore")
def _calibrated(
    classifier: Any,
    held_out: Sequence[HeldOut],
    parts: Sequence[LabelledRows],
) -> tuple[Temperature, float]:
    """Compute the temperature and the log-loss over the held-out samples of all folds."""
    classes = parts[0].classes
    scores, indices, weights = [], [], []
    for each, part in zip(held_out, parts, strict=True):
        if len(each.classes) < len(classes):
            continue  # this fold has no scores of some class
        rows = np.arange(len(part.y)) if each.rows is None else each.rows
        seen = part.sample_weights[rows] > 0
        scores.append(each.scores[seen])
        indices.append(part.y[rows][seen])
        weights.append(part.sample_weights[rows][seen])
    if not scores:
        return Temperature(1.0), np.nan
    judged = np.vstack(scores), np.concatenate(indices), np.concatenate(weights)
    sizes = class_sums(judged[1], judged[2], len(classes))
    offsets = prior_offsets(classifier, classes, sizes) if np.all(sizes > 0) else None
    agrees = classifier.class_weight is None
    temperature = fit_temperature(*judged, offsets, agrees=agrees)
    return temperature, log_loss(*judged, temperature)


DIVISORS = (9, 3)  # of the number of samples in the rounds before the last one
FEWEST_ROWS = 300  # of a round
FEWEST_OF_CLASS = 10
FEW_SETTINGS = 9  # which are tried on all samples
KEPT = 3  # one setting of three stays in the next round
# Distance from the best score within which settings stay, in standard errors. Settings err on the
# same samples, so that the standard error of a difference is smaller than that of a score.
NEAR = 0.5
FEWEST_VALUES = 2  # of a parameter whose values are continued beyond the edge
ROUNDING = 1e-12  # relative difference of equal losses
SMALLEST = 1e-9  # value of a parameter beyond the edge
MOST_BEYOND = 3  # steps beyond the edge of a grid
SMALLEST_GAIN = 1e-3  # relative increase of the score that leads to a further step


def try_all(
    search: ClassifierSearch,
    trials: Trials,
    grid: Sequence[tuple[Setting, Setting]],
    task: Task,
) -> list[list[Judged]]:
    """Try all settings; without a `cv` on growing parts of the samples if there are many."""
    parts = []
    if search.cv is None and trials.groups is None:
        parts = _parts(trials.rows.y, trials.rows.sample_weights, len(grid))
    judged: list[list[Judged]] = [[] for _ in grid]
    alive = list(range(len(grid)))
    for number, part in enumerate([*parts, None]):
        started = perf_counter()
        here = trials if part is None else trials.on(part)
        share = len(here.rows.y) / len(trials.rows.y)
        plan = [
            (grid[k][0], search._for_share(trials.classifier, grid[k][1], share)) for k in alive
        ]
        for k, found in zip(alive, here.judge(plan, task, f"round {number + 1}"), strict=True):
            judged[k] = found
        if search.verbose:
            best = best_of(judged)
            print(
                f"Round {number + 1} of {len(parts) + 1}: {_settings(len(alive))} on "
                f"{len(here.rows.y):,} samples in {perf_counter() - started:.1f} s, best score "
                f"{_mean_score(judged[best]):.4g} with {grid[best][1] | grid[best][0]}"
            )
        if part is not None:
            alive = _survivors(judged, alive)
    return judged


def try_beyond(
    search: ClassifierSearch,
    trials: Trials,
    grid: list[tuple[Setting, Setting]],
    judged: list[list[Judged]],
    task: Task,
) -> None:
    """Add settings beyond the edge of a default grid as long as the score increases."""
    signature = inspect.signature(type(search).__init__).parameters
    names = [
        name
        for name, candidates in search._continued.items()
        if name in grid[0][0] | grid[0][1]
        and type(getattr(search, candidates)) is type(signature[candidates].default)
        and getattr(search, candidates) == signature[candidates].default  # `clone` copies tuples
    ]
    for _ in range(MOST_BEYOND):
        best = best_of(judged)
        if judged[best][0].failure is not None:
            return
        kernel, penalty = grid[best]
        tried = [one | other for one, other in grid]
        further = [
            ({k: each[k] for k in kernel}, {k: each[k] for k in penalty})
            for each in search._beyond(tried, kernel | penalty, names)
        ]
        if not further:
            return
        grid += further
        judged += trials.judge(further, task, "beyond the grid")
        if search.verbose:
            top = best_of(judged)
            print(
                f"Beyond the grid: {_settings(len(further))}, best score "
                f"{_mean_score(judged[top]):.4g} with {grid[top][1] | grid[top][0]}"
            )
        gain = _mean_score(judged[best_of(judged)]) - _mean_score(judged[best])
        if not gain > SMALLEST_GAIN * abs(_mean_score(judged[best])):
            return


def _parts(y: Indices, weights: Array, n_settings: int) -> list[Indices]:
    """Return the rows of the rounds before the last one: nested, stratified random parts.

    There are none for few settings or few rows.
    """
    if n_settings <= FEW_SETTINGS:
        return []
    seen = np.flatnonzero(weights > 0)
    shuffled = np.random.default_rng(0).permutation(seen)
    of_classes = [shuffled[y[shuffled] == k] for k in np.unique(y[seen])]
    parts = []
    for divisor in DIVISORS:
        if len(seen) // divisor >= FEWEST_ROWS:
            sizes = [max(len(rows) // divisor, FEWEST_OF_CLASS) for rows in of_classes]
            chosen = [rows[:size] for rows, size in zip(of_classes, sizes, strict=True)]
            parts.append(np.sort(np.concatenate(chosen)))
    return parts


def _survivors(judged: Sequence[list[Judged]], alive: Sequence[int]) -> list[int]:
    """Return the best third of the settings, and all within half a standard error of the best.

    The standard error is that of a share; scores that are no shares have none.
    """
    scores = np.array([np.mean([each.score for each in judged[k]]) for k in alive])
    losses = np.array([judged[k][0].log_loss for k in alive])
    scores, losses = np.nan_to_num(scores, nan=-np.inf), np.nan_to_num(losses, nan=np.inf)
    order = np.lexsort([losses, -scores])
    best = scores[order[0]]
    error = np.sqrt(max(best * (1 - best), 0.0) / judged[alive[order[0]]][0].n_rows)
    stays = scores >= best - NEAR * error
    stays[order[: -(-len(alive) // KEPT)]] = True
    return [k for k, kept in zip(alive, stays, strict=True) if kept and np.isfinite(scores).any()]


def best_of(judged: Sequence[list[Judged]]) -> int:
    """Return the setting with the best score among those tried on most samples.

    Ties go to the smallest log-loss, then to the first setting.
    """
    scores = np.array([np.mean([each.score for each in on_folds]) for on_folds in judged])
    n_rows = np.array([on_folds[0].n_rows for on_folds in judged])
    losses = np.array([on_folds[0].log_loss for on_folds in judged])
    keys = np.where(n_rows == n_rows.max(), np.nan_to_num(scores, nan=-np.inf), -np.inf)
    tied = np.flatnonzero(keys == keys.max())
    of_tied = np.nan_to_num(losses[tied], nan=np.inf)
    return int(tied[np.argmax(of_tied <= (1.0 + ROUNDING) * of_tied.min())])


def beyond(tried: Sequence[Setting], best: Setting, names: Sequence[str]) -> list[Setting]:
    """Return settings next to the best one beyond the edges of the grid, for some parameters.

    The values of a parameter are continued by the ratio of the two at the edge. Zero ends them.
    """
    further = []
    for name in names:
        values = sorted({setting[name] for setting in tried})
        if len(values) < FEWEST_VALUES:
            continue
        if best[name] == values[-1] and values[-2] > 0:
            value = values[-1] * values[-1] / values[-2]
        elif best[name] == values[0] > 0:
            value = values[0] * values[0] / values[1]
        else:
            continue
        if SMALLEST < value < 1 / SMALLEST:
            further.append(best | {name: value})
    return further


def _settings(number: int) -> str:
    return f"{number} setting" + "s" * (number != 1)


def _mean_score(on_folds: Sequence[Judged]) -> float:
    return float(np.mean([each.score for each in on_folds]))
