"""The command ``discreg compare --fast`` on real tables with mixed types, gaps and rare classes.

Run ``python benchmarks/messy_tables.py``; tables whose rows are stored are not compared again. With
names of files, only these are, again. The tables are the ARFF files in the folder named by
``DISCREG_DATA``, or in ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from _command import run_compare
from _timing import RESULTS, Table, write_page
from default_penalties import DATA

from discreg.tables.formats import read_contents

HEADER = ("file", "rows", "columns", "outcome", "recommended", "flags", "CPU seconds")
TEXT = (
    "Each table is given to `discreg compare --fast`. The outcome is the verdict of the report, or "
    "the message with which the command ends. Flags are warnings about the table or the models. "
    "The CPU seconds of all processes include reading, all fits and the report."
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
    stored_rows = RESULTS / "messy_tables.json"
    stored = json.loads(stored_rows.read_text())["rows"] if stored_rows.exists() else {}
    for path in sorted((DATA / "arff").glob("*.arff*")):
        name = path.name.split(".arff")[0]
        if name in names or not (names or name in stored):
            stored[name] = row(path)
            print(*stored[name], sep=" | ", flush=True)
            stored_rows.write_text(json.dumps({"rows": stored}, indent=1) + "\n")
    rows = [stored[name] for name in sorted(stored)]
    text = f"{TEXT} {summary(rows)}."
    write_page("messy_tables", [Table("Comparison of messy tables", text, HEADER, rows)])


if __name__ == "__main__":
    main(sys.argv[1:])
