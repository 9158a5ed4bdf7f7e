"""The command ``discreg compare`` on tables on which comparisons go wrong.

Run ``python benchmarks/hard_tables.py FOLDER [TABLE ...]``. FOLDER has one folder per seed (0, 1,
...) with the files rare.csv, patients.csv, leak.csv and noise.csv, and that of seed 0 also
genes.csv and large.csv. Rows of a table that is measured again replace the stored ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from _command import run_compare
from _timing import RESULTS, Table, write_page

ONE_SEED = {
    "bundled": (),
    "bundled, fast": ("--fast",),
    "genes": ("genes.csv", "--target", "tissue"),
    "large": ("large.csv", "--target", "y"),
}
EVERY_SEED = {
    "noise": ("noise.csv", "--target", "y"),
    "patients, groups": ("patients.csv", "--target", "response", "--groups", "patient_id"),
    "patients, fast": ("patients.csv", "--target", "response", "--fast"),
    "leak, fast": ("leak.csv", "--target", "died", "--fast"),
    "rare": ("rare.csv", "--target", "outcome"),
}
HEADER = (
    *("table", "seed", "verdict", "recommended", "metric", "score", "majority"),
    *("recall of the rarest class", "corrected", "mean of all", "not judged", "flags", "seconds"),
)
TEXT = (
    "Outcomes of `discreg compare` on two cores. rare: 2,134 rows, about 53 of them cases. "
    "patients: six rows per patient, one random label per patient, so that an honest accuracy is "
    "0.5; with `--groups patient_id` and without. genes: 60 rows of 5,000 columns. leak: the "
    "column discharge_code repeats the target. noise: columns without any signal. large: 200,000 "
    "rows of 20 columns. bundled: scikit-learn's breast_cancer. Score and recall are those of the "
    "recommended model, or of the best mean if none is recommended. Corrected: the score of the "
    "best mean, corrected because it is the best of many. Mean of all: over all models. Empty "
    "cells were not stored. The seconds include reading, all fits and the report; rows were "
    "measured in several runs."
)


def row(name: str, seed: str, arguments: tuple[str, ...], folder: Path) -> list[str]:
    """Run the command and return a row of the page."""
    path = [folder / seed / arguments[0]] if arguments and arguments[0].endswith(".csv") else []
    run = run_compare(*path, *arguments[len(path) :])
    if run.comparison is None:
        return [name, seed, run.outcome, *[""] * 9, f"{run.seconds:.0f}"]
    found = run.comparison
    verdict, table = found.verdict, found.table
    model = verdict.recommended or verdict.best
    return [
        name,
        seed,
        verdict.kind,
        verdict.recommended or "none",
        verdict.metric,
        f"{table.loc[model, 'mean']:.3f}",
        f"{verdict.baseline:.3f}",
        f"{table.loc[model, 'rare_recall']:.3f}",
        f"{verdict.estimate.corrected:.3f}",
        f"{table['mean'].drop('majority').mean():.3f}",
        ", ".join(verdict.not_judged),
        "; ".join(": ".join([flag.kind, *flag.columns]) for flag in found.flags),
        f"{run.seconds:.0f}",
    ]


def main(folder: Path, names: list[str]) -> None:
    """Run the command on the tables, or on those named, and write the page after each."""
    path = RESULTS / "hard_tables.json"
    stored = json.loads(path.read_text())["rows"] if path.exists() else {}
    seeds = sorted(each.name for each in folder.iterdir())
    for name, arguments in (ONE_SEED | EVERY_SEED).items():
        for seed in seeds[:1] if name in ONE_SEED else seeds:
            if names and name not in names:
                continue
            stored[f"{name} {seed}"] = row(name, seed, arguments, folder)
            print(*stored[f"{name} {seed}"], sep=" | ", flush=True)
            path.write_text(json.dumps({"rows": stored}, indent=1) + "\n")
            rows = [stored[key] for key in sorted(stored)]
            write_page("hard_tables", [Table("Comparison of hard tables", TEXT, HEADER, rows)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
