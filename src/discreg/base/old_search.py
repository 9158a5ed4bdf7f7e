"""Scores of a grid of settings on held-out samples, kept as scikit-learn keeps them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if

from .calibration import probabilities

__all__ = [
    "HeldOut",
    "HeldOutScores",
    "best_setting",
    "cv_results",
    "score_folds",
    "score_held_out",
    "split",
    "warn_of_groups",
    "weighted_score",
]

Setting = dict[str, float]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
PathFitter = Callable[..., Iterator[Any]]


class HeldOutScores(ClassifierMixin, BaseEstimator):
    """Classifier whose input is the decision values themselves, so that any scorer can judge them.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels.
    inverse_temperature : float, default=None
        For probabilities of scores that have them.
    """

    def __init__(self, classes: NDArray[Any], inverse_temperature: float | None = None) -> None:
        self.classes = classes
        self.inverse_temperature = inverse_temperature

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels."""
        return self.classes

    def decision_function(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores, in scikit-learn's shape for two classes."""
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """Label of the largest score."""
        return self.classes[scores.argmax(axis=1)]

    def score(self, scores: NDArray[np.float64], y: Any, sample_weight: Any = None) -> float:
        """Accuracy, as that of every classifier but without checking the labels once a setting."""
        return float(np.average(self.predict(scores) == y, weights=sample_weight))

    @available_if(lambda self: self.inverse_temperature is not None)
    def predict_proba(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """Softmax of the scores times the inverse temperature."""
        return probabilities(scores, float(self.inverse_temperature or 0.0))


class HeldOut(NamedTuple):
    """What a setting gives on a fold: scores of its test samples, their columns, the gap."""

    scores: NDArray[Any]
    classes: NDArray[Any]
    gap: float = 0.0


def weighted_score(
    scorer: Callable[..., float], estimator: Any, X: Any, y: Any, sample_weight: Any
) -> float:
    """Score with the sample weights, where there are some and the scorer takes them."""
    if sample_weight is not None:
        if not np.any(sample_weight):
            raise ValueError(
                "The test part of a fold has no sample of positive weight. Leave samples of weight "
                "zero out, or use fewer folds."
            )
        try:
            return _score(scorer, estimator, X, y, sample_weight=sample_weight)
        except TypeError as error:
            if "sample_weight" not in str(error):
                raise
            warnings.warn(
                f"{scorer} takes no sample_weight: the held-out samples count alike in its score.",
                stacklevel=2,
            )
    return _score(scorer, estimator, X, y)


def _score(scorer: Callable[..., float], estimator: Any, X: Any, y: Any, **weights: Any) -> float:
    try:
        return float(scorer(estimator, X, y, **weights))
    except AttributeError as error:
        if "predict_proba" not in str(error):
            raise
        raise ValueError(
            f"{scorer} needs probabilities, and there are none during this search. Use a scorer of "
            "labels or of decision values, such as scoring='balanced_accuracy'."
        ) from error


def warn_of_groups(groups: Any) -> None:
    """Say that leave-one-out leaves the other samples of a group in the training part."""
    if groups is not None:
        warnings.warn(
            "The groups parameter is ignored by leave-one-out (cv=None). Set cv to a splitter of "
            "groups, such as sklearn.model_selection.GroupKFold().",
            UserWarning,
            stacklevel=4,
        )


def score_folds(
    fit_path: PathFitter,
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    grid: Sequence[Setting],
    folds: Iterable[Fold],
    scorer: Callable[..., float],
    n_jobs: int | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Test scores and fitting times, each of shape (n_settings, n_folds).

    `fit_path` yields the estimator fitted for one setting of the grid after another.
    """
    outcomes = Parallel(n_jobs=n_jobs)(
        delayed(_score_fold)(
            fit_path, clone(estimator), X, y, sample_weight, grid, fold, scorer, number
        )
        for number, fold in enumerate(folds)
    )
    scores, times = zip(*outcomes, strict=True)
    return np.array(scores).T, np.array(times).T


def _score_fold(
    fit_path: PathFitter,
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    grid: Sequence[Setting],
    fold: Fold,
    scorer: Callable[..., float],
    number: int,
) -> tuple[list[float], list[float]]:
    train, test = fold
    train_weight = None if sample_weight is None else sample_weight[train]
    test_weight = None if sample_weight is None else sample_weight[test]
    X_train, X_test = split(X, fold, pairwise=estimator.__sklearn_tags__().input_tags.pairwise)
    scores, times = [], []
    path = fit_path(estimator, X_train, y[train], train_weight, grid)
    for _ in grid:
        started = time.perf_counter()
        try:
            fitted = next(path)
        except ValueError as error:
            raise ValueError(
                f"The training part of fold {number} cannot be fitted. {error}"
            ) from error
        times.append(time.perf_counter() - started)
        scores.append(weighted_score(scorer, fitted, X_test, y[test], test_weight))
    return scores, times


def split(X: Any, fold: Fold, *, pairwise: bool) -> tuple[Any, Any]:
    """Training and test rows of a fold; of a kernel matrix the columns of the training rows."""
    train, test = fold
    columns = train if pairwise else slice(None)
    return X[train][:, columns], X[test][:, columns]


def score_held_out(
    path: Iterator[HeldOut],
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    scorer: Callable[..., float],
    number: int,
) -> tuple[list[float], list[float], list[float]]:
    """Scores, fitting times and gaps of the settings along a path, on the fold of that number."""
    scores: list[float] = []
    seconds: list[float] = []
    gaps: list[float] = []
    while True:
        started = time.perf_counter()
        try:
            held_out = next(path)
        except StopIteration:
            return scores, seconds, gaps
        except ValueError as error:
            raise ValueError(
                f"The training part of fold {number} cannot be fitted. {error}"
            ) from error
        seconds.append(time.perf_counter() - started)
        gaps.append(held_out.gap)
        judge = HeldOutScores(held_out.classes)
        scores.append(weighted_score(scorer, judge, held_out.scores, y, sample_weight))


def cv_results(
    grid: Sequence[Setting],
    scores: NDArray[np.float64],
    times: NDArray[np.float64] | None = None,
    *,
    per_fold: bool | None = None,
    failed: NDArray[np.bool_] | None = None,
) -> dict[str, Any]:
    """Results of a search under the names that `sklearn.model_selection.GridSearchCV` gives them.

    `scores` has a column for each fold, or one column for the score of all held-out samples
    together, which then is not listed as a fold. `per_fold` says which; by default there are folds
    where there are fitting times. Only settings that have `failed` may have no score.
    """
    per_fold = times is not None if per_fold is None else per_fold
    results: dict[str, Any] = {"params": list(grid)}
    for name in grid[0]:
        results[f"param_{name}"] = np.ma.masked_array([setting[name] for setting in grid])
    if times is not None:
        results["mean_fit_time"] = times.mean(axis=1)
        results["std_fit_time"] = times.std(axis=1)
    if per_fold:
        for number, column in enumerate(scores.T):
            results[f"split{number}_test_score"] = column
        results["std_test_score"] = scores.std(axis=1)
    means = results["mean_test_score"] = scores.mean(axis=1)
    scored = means if failed is None else means[~failed]
    if not np.all(np.isfinite(scored)):
        raise ValueError(
            f"The scorer gave {scored[~np.isfinite(scored)][0]} for at least one setting: no "
            "setting can be preferred. Use a scorer that is defined on every fold, or fewer folds."
        )
    results["rank_test_score"] = rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(
        np.int32
    )
    return results


def best_setting(results: dict[str, Any]) -> tuple[Setting, float]:
    """The setting of the best mean score, the first among equals, and that score."""
    best = int(np.nanargmax(results["mean_test_score"]))
    return results["params"][best], float(results["mean_test_score"][best])
