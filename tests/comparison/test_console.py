"""What is printed: names as they are, lines as long as they are, nothing that is not ranked."""

import io

import numpy as np
import pandas as pd
import pytest
from report_findings import MODELS, findings_of, results_of
from rich.console import Console

from discreg.comparison import console
from discreg.comparison.engine import Progress
from discreg.comparison.experiment import Key
from discreg.comparison.run import ComparisonResult
from discreg.comparison.statistics import below_the_best
from discreg.tables.table import Table

HOSTILE = "[red]a:smile:\\[/b]"
CLEARS = "\x1b[2J\x1b]0;title\a\r!"  # clears the screen, changes the title, overwrites the line


def compared(findings):
    verdict = None
    if len(findings.results):
        verdict = below_the_best(findings.results, "accuracy", failures=findings.failures)
    return ComparisonResult(findings, verdict, Progress(10, 0, 10))


def test_names_are_printed_as_they_are(capsys):
    y = np.repeat([HOSTILE, "b"], 5)
    console.show_table(Table.from_arrays(HOSTILE, np.arange(20.0).reshape(10, 2) ** 2, y))
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"{HOSTILE}: 10 rows, 2 features, 2 classes"
    assert f"{HOSTILE} (5)" in second


def test_control_characters_do_not_reach_the_terminal(capsys, tmp_path):
    y = np.repeat([CLEARS, "b"], 5)
    X = pd.DataFrame({CLEARS: np.arange(10.0) ** 2, "same": 1.0})
    console.show_table(Table.from_arrays(CLEARS, X, y))
    failures = {Key("table", MODELS[0], 0, 0): f"ValueError: {CLEARS}"}
    lost = results_of(MODELS).query(f"model != {MODELS[0]!r} or fold > 0")
    findings = findings_of(
        results=lost, failures=failures, incomplete=f"no {CLEARS}", judged_by=[CLEARS]
    )
    (tmp_path / f"{CLEARS}.html").touch()
    console.show_comparison(compared(findings), tmp_path)
    nothing = findings_of(results=lost[:0], failures=failures)
    console.show_comparison(compared(nothing), tmp_path)
    printed = capsys.readouterr().out
    assert printed.count(r"\x1b[2J\x1b]0;title\x07") == 8
    assert not {"\x1b", "\a", "\r"} & {*printed}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_labels_are_escaped_on_a_terminal_and_unchanged_in_a_pipe(monkeypatch, is_terminal):
    screen = Console(file=io.StringIO(), force_terminal=is_terminal)
    monkeypatch.setattr(console, "plain_console", lambda **options: screen)
    console.show_predictions(pd.DataFrame({"label": ["a\tb", "c\x1b[2J"]}))
    shown = ["label", r"a\tb", r"c\x1b[2J"] if is_terminal else ["label", "a\tb", "c\x1b[2J"]
    assert screen.file.getvalue().splitlines() == shown


def test_many_classes_are_counted(capsys):
    y = np.arange(60) // 2
    console.show_table(Table.from_arrays("many", np.random.default_rng(0).normal(size=(60, 2)), y))
    assert "and 18 more; the most frequent class has 3" in capsys.readouterr().out


def test_the_ranking_has_every_model_once_the_best_first_and_the_majority(capsys, tmp_path):
    findings = findings_of()
    console.show_comparison(compared(findings), tmp_path)
    printed = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in printed if "±" in line]
    assert sorted(row[0] for row in rows) == sorted(MODELS)
    means = [float(row[1]) for row in rows]
    assert means == sorted(means, reverse=True)
    (majority,) = [line.split() for line in printed if line.startswith("majority class")]
    assert float(majority[-1]) == pytest.approx(findings.majority_rate, abs=5e-4)


def test_a_model_without_all_folds_is_not_ranked(capsys, tmp_path):
    results = results_of(MODELS)
    lost = (results["model"] == MODELS[0]) & (results["fold"] == 0)
    failures = {Key("table", MODELS[0], 0, 0): "MemoryError: 9 GB\nin it.py, line 3"}
    console.show_comparison(
        compared(findings_of(results=results[~lost], failures=failures)), tmp_path
    )
    printed = capsys.readouterr().out.splitlines()
    assert MODELS[0] not in [line.split()[0] for line in printed if "±" in line]
    (reason,) = [line for line in printed if line.startswith(f"{MODELS[0]} is not ranked")]
    assert reason.endswith("MemoryError: 9 GB")


def test_a_comparison_that_failed_everywhere_says_why(capsys, tmp_path):
    failures = {
        Key("table", "KNN", 0, fold): "ValueError: too few\nin it.py, line 3" for fold in range(3)
    }
    nothing = results_of(MODELS)[:0]
    console.show_comparison(compared(findings_of(results=nothing, failures=failures)), tmp_path)
    printed = capsys.readouterr().out
    assert "No model has finished a fold.\nKNN failed: ValueError: too few\n" in printed
    assert printed.count("KNN failed") == 1


def test_files_are_named_in_one_line_each_and_others_are_not(capsys, tmp_path):
    folder = tmp_path / ("long name " * 20).strip()
    folder.mkdir()
    for name in ("model.skops", "report.html", "results.sqlite", "results.parquet"):
        (folder / name).touch()
    console.show_comparison(compared(findings_of(model_file="model.skops")), folder)
    paths = [str(folder / name) for name in ("model.skops", "report.html", "results.parquet")]
    assert capsys.readouterr().out.splitlines()[-3:] == paths
    console.show_comparison(compared(findings_of(model_file=None)), folder)  # an old model is there
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2:] == paths[1:]
    assert paths[0] not in printed


def test_the_bar_tells_how_far_a_run_is_and_how_long_it_takes(monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True, width=150)
    monkeypatch.setattr(console, "plain_console", lambda **options: screen)
    with console.ProgressBar() as update:
        update(Progress(8, 0, 0))
        update(Progress(8, 0, 2, 2, 12.0, Key("[b]\a", "LSR", 0, 1)))
    shown = screen.file.getvalue()
    assert "4/8" in shown
    assert r"fits [b]\x07 LSR" in shown
    assert "about 12.0 s left" in shown


def test_a_bar_without_progress_shows_nothing(capsys):
    with console.ProgressBar():
        pass
    assert capsys.readouterr() == ("", "")
