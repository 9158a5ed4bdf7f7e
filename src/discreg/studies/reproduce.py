"""The job ``discreg reproduce``: the papers' tables and figures again, ours beside theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from . import engine
from .comparison import long_frame, write_parquet
from .engine import Progress
from .experiment import Key
from .protocol import Study
from .reproduction import Reproduction, chosen_studies, majority_rate, prepared, study_and_label
from .reproduction_page import Section, console_text, markdown, write_page
from .store import Store
from .views import show

__all__ = ["Reproduced", "reproduce"]

STORE, RESULTS, REPORT = "results.sqlite", "results.parquet", "report.html"
TEXT, IMAGES = "reproduction.md", "images"
NOT_HAD = "data not to be had here; see discreg datasets"
SHOWN_ARRAYS = ("history", "margins", "singular_values", "coefficients")


@dataclass(frozen=True)
class Reproduced:
    """What a run of studies ended with."""

    sections: tuple[Section, ...]
    texts: tuple[str, ...]  # for the terminal, one a study
    progress: Progress


def reproduce(
    name: str | None,
    output: Path,
    *,
    data_dir: Path | None = None,
    quick: bool = False,
    n_jobs: int = 1,
    time_budget: float | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Reproduced:
    """Run the studies of a paper, one of them, or all; write what they show into a directory.

    All studies share one store, and a quick look takes a part of the fits of the full run: what is
    there is not repeated.
    """
    chosen = chosen_studies(name)
    experiment = Reproduction([study.name for study in chosen], data_dir, quick)
    output.mkdir(parents=True, exist_ok=True)
    with Store(output / STORE, experiment.settings()) as store:
        progress = engine.run(experiment, store, n_jobs=n_jobs, time_budget=time_budget, tell=tell)
        results = long_frame(store)
        write_parquet(results, output / RESULTS)
        sections = tuple(_section(experiment, study, store, results) for study in chosen)
    write_page(output / REPORT, sections)
    _write_markdown(output, sections)
    return Reproduced(sections, tuple(map(console_text, sections)), progress)


def _write_markdown(output: Path, sections: Sequence[Section]) -> None:
    text, pictures = markdown(sections, images=IMAGES)
    (output / TEXT).write_text(text, encoding="utf-8")
    (output / IMAGES).mkdir(exist_ok=True)
    for name, svg in pictures.items():
        (output / IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")


def _section(
    experiment: Reproduction, study: Study, store: Store, results: pd.DataFrame
) -> Section:
    """What one study shows, of the fits that are in the store."""
    keys = experiment.keys_of(study)
    done = [key for key in keys if key in store.ended()]
    failures = {key: error for key, error in store.failures().items() if key in keys}
    blocks = show(
        study,
        _of_study(results, keys),
        arrays=_first_arrays(store, done),
        majority=_majority_rates(done, experiment.data_dir),
        missing=dict.fromkeys(experiment.missing[study.name], NOT_HAD),
    )
    return Section(
        study,
        blocks,
        n_fits=len(keys),
        n_missing_fits=len(keys) - len(done),
        note=_note(failures),
    )


def _of_study(results: pd.DataFrame, keys: Sequence[Key]) -> pd.DataFrame:
    """The results of some fits, with the paper's names of the data sets."""
    wanted = pd.MultiIndex.from_tuples(keys, names=list(Key._fields)) if keys else None
    found = pd.MultiIndex.from_frame(results[list(Key._fields)])
    own = results[found.isin(wanted)] if wanted is not None else results.iloc[:0]
    labels = {key.dataset: study_and_label(key)[1] for key in keys}
    return own.assign(dataset=own["dataset"].map(labels)).reset_index(drop=True)


def _first_arrays(
    store: Store, done: Sequence[Key]
) -> dict[tuple[str, str], Mapping[str, NDArray[Any]]]:
    """The arrays of the first fit of each method on each data set."""
    arrays: dict[tuple[str, str], Mapping[str, NDArray[Any]]] = {}
    for key in done:
        place = study_and_label(key)[1], key.model
        if place not in arrays:
            found = {name: store.array(key, name) for name in SHOWN_ARRAYS}
            arrays[place] = {name: array for name, array in found.items() if array is not None}
    return arrays


def _majority_rates(done: Sequence[Key], data_dir: Path | None) -> dict[str, float]:
    rates = {}
    for dataset in dict.fromkeys(key.dataset for key in done):
        study, label = study_and_label(Key(dataset, "", 0, 0))
        rates[label] = majority_rate(prepared(study.name, label, data_dir))
    return rates


def _note(failures: Mapping[Key, str]) -> str:
    """Which fits could not be made, and the first reason of each method."""
    reasons: dict[str, tuple[int, str]] = {}
    for key, error in failures.items():
        n_fits, first = reasons.get(key.model, (0, error.splitlines()[0]))
        reasons[key.model] = (n_fits + 1, first)
    return " ".join(
        f"{n_fits} fits of {model} could not be made ({first})."
        for model, (n_fits, first) in reasons.items()
    )
