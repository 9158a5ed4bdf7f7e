"""Ranks of models, and their wins and losses, over data sets or folds.

Results are frames with the columns dataset, model, repeat, fold, metric and value, unique on the
first five. Models are compared only on folds that they all have.

References
----------
C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003.

J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", Journal of Machine
Learning Research 7, 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from discreg.base.metrics import metric as metric_called
from discreg.comparison.words import listed

__all__ = [
    "LEVEL",
    "Ranking",
    "critical_difference",
    "friedman_nemenyi",
    "paired_p_value",
    "win_tie_loss",
]

LEVEL = 0.05
BLOCK = ["dataset", "repeat", "fold"]


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of models over blocks; the best model has the smallest rank."""

    mean_ranks: pd.Series  # sorted
    statistic: float  # Friedman's test
    p_value: float
    critical_difference: float  # Nemenyi's test of mean ranks
    n_blocks: int
    blocks: str  # "data sets" or "folds"
    left_out: tuple[str, ...]  # models that do not have every block
    caution: str  # reason why it is not a valid test; empty if it is


def paired_p_value(differences: ArrayLike, *, test_to_train: float = 0.0) -> float:
    """Compute the two-sided p-value of the mean of paired differences.

    Parameters
    ----------
    differences : array-like
        One value per fold; NaN if a fold has none.
    test_to_train : float
        Ratio of the sizes of the test set and the training set. The variance of the mean of J
        differences is (1/J + ratio) times their variance (Nadeau and Bengio, 2003); 0 gives the
        standard paired t-test.

    Notes
    -----
    If all differences are equal, their variance is zero and a t-test would call even two of them
    certain. The sign test is used instead.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[~np.isnan(values)]
    n = len(values)
    if n < 2 or np.isclose(values.mean(), 0, atol=1e-12):
        return 1.0
    if np.isclose(np.ptp(values), 0, atol=1e-12):
        return float(2 * 0.5**n)
    error = values.std(ddof=1) * np.sqrt(1 / n + test_to_train)
    return float(2 * stats.t.sf(abs(values.mean()) / error, n - 1))


def win_tie_loss(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Count the wins, ties and losses of each model against each other model.

    On several data sets, a paired t-test over the folds of each data set decides at the 5 % level,
    as in the tables of the ODM paper, and data sets are counted. On one data set, the test is
    corrected for the overlap of the training sets, and each pair has one outcome. Pairs need at
    least two common folds.

    Returns
    -------
    DataFrame
        Columns win, tie and loss, indexed by model and other.
    """
    scores = _oriented(_scores(results, metric), metric)
    one_dataset = scores.index.get_level_values("dataset").nunique() == 1
    ratio = _test_to_train(results) if one_dataset else 0.0
    counts = {pair: np.zeros(3, dtype=int) for pair in permutations(scores.columns, 2)}
    for _, table in scores.groupby(level="dataset"):
        for model, other in combinations(scores.columns, 2):
            lead = (table[model] - table[other]).dropna()
            if len(lead) < 2:
                continue
            clear = paired_p_value(lead, test_to_train=ratio) < LEVEL
            outcome = 1 - int(clear) * int(np.sign(lead.mean()))  # 0: win, 1: tie, 2: loss
            counts[model, other][outcome] += 1
            counts[other, model][2 - outcome] += 1
    index = pd.MultiIndex.from_tuples(counts, names=["model", "other"]) if counts else None
    return pd.DataFrame(list(counts.values()), index, columns=["win", "tie", "loss"])


def friedman_nemenyi(results: pd.DataFrame, metric: str) -> Ranking:
    """Compute mean ranks, Friedman's test of their equality, and Nemenyi's critical difference.

    Blocks are data sets (mean scores) if there are several, otherwise folds. Models that do not
    have every block are left out.
    """
    scores = _oriented(_scores(results, metric), metric)
    one_dataset = scores.index.get_level_values("dataset").nunique() == 1
    if not one_dataset:
        scores = scores.groupby(level="dataset").agg(lambda folds: folds.mean(skipna=False))
    complete = scores.dropna(axis=1)
    n_blocks, n_models = complete.shape
    if n_blocks < 2 or n_models < 2:
        raise ValueError(
            f"Ranks need at least two models and two blocks; there are {n_models} models that have "
            f"all of {n_blocks} blocks."
        )
    complete = complete.round(12)  # rounding errors must not break ties
    statistic, p_value = _friedman(complete)
    return Ranking(
        mean_ranks=complete.rank(axis=1, ascending=False).mean().sort_values(kind="stable"),
        statistic=statistic,
        p_value=p_value,
        critical_difference=critical_difference(n_models, n_blocks),
        n_blocks=n_blocks,
        blocks="folds" if one_dataset else "data sets",
        left_out=tuple(scores.columns.difference(complete.columns, sort=False)),
        caution="The folds of one data set share most of their training samples and are not "
        "independent, so this is a description of the ranks and not a valid test."
        if one_dataset
        else "",
    )


def critical_difference(n_models: int, n_blocks: int) -> float:
    """Compute the critical difference of mean ranks of Nemenyi's test (Demšar, 2006)."""
    q = stats.studentized_range.isf(LEVEL, n_models, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_models * (n_models + 1) / (6 * n_blocks)))


def _scores(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Pivot the results: folds in the rows, models in the columns in order of appearance."""
    chosen = results[results["metric"] == metric]
    if chosen.empty:
        there = listed(list(results["metric"].unique()))
        raise ValueError(f"The results have no metric {metric!r}; they have {there or 'none'}.")
    table = chosen.pivot(index=BLOCK, columns="model", values="value")
    return table[chosen["model"].unique()].astype(np.float64)


def _oriented(scores: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Change the sign if necessary, so that larger scores are better."""
    return -scores if metric_called(metric).lower_is_better else scores


def _test_to_train(results: pd.DataFrame) -> float:
    """Compute the ratio of test set to training set sizes: 1 / (k - 1) for k folds."""
    return float(1 / max(results["fold"].nunique() - 1, 1))


def _friedman(scores: pd.DataFrame) -> tuple[float, float]:
    """Compute Friedman's statistic, corrected for ties, and its chi-square p-value."""
    n_blocks, n_models = scores.shape
    away = scores.rank(axis=1).to_numpy() - (n_models + 1) / 2
    spread = (away**2).sum() / (n_blocks * (n_models - 1))
    if spread == 0:  # all scores of each block are equal
        return 0.0, 1.0
    statistic = float(n_blocks * (away.mean(axis=0) ** 2).sum() / spread)
    return statistic, float(stats.chi2.sf(statistic, n_models - 1))
