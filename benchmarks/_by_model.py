"""Pages whose rows are measured model by model and stored, so that runs add or replace models."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from _timing import RESULTS, Table, machine, write_page

Rows = list[list[Sequence[object]]]  # those of each table


def measure_models(
    name: str, tables: Sequence[Table], known: Collection[str], measure: Callable[[str, int], Rows]
) -> None:
    """Measure the models named on the command line, or all, and write the page of all stored ones.

    The rows of each model are stored in ``results/<name>.json`` before the next one is measured.

    Parameters
    ----------
    name : str
        Of the page.
    tables : sequence of Table
        Without rows.
    known : collection of str
        The models, in the order of the page.
    measure : callable
        Takes a model and the number of processes and returns the rows of each table.
    """
    parser = ArgumentParser()
    parser.add_argument("models", nargs="*", help=f"default: {', '.join(known)}")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    options = parser.parse_args()
    path = RESULTS / f"{name}.json"
    stored = json.loads(path.read_text())["rows"] if path.exists() else {}
    for model in options.models or known:
        stored[model] = measure(model, options.jobs)
        RESULTS.mkdir(exist_ok=True)
        path.write_text(json.dumps({"machine": machine(), "rows": stored}, indent=1) + "\n")
        present = [stored[each] for each in known if each in stored]
        filled = [
            replace(table, rows=[row for rows in present for row in rows[k]])
            for k, table in enumerate(tables)
        ]
        print(write_page(name, filled), flush=True)
