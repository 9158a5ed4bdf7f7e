"""What the README says of AutoClassifier is what the stored benchmark says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_mean_ranks_of_the_readme_are_those_of_the_benchmark():
    page = (ROOT / "benchmarks/results/auto.md").read_text(encoding="utf-8")
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.split("\n# ")[0].splitlines()
        if line.startswith("|")
    ]
    header, rows = table[0], table[2:]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"On (\d+) groups of related data sets.*?of (\d+) classifiers", readme)
    assert said is not None
    assert int(said[2]) == len(rows)
    assert f"{said[1]} base sets" in page
    for metric in ("accuracy", "balanced accuracy", "log-loss"):
        column = header.index(f"{metric}, all")
        ranks = {row[0]: float(row[column]) for row in rows if row[column]}
        order = sorted(ranks, key=ranks.__getitem__)
        assert order[0] == "AutoClassifier"
        if metric != "balanced accuracy":
            assert order[1] == "xRFM"
