"""A comparison from a table to a report, its numbers and a fitted model."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg import __version__
from discreg.model_files import save_model
from discreg.tables.classifier import TableClassifier
from discreg.tables.table import Table

from . import engine
from .engine import Progress
from .files import make_folder, write_whole
from .findings import Findings
from .nested_cv import N_FOLDS, N_REPEATS, NestedCrossValidation
from .statistics import Verdict, below_the_best
from .store import Store
from .words import listed

__all__ = ["ComparisonResult", "compare"]

STORE, RESULTS, REPORT, MODEL = "results.sqlite", "results.parquet", "report.html", "model.skops"
METRIC = "accuracy"
USAGE = """\
from discreg import load_model
from discreg.tables.table import read_features

model = load_model("model.skops")  # no pickle: only known types are read
print(model.predict(read_features("{new}", model.expected)))"""
REASONS = {
    "time budget": "the time budget was used up",
    "interrupt": "the run was interrupted",
    None: "some fits took more than their share of the time, or their process was lost",
}


@dataclass(frozen=True)
class ComparisonResult:
    """What a comparison found, and how far it came."""

    findings: Findings
    verdict: Verdict | None  # None: no model has finished a fold
    progress: Progress


def compare(
    table: Table,
    output: Path,
    *,
    models: Sequence[str] | None = None,
    n_repeats: int = N_REPEATS,
    n_folds: int = N_FOLDS,
    seed: int = 0,
    n_jobs: int = 1,
    time_budget: float | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> ComparisonResult:
    """Judge the candidates on a table; write results, report and model into a directory.

    Fits that the directory holds are not repeated; see `engine.run` for the time budget.
    """
    experiment = NestedCrossValidation(table, models, n_repeats, n_folds, seed)
    experiment.check()
    make_folder(output)
    with Store(output / STORE, experiment.settings()) as store:
        progress = engine.run(
            experiment, store, n_jobs=n_jobs, time_budget=time_budget, on_progress=on_progress
        )
        findings = _findings(experiment, store, progress)
    write_whole(output / RESULTS, findings.results.to_parquet(index=False))
    if not len(findings.results):
        return ComparisonResult(findings, None, progress)
    verdict = below_the_best(
        findings.results, METRIC, failures=findings.failures, n_folds=experiment.folds
    )
    if verdict.best is not None:
        findings = _with_model(findings, experiment, verdict.best, output / MODEL)
    from .report import write_report  # with matplotlib, which would delay the first fit

    write_report(output / REPORT, findings)
    return ComparisonResult(findings, verdict, progress)


def _with_model(
    findings: Findings, experiment: NestedCrossValidation, name: str, path: Path
) -> Findings:
    """The findings with the recommended model, which is fitted to all rows and written."""
    try:
        pipeline, seconds = engine.call_in_worker(experiment.final, name)
        save_model(TableClassifier.of(pipeline, experiment.table), path)
    except Exception as error:  # the report is worth more than the model
        trouble = f"{name} could not be fitted to all rows and written: {error}"
        incomplete = " ".join(filter(None, [findings.incomplete, trouble]))
        return replace(findings, incomplete=incomplete)
    return replace(findings, model_file=path.name, final_seconds=seconds)


def _findings(experiment: NestedCrossValidation, store: Store, progress: Progress) -> Findings:
    """What the fits in the store show, without the model that is written later."""
    table = experiment.table
    return Findings(
        name=table.name,
        n_samples=len(table.y),
        n_features=table.X.shape[1],
        class_counts=table.class_counts,
        notes=table.notes,
        judged_by=experiment.judged_by(),
        results=_in_order(store.results(), experiment),
        n_folds=experiment.folds,
        metric=METRIC,
        usage=USAGE.format(new="new.csv" if isinstance(table.X, pd.DataFrame) else "new.svm"),
        versions=_versions(),
        incomplete=_why_incomplete(experiment, store, progress),
        failures=store.failures(),
        warnings=store.warnings(),
        confusion=_by_model(experiment, store, "confusion", lambda each: np.sum(each, axis=0)),
        labels=[str(label) for label in experiment.classes],
        margins=_by_model(experiment, store, "margins", np.concatenate),
        rank_scores=_by_model(experiment, store, "rank_scores", _mean_by_rank),
        histories=_by_model(experiment, store, "history", lambda each: each[0]),
    )


def _in_order(results: pd.DataFrame, experiment: NestedCrossValidation) -> pd.DataFrame:
    """Results fold by fold in the order of the candidates, whichever fit ended first."""
    place = {candidate.name: place for place, candidate in enumerate(experiment.candidates)}
    ordered = results.assign(place=results["model"].map(place))
    return ordered.sort_values(["repeat", "fold", "place"]).drop(columns="place")


def _by_model(
    experiment: NestedCrossValidation,
    store: Store,
    name: str,
    summarise: Callable[[list[NDArray[Any]]], Any],
) -> dict[str, Any]:
    """A summary over the folds of each model that has arrays of this name."""
    arrays: dict[str, list[NDArray[Any]]] = {}
    keys = experiment.keys()
    for key in keys:
        array = store.array(key, name)
        if array is not None:
            arrays.setdefault(key.model, []).append(array)
    return {model: summarise(each) for model, each in arrays.items()}


def _mean_by_rank(scores: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ranks that all folds have tried, and the mean of their inner scores."""
    ranks = np.array(sorted(set.intersection(*(set(each[0]) for each in scores))))
    means = np.mean([each[1][np.isin(each[0], ranks)] for each in scores], axis=0)
    return ranks, means


def _why_incomplete(
    experiment: NestedCrossValidation, store: Store, progress: Progress
) -> str | None:
    n_missing = progress.n_fits - progress.n_ended
    if not n_missing:
        return None
    begun = {key.model for key, _ in store.attempts()}
    rest = [each.name for each in experiment.candidates if each.name not in begun]
    waiting = f" ({listed(rest)} not begun)" if rest else ""
    return (
        f"{n_missing} of {progress.n_fits} fits are missing because "
        f"{REASONS[progress.stopped_by]}{waiting}; the same command continues with them."
    )


def _versions() -> dict[str, str]:
    packages = ("scikit-learn", "numpy", "scipy", "pandas", "skops")
    return {
        "discreg": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
