"""The red flags that ``discreg compare`` finds in real tables with mixed types and gaps.

Run ``python benchmarks/messy_tables.py``. The tables are the ARFF files in the folder named by
``DISCREG_DATA``, or in ``../shared/data`` beside the repository.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from _timing import write_table
from default_penalties import DATA

from discreg.base.errors import InputError
from discreg.comparison.prepare import Plan, prepare
from discreg.tables.formats import read_contents
from discreg.tables.table import as_table

HEADER = ("file", "rows", "columns", "red flags and their columns")
TEXT = (
    "What `discreg compare` finds in each table before the first fit, or the message with which it "
    "ends."
)


def target_of(frame: pd.DataFrame) -> str:
    """Return the column of labels: the last one if it is nominal, else the first."""
    is_last = isinstance(frame.dtypes.iloc[-1], pd.CategoricalDtype)
    return str(frame.columns[-1 if is_last else 0])


def row(path: Path) -> tuple[object, ...]:
    """A row of the page."""
    frame = read_contents(path).X
    try:
        found = prepare(as_table(path, target=target_of(frame)), Plan()).flags
        said = ", ".join(" ".join((each.kind, *each.columns)) for each in found)
    except InputError as error:
        said = f"message: {error}".replace(str(path), path.name)
    return (path.name, *frame.shape, said)


if __name__ == "__main__":
    files = sorted((DATA / "arff").glob("*.arff*"))
    print(write_table("messy_tables", "Red flags of messy tables", TEXT, HEADER, map(row, files)))
