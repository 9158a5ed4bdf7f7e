"""The job ``discreg compare``: from a table to a report, its numbers and a model to use."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg import __version__
from discreg.base.errors import InputError
from discreg.model_files import save_model
from discreg.tables.table import Table
from discreg.tables.table_classifier import TableClassifier

from . import engine
from .engine import Progress
from .experiment import Key
from .files import make_folder
from .findings import Findings
from .importing import import_aside
from .nested_cv import Comparison, long_frame, write_parquet
from .statistics import Verdict, below_the_best
from .store import Store
from .words import listed
from .workers import Aside

__all__ = ["MODEL", "REPORT", "RESULTS", "Compared", "compare"]

STORE, RESULTS, REPORT, MODEL = "results.sqlite", "results.parquet", "report.html", "model.skops"
METRIC = "accuracy"
# What only the ending needs: models, report, plots, ranks, tables on disk, model files.
ENDING = (
    "discreg.lowrank",
    "discreg.margin",
    "discreg.representation",
    "discreg.retargeted",
    "discreg.comparison.report",
    "matplotlib.backends.backend_svg",
    "scikit_posthocs",
    "pyarrow.parquet",
    "skops.io",
)
USAGE = """\
from discreg import load_model
from discreg.tables.table import read_features

model = load_model("model.skops")  # no pickle: only known types are read
print(model.predict(read_features("{new}", model.expected)))"""


@dataclass(frozen=True)
class Compared:
    """What a comparison ended with."""

    findings: Findings
    verdict: Verdict | None  # None: no model has finished a fold
    progress: Progress


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
    make_folder(output)
    with Store(output / STORE, experiment.settings()) as store:
        prepared = _Prepared(tell)
        progress = engine.run(
            experiment, store, n_jobs=n_jobs, time_budget=time_budget, tell=prepared.tell
        )
        prepared.wait()
        from .report import write_report

        results = _in_order(long_frame(store), experiment)
        verdict = (
            below_the_best(results, METRIC, failures=store.failures(), n_folds=experiment.folds)
            if len(results)
            else None
        )
        # The model is fitted in another process while this one makes the rest.
        with _final(experiment, verdict) as final:
            write_parquet(results, output / RESULTS)
            findings = _findings(experiment, store, results, progress)
            saved = _saved(experiment, final, output / MODEL)
    findings = replace(
        findings,
        model_file=MODEL if saved.seconds is not None else None,
        final_seconds=saved.seconds,
        incomplete=" ".join(filter(None, [findings.incomplete, saved.trouble])) or None,
    )
    if verdict is not None:
        write_report(output / REPORT, findings)
    return Compared(findings, verdict, progress)


def _in_order(results: pd.DataFrame, experiment: Comparison) -> pd.DataFrame:
    """Results fold by fold in the order of the candidates, whichever fit ended first."""
    place = {candidate.name: place for place, candidate in enumerate(experiment.candidates)}
    order = results.assign(place=results["model"].map(place))
    return results.loc[order.sort_values(["repeat", "fold", "place"], kind="stable").index]


class _Prepared:
    """What the ending needs, imported once fits are under way, when this process has time."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell
        self._imports: Thread | None = None

    def tell(self, progress: Progress) -> None:
        if progress.latest is not None and self._imports is None:
            self._imports = import_aside(*ENDING)
        self._tell(progress)

    def wait(self) -> None:
        if self._imports is not None:
            self._imports.join()


@contextmanager
def _final(experiment: Comparison, verdict: Verdict | None) -> Iterator[_Final | None]:
    """The recommended model while it is being fitted to all rows; None where there is none."""
    if verdict is None or verdict.best is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            fit = stack.enter_context(Aside(experiment.final, verdict.best))
        except InputError as error:
            yield _Final(verdict.best, None, str(error))
        else:
            yield _Final(verdict.best, fit)


@dataclass(frozen=True)
class _Final:
    """A model that is being fitted to all rows."""

    name: str
    fit: Aside | None
    trouble: str | None = None  # why it is not


@dataclass(frozen=True)
class _Saved:
    """What has become of it."""

    seconds: float | None = None  # of the fit; None: there is no file
    trouble: str | None = None  # why there is no file


def _saved(experiment: Comparison, final: _Final | None, path: Path) -> _Saved:
    """Wait for the model and write it."""
    if final is None:
        return _Saved()
    try:
        if final.fit is None:
            raise InputError(final.trouble)
        pipeline, seconds = final.fit.answer()
        save_model(TableClassifier.of(pipeline, experiment.table), path)
        return _Saved(seconds)
    except Exception as error:  # the report is worth more than the model
        trouble = f"{final.name} could not be fitted to all rows and written: {error}"
        return _Saved(trouble=trouble)


def _findings(
    experiment: Comparison, store: Store, results: pd.DataFrame, progress: Progress
) -> Findings:
    """What the comparison found; nothing yet of the model that is written."""
    table = experiment.table
    done = sorted(store.ended(), key=lambda key: (key.repeat, key.fold))
    arrays = _Arrays(store, done)
    return Findings(
        name=table.name,
        n_samples=len(table.y),
        n_features=table.X.shape[1],
        class_counts=table.class_counts,
        notes=table.notes,
        judged_by=experiment.judged_by(),
        results=results,
        n_folds=experiment.folds,
        metric=METRIC,
        usage=USAGE.format(new="new.csv" if isinstance(table.X, pd.DataFrame) else "new.svm"),
        versions=_versions(),
        incomplete=_why_incomplete(progress, _not_begun(experiment, store)),
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
