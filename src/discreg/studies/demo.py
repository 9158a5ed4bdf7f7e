"""The family beside its peers on a small data set: repeated cross-validation, and what it shows."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import RepeatedStratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from discreg.lowrank import LRLRClassifier, LRRRClassifier, SLRRClassifier
from discreg.margin import LDMClassifier, ODMClassifier
from discreg.representation import DRMClassifier
from discreg.retargeted import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier
from discreg.selection import LSRClassifierCV

from .datasets import load_bundled

__all__ = ["BASELINE", "MODELS", "Result", "below_the_best", "evaluate", "report", "run", "verdict"]

Array = NDArray[np.float64]
N_SPLITS, N_REPEATS = 5, 2
LEVEL = 0.05
WIDTH = 88
# Of the searches over penalties only the one that costs about as much as a fit.
MODELS = (
    LSRClassifier(),
    LSRClassifierCV(),
    DLSRClassifier(),
    ReLSRClassifier(),
    GReLSRClassifier(),
    LRLRClassifier(),
    LRRRClassifier(),
    SLRRClassifier(),
    DRMClassifier(),
    ODMClassifier(random_state=0),
    LDMClassifier(random_state=0),
    RidgeClassifier(),
    LinearSVC(random_state=0),
    LogisticRegression(),
)
BASELINE = "majority class"


@dataclass(frozen=True)
class Result:
    """One model's scores, one number a fold."""

    name: str
    accuracy: Array
    balanced_accuracy: Array
    fit_seconds: Array
    gap: float | None  # the largest of all folds; None: the model has no certificate
    n_unconverged: int  # fits that warned of it


def run(dataset: str) -> str:
    """Compare all models on a data set that comes with scikit-learn; return the text to print."""
    X, y = load_bundled(dataset)
    with threadpool_limits(limits=1):
        results = [evaluate(model, X, y) for model in MODELS]
        baseline = evaluate(DummyClassifier(strategy="most_frequent"), X, y, name=BASELINE)
    n_samples, n_features = X.shape
    title = (
        f"{dataset}: {n_samples} samples, {n_features} features, {len(np.unique(y))} classes\n"
        f"{N_REPEATS} x {N_SPLITS}-fold stratified cross-validation of every model with its "
        "defaults,\nafter StandardScaler, on one thread"
    )
    return "\n\n".join([title, report([*results, baseline]), verdict(results)])


def evaluate(model: Any, X: Any, y: Any, *, name: str | None = None) -> Result:
    """Cross-validate one model on standardised features, on the same folds as every other."""
    folds = RepeatedStratifiedKFold(n_splits=N_SPLITS, n_repeats=N_REPEATS, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = cross_validate(
            make_pipeline(StandardScaler(), clone(model)),
            X,
            y,
            cv=folds,
            scoring=("accuracy", "balanced_accuracy"),
            return_estimator=True,
            error_score="raise",
        )
    gaps = [getattr(pipeline[-1], "gap_", None) for pipeline in scores["estimator"]]
    certified = [gap for gap in gaps if gap is not None]
    return Result(
        name=name or type(model).__name__,
        accuracy=scores["test_accuracy"],
        balanced_accuracy=scores["test_balanced_accuracy"],
        fit_seconds=scores["fit_time"],
        gap=max(certified) if certified else None,
        n_unconverged=sum(issubclass(warning.category, ConvergenceWarning) for warning in caught),
    )


def report(results: Sequence[Result]) -> str:
    """Aligned table of the results, and what its columns mean."""
    header = ("model", "accuracy", "balanced", "fit (s)", "gap")
    rows = [
        (
            result.name,
            f"{result.accuracy.mean():.4f} ± {result.accuracy.std(ddof=1):.4f}",
            f"{result.balanced_accuracy.mean():.4f}",
            f"{np.median(result.fit_seconds):.4f}",  # not moved by the fit that compiles
            "-" if result.gap is None else f"{result.gap:.0e}",
        )
        for result in results
    ]
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = [_aligned(row, widths) for row in (header, tuple("-" * w for w in widths), *rows)]
    legend = (
        "accuracy: mean ± standard deviation over the folds; balanced: mean accuracy of the "
        "classes; fit: median seconds of a fit; gap: the largest certified distance of a fit from "
        "its optimum, relative"
    )
    return "\n".join([*lines, "", textwrap.fill(legend, WIDTH)])


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *others])


def verdict(results: Sequence[Result]) -> str:
    """Which differences are within noise, in a sentence; and which fits did not converge."""
    best, below = below_the_best(results)
    others = [each for each in results if each is not best]
    equal = [each.name for each in others if np.isclose(_lead(best, each).mean(), 0)]
    near = [each.name for each in others if each.name not in (*equal, *below)]
    n_folds = len(best.accuracy)
    leads = [
        f"over {_listed(names)} is {judgement}"
        for names, judgement in ((near, "within noise"), (below, "beyond noise"))
        if names
    ]
    lead = f"the lead of {best.name} {', '.join(leads)}" if leads else "no model is below"
    sentence = (
        f"{_listed([best.name, *equal])} {'share' if equal else 'has'} the highest mean accuracy; "
        f"{lead} (paired t-test over the {n_folds} folds, corrected for their overlap and for "
        f"{len(others)} comparisons, {LEVEL:.0%} level)."
    )
    unconverged = [
        f"{each.name} did not converge in {each.n_unconverged} of {n_folds} fits."
        for each in results
        if each.n_unconverged
    ]
    return textwrap.fill(" ".join([sentence, *unconverged]), WIDTH)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def below_the_best(results: Sequence[Result]) -> tuple[Result, list[str]]:
    """The result of highest mean accuracy, and the names of those that are below it beyond noise.

    Training sets of cross-validation overlap, so the variance of a mean difference over J folds is
    taken as (1/J + test size / training size) times that of the differences (Nadeau and Bengio,
    "Inference for the Generalization Error", Machine Learning 52, 2003).
    """
    best = max(results, key=lambda result: result.accuracy.mean())
    others = [result for result in results if result is not best]
    p_values = [_paired_p_value(_lead(best, other)) for other in others]
    below = set()
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[place] > LEVEL / (len(others) - rank):  # Holm's correction
            break
        below.add(others[place].name)
    return best, [other.name for other in others if other.name in below]


def _lead(best: Result, other: Result) -> Array:
    return best.accuracy - other.accuracy


def _paired_p_value(differences: Array) -> float:
    """Two-sided p-value of the mean of differences over the folds of cross-validation."""
    mean, n_folds = differences.mean(), len(differences)
    if np.isclose(mean, 0):
        return 1.0
    error = differences.std(ddof=1) * np.sqrt(1 / n_folds + 1 / (N_SPLITS - 1))
    return float(2 * stats.t.sf(abs(mean) / error, n_folds - 1)) if error > 0 else 0.0
