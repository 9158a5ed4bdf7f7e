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
from default_penalties import DATA

from discreg import Comparison

ONE_SEED = {
    "bundled": (),
    "bundled, fast": ("--fast",),
    "genes": ("genes.csv", "--target", "tissue"),
    "large, fast": ("large.csv", "--target", "y", "--fast"),
    "rare": ("rare.csv", "--target", "outcome"),
    "patients": ("patients.csv", "--target", "response"),
    "noise": ("noise.csv", "--target", "y"),
}
EVERY_SEED = {
    "rare, fast": ("rare.csv", "--target", "outcome", "--fast"),
    "patients, fast": ("patients.csv", "--target", "response", "--fast"),
    "patients, no groups": ("patients.csv", "--target", "response", "--no-groups", "--fast"),
    "leak, fast": ("leak.csv", "--target", "died", "--fast"),
    "noise, fast": ("noise.csv", "--target", "y", "--fast"),
}
HEPATITIS = tuple(str(state) for state in range(5))  # random states of a table with 32 cases
HEADER = (
    *("table", "seed", "verdict", "recommended", "log-loss", "95 % interval", "frequencies"),
    *("AUC", "stability", "informed", "not judged", "flags", "CPU seconds"),
)
TEXT = (
    "Outcomes of `discreg compare` on two cores. rare: 2,134 rows, about 50 of them cases. "
    "patients: six rows per patient, one random label per patient; the command groups them by "
    "default, and with `--no-groups` reports them. genes: 60 rows of 5,000 columns. leak: the "
    "column discharge_code repeats the target. noise: columns without any signal. large: 200,000 "
    "rows of 20 columns. bundled: scikit-learn's breast_cancer. The log-loss is the estimate of "
    "the described model, corrected for its selection; a red flag gives none. Stability: share of "
    "bootstrap samples that recommend the model or one as good. Informed: probability that the "
    "features say something about the label. hepatitis: 155 rows, 32 of them cases; the seed is "
    "that of folds and models."
)


def row(name: str, seed: str, arguments: tuple[str, ...], folder: Path) -> list[str]:
    """Run the command and return a row of the page."""
    path = [folder / seed / arguments[0]] if arguments and arguments[0].endswith(".csv") else []
    run = run_compare(*path, *arguments[len(path) :])
    if run.comparison is None:
        return [name, seed, run.outcome, *[""] * 9, f"{run.seconds:.0f}"]
    return [name, seed, *cells(run.comparison), f"{run.seconds:.0f}"]


def cells(found: Comparison) -> list[str]:
    """Describe the outcome of a comparison."""
    verdict, table = found.verdict, found.table
    estimate, baseline = verdict.estimate, verdict.baseline
    flags = [flag for flag in found.findings.flags if flag.level == "danger"]
    area = "" if estimate is None else f"{table.loc[verdict.best, 'roc_auc']:.3f}"
    return [
        verdict.kind,
        verdict.recommended or "none",
        "" if estimate is None else f"{estimate.corrected:.3f}",
        "" if estimate is None else f"{estimate.low:.3f} to {estimate.high:.3f}",
        "" if baseline is None else f"{baseline:.3f}",
        area,
        "" if verdict.stability is None else f"{verdict.stability:.2f}",
        "" if verdict.p_informed is None else f"{verdict.p_informed:.2f}",
        ", ".join(verdict.not_judged),
        "; ".join(": ".join([flag.kind, *flag.columns]) for flag in flags),
    ]


def main(folder: Path, names: list[str]) -> None:
    """Run the command on the tables, or on those named, and write the page."""
    path = RESULTS / "hard_tables.json"
    stored = json.loads(path.read_text())["rows"] if path.exists() else {}
    seeds = sorted(each.name for each in folder.iterdir())
    jobs = [
        (name, seed, arguments)
        for name, arguments in (ONE_SEED | EVERY_SEED).items()
        for seed in (seeds[:1] if name in ONE_SEED else seeds)
    ]
    hepatitis = (str(DATA / "arff" / "hepatitis.arff.gz"), "--target", "Class", "--fast")
    jobs += [("hepatitis, fast", k, (*hepatitis, "--random-state", k)) for k in HEPATITIS]
    for name, seed, arguments in jobs:
        key = f"{name} {seed}"
        if name in names or not (names or key in stored):
            stored[key] = row(name, seed, arguments, folder)
            print(*stored[key], sep=" | ", flush=True)
            path.write_text(json.dumps({"rows": stored}, indent=1) + "\n")
    rows = [stored[key] for key in sorted(stored)]
    write_page("hard_tables", [Table("Comparison of hard tables", TEXT, HEADER, rows)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
