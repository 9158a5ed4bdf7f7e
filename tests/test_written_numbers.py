"""The numbers of README and documentation are those of stored tables."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "written_numbers.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_show_the_numbers_that_are_stored(script):
    assert not script.stale()


def test_other_numbers_are_replaced(script):
    source = "<!-- default_penalties.md; ReLSR; standardised -->"
    stored = script.cell("default_penalties.md", "ReLSR", "standardised")
    assert script.written(f"accuracy 12.3{source} %") == f"accuracy {stored}{source} %"
    block = "<!-- begin: models -->\n{}<!-- end: models -->"
    assert script.written(block.format("| old |\n")) == block.format(script.models())


def test_a_number_without_a_source_is_refused(script):
    with pytest.raises(ValueError, match="has 0 rows 'NoSuchModel'"):
        script.written("1<!-- default_penalties.md; NoSuchModel; standardised -->")


def test_the_claims_of_the_readme_about_its_peers(script):
    """The best mean rank in each measure and size, and the largest p in log-loss."""
    for table in script.by_size("mean ranks").values():
        for measure in script.MEASURES:
            values = {name: float(rank) for name, rank in table.of(f"{measure}, judged").items()}
            assert min(values, key=values.__getitem__) == script.OURS
    judged = [table for table in script.tables("auto.md") if "judged base sets" in table.heading]
    assert len(judged) == len(script.SIZES)
    small, middle, large = (
        max(float(cell.split(", ")[1]) for cell in table.of("log-loss").values())
        for table in judged
    )
    assert max(small, large) < 0.05
    readme = (script.ROOT / "README.md").read_text(encoding="utf-8")
    assert f"and {middle:.3f} against CatBoost, xRFM and AutoGluon on middle ones" in readme


def test_what_the_readme_says_about_catboost_and_about_estimates(script):
    """Groups of tables that CatBoost wins, the error of held-out accuracies, and coverage."""
    readme = " ".join((script.ROOT / "README.md").read_text(encoding="utf-8").split())
    lost = []
    for table in script.tables("auto.md"):
        if "judged base sets" in table.heading:
            wins = table.of("log-loss")["CatBoost"].split(",")[0].split("/")
            lost.append(f"{wins[-1]} of {sum(map(int, wins))}")
    small, middle, large = lost
    assert f"{small} groups of small tables, {middle} of middle and {large} of large" in readme
    estimates = next(each for each in script.tables("auto.md") if "Estimates" in each.heading)
    distance = float(estimates.of("mean absolute difference")["held-out accuracy"])
    coverage = 90 + 100 * float(estimates.of("mean difference")["coverage"])
    assert f"differs from that on new rows by {distance:.2f} on average" in readme
    assert f"contain the class of {coverage:.0f} % of the new rows" in readme
