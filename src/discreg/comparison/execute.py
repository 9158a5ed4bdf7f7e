"""Run a comparison and write the report, the predictions and a fitted model."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
from pebble import ProcessPool

from discreg import __version__
from discreg.model_files import save_model
from discreg.tables.classifier import Rule, TableClassifier
from discreg.tables.table import TestRows

from .predict import score_rows
from .prepare import Plan, PreparedComparison
from .report.findings import (
    Findings,
    column_summaries,
    methods_text,
    n_parameters,
    specification,
)
from .result import MODEL, PREDICTIONS, STATE, Comparison
from .running import engine
from .running.engine import Progress
from .running.nested_cv import LearningCurve, NestedCrossValidation, importance
from .running.store import Key, Store, make_folder, remove_drafts, write_whole
from .statistics.evidence import Evidence, collect
from .statistics.performance import (
    Measured,
    measure,
    operating_points,
    rule_for,
    subgroups,
    thresholds_to_store,
)
from .statistics.scores import summary_table
from .statistics.verdict import Verdict, decide
from .words import listed

STORE, REPORT, ONNX = "results.sqlite", "report.html", "model.onnx"
WRITTEN = (PREDICTIONS, REPORT, MODEL, STATE)
MOST_SECONDS = 120.0  # that all fits of a model that nobody named may take on one core
FIT_LIMIT = 60.0  # seconds of computing after which one of these fits is stopped
LONGEST_REASON = 300  # characters of an error message
CURVE_SHARE, CURVE_SECONDS = 0.25, 15.0  # of the comparison's time that a learning curve may take
REASONS = {
    "time budget": "the time budget was used up",
    "interrupt": "the run was interrupted",
    None: "some models took too long, or their process died",
}


@dataclass(frozen=True, eq=False)
class _Jobs:
    """What workers do: the fit of a key, or the fit of a model to all rows."""

    experiment: NestedCrossValidation

    def __call__(self, job: Key | str) -> Any:
        this = self.experiment
        if isinstance(job, str):
            return this.final(job)
        if LearningCurve.has(job, this):
            return LearningCurve(this, this.model_of(job).name).run(job)
        return this.run(job)


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of the recommended model, or why there are none."""

    model: TableClassifier | None = None
    model_file: str | None = None
    specification: str = ""
    trouble: str | None = None
    onnx_file: str | None = None
    onnx_trouble: str | None = None


def execute(
    prepared: PreparedComparison,
    folder: Path,
    *,
    n_jobs: int = 1,
    time_budget: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    is_kept: bool = True,
    onnx: bool = False,
) -> tuple[Comparison, Progress]:
    """Run a comparison; write report, predictions and model to a folder.

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
        Whether the folder stays, so that files are written to it.
    onnx : bool
        Whether to write the recommended model as an ONNX file too.
    """
    experiment = prepared.experiment
    make_folder(folder)
    began = time.monotonic()
    with ExitStack() as stack:
        store = stack.enter_context(Store(folder / STORE, experiment.settings()))
        if is_kept:
            for name in (*WRITTEN, *([ONNX] if onnx else [])):
                remove_drafts(folder / name)
                store.claim(folder / name)  # refuses files that no comparison has written
        pool = stack.enter_context(engine.open_pool(store, n_jobs, _Jobs(experiment)))
        is_limited = not experiment.models.are_named
        progress = engine.run(
            experiment,
            store,
            n_jobs=n_jobs,
            time_budget=time_budget,
            fit_limit=FIT_LIMIT if is_limited else None,
            most_seconds=MOST_SECONDS if is_limited else None,
            pool=pool,
            on_progress=on_progress or (lambda progress: None),
        )
        evidence = collect(experiment, store)
        verdict = decide(evidence, prepared.flags, prepared.grouped_by)
        evidence = _with_rule(evidence, verdict, prepared.plan)
        files, curve = Files(), []
        if verdict.recommended is not None:
            files = _files(prepared, pool, evidence, verdict, folder, is_kept=is_kept, onnx=onnx)
            if progress.stopped_by != "interrupt":
                spent = time.monotonic() - began
                left = np.inf if time_budget is None else max(0.0, time_budget - spent)
                allowed = min(left, max(CURVE_SECONDS, CURVE_SHARE * spent))
                name = verdict.recommended
                curve = _learning_curve(prepared, store, pool, evidence, name, n_jobs, allowed)
        elif is_kept:
            (folder / MODEL).unlink(missing_ok=True)  # of an earlier run into this folder
        comparison = Comparison(
            evidence=evidence,
            verdict=verdict,
            table=summary_table(evidence),
            findings=_findings(
                prepared,
                evidence,
                verdict,
                files,
                incomplete=_why_incomplete(prepared, store, progress, files, is_kept=is_kept),
                importance=importance(experiment, store, verdict.best) if verdict.best else [],
                learning_curve=curve,
            ),
            model=files.model,
            folder=folder if is_kept else None,
        )
        if is_kept:
            comparison.report(folder / REPORT)
            comparison.save(folder)
    return comparison, progress


def _with_rule(evidence: Evidence, verdict: Verdict, plan: Plan) -> Evidence:
    """Replace the decision rule by the one that the user asks for."""
    wish, rule = plan.decision, None
    if wish.costs is not None:
        weights = [wish.costs.get(str(label), 1.0) for label in evidence.classes]
        rule = Rule("the smallest expected cost", tuple(weights), evidence.rule.positive)
    elif verdict.best is not None and (wish.recall is not None or wish.precision is not None):
        sample = evidence.sample(verdict.best)
        rule = rule_for(sample, recall=wish.recall, precision=wish.precision)
    return evidence if rule is None else replace(evidence, rule=rule)


def _files(
    prepared: PreparedComparison,
    pool: ProcessPool,
    evidence: Evidence,
    verdict: Verdict,
    folder: Path,
    *,
    is_kept: bool,
    onnx: bool,
) -> Files:
    """Fit the recommended model to all rows in a worker, and save it."""
    table, name = prepared.experiment.table, str(verdict.recommended)
    model = None
    try:
        pipeline = engine.call_in_worker(pool, name)
        points = operating_points(evidence.sample(name))
        recalls = thresholds_to_store(points) or None
        model = TableClassifier.of(pipeline, table, rule=evidence.rule, recalls=recalls)
        if is_kept:
            save_model(model, folder / MODEL)
    except Exception as error:  # the report must be written even without the model
        trouble = f"{name} could not be fitted to all rows and saved: {error}"
        return Files(model=model, trouble=trouble)
    if not is_kept:
        return Files(model=model)
    files = Files(model=model, model_file=MODEL)
    if not onnx:
        return files
    try:
        from discreg.onnx import to_onnx

        converted = to_onnx(model, table.X)
        write_whole(folder / ONNX, converted.SerializeToString())
    except Exception as error:  # skl2onnx raises errors of many types
        reason = shorten(str(error) or type(error).__name__, LONGEST_REASON)
        return replace(files, onnx_trouble=f"{name} has no ONNX file: {reason}")
    return replace(files, onnx_file=ONNX)


def _learning_curve(
    prepared: PreparedComparison,
    store: Store,
    pool: ProcessPool,
    evidence: Evidence,
    name: str,
    n_jobs: int,
    seconds: float,
) -> list[dict[str, float]]:
    """Compute the learning curve of a model; empty if it would take longer than some seconds."""
    curve = LearningCurve(prepared.experiment, name)
    if curve.seconds(evidence.contenders[name].seconds[0]) > n_jobs * seconds:
        return []
    engine.run(curve, store, n_jobs=n_jobs, time_budget=2 * seconds, pool=pool)
    return curve.points(store, evidence.scores_of_folds(name))


def _on_test(model: TableClassifier | None, test: TestRows | None) -> list[Measured]:
    """Measure the recommended model once on the test table."""
    if model is None or test is None:
        return []
    y = np.searchsorted(model.classes_, test.y)
    return measure(score_rows(model, test.X, y, test.weights, test.groups))


def _findings(
    prepared: PreparedComparison,
    evidence: Evidence,
    verdict: Verdict,
    files: Files,
    **found: Any,
) -> Findings:
    experiment, plan = prepared.experiment, prepared.plan
    data = experiment.table
    groups: list[Any] = []
    if verdict.best is not None and prepared.subgroups is not None:
        sample = evidence.sample(verdict.best)
        groups = subgroups(sample, prepared.subgroups[sample.rows])
    return Findings(
        name=data.name,
        source=plan.source,
        target=data.target,
        date=date.today().isoformat(),
        command=plan.command,
        folds=experiment.folds.text,
        n_features=data.X.shape[1],
        class_counts=data.class_counts,
        flags=prepared.flags,
        columns=column_summaries(data),
        subgroup=plan.subgroup,
        subgroups=groups,
        test=_on_test(files.model, prepared.test),
        n_test=0 if prepared.test is None else len(prepared.test.y),
        model_file=files.model_file,
        onnx_file=files.onnx_file,
        onnx_trouble=files.onnx_trouble,
        specification="" if files.model is None else specification(files.model.pipeline[-1]),
        methods=methods_text(experiment, evidence),
        versions=_versions(),
        n_parameters=n_parameters(data),
        seed=experiment.seed,
        **found,
    )


def _why_incomplete(
    prepared: PreparedComparison,
    store: Store,
    progress: Progress,
    files: Files,
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
        if progress.stopped_by is None:
            how = "models that are named as candidates have no limit"
        reasons.append(
            f"{n_missing} of {progress.n_fits} fits are missing because "
            f"{REASONS[progress.stopped_by]}{waiting}; {how}."
        )
    return " ".join([*reasons, *([files.trouble] if files.trouble else [])]) or None


def _versions() -> dict[str, str]:
    packages = ("scikit-learn", "numpy", "scipy", "pandas", "skops")
    return {
        "discreg": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
