"""Decision values of held-out samples, their scores, and `cv_results_`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin

from discreg.blocks.kept_rows import KeptRows
from discreg.linalg.resources import threads_for_fit
from discreg.linalg.types import Array, Indices

from .calibration import Temperature, probabilities
from .left_out import LeftOut, one_column_if_binary

if TYPE_CHECKING:
    from .search import ClassifierSearch

__all__ = [
    "Fold",
    "HeldOut",
    "HeldOutScores",
    "Judged",
    "Setting",
    "Weights",
    "cv_results",
    "held_out_path",
    "weighted_score",
]

Setting = dict[str, Any]
Fold = tuple[Indices, Indices]
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
    weights : ndarray or None
        Weights of these samples, each the sum over equal rows; None means those that were given.
    failure : str or None
        The reason why the setting cannot be fitted, if there is one.
    """

    scores: NDArray[Any]
    classes: NDArray[Any]
    gap: float = 0.0
    converged: bool = True
    rows: Indices | None = None
    weights: Weights = None
    failure: str | None = None

    @classmethod
    def of_left_out(
        cls,
        left_out: LeftOut,
        kept: KeptRows,
        factors: NDArray[Any],
        classes: NDArray[Any],
        gap: float,
        tol: float,
    ) -> HeldOut:
        """Create the result of scores of kept rows, some of which may be unknown.

        The weights of the rows without the class weights, `factors`, are those of the score.
        """
        known = np.isfinite(left_out.scores).all(axis=1)
        if not known.any():
            return cls.failed("The other samples do not determine the score of any sample.")
        assert kept.places is not None
        scores, converged = left_out.scores[known], not gap > tol > 0
        weights = (kept.weights / factors[kept.y])[known]
        return cls(scores, classes, gap, converged, kept.places[known], weights)

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
        weights = None if self.weights is None else self.weights[kept]
        return replace(self, scores=self.scores[kept], rows=rows[kept], weights=weights)


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


class HeldOutScores(ClassifierMixin, BaseEstimator):
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
        found = probabilities(scores, self.temperature)
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
    X: Any,
    y: NDArray[Any],
    weights: Weights,
    penalties: Sequence[Setting],
    fold: Fold | None,
    groups: Indices | None = None,
) -> list[tuple[HeldOut, float]]:
    """Compute held-out scores and fitting times of all settings on one fold or by leave-one-out.

    With groups, whole groups are left out.

    If a setting cannot be fitted, the remaining settings of the fold count as failed.
    """
    if not sparse.issparse(X):
        X = np.asarray(X)  # joblib may pass a memory map, which would be fitted in blocks
    if groups is not None:
        path = search._leave_groups_out(classifier, X, y, weights, penalties, groups)
    elif fold is None:
        path = search._leave_one_out(classifier, X, y, weights, penalties)
    else:
        train, test = fold
        if weights is not None:  # a class may have samples of weight zero only
            train = train[weights[train] > 0]
        if isinstance(classifier.class_weight, dict):
            known = set(y[train].tolist())
            given = {k: v for k, v in classifier.class_weight.items() if k in known}
            classifier.set_params(class_weight=given)
        columns = train if classifier.kernel == "precomputed" else slice(None)
        path = search._held_out(
            classifier,
            X[train][:, columns],
            y[train],
            None if weights is None else weights[train],
            X[test][:, columns],
            penalties,
        )
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
    y: NDArray[Any],
    sample_weight: Any,
    classes: NDArray[Any],
    temperature: Temperature,
) -> tuple[float, bool]:
    """Score held-out samples; also return whether the scorer accepted their weights.

    Without given weights, a scorer that accepts none gets equal rows as often as they occur.
    """
    scores, weights = held_out.scores, held_out.weights
    if held_out.rows is not None:
        y = y[held_out.rows]
    if weights is None and sample_weight is not None:
        weights = sample_weight if held_out.rows is None else sample_weight[held_out.rows]
    judge = HeldOutScores(classes, held_out.classes, temperature)
    if weights is not None:
        try:
            return float(scorer(judge, scores, y, sample_weight=weights)), True
        except TypeError as error:
            if "sample_weight" not in str(error):
                raise
        if sample_weight is None:
            copies = np.repeat(np.arange(len(y)), np.rint(weights).astype(np.intp))
            scores, y = scores[copies], y[copies]
    return float(scorer(judge, scores, y)), sample_weight is None


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
