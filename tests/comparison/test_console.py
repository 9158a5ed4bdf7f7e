"""What is printed: names as they are, lines as long as they are, nothing that is not ranked."""

import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_findings import flagged, rare
from rich.console import Console

from discreg.comparison import console
from discreg.comparison.prepare import Plan, prepare
from discreg.comparison.running.engine import Progress
from discreg.comparison.running.store import Key
from discreg.tables.table import as_table

HOSTILE = "[red]a:smile:\\[/b]"
CLEARS = "\x1b[2J\x1b]0;title\a\r!"  # clears the screen, changes the title, overwrites the line


def prepared(name, X, y):
    return prepare(as_table(X, y, name=name), Plan(candidates=["LSR"], cv=2))


def ranked(printed):
    """The first words of the lines of the printed table of models."""
    return [line.split()[0] for line in printed if re.search(r"\d \(-?\d\.\d+ to ", line)]


def test_names_are_printed_as_they_are(capsys):
    y = np.repeat([HOSTILE, "b"], 5)
    console.show_prepared(prepared(HOSTILE, np.arange(20.0).reshape(10, 2) ** 2, y))
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"{HOSTILE}: 10 rows, 2 features, 2 classes"
    assert f"{HOSTILE} (5)" in second


def test_control_characters_do_not_reach_the_terminal(capsys, tmp_path):
    y = np.repeat([CLEARS, "b"], 5)
    X = pd.DataFrame({CLEARS: np.arange(10.0) ** 2, "same": 1.0})
    console.show_prepared(prepared(CLEARS, X, y))
    comparison = rare()
    verdict = replace(comparison.verdict, sentences=(CLEARS,), not_judged={"LSR": CLEARS})
    findings = replace(comparison.findings, incomplete=f"no {CLEARS}")
    (tmp_path / f"{CLEARS}.html").touch()
    shown = replace(comparison, verdict=verdict, findings=findings)
    console.show_comparison(shown, tmp_path)
    printed = capsys.readouterr().out
    assert printed.count(r"\x1b[2J\x1b]0;title\x07") >= 6
    assert not {"\x1b", "\a", "\r"} & {*printed}


def test_flags_are_printed(capsys):
    table = as_table(np.random.default_rng(0).normal(size=(40, 2)), [0] * 36 + [1] * 4)
    console.show_prepared(prepare(table, Plan(candidates=["LSR"])))
    printed = capsys.readouterr().out
    assert "rare class: " in printed
    assert "Labels follow the threshold of the prior" in printed
    assert "There are 4 folds instead of 10" in printed


@pytest.mark.parametrize("is_terminal", [True, False])
def test_labels_are_escaped_on_a_terminal_and_unchanged_in_a_pipe(monkeypatch, is_terminal):
    screen = Console(file=io.StringIO(), force_terminal=is_terminal)
    monkeypatch.setattr(console, "plain_console", lambda **options: screen)
    console.show_predictions(pd.DataFrame({"label": ["a\tb", "c\x1b[2J"]}))
    shown = ["label", r"a\tb", r"c\x1b[2J"] if is_terminal else ["label", "a\tb", "c\x1b[2J"]
    assert screen.file.getvalue().splitlines() == shown


def test_many_classes_are_counted(capsys):
    y = np.arange(60) // 2
    console.show_prepared(prepared("many", np.random.default_rng(0).normal(size=(60, 2)), y))
    assert "and 18 more; the most frequent class has 3" in capsys.readouterr().out


def test_the_ranking_has_every_judged_model_once_the_best_first(capsys, tmp_path):
    console.show_comparison(rare(), tmp_path)
    printed = capsys.readouterr().out.splitlines()
    names = [str(name) for name in rare().table.index]
    assert [name for name in ranked(printed) if name in names] == names
    assert set(rare().verdict.sentences) <= {*printed}


def test_a_red_flag_is_printed_with_the_command_and_without_scores(capsys, tmp_path):
    console.show_comparison(flagged(), tmp_path)
    printed = capsys.readouterr().out
    assert "--groups patient_id" in printed
    assert "log-loss" not in printed


def test_files_are_named_in_one_line_each_and_others_are_not(capsys, tmp_path):
    folder = tmp_path / ("long name " * 20).strip()
    folder.mkdir()
    for name in ("model.skops", "report.html", "results.sqlite", "predictions.parquet"):
        (folder / name).touch()
    console.show_comparison(rare(), folder)
    paths = [str(folder / name) for name in ("model.skops", "predictions.parquet", "report.html")]
    assert capsys.readouterr().out.splitlines()[-3:] == paths
    findings = replace(rare().findings, model_file=None)  # an old model is there
    console.show_comparison(replace(rare(), findings=findings), folder)
    assert paths[0] not in capsys.readouterr().out.splitlines()


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


def test_a_log_file_gets_a_line_for_every_tenth_of_the_fits(capsys):
    with console.ProgressBar() as update:
        for n_ended in range(101):
            update(Progress(100, 0, n_ended, 0, float(n_ended), Key("data", "LSR", 0, 1)))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "100 of 100 fits after 100.0 s, latest LSR"
    assert lines[5] == "50 of 100 fits after 50.0 s, latest LSR, about 50.0 s left"


def test_a_bar_without_progress_shows_nothing(capsys):
    with console.ProgressBar():
        pass
    assert capsys.readouterr() == ("", "")
