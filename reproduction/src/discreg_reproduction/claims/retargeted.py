"""Claims of the papers on ReLSR and GReLSR."""

from __future__ import annotations

from collections.abc import Callable

from discreg.comparison.words import listed
from discreg_reproduction.paper_values import reported
from discreg_reproduction.papers import studies
from discreg_reproduction.stored import NotStored, StoredScores
from discreg_reproduction.views.baselines import ROUNDING

from ._shared import EQUAL, Claim, gain, named

__all__ = ["CLAIMS"]


def relsr_targets(scores: StoredScores) -> Claim:
    """The losses of Table I."""
    study = "relsr/table1"
    theirs = reported(study)
    equal = sum(
        abs(scores.mean(study, *key, "loss") - value.mean) <= 0.005 + ROUNDING
        for key, value in theirs.items()
    )
    text = f"{equal} of {len(theirs)} losses of {study} agree to the printed digit."
    return Claim(equal == len(theirs), text)


def relsr_objectives(scores: StoredScores) -> Claim:
    """The objective of ReLSR is below that of DLSR, and that below that of LSR."""
    study = "relsr/fig4"
    datasets = scores.datasets(study, "ReLSR", "objective")
    ordered = sum(
        scores.mean(study, each, "ReLSR", "objective")
        < scores.mean(study, each, "DLSR", "objective")
        < scores.mean(study, each, "LSR", "objective")
        for each in datasets
    )
    text = (
        "The final objective of ReLSR is below that of DLSR, and that of DLSR below that of LSR, "
        f"on {ordered} of {len(datasets)} data sets ({study})."
    )
    return Claim(ordered == len(datasets), text)


def relsr_accuracy(scores: StoredScores) -> Claim:
    """ReLSR is more accurate than DLSR, and DLSR than LSR."""
    study = "relsr/fig2"
    above, n = _compared(scores, study, "DLSR", "LSR")
    least, _ = _compared(scores, study, "ReLSR", "DLSR", strictly=False)
    ranks = {
        place[2]: score.mean
        for place, score in scores.by_place.items()
        if (place[0], place[3]) == ("relsr/fig3", "mean_rank")
    }
    limit = scores.of_study("relsr/fig3", "critical_difference")
    first = min(ranks, key=ranks.__getitem__)
    beyond = [each for each in ranks if ranks[each] - ranks[first] > limit]
    text = (
        f"DLSR is more accurate than LSR on {len(above)} of {n} data sets and ReLSR at least as "
        f"accurate as DLSR on {len(least)} ({study}). {first} has the best mean rank of the "
        f"{len(ranks)} models; its lead exceeds the critical difference over {named(beyond)} only "
        "(relsr/fig3)."
    )
    return Claim(2 * len(above) > n and 2 * len(least) > n and first == "ReLSR", text)


def grelsr_accuracy(scores: StoredScores) -> Claim:
    """GReLSR is more accurate than ReLSR: on six data sets of ten with a constant weight."""
    study = "grelsr/fig1"
    said, wins = [], []
    for method, other in (("GReLSR1", "ReLSR"), ("GReLSR2", "ReLSR")):
        above, n = _compared(scores, study, method, other)
        most = max((gain(scores, study, each, method, other) for each in above), default=0.0)
        said.append(f"{method} is above {other} on {named(above)}, by at most {most:.3f}")
        wins.append(len(above))
    text = (
        f"GReLSR compared with ReLSR: of {n} data sets {listed(said)} ({study}). In the "
        "paper GReLSR1 is above ReLSR on six of ten, among them Iris, DNA and Glass."
    )
    optima = "GReLSR1, optimum", "ReLSR, optimum"
    both = list(_with_equal_fits(scores, study, *optima))
    if both:
        above = [each for each in both if gain(scores, study, each, *optima) > EQUAL]
        text += (
            f" At the optimum GReLSR1 is above ReLSR on {len(above)} of {len(both)} ("
            + "; ".join(
                f"{each} {gain(scores, study, each, *optima):+.3f}".replace("-", "−")
                for each in both
            )
            + ")."
        )
    return Claim(all(2 * each > n for each in wins), text)


def _with_equal_fits(scores: StoredScores, study: str, *methods: str) -> dict[str, int]:
    """Return the data sets with as many fits of each method, and their number."""
    fits = {
        (place[1], place[2]): score.n_fits
        for place, score in scores.by_place.items()
        if (place[0], place[3]) == (study, "accuracy")
    }
    counts = {
        dataset: {fits.get((dataset, method), 0) for method in methods}
        for dataset in studies()[study].datasets
    }
    return {dataset: min(each) for dataset, each in counts.items() if len(each) == 1 and any(each)}


def grelsr_optimum(scores: StoredScores) -> Claim:
    """Accuracy against the group penalty, by thirty iterations and at the optimum."""
    study, method, exact = "grelsr/fig3", "GReLSR", "GReLSR, optimum"
    said = []
    for dataset in scores.datasets_at(study, exact, "accuracy"):
        few = scores.at_values(study, dataset, method, "accuracy")
        best = scores.at_values(study, dataset, exact, "accuracy")
        largest = max(best, key=float)
        at = f"accuracy[group_penalty={largest}]"
        if largest in few and (
            scores.score(study, dataset, method, at).n_fits
            == (n := scores.score(study, dataset, exact, at).n_fits)
        ):
            said.append(
                f"{dataset}, {n} splits: at the weight {float(largest):g} {few[largest]:.3f} by "
                f"thirty iterations and {best[largest]:.3f} at the optimum; at the best weight "
                f"{max(few.values()):.3f} and {max(best.values()):.3f}"
            )
    if not said:
        raise NotStored(study)
    text = (
        f"The figures of GReLSR show thirty iterations, which do not reach the optimum ({study}). "
        f"{'. '.join(said)}."
    )
    return Claim(None, text)


def grelsr_faces(scores: StoredScores) -> Claim:
    """GReLSR1 is the best method on the face data sets as a whole."""
    study = "grelsr/fig2"
    best, first = {}, 0
    methods = ("L1-SVM", "L2-SVM", "MC-SVM", "LR", "LSR", "DLSR", "ReLSR", "CRC", "GReLSR1")
    for dataset in ("AR", "CMU-PIE", "Extended Yale B"):
        top = {m: max(scores.at_values(study, dataset, m, "accuracy").values()) for m in methods}
        winner = max(top, key=top.__getitem__)
        best[dataset] = f"{winner} on {dataset} ({top[winner]:.3f}, GReLSR1 {top['GReLSR1']:.3f})"
        first += top["GReLSR1"] >= top[winner] - EQUAL
    text = (
        f"GReLSR1 on faces: it is the best method on {first} of {len(best)} data sets ({study}). "
        f"The best are {listed(list(best.values()))}."
    )
    return Claim(2 * first > len(best), text)


def within_class_faces(scores: StoredScores) -> Claim:
    """What the within-class penalty, which no paper has, gains on faces."""
    study, said = "grelsr/fig2", []
    for method in ("LSR", "ReLSR"):
        for dataset in ("AR", "CMU-PIE", "Extended Yale B"):
            try:
                with_it = scores.at_values(study, dataset, f"{method}, within-class", "accuracy")
            except NotStored:
                continue
            without = max(scores.at_values(study, dataset, method, "accuracy").values())
            said.append(f"{method} on {dataset} {without:.3f} and {max(with_it.values()):.3f}")
    if not said:
        raise NotStored(study)
    return Claim(
        None,
        f"Without and with the penalty within_class, which no paper has: {'; '.join(said)} "
        f"({study}). ReLSR without it is that of thirty iterations, with it the optimum.",
    )


def _compared(
    scores: StoredScores, study: str, method: str, other: str, *, strictly: bool = True
) -> tuple[list[str], int]:
    """List the data sets on which a method is more (or at least as) accurate than another."""
    datasets = scores.datasets(study, method, "accuracy")
    least = EQUAL if strictly else -EQUAL
    return [each for each in datasets if gain(scores, study, each, method, other) > least], len(
        datasets
    )


CLAIMS: tuple[Callable[[StoredScores], Claim], ...] = (
    relsr_targets,
    relsr_objectives,
    relsr_accuracy,
    grelsr_accuracy,
    grelsr_optimum,
    grelsr_faces,
    within_class_faces,
)
