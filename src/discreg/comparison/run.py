"""Run a comparison on a table and write the report, the results and a fitted model."""

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
from .files import make_folder, remove_drafts, write_whole
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

model = load_model("model.skops")  # no pickle: only known types are loaded
print(model.predict(read_features("{new}", model.expected)))"""
REASONS = {
    "time budget": "the time budget was used up",
    "interrupt": "the run was interrupted",
    None: "some fits exceeded their time limit, or their process died",
}


@dataclass(frozen=True)
class ComparisonResult:
    """Result of a comparison."""

    findings: Findings
    verdict: Verdict | None  # None if no model finished a fold
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
    """Compare the candidates on a table; write results, report and model to a directory.

    Fits stored in the directory are not repeated; see `engine.run` for the time budget.
    """
    experiment = NestedCrossValidation(table, models, n_repeats, n_folds, seed)
    experiment.check()
    make_folder(output)
    with Store(output / STORE, experiment.settings()) as store:
        for name in (RESULTS, REPORT, MODEL):
            remove_drafts(output / name)
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
            findings = _with_model(findings, experiment, store, verdict.best, output / MODEL)
        from .report import write_report  # imports matplotlib, which would delay the first fit

        write_report(output / REPORT, findings)
    return ComparisonResult(findings, verdict, progress)


def _with_model(
    findings: Findings, experiment: NestedCrossValidation, store: Store, name: str, path: Path
) -> Findings:
    """Fit the recommended model to all rows, save it and add it to the findings."""
    try:
        pipeline, seconds = engine.call_in_worker(store, experiment.final, name)
        save_model(TableClassifier.of(pipeline, experiment.table), path)
    except Exception as error:  # the report must be written even without the model
        trouble = f"{name} could not be fitted to all rows and saved: {error}"
        incomplete = " ".join(filter(None, [findings.incomplete, trouble]))
        return replace(findings, incomplete=incomplete)
    return replace(findings, model_file=path.name, final_seconds=seconds)


def _findings(experiment: NestedCrossValidation, store: Store, progress: Progress) -> Findings:
    """Collect the contents of the report from the store, without the final model."""
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
    """Sort results by fold and by the order of the candidates."""
    place = {candidate.name: place for place, candidate in enumerate(experiment.candidates)}
    ordered = results.assign(place=results["model"].map(place))
    return ordered.sort_values(["repeat", "fold", "place"]).drop(columns="place")


def _by_model(
    experiment: NestedCrossValidation,
    store: Store,
    name: str,
    summarise: Callable[[list[NDArray[Any]]], Any],
) -> dict[str, Any]:
    """Summarise the named arrays over the folds of each model that has them."""
    arrays: dict[str, list[NDArray[Any]]] = {}
    keys = experiment.keys()
    for key in keys:
        array = store.array(key, name)
        if array is not None:
            arrays.setdefault(key.model, []).append(array)
    return {model: summarise(each) for model, each in arrays.items()}


def _mean_by_rank(scores: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Compute the mean inner scores of the ranks that all folds have."""
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
    waiting = f" ({listed(rest)} not started)" if rest else ""
    return (
        f"{n_missing} of {progress.n_fits} fits are missing because "
        f"{REASONS[progress.stopped_by]}{waiting}; run the same command again to continue."
    )


def _versions() -> dict[str, str]:
    packages = ("scikit-learn", "numpy", "scipy", "pandas", "skops")
    return {
        "discreg": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
