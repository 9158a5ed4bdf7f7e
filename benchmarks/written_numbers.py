"""Write the numbers of the stored benchmarks into README.md and the documentation.

    python benchmarks/written_numbers.py           # write them, and the picture of README.md
    python benchmarks/written_numbers.py --check   # fail where a page differs from what is stored

A number is followed by a comment that says where it comes from: the page in ``results``, the first
cells of the row, and the heading of the column, as in

    84.70<!-- default_penalties.md; ReLSR; standardised -->

A table between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->`` is made by a function of BLOCKS.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
PICTURE = ROOT / "docs" / "images" / "log_loss_time.svg"
NUMBER = re.compile(r"[^\s|(<]+(<!-- (\w+\.md); ([^;>]+); ([^;>]+) -->)")
BLOCK = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)

OURS = "AutoClassifier"
SIZES = {"at most 500": "small", "at most 2,000": "middle", "at most 100,000": "large"}
SHOWN = (
    *(OURS, "CatBoost", "AutoGluon", "LightGBM tuned", "LightGBM", "XGBoost", "SVC"),
    *("RandomForest", "xRFM", "LogisticRegression"),
)
COLOURS = ("#999999", "#0072b2")  # of the peers and of ours
MEASURES = ("log-loss", "accuracy", "AUC")


class Table(NamedTuple):
    """A table of a stored page, and the heading above it."""

    heading: str
    columns: list[str]
    rows: list[list[str]]

    def value(self, row: list[str], column: str) -> str:
        """The cell of a row in the first column of this heading."""
        return row[self.columns.index(column)]

    def of(self, column: str) -> dict[str, str]:
        """The cells of a column by the first cell of their rows, without empty ones."""
        if column not in self.columns:
            return {}
        found = {row[0]: self.value(row, column) for row in self.rows}
        return {name: value for name, value in found.items() if value}


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


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def by_size(title: str) -> dict[str, Table]:
    """The tables of auto.md with this title, by the size of their training sets."""
    return {
        size: table
        for table in tables("auto.md")
        for size in SIZES
        if title in table.heading and f"{size} training rows" in table.heading
    }


def ranks() -> str:
    """Mean ranks of AutoClassifier and its best known peers, on judged tables of three sizes."""
    found = {
        f"{measure}, {SIZES[size]}": table.of(f"{measure}, judged")
        for measure in MEASURES
        for size, table in by_size("mean ranks").items()
    }
    best = {column: min(map(float, values.values())) for column, values in found.items()}

    def shown(model: str, column: str) -> str:
        value = found[column].get(model, "")
        return f"**{value}**" if value and float(value) == best[column] else value

    rows = [
        [f"`{model}`" if model == OURS else model] + [shown(model, c) for c in found]
        for model in SHOWN
    ]
    return markdown(["mean rank", *found], rows)


def times() -> str:
    """Median CPU seconds and mean log-loss of AutoClassifier and three peers."""
    found = {SIZES[size]: table for size, table in by_size("Means").items()}
    cells = [
        [model]
        + [
            f"{float(table.of('median seconds')[model]):.2g} s, {table.of('log-loss')[model]}"
            for table in found.values()
        ]
        for model in (OURS, "CatBoost", "LightGBM tuned", "LightGBM")
    ]
    return markdown(["median CPU time, mean log-loss", *found], cells)


def models() -> str:
    """All models: accuracy and time of a default search, times of fits."""
    (searches,) = tables("default_grids.md")
    growth = next(table for table in tables("growth.md") if "samples" in table.heading)
    rows = []
    for row in sorted(searches.rows, key=lambda row: -float(searches.value(row, "accuracy"))):
        name = searches.value(row, "model")
        model = name.split(",")[0]
        values = [searches.value(row, column) for column in ("accuracy", "digits: time / SVC")]
        times = [_longest(growth, model, kernel) for kernel in ("linear", "rbf")]
        rows.append([f"`{model}ClassifierCV`{name.removeprefix(model)}", *values, *times])
    fits = ["linear fit, rows", "RBF fit, rows"]
    return markdown(["model", "accuracy, %", "search: time / SVC", *fits], rows)


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
    """Kinds of tables with at most 500 training rows, with the best mean ranks in log-loss."""
    files = [RESULTS / "auto" / f"small_{part}.csv" for part in ("discreg", "peers")]
    stored = pd.concat([pd.read_csv(path) for path in files])
    lines = []
    for name, chosen in KINDS.items():
        part = stored[chosen(stored)]
        scores = part.groupby(["table", "model"])["log_loss"].mean().unstack()
        scores = scores.drop(columns=["Dummy", "SVC"]).dropna()
        means = scores.rank(axis=1).mean().sort_values()
        first = ", ".join(f"{model} {mean:.1f}" for model, mean in means[:3].items())
        wins = (scores[OURS] <= scores.min(axis=1)).mean()
        lines.append([name, str(len(scores)), first, f"{wins:.0%}"])
    return markdown(["kind of table", "tables", "best mean ranks", f"`{OURS}` is best on"], lines)


def service() -> str:
    """The program of the container."""
    program = ROOT / "examples" / "container" / "predict_rows.py"
    return f"```python\n{program.read_text(encoding='utf-8')}```\n"


BLOCKS = {"ranks": ranks, "times": times, "models": models, "kinds": kinds, "service": service}


def written(text: str) -> str:
    """A page with its numbers and tables as they are stored."""
    text = NUMBER.sub(lambda found: cell(*found.groups()[1:]) + found[1], text)
    return BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + found[3], text)


def points() -> dict[str, dict[str, list[float]]]:
    """CPU seconds (median) and log-loss (mean) of the models of the picture, by size."""
    return {
        SIZES[size]: {
            model: [float(table.of("median seconds")[model]), float(loss)]
            for model, loss in table.of("log-loss").items()
            if model in SHOWN
        }
        for size, table in by_size("Means").items()
    }


def picture() -> str:
    """Draw log-loss against CPU time, with its numbers in a comment."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    from discreg.comparison.report.figures import styled, svg

    found = points()
    with styled():
        figure, all_axes = plt.subplots(1, len(found), figsize=(10, 3.2), layout="constrained")
        for axes, (size, values) in zip(all_axes, found.items(), strict=True):
            height = np.ptp([loss for _, loss in values.values()])
            for model, (seconds, loss) in values.items():
                ours = model == OURS
                # Labels are above their points, or to the left where they would hit another one.
                crowded = any(
                    0 < other - loss < height / 8 and abs(np.log10(at / seconds)) < 0.7
                    for at, other in values.values()
                )
                axes.plot(seconds, loss, "o", color=COLOURS[ours], markersize=8 if ours else 5)
                axes.annotate(
                    model,
                    (seconds, loss),
                    xytext=(0, -15) if ours else (-6, -3) if crowded else (0, 6),
                    textcoords="offset points",
                    ha="right" if crowded and not ours else "center",
                    fontsize=8,
                    fontweight="bold" if ours else "normal",
                )
            axes.set(xscale="log", title=f"{size} tables", xlabel="CPU seconds of a fit, median")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.margins(0.3, 0.2)
        all_axes[0].set_ylabel("log-loss, mean")
        text = svg(figure)
    return f"{text}<!-- {json.dumps(found)} -->\n"


def stale() -> list[str]:
    """Names of the pages that differ from what is stored."""
    names = [
        str(path.relative_to(ROOT))
        for path in PAGES
        if written(text := path.read_text(encoding="utf-8")) != text
    ]
    drawn = PICTURE.read_text(encoding="utf-8").rpartition("<!-- ")[2].removesuffix(" -->\n")
    return names + ([] if json.loads(drawn) == points() else [PICTURE.name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where a page is stale")
    if parser.parse_args().check:
        if found := stale():
            raise SystemExit(
                f"Other numbers are stored than {', '.join(found)} show: "
                "run python benchmarks/written_numbers.py"
            )
        return
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if (new := written(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
