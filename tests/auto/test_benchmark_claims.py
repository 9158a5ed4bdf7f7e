"""What the README says of AutoClassifier is what the stored benchmark says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tables():
    """The tables of the page on few rows: title, header and rows."""
    page = (ROOT / "benchmarks/results/auto.md").read_text(encoding="utf-8")
    for part in page.split("\n# "):
        lines = [line for line in part.splitlines() if line.startswith("|")]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        yield part.splitlines()[0], part, cells[0], cells[2:]


def test_the_claims_of_the_readme_are_those_of_the_benchmark():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"On (\d+) groups of related data sets.*?of (\d+) classifiers", readme)
    assert said is not None
    _, text, header, rows = next(tables())
    assert int(said[2]) == len(rows)
    assert f"{said[1]} of them judged" in text
    for metric in ("accuracy", "balanced accuracy", "log-loss", "AUC"):
        column = header.index(f"{metric}, judged")
        ranks = {row[0]: float(row[column]) for row in rows if row[column]}
        assert min(ranks, key=ranks.__getitem__) == "AutoClassifier"


def test_the_p_values_of_the_readme_are_those_of_the_benchmark():
    title = "AutoClassifier and each peer, judged base sets"
    header, rows = next((header, rows) for name, _, header, rows in tables() if name == title)
    for metric in ("accuracy", "balanced accuracy", "log-loss"):
        column = header.index(metric)
        values = [float(row[column].split(", ")[1]) for row in rows if row[column]]
        assert len(values) > 10
        assert max(values) < 0.05
