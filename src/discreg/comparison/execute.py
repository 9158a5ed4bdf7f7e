"""Run a comparison and write the report, the results and a fitted model."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from textwrap import shorten
from typing import Any

import pandas as pd
from pebble import ProcessPool

from discreg import __version__
from discreg.base.metrics import metric
from discreg.model_files import save_model
from discreg.tables.classifier import TableClassifier
from discreg.tables.table import Table

from .candidates.models import AFFORDABLE
from .prepare import PreparedComparison
from .report.describe import (
    column_summaries,
    methods_text,
    usage_onnx,
    usage_python,
    usage_shell,
)
from .report.findings import Findings
from .result import MODEL, STATE, Comparison
from .running import engine
from .running.engine import Progress
from .running.experiment import Key
from .running.files import make_folder, remove_drafts, write_whole
from .running.inspect_model import ModelInspection
from .running.nested_cv import NestedCrossValidation
from .running.store import Store
from .statistics.collect import collect
from .statistics.evidence import Evidence
from .statistics.summary import summary_table
from .statistics.thresholds import recall_thresholds
from .statistics.verdict import Verdict, decide
from .words import listed

__all__ = ["REPORT", "RESULTS", "STORE", "execute"]

STORE, RESULTS, REPORT, ONNX = "results.sqlite", "results.parquet", "report.html", "model.onnx"
WRITTEN = (RESULTS, REPORT, MODEL, STATE)
# A fit is stopped after this multiple of its share of `AFFORDABLE`, and not before these seconds.
LIMIT, SHORTEST_LIMIT = 4.0, 60.0
LONGEST_REASON = 300  # characters of an error message
INSPECTION = 0.25, 15.0  # share of the time of the comparison, and seconds, for the inspection
REASONS = {
    "time budget": "the time budget was used up",
    "interrupt": "the run was interrupted",
    None: "some fits exceeded their time limit, or their process died",
}


@dataclass(frozen=True, eq=False)
class _Jobs:
    """What workers do: the fit of a key, or the fit of a model to all rows."""

    experiment: NestedCrossValidation

    def __call__(self, job: Key | str) -> Any:
        this = self.experiment
        if isinstance(job, str):
            return this.final(job)
        if ModelInspection.has(job, this):
            return ModelInspection(this, this.model_of(job).name).run(job)
        return this.run(job)


@dataclass(frozen=True, kw_only=True)
class _Fitted:
    """The recommended model, fitted to all rows."""

    model: TableClassifier | None = None
    file: str | None = None
    trouble: str | None = None


@dataclass(frozen=True, kw_only=True)
class _OnnxFile:
    """The ONNX file of the recommended model, or why there is none."""

    name: str | None = None
    usage: str = ""
    trouble: str | None = None


def execute(
    prepared: PreparedComparison,
    folder: Path,
    *,
    n_jobs: int = 1,
    time_budget: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    is_kept: bool = True,
    show_rows: bool = False,
    onnx: bool = False,
) -> tuple[Comparison, Progress]:
    """Run a comparison; write results, report and model to a folder.

    Fits stored in the folder are not repeated; see `engine.run` for the time budget.

    Parameters
    ----------
    prepared : PreparedComparison
        The experiment.
    folder : Path
        Folder of the store.
    n_jobs : int
        Number of worker processes.
    time_budget : float, optional
        Seconds after which running fits are stopped.
    on_progress : callable, optional
        Called with the progress.
    is_kept : bool
        Whether the folder stays, so that report and results are written to it.
    show_rows : bool
        Whether the report may show predictions of single rows.
    onnx : bool
        Whether to write the recommended model as an ONNX file too.
    """
    experiment = prepared.experiment
    make_folder(folder)
    began = time.monotonic()
    with ExitStack() as stack:
        store = stack.enter_context(Store(folder / STORE, experiment.settings()))
        if is_kept:
            _refuse_foreign_files(folder, store, (*WRITTEN, *([ONNX] if onnx else [])))
        pool = stack.enter_context(engine.open_pool(store, n_jobs, _Jobs(experiment)))
        limit = max(SHORTEST_LIMIT, LIMIT * AFFORDABLE / len(experiment.folds.parts()))
        progress = engine.run(
            experiment,
            store,
            n_jobs=n_jobs,
            time_budget=time_budget,
            fit_limit=limit,
            pool=pool,
            on_progress=on_progress or (lambda progress: None),
        )
        evidence = collect(experiment, store)
        if is_kept:
            write_whole(folder / RESULTS, evidence.results.to_parquet(index=False))
        verdict, table = decide(evidence), summary_table(evidence)
        spent = time.monotonic() - began
        left = None if time_budget is None else max(0.0, time_budget - spent)
        is_done = progress.stopped_by != "interrupt"
        importance = curve = None
        fitted, converted = _Fitted(), _OnnxFile()
        if verdict.recommended is not None:
            fitted = _fit_to_all_rows(prepared, pool, evidence, verdict, folder, is_kept=is_kept)
            if onnx and fitted.file is not None:
                converted = _convert(fitted.model, experiment.table, verdict, folder / ONNX)
            if is_done:
                importance, curve = _inspected(
                    prepared,
                    store,
                    pool,
                    evidence,
                    verdict,
                    n_jobs=n_jobs,
                    allowed=_time_for_inspection(spent, left),
                )
        findings = _findings(
            prepared,
            evidence,
            verdict,
            table,
            model_file=fitted.file,
            onnx_file=converted.name,
            onnx_trouble=converted.trouble,
            usage_onnx=converted.usage,
            importance=importance,
            learning_curve=curve,
            incomplete=_why_incomplete(prepared, store, progress, fitted.trouble, is_kept=is_kept),
            show_rows=show_rows,
        )
        comparison = Comparison(
            evidence=evidence,
            verdict=verdict,
            table=table,
            findings=findings,
            model=fitted.model,
            folder=folder if is_kept else None,
        )
        if is_kept:
            from .report.page import (
                write_report,  # imports matplotlib, which would delay the first fit
            )

            write_report(folder / REPORT, findings)
            comparison.save_state(folder / STATE)
    return comparison, progress


def _refuse_foreign_files(folder: Path, store: Store, names: Sequence[str]) -> None:
    """Refuse to overwrite files that no comparison of this store has written."""
    for name in names:
        remove_drafts(folder / name)
        store.claim(folder / name)


def _fit_to_all_rows(
    prepared: PreparedComparison,
    pool: ProcessPool,
    evidence: Evidence,
    verdict: Verdict,
    folder: Path,
    *,
    is_kept: bool,
) -> _Fitted:
    """Fit the recommended model to all rows in a worker, and save it."""
    experiment, name = prepared.experiment, str(verdict.recommended)
    model = None
    try:
        pipeline = engine.call_in_worker(pool, name)
        positive = None if evidence.positive is None else evidence.classes[evidence.positive]
        model = TableClassifier.of(
            pipeline,
            experiment.table,
            thresholds=recall_thresholds(evidence, name),
            positive=positive,
        )
        if is_kept:
            save_model(model, folder / MODEL)
    except Exception as error:  # the report must be written even without the model
        trouble = f"{name} could not be fitted to all rows and saved: {error}"
        return _Fitted(model=model, trouble=trouble)
    return _Fitted(model=model, file=MODEL if is_kept else None)


def _convert(model: Any, table: Table, verdict: Verdict, path: Path) -> _OnnxFile:
    """Write the recommended model as an ONNX file, or explain why that is not possible."""
    from onnx import TensorProto

    from discreg.onnx import to_onnx

    try:
        converted = to_onnx(model, table.X)
        write_whole(path, converted.SerializeToString())
    except Exception as error:  # skl2onnx raises errors of many types
        reason = shorten(str(error) or type(error).__name__, LONGEST_REASON)
        return _OnnxFile(trouble=f"{verdict.recommended} has no ONNX file: {reason}")
    types = {
        each.name: f"tensor({TensorProto.DataType.Name(each.type.tensor_type.elem_type).lower()})"
        for each in converted.graph.input
    }
    outputs = [each.name for each in converted.graph.output]
    return _OnnxFile(name=path.name, usage=usage_onnx(types, outputs, table))


def _time_for_inspection(spent: float, left: float | None) -> float:
    """Return the seconds that the inspection may take, after a comparison of some seconds."""
    share, least = INSPECTION
    allowed = max(least, share * spent)
    return allowed if left is None else min(left, allowed)


def _inspected(
    prepared: PreparedComparison,
    store: Store,
    pool: ProcessPool,
    evidence: Evidence,
    verdict: Verdict,
    *,
    n_jobs: int,
    allowed: float,
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Compute the importance of columns and the learning curve, if there is time."""
    name = str(verdict.recommended)
    seconds = evidence.results.query("model == @name and metric == 'fit_seconds'")["value"].median()
    inspection = ModelInspection(prepared.experiment, name)
    if inspection.seconds(seconds) > n_jobs * allowed:
        inspection = ModelInspection(prepared.experiment, name, with_curve=False)
    if inspection.seconds(seconds) > n_jobs * allowed:
        return None, None
    engine.run(inspection, store, n_jobs=n_jobs, time_budget=2 * allowed, pool=pool)
    return inspection.importance(store), inspection.learning_curve(store, evidence.results)


def _findings(
    prepared: PreparedComparison,
    evidence: Evidence,
    verdict: Verdict,
    table: pd.DataFrame,
    **found: Any,
) -> Findings:
    experiment = prepared.experiment
    data = experiment.table
    recommended = evidence.contenders.get(verdict.recommended or "")
    return Findings(
        name=data.name,
        source=prepared.source,
        target=data.target,
        date=date.today().isoformat(),
        command=prepared.command,
        folds=experiment.folds.text,
        metric_title=metric(evidence.metric).title,
        evidence=evidence,
        table=table,
        verdict=verdict,
        n_features=data.X.shape[1],
        class_counts=data.class_counts,
        flags=prepared.flags,
        columns=column_summaries(data),
        keeps_rows=recommended is not None and recommended.keeps_rows,
        usage_shell=usage_shell(data),
        usage_python=usage_python(data),
        methods=methods_text(experiment),
        versions=_versions(),
        **found,
    )


def _why_incomplete(
    prepared: PreparedComparison,
    store: Store,
    progress: Progress,
    trouble: str | None,
    *,
    is_kept: bool,
) -> str | None:
    """Explain what is missing; None if nothing is."""
    n_missing = progress.n_fits - progress.n_ended
    reasons = []
    if n_missing:
        begun = {key.model for key, _ in store.attempts()}
        models = prepared.experiment.models.compared
        rest = [model.name for model in models if model.key not in begun]
        waiting = f" ({listed(rest)} not started)" if rest else ""
        how = "run the same command again to continue" if is_kept else "output would store fits"
        reasons.append(
            f"{n_missing} of {progress.n_fits} fits are missing because "
            f"{REASONS[progress.stopped_by]}{waiting}; {how}."
        )
    return " ".join([*reasons, *([trouble] if trouble else [])]) or None


def _versions() -> dict[str, str]:
    packages = ("scikit-learn", "numpy", "scipy", "pandas", "skops")
    return {
        "discreg": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
