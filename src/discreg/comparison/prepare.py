"""From what the user asks for to the experiment that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError
from discreg.base.metrics import METRICS, metric
from discreg.tables.frames import nearest
from discreg.tables.table import Table, TestRows

from .candidates.models import plan_models
from .flags import (
    Flag,
    default_groups,
    find_flags,
    find_test_flags,
    repeating_identifiers,
)
from .running.folds import RowFacts, draw_folds
from .running.nested_cv import NestedCrossValidation
from .running.scoring import Scoring
from .words import capitalised


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How labels are to follow from probabilities; at most one is given.

    Attributes
    ----------
    recall, precision : float or None
        What the threshold of the positive class is to reach on held-out rows.
    costs : dict or None
        By label, the cost of a row of that class with another label.
    """

    recall: float | None = None
    precision: float | None = None
    costs: dict[str, float] | None = None

    @property
    def text(self) -> str:
        """The wish in words; empty if there is none."""
        for name in ("recall", "precision"):
            if (value := getattr(self, name)) is not None:
                return f"the threshold for a {name} of at least {value:g}"
        return "" if self.costs is None else "the smallest expected cost"

    def check(self, classes: NDArray[Any]) -> None:
        """Raise an error before the first fit if the rule cannot be used for these classes."""
        given = [name for name, value in vars(self).items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{given[0]} and {given[1]} are two decision rules; give one.")
        if self.costs is not None:
            labels = [str(label) for label in classes]
            for label, cost in self.costs.items():
                if label not in labels:
                    raise InputError(f"costs: there is no class '{label}'.")
                if not 0 < cost < np.inf:
                    raise InputError(f"The cost of class '{label}' is above 0, not {cost:g}.")
        for name in ("recall", "precision"):
            value = getattr(self, name)
            if value is not None and (len(classes) != 2 or not 0 < value <= 1):
                raise InputError(
                    f"{name} is a number above 0 and at most 1, for a target of two classes."
                )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the user asks for besides the table; see `discreg.compare`."""

    scoring: Any = None
    pos_label: Any = None
    candidates: Any = None
    exclude: Any = None
    cv: Any = None
    group_by_default: bool = True
    subgroup: str | None = None
    accept: Sequence[str] = ()
    decision: Decision = field(default_factory=Decision)
    random_state: int = 0
    source: str | None = None
    command: str = ""


@dataclass(frozen=True, eq=False)
class PreparedComparison:
    """An experiment that can run, and what is known before its first fit.

    Attributes
    ----------
    experiment : NestedCrossValidation
    plan : Plan
    flags : tuple of Flag
        What the table shows that a reader must know.
    notes : tuple of str
        Sentences on the metric, the folds and the models.
    grouped_by : str
        Column that groups rows by default; empty if there is none.
    test : TestRows or None
    subgroups : ndarray of shape (n_samples,) or None
        Values of the column of subgroups.
    """

    experiment: NestedCrossValidation
    plan: Plan
    flags: tuple[Flag, ...]
    notes: tuple[str, ...]
    grouped_by: str = ""
    test: TestRows | None = None
    subgroups: NDArray[Any] | None = None


def prepare(table: Table, plan: Plan) -> PreparedComparison:
    """Prepare the comparison of models on a table."""
    subgroups = None if plan.subgroup is None else _column(table, plan.subgroup)
    whole, grouped_by = table, ""
    is_own_split = table.folds is not None or not (plan.cv is None or isinstance(plan.cv, int))
    if plan.group_by_default and table.groups is None and not is_own_split:
        found = default_groups(table)
        if found is not None and len(np.unique(found[1])) > 1:
            grouped_by, codes = found
            whole = replace(table, groups=codes)
    table = whole.without([name for name in repeating_identifiers(whole) if name in whole.X])
    classes, counts = np.unique(table.y, return_counts=True)
    judge = Scoring(plan.scoring, classes, counts, plan.pos_label)
    judge.check()
    plan.decision.check(classes)
    facts = RowFacts(table.y, table.groups, table.time)
    folds = draw_folds(
        facts,
        cv=plan.cv,
        given=table.folds,
        kept=table.kept,
        seed=plan.random_state,
    )
    models = plan_models(
        max(len(train) for train, _ in folds.parts()),
        candidates=plan.candidates,
        exclude=plan.exclude,
        is_sparse=not isinstance(table.X, pd.DataFrame),
        has_weights=table.weights is not None,
    )
    flags = [*find_flags(whole, folds.parts()), *find_test_flags(table)]
    flags = [_accepted(flag, plan.accept) for flag in flags]
    notes = [
        _about_metric(judge),
        f"Labels follow {plan.decision.text or judge.rule.text}.",
        f"{capitalised(folds.text)}.",
        *folds.notes,
        *models.notes,
        *(f"{name} is left out: {reason}." for name, reason in models.left_out.items()),
    ]
    if grouped_by:
        notes.insert(
            0,
            f"All rows of the same '{grouped_by}' have one label, so that they are kept together "
            "in all folds; --no-groups (in Python, groups=None) divides them.",
        )
    experiment = NestedCrossValidation(table, folds, models, judge, plan.random_state)
    experiment.check()
    return PreparedComparison(
        experiment,
        plan,
        tuple(flags),
        tuple(notes),
        grouped_by,
        table.test,
        subgroups,
    )


def _column(table: Table, name: str) -> NDArray[Any]:
    """Return the values of the column of subgroups."""
    if not isinstance(table.X, pd.DataFrame):
        raise InputError("subgroup: the features of sparse data have no names.")
    for frame in (table.X, table.identifiers):
        if name in frame:
            return np.asarray(frame[name])
    known = [*table.X, *table.identifiers]
    near = nearest(name, list(map(str, known)))
    hint = f" Did you mean '{near}'?" if near else ""
    raise InputError(f"subgroup: there is no column '{name}'.{hint}")


def _accepted(flag: Flag, accepted: Sequence[str]) -> Flag:
    """Return the flag as a note if the user says that it is no fault."""
    if flag.level == "danger" and {flag.kind, *flag.columns} & {*accepted}:
        return replace(flag, level="note", text=f"{flag.text} The user accepts this.")
    return flag


def _about_metric(scoring: Scoring) -> str:
    """Write which metric decides."""
    of = ""
    if "pos_label" in getattr(scoring.scorer, "_kwargs", {}) and scoring.name not in METRICS:
        of = f" of class '{scoring.scorer._kwargs['pos_label']}'"
    return f"Models are tuned and ranked by {metric(scoring.name).title}{of}."
