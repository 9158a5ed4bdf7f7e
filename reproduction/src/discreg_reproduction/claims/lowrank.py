"""Claims of the low-rank paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from discreg.comparison.words import listed
from discreg_reproduction.stored import NotStored, StoredScores

from ._shared import EQUAL, Claim, gain

__all__ = ["CLAIMS"]


def low_rank_gains(scores: StoredScores) -> Claim:
    """Low rank is better than full rank for many classes and few samples."""
    datasets = ("BINALPHA36", "BINALPHA26")
    gains = {low: _rank_gains(scores, datasets, low) for low in ("LRLR", "LRRR", "SLRR")}
    text = (
        "Low rank compared with full rank for many classes and few samples (lowrank/table2, rank "
        f"selected on the training part), in points on {listed(list(datasets))}: "
        f"{'; '.join(f'{low} {_points(row)}' for low, row in gains.items())}."
    )
    return Claim(all(min(row) > 0 for row in gains.values()), text)


def low_rank_elsewhere(scores: StoredScores) -> Claim:
    """Low rank is better than full rank on the other data sets."""
    datasets = ("UMIST", "VOWEL", "MNIST")
    gains = {low: _rank_gains(scores, datasets, low) for low in ("LRLR", "LRRR", "SLRR")}
    helped = sum(each > EQUAL for row in gains.values() for each in row)
    text = (
        f"That low rank helps on {listed(list(datasets))} (lowrank/table2). Low minus full rank in "
        f"points: {'; '.join(f'{low} {_points(row)}' for low, row in gains.items())}. It is above "
        f"0 for {helped} of {sum(map(len, gains.values()))}."
    )
    return Claim(2 * helped > sum(map(len, gains.values())), text)


def sparse_regression(scores: StoredScores) -> Claim:
    """Sparse models are better than ridge models with many features."""
    study, datasets = "lowrank/table2", ("UMIST", "BINALPHA36", "BINALPHA26", "MNIST")
    gains = [
        100 * gain(scores, study, each, "sparse linear regression", "ridge regression")
        for each in datasets
    ]
    text = (
        f"That sparse regression is better than ridge regression with many features ({study}): "
        f"sparse minus ridge in points is {_points(gains)} on {listed(list(datasets))}."
    )
    return Claim(min(gains) > 0, text)


def sparse_penalties(scores: StoredScores) -> Claim:
    """No selected penalty of sparse regression makes all coefficients zero."""
    study = "lowrank/table2"
    shares: dict[str, list[float]] = {}
    for place, score in scores.by_place.items():
        if place[0] == study and place[3] == "beta":
            limit = scores.mean(*place[:3], "beta_max")
            shares.setdefault(place[1], []).append(score.mean / limit)
    if not shares:
        raise NotStored(study)
    null = [dataset for dataset, each in shares.items() if max(each) >= 1]
    named = "; ".join(f"{name} {max(each):.2g}" for name, each in shares.items())
    text = (
        "From beta_max on, all coefficients of sparse regression are zero. The paper's grid goes "
        "far beyond; here it ends below. The mean selected penalty, as a share of beta_max, is at "
        f"most: {named} ({study})."
    )
    text += f" The scores on {listed(null)} are those of null models." if null else ""
    return Claim(None, text)


def tied_directions(scores: StoredScores) -> Claim:
    """LRLR below full rank is arbitrary where all eigenvalues are tied."""
    study, said = "lowrank/fig2", []
    for dataset in scores.datasets_at(study, "LRLR", "accuracy_min"):
        low = scores.at_values(study, dataset, "LRLR", "accuracy_min")
        high = scores.at_values(study, dataset, "LRLR", "accuracy_max")
        own = scores.at_values(study, dataset, "LRLR", "accuracy")
        rank = min(low, key=int)
        said.append(
            f"{dataset} at rank {rank}: {own[rank]:.3f} by our rule, from {low[rank]:.3f} to "
            f"{high[rank]:.3f} for random directions"
        )
    text = (
        "With more features than samples all eigenvalues of LRLR are equal, and its directions "
        f"below full rank are arbitrary ({study}). {'; '.join(said)}."
    )
    return Claim(None, text)


def _rank_gains(scores: StoredScores, datasets: Sequence[str], low: str) -> list[float]:
    """Compute the accuracy of low rank minus that of full rank, in points."""
    full = {"LRLR": "linear", "LRRR": "ridge", "SLRR": "sparse linear"}[low]
    study = "lowrank/table2"
    return [100 * gain(scores, study, each, low, f"{full} regression") for each in datasets]


def _points(values: Sequence[float]) -> str:
    return listed([f"{value:+.1f}".replace("-", "−") for value in values])


CLAIMS: tuple[Callable[[StoredScores], Claim], ...] = (
    low_rank_gains,
    low_rank_elsewhere,
    sparse_regression,
    sparse_penalties,
    tied_directions,
)
