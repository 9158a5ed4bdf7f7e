"""Columns of a table that are not features: folds, groups, sample weights and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .column_types import as_texts, parse
from .formats import nearest, quoted
from .frames import one_column
from .labels import rows_text

__all__ = ["ROLES", "Roles", "Values", "unknown_column"]

# The options of the constructors of a table, and what a message calls them.
ROLES = {"fold": "fold", "groups": "groups", "sample_weight": "sample weight", "time": "time"}


@dataclass(frozen=True)
class Values:
    """The cells of a column with a role."""

    name: str
    cells: pd.Series


@dataclass(frozen=True)
class Roles:
    """The column of each role; None where a table has none."""

    fold: Values | None = None
    groups: Values | None = None
    sample_weight: Values | None = None
    time: Values | None = None

    @classmethod
    def of(
        cls, given: Mapping[str, Any], columns: Mapping[str, Any], n_rows: int, target: str | None
    ) -> Roles:
        """Find named columns, and check the lengths of arrays."""
        found: dict[str, Values] = {}
        for role, option in given.items():
            if option is None:
                continue
            if isinstance(option, str):
                values = _named(role, option, columns)
            else:
                values = Values(_name_of(option, role), one_column(option, ROLES[role]))
                if len(values.cells) != n_rows:
                    raise InputError(
                        f"there are {len(values.cells)} values of {ROLES[role]} for {n_rows} rows"
                    )
            found[role] = values
        _refuse_two_roles({"target": target} | {role: each.name for role, each in found.items()})
        return cls(**found)

    def names(self) -> dict[str, str]:
        """Return the names of the columns by role."""
        values = {role: getattr(self, role) for role in ROLES}
        return {role: each.name for role, each in values.items() if each is not None}

    def followed_by(self, other: Roles, n_rows: int) -> Roles:
        """Append the cells of a test table of `n_rows` rows.

        Where it has none, its weights are 1, and none of its rows shares a group.
        """
        fill = {"sample_weight": pd.Series(np.ones(n_rows))}
        fill["groups"] = pd.Series([f"test row {row}" for row in range(1, n_rows + 1)])
        joined = {}
        for role in self.names():
            mine, theirs = getattr(self, role), getattr(other, role)
            cells = fill[role] if theirs is None else theirs.cells
            joined[role] = Values(
                mine.name, pd.concat([mine.cells.astype(object), cells.astype(object)])
            )
        return replace(self, **joined)

    def parsed(self, kept: NDArray[np.bool_]) -> tuple[dict[str, NDArray[Any] | None], list[str]]:
        """Check and convert the cells of the rows that are kept; write notes."""
        arrays: dict[str, NDArray[Any] | None] = {}
        notes: list[str] = []
        parsers = {
            "fold": _fold_codes,
            "groups": _group_codes,
            "sample_weight": _weights,
            "time": _times,
        }
        for role, parser in parsers.items():
            values = getattr(self, role)
            arrays[role] = None
            if values is not None:
                cells = values.cells.reset_index(drop=True)[kept]
                arrays[role], note = parser(cells, values.name)
                notes.append(note)
        return arrays, notes


def _named(role: str, name: str, columns: Mapping[str, Any]) -> Values:
    if name not in columns:
        raise InputError(unknown_column(ROLES[role], name, list(columns)))
    return Values(name, pd.Series(columns[name]))


def _name_of(option: Any, role: str) -> str:
    name = getattr(option, "name", None)
    return name if isinstance(name, str) and name else role


def _refuse_two_roles(names: Mapping[str, str | None]) -> None:
    seen: dict[str, str] = {}
    for role, name in names.items():
        if name is None:
            continue
        said = ROLES.get(role, role)
        if name in seen:
            raise InputError(f"column '{name}' cannot be both the {seen[name]} and the {said}")
        seen[name] = said


def unknown_column(role: str, name: str, names: Sequence[str]) -> str:
    """Write a message on a name that no column has, with the nearest one and all names."""
    near = nearest(name, names)
    hint = f"; did you mean '{near}'?" if near else "."
    there_are = f"There are {quoted(names, at_most=20)}" if names else "There is none"
    return f"there is no column '{name}' for the {role}{hint} {there_are}"


def _refuse_missing(cells: pd.Series, missing: Any, what: str) -> None:
    rows = cells.index[np.asarray(missing)].to_numpy()
    if rows.size:
        raise InputError(f"{what} is missing in {rows_text(rows)}; fill in these cells")


def _codes(cells: pd.Series, what: str) -> tuple[NDArray[np.intp], NDArray[np.intp], list[str]]:
    """Number the values; sorted as strings, so that the same file always gives the same codes."""
    values = as_texts(cells)
    _refuse_missing(cells, pd.isna(values), what)
    names, codes = np.unique(values.astype(str), return_inverse=True)
    if len(names) == 1:
        raise InputError(f"{what} is '{names[0]}' in every row; at least two are needed")
    return codes, np.bincount(codes), names.tolist()


def _fold_codes(cells: pd.Series, name: str) -> tuple[NDArray[np.intp], str]:
    codes, sizes, _ = _codes(cells, f"fold '{name}'")
    return codes, (
        f"column '{name}' defines {len(sizes)} folds of {sizes.min()} to {sizes.max()} rows"
    )


def _group_codes(cells: pd.Series, name: str) -> tuple[NDArray[np.intp], str]:
    codes, sizes, _ = _codes(cells, f"group '{name}'")
    if len(sizes) == len(codes):
        raise InputError(
            f"group '{name}' has a different value in every row, so that there are no groups of "
            "rows to keep together; choose a column whose values repeat"
        )
    return codes, (
        f"column '{name}' defines {len(sizes)} groups of {sizes.min()} to {sizes.max()} rows, "
        "which stay together in all folds"
    )


def _weights(cells: pd.Series, name: str) -> tuple[NDArray[np.float64], str]:
    kind, values = parse(cells)
    what = f"sample weight '{name}'"
    _refuse_missing(cells, pd.isna(values), what)
    if kind not in ("numeric", "boolean"):
        raise InputError(f"{what} has values that are not numbers, such as '{values[0]}'")
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if wrong.size:
        raise InputError(
            f"{what} is {values[wrong[0]]:g} in row {cells.index[wrong[0]] + 1}; weights must be "
            "finite and not negative"
        )
    if not values.any():
        raise InputError(f"{what} is 0 in every row")
    return values.astype(np.float64), (
        f"column '{name}' holds sample weights from {values.min():g} to {values.max():g}"
    )


def _times(cells: pd.Series, name: str) -> tuple[NDArray[np.float64], str]:
    """Convert dates to days since 1970; numbers stay as they are."""
    kind, values = parse(cells)
    what = f"time '{name}'"
    _refuse_missing(cells, pd.isna(values), what)
    if kind == "date":
        first, last = (str(day)[:10] for day in (values.min(), values.max()))
        numbers = values.astype("datetime64[us]").astype(np.int64) / 86_400e6
    elif kind == "numeric" and np.isfinite(values).all():
        first, last = f"{values.min():g}", f"{values.max():g}"
        numbers = values
    else:
        raise InputError(
            f"{what} has values such as '{cells.iloc[0]}', which are neither numbers nor dates in "
            "the form 2024-01-31 or 2024-01-31 12:30"
        )
    if len(np.unique(numbers)) < 2:
        raise InputError(f"{what} is '{first}' in every row; at least two times are needed")
    return numbers, (
        f"column '{name}' orders the rows in time, from {first} to {last}, and is not a feature"
    )
