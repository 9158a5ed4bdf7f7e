"""Run the fits of studies and write the reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.comparison.running import engine
from discreg.comparison.running.engine import Progress
from discreg.comparison.running.store import Key, Store, make_folder, write_whole

from .claims import Claim, claims_of
from .experiment import (
    Reproduction,
    chosen_studies,
    prepared,
    study_and_label,
)
from .pages import Section, console_text, markdown, write_page
from .paper_values import reported
from .protocol import Study
from .stored import Place, StoredScores, origin, scores_of
from .views import Agreement, Evidence, show
from .views.blocks import Score

__all__ = ["ReproductionResult", "reproduce"]

STORE, RESULTS, REPORT = "results.sqlite", "results.parquet", "report.html"
MEANS = "results.csv"
TEXT, IMAGES = "reproduction.md", "images"
NOT_QUICK = "not in the quick form"
NOT_AVAILABLE = "data not available here; see discreg-reproduce datasets"
LONGEST_TEXT = 160
SHOWN_ARRAYS = ("history", "margins", "singular_values", "coefficients")


@dataclass(frozen=True)
class ReproductionResult:
    """Result of a run of studies."""

    sections: tuple[Section, ...]
    texts: tuple[str, ...]  # for the terminal, one per study
    progress: Progress


def reproduce(
    name: str | None,
    output: Path,
    *,
    data_dir: Path | None = None,
    quick: bool = False,
    n_jobs: int = 1,
    time_budget: float | None = None,
    earlier: Path | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> ReproductionResult:
    """Run the studies of a paper, one study, or all; write the reports to a directory.

    All studies share one store, and a quick run computes a part of the fits of the full run. Stored
    fits are not repeated. The means of an earlier run, its ``results.csv``, are shown for a method
    on a data set of which this run has fewer fits.
    """
    means_before = StoredScores() if earlier is None else StoredScores.read(earlier)
    chosen = chosen_studies(name)
    experiment = Reproduction([study.name for study in chosen], data_dir, quick)
    make_folder(output)
    with Store(output / STORE, experiment.settings()) as store:
        progress = engine.run(
            experiment, store, n_jobs=n_jobs, time_budget=time_budget, on_progress=on_progress
        )
        results = store.results()
        write_whole(output / RESULTS, results.to_parquet(index=False))
        shown = [_section(experiment, study, store, results, means_before) for study in chosen]
    sections = tuple(section for section, _ in shown)
    means = StoredScores({place: each for _, found in shown for place, each in found.items()})
    means.write(output / MEANS)
    claims = claims_of(means)
    write_page(output / REPORT, sections, claims)
    _write_markdown(output, sections, claims)
    return ReproductionResult(sections, tuple(map(console_text, sections)), progress)


def _write_markdown(output: Path, sections: Sequence[Section], claims: Sequence[Claim]) -> None:
    text, pictures = markdown(sections, claims, images=IMAGES)
    (output / TEXT).write_text(text, encoding="utf-8")
    (output / IMAGES).mkdir(exist_ok=True)
    for name, svg in pictures.items():
        (output / IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")


def _section(
    experiment: Reproduction,
    study: Study,
    store: Store,
    results: pd.DataFrame,
    means_before: StoredScores,
) -> tuple[Section, dict[Place, Score]]:
    """Build the section of one study from the stored fits, and the means of its results."""
    earlier = {
        **means_before.earlier(study.shares or study.name),
        **means_before.earlier(study.name),
    }
    keys = experiment.keys_of(study)
    ended, errors = store.ended(), store.failures()
    failures = {key: errors[key] for key in keys if key in errors and key in ended}
    lost = {key: errors[key] for key in keys if key in errors and key not in ended}
    done = [key for key in keys if key in ended and key not in failures]
    majority = _majority_rates(store, study, done, experiment.data_dir, earlier)
    available = [label for label in majority if label not in experiment.missing[study.name]]
    evidence = Evidence(
        study,
        _of_study(results, keys),
        arrays=_first_arrays(store, done),
        majority=majority,
        majority_of_all=_majority_of_all(study, available, experiment.data_dir),
        missing={
            **dict.fromkeys(experiment.left_out(study), NOT_QUICK),
            **dict.fromkeys(experiment.missing[study.name], NOT_AVAILABLE),
        },
        earlier=earlier,
    )
    older = evidence.n_earlier_fits
    own = [key for key in done if (study_and_label(key)[1], key.model) not in older]
    n_done = len(own) + sum(older.values())
    blocks = show(evidence)
    agreements = [block for block in blocks if isinstance(block, Agreement)]
    means = scores_of(
        evidence, agreements[0] if agreements else None, n_fits=len(keys), n_done=n_done
    )
    notes = [
        origin(StoredScores(means), study.name),
        *_notes(experiment.quick, own, failures, lost, store.warnings()),
    ]
    section = Section(
        study,
        blocks,
        n_fits=len(keys),
        n_missing_fits=len(keys) - n_done,
        note=" ".join(filter(None, notes)),
        n_earlier_fits=sum(older.values()),
    )
    return section, means


def _of_study(results: pd.DataFrame, keys: Sequence[Key]) -> pd.DataFrame:
    """Select the results of some fits, with the paper's names of the data sets."""
    wanted = pd.MultiIndex.from_tuples(keys, names=list(Key._fields)) if keys else None
    found = pd.MultiIndex.from_frame(results[list(Key._fields)])
    own = results[found.isin(wanted)] if wanted is not None else results.iloc[:0]
    labels = {key.dataset: study_and_label(key)[1] for key in keys}
    return own.assign(dataset=own["dataset"].map(labels)).reset_index(drop=True)


def _first_arrays(
    store: Store, done: Sequence[Key]
) -> dict[tuple[str, str], Mapping[str, NDArray[Any]]]:
    """Return the arrays of the first fit of each method on each data set."""
    arrays: dict[tuple[str, str], Mapping[str, NDArray[Any]]] = {}
    for key in done:
        place = study_and_label(key)[1], key.model
        if place not in arrays:
            found = {name: store.array(key, name) for name in SHOWN_ARRAYS}
            arrays[place] = {name: array for name, array in found.items() if array is not None}
    return arrays


def _majority_rates(
    store: Store,
    study: Study,
    done: Sequence[Key],
    data_dir: Path | None,
    earlier: Mapping[tuple[str, str, str], Score],
) -> dict[str, float]:
    """Compute the mean rate of the most frequent class in the test samples, or in all samples."""
    rates: dict[str, list[float]] = {}
    for key in done:
        confusion = store.array(key, "confusion")
        if confusion is not None:
            counts = confusion.sum(axis=1)
            rates.setdefault(study_and_label(key)[1], []).append(counts.max() / counts.sum())
    for label in dict.fromkeys(study_and_label(key)[1] for key in done):
        if label not in rates:
            rates[label] = [_majority_rate(study, label, data_dir)]
    before = {
        label: score.mean
        for (label, _, metric), score in earlier.items()
        if metric == "majority_rate"
    }
    return before | {label: float(np.mean(each)) for label, each in rates.items()}


def _majority_of_all(
    study: Study, labels: Iterable[str], data_dir: Path | None
) -> dict[str, float]:
    """Compute the rates in all samples, if accuracies of the paper are compared with them."""
    if study.metric != "accuracy" or not reported(study.name):
        return {}
    return {label: _majority_rate(study, label, data_dir) for label in labels}


def _majority_rate(study: Study, label: str, data_dir: Path | None) -> float:
    counts = np.unique(prepared(study.name, label, data_dir).y, return_counts=True)[1]
    return float(counts.max() / counts.sum())


def _notes(
    quick: bool,
    done: Sequence[Key],
    failures: Mapping[Key, str],
    lost: Mapping[Key, str],
    warnings: Mapping[Key, Sequence[str]],
) -> Iterator[str]:
    """Yield notes on the quick form, on failed fits and on warnings."""
    if quick:
        n_splits = len({(key.repeat, key.fold) for key in done})
        yield f"This is the quick form: {n_splits} of the splits, some of the data sets."
    said = {key: warnings[key][0] for key in done if key in warnings}
    for texts, words in (
        (failures, "{fits} could not be made ({first})."),
        (lost, "{fits} did not end ({first}); the same command tries again."),
        (said, "{n_fits} of the fits warned ({first})."),
    ):
        for method in dict.fromkeys(key.model for key in texts):
            first, *others = (text for key, text in texts.items() if key.model == method)
            n_fits = 1 + len(others)
            yield f"{method}: " + words.format(
                n_fits=n_fits,
                fits=f"{n_fits} fit{'' if n_fits == 1 else 's'}",
                first=shorten(first.splitlines()[0], LONGEST_TEXT),
            )
