"""The command ``discreg compare --fast`` on real tables with mixed types, gaps and rare classes.

Run ``python benchmarks/messy_tables.py``, or with names of files only these; it takes about half an
hour on two cores. The tables are the ARFF files in the folder named by ``DISCREG_DATA``, or in
``../shared/data`` beside the repository. The page is written after every table.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from _command import run_compare
from _timing import Table, write_page
from default_penalties import DATA

from discreg.tables.formats import read_contents

HEADER = ("file", "rows", "columns", "outcome", "recommended", "flags", "seconds")
TEXT = (
    "Each table is given to `discreg compare --fast`. The outcome is the verdict of the report, or "
    "the message with which the command ends. Flags are warnings about the table or the models. "
    "The seconds include reading, all fits and the report."
)


def target_of(frame: pd.DataFrame) -> str:
    """Return the column of labels: the last one if it is nominal, else the first."""
    is_last = isinstance(frame.dtypes.iloc[-1], pd.CategoricalDtype)
    return str(frame.columns[-1 if is_last else 0])


def row(path: Path) -> tuple[object, ...]:
    """Run the command on a file; return a row of the page."""
    frame = read_contents(path).X
    run = run_compare(path, "--target", target_of(frame), "--fast")
    recommended = flags = ""
    if run.comparison is not None:
        recommended = run.comparison.verdict.recommended or "none"
        kinds = Counter(flag.kind for flag in run.comparison.flags)
        flags = ", ".join(f"{kind} ({n})" if n > 1 else kind for kind, n in kinds.items())
    said = run.outcome.replace(str(path), path.name)
    return (path.name, *frame.shape, said, recommended, flags, f"{run.seconds:.0f}")


def summary(rows: Iterable[tuple[object, ...]]) -> str:
    """Count the outcomes."""
    kinds = Counter(str(row[3]).split(":")[0] for row in rows)
    return ", ".join(f"{kind}: {count}" for kind, count in kinds.most_common())


def main(names: list[str]) -> None:
    """Run the command on all tables, or on those named, and write the page."""
    paths = sorted((DATA / "arff").glob("*.arff*"))
    rows = []
    for path in paths:
        if not names or path.name.split(".arff")[0] in names:
            rows.append(row(path))
            print(*rows[-1], sep=" | ", flush=True)
            text = f"{TEXT} {summary(rows)}."
            write_page("messy_tables", [Table("Comparison of messy tables", text, HEADER, rows)])


if __name__ == "__main__":
    main(sys.argv[1:])
