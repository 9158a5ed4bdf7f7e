"""Claims of the ODM paper."""

from __future__ import annotations

from collections.abc import Callable

from discreg.comparison.words import listed
from discreg_reproduction.paper_values import reported
from discreg_reproduction.papers import studies
from discreg_reproduction.stored import NotStored, StoredScores
from discreg_reproduction.views.baselines import ROUNDING

from ._shared import Claim, named

__all__ = ["CLAIMS"]

LEAST_SPLITS = 5  # with fewer, the distance of two means over different splits is mostly chance


def odm_accuracies(scores: StoredScores) -> Claim:
    """The accuracies of SVM, ODM^L and ODM in Tables 2 and 3."""
    said, shares = [], []
    for study, kernel in (("odm/table2", "linear"), ("odm/table3", "RBF")):
        theirs = {
            key: value
            for key, value in reported(study).items()
            if key[1] != "LDA" and (study, *key, "accuracy") in scores.by_place
        }
        near = sum(
            abs(scores.mean(study, *key, "accuracy") - value.mean) <= (value.std or 0) + ROUNDING
            for key, value in theirs.items()
        )
        if not theirs:
            raise NotStored(study)
        means = [
            sum(scores.mean(study, d, m, "accuracy") for d, m in theirs if m == method)
            / sum(m == method for _, m in theirs)
            for method in ("ODM", "SVM")
        ]
        said.append(
            f"{near} of {len(theirs)} with the {kernel} kernel, where the mean of ODM is "
            f"{means[0]:.3f} and that of SVM {means[1]:.3f}"
        )
        shares.append(near / len(theirs))
    text = (
        "Accuracies of SVM, ODM^L and ODM within one reported standard deviation: "
        f"{'; '.join(said)} (odm/table2, odm/table3)."
    )
    return Claim(min(shares) > 0.8, text)


def odm_lead(scores: StoredScores) -> Claim:
    """ODM is significantly better than SVM on 24 and 25 of 32 data sets and never worse."""
    said, best = [], []
    for study, kernel, theirs in (
        ("odm/table2", "linear", 24),
        ("odm/table3", "RBF", 25),
        ("odm/table4", "linear, large data", 7),
    ):
        wins, ties, losses = (
            int(scores.of_study(study, f"{outcome}[against=SVM]", "ODM"))
            for outcome in ("wins", "ties", "losses")
        )
        n = wins + ties + losses
        n_theirs = 10 if study == "odm/table4" else 32
        said.append(
            f"{kernel} better on {wins} of {n} and worse on {losses} (the paper: better on "
            f"{theirs} of {n_theirs})"
        )
        best.append(2 * wins > n)
    text = f"The lead of ODM over SVM by paired t-tests over the splits: {'; '.join(said)}."
    return Claim(all(best), text)


def ldm_scalings(scores: StoredScores) -> Claim:
    """ODM^L with the paper's lambdas, in two scalings."""
    said = []
    for study in ("odm/table2", "odm/table3", "odm/table4"):
        try:
            said.append(_two_scalings(scores, study))
        except NotStored:
            continue
    if not said:
        raise NotStored("ODM^L in two scalings")
    wins, losses = (
        int(scores.of_study("odm/table2", f"{outcome}[against=SVM]", "ODM^L"))
        for outcome in ("wins", "losses")
    )
    return Claim(
        None,
        "ODM^L in two scalings of C and the lambdas, those of one sample and (5) as it is written. "
        f"{'. '.join(said)}. With those of one sample it is better than SVM on {wins} data sets of "
        f"odm/table2 and worse on {losses} (the paper: better on 17).",
    )


def _two_scalings(scores: StoredScores, study: str) -> str:
    """Compare both scalings with SVM and with the paper's column of one table."""
    names = ("ODM^L", "ODM^L, (5)")
    theirs = reported(study)
    datasets = [
        each for each in scores.datasets(study, names[1], "accuracy") if (each, names[0]) in theirs
    ]
    fits = min(scores.score(study, each, names[1], "accuracy").n_fits for each in datasets)
    n_splits = studies()[study].splits.n_repeats
    if fits < LEAST_SPLITS:
        raise NotStored(f"{study}: {names[1]} on {LEAST_SPLITS} splits")
    ours = {
        name: {each: scores.mean(study, each, name, "accuracy") for each in datasets}
        for name in ("SVM", *names)
    }
    paper = {each: theirs[each, names[0]].mean for each in datasets}
    from_svm, from_paper = (
        [
            sum(abs(ours[name][each] - other[each]) for each in datasets) / len(datasets)
            for name in names
        ]
        for other in (ours["SVM"], paper)
    )
    away = [{each: abs(ours[name][each] - paper[each]) for each in datasets} for name in names]
    nearer = [
        sum(own[each] < other[each] - 0.01 for each in datasets)
        for own, other in (away, reversed(away))
    ]
    return (
        f"{study}, {len(datasets)} data sets, (5) over {'at least ' if fits < n_splits else ''}"
        f"{fits} of {n_splits} splits: mean distance from SVM {from_svm[0]:.3f} and "
        f"{from_svm[1]:.3f}, from the paper's column {from_paper[0]:.3f} and {from_paper[1]:.3f}, "
        f"nearer to it by more than 0.01 on {nearer[0]} and {nearer[1]}"
    )


def odm_lda(scores: StoredScores) -> Claim:
    """The LDA columns."""
    n, better = 0, 0
    for study in ("odm/table2", "odm/table3", "odm/table4"):
        theirs = reported(study)
        for dataset in scores.datasets(study, "LDA", "accuracy"):
            if (dataset, "LDA") in theirs:
                value = theirs[dataset, "LDA"]
                n += 1
                better += scores.mean(study, dataset, "LDA", "accuracy") > value.mean + (
                    value.std or 0
                )
    w8a = scores.mean("odm/table4", "w8a", "LDA", "accuracy")
    text = (
        "The LDA columns of the ODM paper: scikit-learn's LDA is better by more than one standard "
        f"deviation on {better} of {n} (w8a: {w8a:.3f}, "
        f"the paper {reported('odm/table4')['w8a', 'LDA'].mean:.3f})."
    )
    return Claim(2 * better < n, text)


def odm_margins(scores: StoredScores) -> Claim:
    """The margins of ODM^L and ODM lie to the right of those of SVM."""
    study, said, counts = "odm/fig1", [], []
    datasets = scores.datasets(study, "SVM", "margin_mean")
    for method in ("ODM^L", "ODM"):
        larger = [
            each
            for each in datasets
            if scores.mean(study, each, method, "margin_mean")
            > 1.01 * scores.mean(study, each, "SVM", "margin_mean")
        ]
        said.append(f"{method} on {len(larger)} of {len(datasets)} ({named(larger)})")
        counts.append(2 * len(larger) > len(datasets))
    text = (
        "That the margins of ODM^L and ODM are larger than those of SVM for most samples: here the "
        f"mean margin is larger by more than 1 % for {listed(said)} ({study})."
    )
    return Claim(all(counts), text)


def odm_seconds(scores: StoredScores) -> Claim:
    """SVM by stochastic gradients, ODM^L and ODM are faster than LIBLINEAR."""
    study, metric = "odm/fig2", "fit_seconds"
    datasets = scores.datasets(study, "SVM_l", metric)
    faster = {
        method: [
            each
            for each in datasets
            if scores.mean(study, each, method, metric) < scores.mean(study, each, "SVM_l", metric)
        ]
        for method in ("SVM_s", "ODM^L", "ODM")
    }
    said = [f"{method} on {len(each)}" for method, each in faster.items()]
    slower = [each for each in datasets if each not in faster["ODM^L"]]
    text = (
        f"That SVM_s, ODM^L and ODM are faster than LIBLINEAR's SVM: of {len(datasets)} data sets "
        f"{listed(said)} ({study}). ODM^L is slower on {named(slower)}."
    )
    return Claim(all(len(each) == len(datasets) for each in faster.values()), text)


CLAIMS: tuple[Callable[[StoredScores], Claim], ...] = (
    odm_accuracies,
    odm_lead,
    ldm_scalings,
    odm_lda,
    odm_margins,
    odm_seconds,
)
