"""`benchmarks/run.py` compares ratios with the stored ones and makes a page of them."""

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
STORED = {"fit": {"LSR, iris": 0.5, "ODM, iris": 2.0}, "predict": {"LSR, one row": 1.0}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The module with results of its own; the script "quick" then measures `run.measured`."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("run")
    for name in ("run", "_timing"):
        monkeypatch.delitem(sys.modules, name)  # other tests may have modules of these names

    def store(folder, ratios):
        (folder / "quick.json").write_text(json.dumps({"machine": "A machine.", "ratios": ratios}))

    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "run", lambda names, folder: store(folder, module.measured))
    store(tmp_path, STORED)
    return module


@pytest.mark.parametrize(("factor", "status"), [(0.1, 0), (1.0, 0), (1.49, 0), (1.51, 1)])
def test_a_check_fails_if_a_ratio_got_worse_by_half(run, factor, status, capsys):
    run.measured = STORED | {"predict": {"LSR, one row": factor}}
    assert run.main(["--check", "quick"]) == status
    printed = capsys.readouterr().out
    assert ("worse: predict, quick: LSR, one row: 1 -> 1.51" in printed) == bool(status)
    assert "ODM" not in printed


def test_a_check_names_what_was_not_measured_again(run, capsys):
    run.measured = {"fit": {"LSR, iris": 0.5, "new": 9.0}, "predict": {"LSR, one row": 1.0}}
    assert run.main(["--check", "quick"]) == 0
    printed = capsys.readouterr().out
    assert "not measured: fit, quick: ODM, iris" in printed
    assert "new" not in printed


def test_a_check_stores_nothing_and_compares_the_named_scripts_only(run, tmp_path):
    before = (tmp_path / "quick.json").read_text()
    run.measured = {"fit": {"LSR, iris": 5.0}}
    assert run.main(["--check", "other"]) == 0
    assert run.main(["--check", "quick"]) == 1
    assert (tmp_path / "quick.json").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["quick.json"]


def test_the_page_has_all_ratios_and_a_picture(run, tmp_path):
    assert run.main(["--page"]) == 0
    page = (tmp_path / "README.md").read_text()
    assert "| ODM, iris | 2 | [quick](quick.md) |" in page
    assert "A machine." in page
    assert "(overview.svg)" in page
    assert "<svg" in (tmp_path / "overview.svg").read_text()


def test_every_script_of_the_default_run_exists(run):
    assert [name for name in run.SCRIPTS if not (FOLDER / f"{name}.py").exists()] == []


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_scripts_import_names_that_exist(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "discreg":
            module = importlib.import_module(node.module)
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []
