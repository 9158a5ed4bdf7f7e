"""Numbers of the stored benchmarks in the text: no measured number is typed by hand.

- ``measured``: Markdown in which ``<searches.md; 60 x 5,000 & rbf & LSR; seconds>`` stands for a
  cell of a table in benchmarks/results: the file, the first cells of the row, the heading of the
  column.
- ``measured-models``: all models, with their accuracy after a search and the times of fits.
- ``measured-kinds``: the best of AutoClassifier and its peers on kinds of tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PLACE = re.compile(r"<(\w+\.md); ([^;>]+); ([^;>]+)>")


class Table(NamedTuple):
    """A table of a stored page, and the heading above it."""

    heading: str
    columns: list[str]
    rows: list[list[str]]

    def value(self, row: list[str], column: str) -> str:
        """The cell of a row in the first column of this heading."""
        return row[self.columns.index(column)]


@cache
def tables(name: str) -> list[Table]:
    """The tables of a stored page."""
    heading, found, inside = "", [], False
    for line in (RESULTS / name).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("#"):
            heading = line.strip("# ")
        if not line.startswith("|"):
            inside = False
        elif not inside:
            found.append(Table(heading, cells, []))
            inside = True
        elif set(line) - set("|-: "):
            found[-1].rows.append(cells)
    return found


def cell(name: str, row: str, column: str) -> str:
    """The only cell in a column of a stored page whose row begins with these cells."""
    keys = row.split(" & ")
    found = [
        table.value(each, column)
        for table in tables(name)
        if column in table.columns
        for each in table.rows
        if each[: len(keys)] == keys
    ]
    if len(found) != 1:
        raise ValueError(f"{name} has {len(found)} rows {row!r} with a column {column!r}.")
    return found[0]


def models() -> str:
    """A table of all models: accuracy and time of a default search, times of fits."""
    (searches,) = tables("default_grids.md")
    growth = next(table for table in tables("growth.md") if "samples" in table.heading)
    lines = [
        "| model | accuracy, % | search: time / SVC | linear fit, rows | RBF fit, rows |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in sorted(searches.rows, key=lambda row: -float(searches.value(row, "accuracy"))):
        name = searches.value(row, "model")
        model = name.split(",")[0]
        values = [searches.value(row, column) for column in ("accuracy", "digits: time / SVC")]
        times = [_longest(growth, model, kernel) for kernel in ("linear", "rbf")]
        label = f"`{model}ClassifierCV`{name.removeprefix(model)}"
        lines.append(f"| {' | '.join([label, *values, *times])} |")
    return "\n".join(lines)


def _longest(growth: Table, model: str, kernel: str) -> str:
    """The time of the largest fit in the table of growth."""
    place = growth.columns.index("to")  # the time is in the next column
    for row in growth.rows:
        if row[:2] == [model, kernel]:
            thousands = int(row[place].replace(",", "")) // 1000
            return f"{row[place + 1]} s, {thousands}k"
    return ""


KINDS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "all tables": lambda rows: rows["n_train"] > 0,
    "fewer than 150 training rows": lambda rows: rows["n_train"] < 150,
    "150 to 499 training rows": lambda rows: rows["n_train"].between(150, 499),
    "500 training rows": lambda rows: rows["n_train"] == 500,
    "at least 20 features": lambda rows: rows["n_features"] >= 20,
    "three or more classes": lambda rows: rows["n_classes"] >= 3,
    "imbalanced, two classes": lambda rows: rows["table"].str.startswith("imbalanced/"),
    "categories or missing values": lambda rows: rows["table"].str.startswith("arff/"),
}


def kinds() -> str:
    """A table of kinds of tables, with the three models of the best mean ranks."""
    files = [RESULTS / "auto" / f"small_{part}.csv" for part in ("discreg", "peers")]
    rows = pd.concat([pd.read_csv(path) for path in files])
    rows = rows[rows["model"] != "Dummy"]
    lines = [
        "| kind of table | tables | best mean ranks | `AutoClassifier` is best on |",
        "| --- | --- | --- | --- |",
    ]
    for name, chosen in KINDS.items():
        part = rows[chosen(rows)]
        scores = part.groupby(["table", "model"])["balanced_accuracy"].mean().unstack().dropna()
        ranks = scores.rank(axis=1, ascending=False)
        means = ranks.mean().sort_values()
        first = ", ".join(f"{model} {mean:.1f}" for model, mean in means[:3].items())
        wins = (scores["AutoClassifier"] >= scores.max(axis=1)).mean()
        lines.append(f"| {name} | {len(scores)} | {first} | {wins:.0%} |")
    return "\n".join(lines)


class Measured(SphinxDirective):
    """Markdown with cells of stored tables."""

    has_content = True

    def text(self) -> str:
        return PLACE.sub(lambda match: cell(*match.groups()), "\n".join(self.content))

    def run(self) -> list[nodes.Node]:
        for path in sorted(RESULTS.rglob("*")):
            self.env.note_dependency(str(path))
        lines = StringList(self.text().splitlines(), source=self.get_source_info()[0])
        holder = nodes.container()
        self.state.nested_parse(lines, self.content_offset, holder)
        return holder.children


class MeasuredModels(Measured):
    """All models."""

    def text(self) -> str:
        return models()


class MeasuredKinds(Measured):
    """Kinds of tables."""

    def text(self) -> str:
        return kinds()


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("measured", Measured)
    app.add_directive("measured-models", MeasuredModels)
    app.add_directive("measured-kinds", MeasuredKinds)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
