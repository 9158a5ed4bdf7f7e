"""From the arguments of a comparison to the experiment that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreg.base.errors import InputError
from discreg.base.metrics import METRICS, metric
from discreg.tables.table import Table, as_table

from .candidates.models import plan_models
from .flags.flag import Flag
from .flags.table_flags import find_flags, repeating_identifiers
from .protocol.folds import RowFacts, draw_folds
from .protocol.scoring import RARE_ROWS, RARE_SHARE, Scoring, is_imbalanced
from .running.nested_cv import NestedCrossValidation, table_shape
from .words import capitalised, percent

__all__ = ["PreparedComparison", "prepare", "prepare_table"]


@dataclass(frozen=True, eq=False)
class PreparedComparison:
    """An experiment that can run, and what is known before its first fit.

    Attributes
    ----------
    experiment : NestedCrossValidation
    flags : tuple of Flag
        What the table shows that a reader must know.
    notes : tuple of str
        Sentences on the metric, the folds and the models.
    source : str or None
        The file of the table; None for data in memory.
    command : str
        Shell command or Python call of this comparison.
    """

    experiment: NestedCrossValidation
    flags: tuple[Flag, ...]
    notes: tuple[str, ...]
    source: str | None = None
    command: str = ""


def prepare(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    cv: Any = None,
    test: Any = None,
    time_column: Any = None,
    drop: Any = None,
    command: str = "",
    **options: Any,
) -> PreparedComparison:
    """Read the data and prepare a comparison; see `discreg.compare` and `prepare_table`."""
    fold = cv if isinstance(cv, str) else None
    if test is not None and cv is not None:
        raise InputError("test is the only split, so that cv cannot be given too.")
    table = as_table(
        X,
        y,
        target=target,
        drop=drop,
        test=test,
        fold=fold,
        groups=groups,
        sample_weight=sample_weight,
        time=time_column,
    )
    source = str(X) if isinstance(X, str | Path) else None
    return prepare_table(
        table, cv=None if fold is not None else cv, source=source, command=command, **options
    )


def prepare_table(
    table: Table,
    *,
    scoring: Any = None,
    pos_label: Any = None,
    candidates: Any = None,
    exclude: Any = None,
    cv: Any = None,
    n_folds: int | None = None,
    n_repeats: int | None = None,
    random_state: int = 0,
    source: str | None = None,
    command: str = "",
) -> PreparedComparison:
    """Prepare the comparison of models on a table.

    Parameters
    ----------
    table : Table
        The data.
    n_folds, n_repeats : int, optional
        Folds and repeats of random folds; see `draw_folds`.
    source, command : str
        For the report.
    scoring, pos_label, candidates, exclude, cv, random_state
        See `discreg.compare`.
    """
    identifiers = [name for name in repeating_identifiers(table) if name in table.X]
    flags = find_flags(table)
    table = table.without(identifiers)
    classes, counts = np.unique(table.y, return_counts=True)
    judge = Scoring(scoring, classes, counts, pos_label)
    judge.check()
    folds = draw_folds(
        RowFacts(table.y, table.groups, table.time),
        cv=cv,
        n_folds=n_folds,
        n_repeats=n_repeats,
        given=table.folds,
        test=table.test,
        kept=table.kept,
        seed=random_state,
    )
    n_train = max(len(train) for train, _ in folds.parts())
    models = plan_models(
        table_shape(table, n_train),
        judge,
        candidates=candidates,
        exclude=exclude,
        n_fits=len(folds.parts()),
        has_weights=table.weights is not None,
    )
    notes = [
        _about_metric(judge),
        f"{capitalised(folds.text)}.",
        *folds.notes,
        *models.notes,
        *(f"{name} is left out: {reason}." for name, reason in models.left_out.items()),
    ]
    experiment = NestedCrossValidation(table, folds, models, judge, random_state)
    return PreparedComparison(experiment, tuple(flags), tuple(notes), source, command)


def _about_metric(scoring: Scoring) -> str:
    """Write which metric decides, and why."""
    title = metric(scoring.name).title
    of = ""
    if "pos_label" in getattr(scoring.scorer, "_kwargs", {}) and scoring.name not in METRICS:
        of = f" of class '{scoring.scorer._kwargs['pos_label']}'"
    if scoring.given is not None:
        return f"Models are tuned and ranked by {title}{of}."
    if not is_imbalanced(scoring.counts):
        return f"Models are tuned and ranked by {title}."
    rarest = scoring.counts[scoring.rarest]
    why = (
        f"has {percent(rarest / scoring.counts.sum())} of the rows"
        if rarest < RARE_SHARE * scoring.counts.sum()
        else f"has {rarest} rows, fewer than {RARE_ROWS}"
    )
    label = scoring.classes[scoring.rarest]
    return (
        f"Models are tuned and ranked by {title}, because the rarest class '{label}' {why}; class "
        "weights are tried as well."
    )
