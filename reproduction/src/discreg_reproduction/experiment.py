"""The fits of the studies: every method on every split of every data set."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path

from discreg import __version__
from discreg.base.errors import InputError
from discreg.comparison.running.store import Key, Outcome
from discreg.tables.frames import nearest

from .papers import PAPERS, studies
from .protocol import Study
from .registry import Dataset, DatasetUnavailable, load

__all__ = [
    "Reproduction",
    "chosen_studies",
    "prepared",
    "study_and_label",
]


def chosen_studies(name: str | None) -> tuple[Study, ...]:
    """Select the studies of a paper ("drm"), one study ("drm/table7"), or all."""
    known = studies()
    if name is None:
        return tuple(known.values())
    if name in PAPERS:
        return tuple(study for study in known.values() if study.name.startswith(f"{name}/"))
    if name not in known:
        hint = nearest(name, [*PAPERS, *known])
        meant = f" Did you mean {hint}?" if hint else ""
        raise InputError(f"There is no study '{name}'.{meant} The studies are {', '.join(known)}.")
    return (known[name],)


@dataclass(frozen=True)
class Reproduction:
    """Experiment: the fits of some studies on the data sets that are available.

    Parameters
    ----------
    names : sequence of str
        Names of studies.
    data_dir : Path, optional
        Directory that is searched first for data sets.
    quick : bool
        Whether to run only the fits of the quick form.
    """

    names: Sequence[str]
    data_dir: Path | None = None
    quick: bool = False

    def settings(self) -> dict[str, str]:
        return {"discreg": __version__}

    def keys(self) -> list[Key]:
        """List all fits by repeat, so that early results cover all data sets and methods."""
        keys = [key for name in self.names for key in self.keys_of(studies()[name])]
        return sorted(dict.fromkeys(keys), key=lambda key: (key.repeat, key.fold))

    def keys_of(self, study: Study) -> list[Key]:
        """List the fits of one study, which may share fits with another study."""
        name = study.shares or study.name
        n_repeats, n_folds = study.splits.n_repeats, study.splits.n_folds
        methods = list(study.methods)
        if self.quick:
            n_repeats = min(n_repeats, study.quick.n_repeats)
            n_folds = min(n_folds, study.quick.n_folds or n_folds)
            methods = [each for each in methods if each in (study.quick.methods or methods)]
        left_out = self.left_out(study)
        datasets = [label for label in study.datasets if label not in left_out]
        return [
            Key(f"{name}/{label}", method, repeat, fold)
            for repeat in range(n_repeats)
            for fold in range(n_folds)
            for label in datasets
            if label not in self.missing[study.name]
            for method in methods
        ]

    def left_out(self, study: Study) -> list[str]:
        """List the data sets that a quick run leaves out."""
        taken = study.quick.datasets if self.quick else None
        return [label for label in study.datasets if taken is not None and label not in taken]

    @cached_property
    def missing(self) -> Mapping[str, Mapping[str, str]]:
        """The data sets of each study that are not available, and the reasons."""
        return {
            name: {
                label: reason
                for label, source in studies()[name].datasets.items()
                if label not in self.left_out(studies()[name])
                and (reason := _why_unavailable(source, self.data_dir))
            }
            for name in self.names
        }

    def run(self, key: Key) -> Outcome:
        study, label = study_and_label(key)
        dataset = prepared(study.name, label, self.data_dir)
        train, test = study.parts(dataset, key.repeat, key.fold)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = study.methods[key.model].run(train, test, seed=key.repeat)
        return replace(outcome, warnings=tuple(sorted({str(each.message) for each in caught})))


def study_and_label(key: Key) -> tuple[Study, str]:
    """Return the study of a fit, and the paper's name of the data set."""
    paper, table, label = key.dataset.split("/", 2)
    return studies()[f"{paper}/{table}"], label


@lru_cache(maxsize=2)
def prepared(study_name: str, label: str, data_dir: Path | None) -> Dataset:
    """Load a data set and preprocess it as the study does."""
    study = studies()[study_name]
    source = study.datasets[label]
    dataset = source if isinstance(source, Dataset) else load(source, data_dir)
    return dataset if study.prepare is None else study.prepare(dataset)


@cache
def _why_unavailable(source: str | Dataset, data_dir: Path | None) -> str | None:
    if isinstance(source, Dataset):
        return None
    try:
        load(source, data_dir)
    except DatasetUnavailable as error:
        return str(error)
    return None
