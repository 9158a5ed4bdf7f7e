"""The job ``discreg compare``: from a table to a report, its numbers and a model to use."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from discreg import __version__

from . import engine
from ._columns import expected_columns
from .comparison import Comparison, long_frame, write_parquet
from .engine import Progress
from .errors import StudyError
from .experiment import Key
from .findings import Findings
from .model_file import save_model
from .report import write_report
from .statistics import Verdict, below_the_best
from .store import Store
from .tables import Table
from .words import listed

__all__ = ["MODEL", "REPORT", "RESULTS", "Compared", "compare"]

STORE, RESULTS, REPORT, MODEL = "results.sqlite", "results.parquet", "report.html", "model.skops"
METRIC = "accuracy"
USAGE = """\
from discreg.studies.model_file import load_model
from discreg.studies.tables import read_features

model = load_model("model.skops")  # no pickle: only known types are read
print(model.predict(read_features("{new}", model.expected)))"""


@dataclass(frozen=True)
class Compared:
    """What a comparison ended with."""

    findings: Findings
    verdict: Verdict | None  # None: no model has finished a fold
    progress: Progress
    trusted: list[str]  # types in the model file that a reader has to trust


def compare(
    table: Table,
    output: Path,
    *,
    models: Sequence[str] | None = None,
    n_repeats: int,
    n_folds: int,
    seed: int = 0,
    n_jobs: int = 1,
    time_budget: float | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Compared:
    """Judge every candidate on a table; write results, report and model into a directory.

    What the directory holds already is not repeated; see `engine.run` for the time budget.
    """
    experiment = Comparison(table, models, n_repeats, n_folds, seed)
    experiment.check()
    if output.exists() and not output.is_dir():
        raise StudyError(f"{output} is a file. Give a directory for the results with --output.")
    output.mkdir(parents=True, exist_ok=True)
    with Store(output / STORE, experiment.settings()) as store:
        progress = engine.run(experiment, store, n_jobs=n_jobs, time_budget=time_budget, tell=tell)
        results = long_frame(store)
        write_parquet(results, output / RESULTS)
        failures = store.failures()
        verdict = below_the_best(results, METRIC, failures=failures) if len(results) else None
        recommended = verdict.best if verdict else None
        trusted, trouble = _written(experiment, recommended, output / MODEL)
        findings = _findings(experiment, store, results, progress, trusted, trouble)
    if verdict is not None:
        write_report(output / REPORT, findings)
    return Compared(findings, verdict, progress, trusted)


def _written(experiment: Comparison, name: str | None, path: Path) -> tuple[list[str], str | None]:
    """Types in the written model that a reader has to trust; and why there is none."""
    if name is None:
        return [], None
    try:
        return _refit(experiment, name, path), None
    except Exception as error:  # the report is worth more than the model
        return [], f"{name} could not be fitted to all rows and written: {error}"


def _refit(experiment: Comparison, name: str, path: Path) -> list[str]:
    """Fit a model to all rows and write it; returns the types in it that a reader has to trust."""
    table = experiment.table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the folds are in the report
        pipeline = experiment.pipeline(name, table.y).fit(table.X, table.y)
    steps = dict(pipeline.steps)
    last = pipeline.steps[-1][0]
    steps[last] = getattr(steps[last], "best_estimator_", steps[last])  # without its search
    return save_model(path, Pipeline(list(steps.items())), expected_columns(table))


def _findings(
    experiment: Comparison,
    store: Store,
    results: pd.DataFrame,
    progress: Progress,
    trusted: Sequence[str],
    trouble: str | None,
) -> Findings:
    table = experiment.table
    done = sorted(store.ended(), key=lambda key: (key.repeat, key.fold))
    arrays = _Arrays(store, done)
    missing = _why_incomplete(progress, _not_begun(experiment, store))
    return Findings(
        name=table.name,
        n_samples=len(table.y),
        n_features=table.X.shape[1],
        class_counts=table.class_counts,
        notes=table.notes,
        judged_by=experiment.judged_by(),
        results=results,
        metric=METRIC,
        usage=USAGE.format(new="new.csv" if isinstance(table.X, pd.DataFrame) else "new.svm"),
        versions=_versions(),
        model_file=MODEL if trusted else None,
        incomplete=" ".join(filter(None, [missing, trouble])) or None,
        failures=store.failures(),
        warnings=store.warnings(),
        confusion={model: np.sum(each, axis=0) for model, each in arrays.of("confusion")},
        labels=[str(label) for label in experiment.classes],
        margins={model: np.concatenate(each) for model, each in arrays.of("margins")},
        rank_scores={model: _mean_by_rank(each) for model, each in arrays.of("rank_scores")},
        histories={model: each[0] for model, each in arrays.of("history")},
    )


@dataclass(frozen=True)
class _Arrays:
    """The arrays that fits have left."""

    store: Store
    keys: Sequence[Key]

    def of(self, name: str) -> Iterator[tuple[str, list[NDArray[Any]]]]:
        """Each model that has left arrays of this name, and those of all its folds."""
        for model in dict.fromkeys(key.model for key in self.keys):
            found = [self.store.array(key, name) for key in self.keys if key.model == model]
            arrays = [array for array in found if array is not None]
            if arrays:
                yield model, arrays


def _mean_by_rank(scores: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ranks that all folds have tried, and the mean of their inner scores."""
    common = set.intersection(*(set(each[0]) for each in scores))
    ranks = np.array(sorted(common))
    means = np.mean([each[1][np.isin(each[0], ranks)] for each in scores], axis=0)
    return ranks, means


def _not_begun(experiment: Comparison, store: Store) -> list[str]:
    """Models of which no fit has been tried."""
    tried = {key.model for key, _ in store.attempts()}
    return [each.name for each in experiment.candidates if each.name not in tried]


def _why_incomplete(progress: Progress, not_begun: Sequence[str]) -> str | None:
    n_missing = progress.n_fits - progress.n_ended
    if not n_missing:
        return None
    reasons = {
        "time budget": "the time budget was used up",
        "interrupt": "the run was interrupted",
        None: "some fits took more than their share of the time, or their process was lost",
    }
    waiting = f" ({listed(not_begun)} not begun)" if not_begun else ""
    return (
        f"{n_missing} of {progress.n_fits} fits are missing because "
        f"{reasons[progress.stopped_by]}{waiting}; the same command continues with them."
    )


def _versions() -> dict[str, str]:
    versions = {"discreg": __version__, "Python": platform.python_version()}
    for package in ("scikit-learn", "numpy", "scipy", "pandas", "skops"):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
