"""Statistics of cross-validation scores.

Results are frames with the columns dataset, model, repeat, fold, metric and value, unique on the
first five. Models are compared only on folds that they all have.

References
----------
C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003.

J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", Journal of Machine
Learning Research 7, 2006.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from discreg.base.metrics import metric as metric_called

from .experiment import Key
from .words import listed

__all__ = [
    "LEVEL",
    "Ranking",
    "Verdict",
    "below_the_best",
    "critical_difference",
    "friedman_nemenyi",
    "judged_results",
    "paired_p_value",
    "summary",
    "win_tie_loss",
]

LEVEL = 0.05
N_LISTED = 4  # most names in a sentence
BLOCK = ["dataset", "repeat", "fold"]


@dataclass(frozen=True)
class Verdict:
    """The recommended model, and the models that are significantly worse."""

    metric: str
    best: str | None  # the best mean; None if no model finished every fold
    tied: list[str]  # not significantly worse than the best
    below: list[str]  # significantly worse than the best
    p_values: dict[str, float]  # corrected p-values of the difference from the best
    incomplete: dict[str, str]  # models that are not ranked, and the reasons
    n_folds: int  # number of folds that the ranked models share
    sentence: str


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


def summary(results: pd.DataFrame, metric: str, *, n_folds: int | None = None) -> pd.DataFrame:
    """Summarise the scores of each model on one data set, the best first.

    Parameters
    ----------
    results : DataFrame
        Scores.
    metric : str
        Name of the metric.
    n_folds : int, optional
        Number of folds; None means the number of folds with scores.

    Returns
    -------
    DataFrame
        Indexed by model: mean and std over the folds that have a value, the ends low and high of a
        95 % confidence interval of the mean, and n_folds. The variance of the mean is corrected for
        the overlap of the training sets (Nadeau and Bengio, 2003).
    """
    scores = _scores(_of_one_dataset(results), metric)
    n_scores = scores.notna().sum()
    table = pd.DataFrame({"mean": scores.mean(), "std": scores.std(ddof=1)})
    error = table["std"] * np.sqrt(1 / n_scores + _test_to_train(results, n_folds))
    reach = error * stats.t.isf(LEVEL / 2, np.maximum(n_scores - 1, 1))
    table["low"], table["high"] = table["mean"] - reach, table["mean"] + reach
    table["n_folds"] = n_scores
    ascending = metric_called(metric).lower_is_better
    return table.sort_values("mean", ascending=ascending, kind="stable")


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


def win_tie_loss(results: pd.DataFrame, metric: str, *, n_folds: int | None = None) -> pd.DataFrame:
    """Count the wins, ties and losses of each model against each other model.

    On several data sets, a paired t-test over the folds of each data set decides at the 5 % level,
    as in the tables of the ODM paper, and data sets are counted. On one data set, the test is
    corrected for the overlap of the training sets, and each pair has one outcome. Pairs need at
    least two common folds. `n_folds` is as in `summary`.

    Returns
    -------
    DataFrame
        Columns win, tie and loss, indexed by model and other.
    """
    scores = _oriented(_scores(results, metric), metric)
    one_dataset = scores.index.get_level_values("dataset").nunique() == 1
    ratio = _test_to_train(results, n_folds) if one_dataset else 0.0
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


def below_the_best(
    results: pd.DataFrame,
    metric: str,
    *,
    failures: Mapping[Key, str] | None = None,
    n_folds: int | None = None,
) -> Verdict:
    """Find the best model of one data set and the models that are significantly worse.

    The model with the best mean is compared with each other model by the paired t-test, with the
    variance corrected for the overlap of the training sets. The best model is selected on the same
    folds, so the p-values are corrected for the comparison of all pairs of models.

    Parameters
    ----------
    results : DataFrame
        Scores and, if known, ``fit_seconds``.
    metric : str
        Metric of the ranking.
    failures : mapping of Key to str, optional
        Fits that failed, and their errors.
    n_folds : int, optional
        Number of folds; None means the number of folds with scores.

    Notes
    -----
    If a run stopped early, the models are compared on the folds that keep the most scores: a fold
    that few models have finished is not used.
    """
    failures = failures or {}
    results = _of_one_dataset(results)
    scores, incomplete = _comparable(results, metric, failures)
    if scores.empty:
        sentence = "No model finished every fold, so none can be recommended."
        return Verdict(metric, None, [], [], {}, incomplete, 0, sentence)
    scores = _oriented(scores, metric)
    # Rounding errors must not break ties, which go to the first model.
    best, *others = scores.mean().round(12).sort_values(ascending=False, kind="stable").index
    leads = {other: scores[best] - scores[other] for other in others}
    ratio = _test_to_train(results, n_folds)
    p_values = _corrected({o: paired_p_value(leads[o], test_to_train=ratio) for o in others})
    below = [other for other in others if p_values[other] < LEVEL]
    tied = [other for other in others if other not in below]
    quickest = _quickest([best, *tied], results)
    equal = [other for other in tied if np.isclose(leads[other].mean(), 0, atol=1e-12)]
    sentence = _sentence([best, *equal], tied, below, quickest, metric, len(scores))
    return Verdict(metric, best, tied, below, p_values, incomplete, len(scores), sentence)


def judged_results(
    results: pd.DataFrame, metric: str, *, failures: Mapping[Key, str] | None = None
) -> pd.DataFrame:
    """Select the results that `below_the_best` uses: complete models on the folds they share."""
    scores, _ = _comparable(_of_one_dataset(results), metric, failures or {})
    folds = pd.MultiIndex.from_frame(results[BLOCK]).isin(scores.index)
    return results[folds & results["model"].isin(scores.columns)]


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


def _of_one_dataset(results: pd.DataFrame) -> pd.DataFrame:
    datasets = results["dataset"].unique()
    if len(datasets) > 1:
        raise ValueError(
            f"Scores of {len(datasets)} data sets cannot be averaged. Pass those of one data set."
        )
    return results


def _test_to_train(results: pd.DataFrame, n_folds: int | None) -> float:
    """Compute the ratio of test set to training set sizes: 1 / (k - 1) for k folds."""
    return 1 / max((n_folds or results["fold"].nunique()) - 1, 1)


def _comparable(
    results: pd.DataFrame, metric: str, failures: Mapping[Key, str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Select the models that have all compared folds; explain why the others do not."""
    scores = _scores(results, metric)
    fits = _fits(results).reindex(scores.index)
    failed = dict.fromkeys(key.model for key in failures)
    unfailing = [model for model in scores.columns if model not in failed]
    folds = _judged_folds(fits[unfailing or list(scores.columns)])
    complete = scores.loc[folds].dropna(axis=1)
    incomplete = {}
    for model in dict.fromkeys([*results["model"], *failed]):
        if model not in complete.columns:
            n_fits = int(fits.loc[folds, model].sum()) if model in fits else 0
            n_scores = int(scores.loc[folds, model].count()) if model in scores else 0
            why = f"finished {n_fits} of {len(folds)} folds"
            if n_fits == len(folds):
                n_undefined = len(folds) - n_scores
                title = metric_called(metric).title
                why = f"{title} is undefined on {n_undefined} of {len(folds)} folds"
            errors = [text for key, text in failures.items() if key.model == model]
            reason = [error.strip().split("\n")[0] for error in errors[:1]]
            incomplete[model] = ": ".join([why, *reason])
    return complete, incomplete


def _fits(results: pd.DataFrame) -> pd.DataFrame:
    """Find the finished fits, folds by models, including those with undefined metrics."""
    return results.groupby([*BLOCK, "model"]).size().unstack("model").notna()


def _judged_folds(reached: pd.DataFrame) -> pd.Index:
    """Select the folds that maximise (number of folds) × (models that have all of them)."""
    order = reached.sum(axis=1).sort_values(ascending=False, kind="stable").index
    together = reached.loc[order].cummin()
    kept = together.sum(axis=1).to_numpy() * np.arange(1, len(order) + 1)
    n_judged = len(order) - int(np.argmax(kept[::-1]))  # ties go to the most folds
    return order[:n_judged]


def _corrected(p_values: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values by Holm's method for the comparison of all pairs of models.

    Holm's factors are multiplied by half the number of models, because the best model is selected
    on the same data: the first factor is the number of pairs.
    """
    ordered = sorted(p_values, key=lambda name: p_values[name])
    factors = (len(p_values) + 1) / 2 * np.arange(len(p_values), 0, -1)
    raised = np.minimum(1.0, factors * [p_values[name] for name in ordered])
    corrected = dict(zip(ordered, np.maximum.accumulate(raised).tolist(), strict=True))
    return {name: corrected[name] for name in p_values}


def _quickest(models: Sequence[str], results: pd.DataFrame) -> str | None:
    """Find the model with the smallest median fit time; None if no time is known."""
    seconds = results[(results["metric"] == "fit_seconds") & results["model"].isin(models)]
    medians = seconds.groupby("model", sort=False)["value"].median().dropna()
    return None if medians.empty else str(medians.idxmin())


def _sentence(
    first: list[str], tied: list[str], below: list[str], quickest: str | None, metric: str, n: int
) -> str:
    """Write the conclusion on the best model, those not significantly worse, and the others."""
    best, judge = first[0], metric_called(metric)
    extreme = "lowest" if judge.lower_is_better else "highest"
    folds = f"these {n} folds" if n > 1 else "one fold"
    if not tied and not below:
        return f"{best} is the only model that finished every fold; there is no comparison."
    if not tied:
        each = "" if len(below) == 1 else "each of "
        return (
            f"{best} has the {extreme} mean {judge.title}, and its lead over "
            f"{each}{listed(below, N_LISTED)} is significant on {folds}."
        )
    aside = f"; {quickest} was the fastest of them to fit" if quickest else ""
    # The fastest model comes first, so that it is named.
    named = sorted((each for each in tied if each not in first), key=lambda each: each != quickest)
    verb = "is" if len(named) == 1 else "are"
    near = f"{listed(named, N_LISTED)} {verb} not significantly worse" if named else ""
    if len(first) == 1:
        return f"{best} has the {extreme} mean {judge.title}, but {near} on {folds}{aside}."
    same = f"{listed(first, N_LISTED)} have the same mean {judge.title}, the {extreme}"
    return f"{same}, and {near} on {folds}{aside}." if near else f"{same}, on {folds}{aside}."


def _friedman(scores: pd.DataFrame) -> tuple[float, float]:
    """Compute Friedman's statistic, corrected for ties, and its chi-square p-value."""
    n_blocks, n_models = scores.shape
    away = scores.rank(axis=1).to_numpy() - (n_models + 1) / 2
    spread = (away**2).sum() / (n_blocks * (n_models - 1))
    if spread == 0:  # all scores of each block are equal
        return 0.0, 1.0
    statistic = float(n_blocks * (away.mean(axis=0) ** 2).sum() / spread)
    return statistic, float(stats.chi2.sf(statistic, n_models - 1))
