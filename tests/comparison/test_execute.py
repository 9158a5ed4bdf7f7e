"""``discreg compare`` from a file to its report, its numbers and its model, whatever happens."""

import io
import os
import re
import shlex
import signal
import time
from collections import Counter
from contextlib import redirect_stdout
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runs import attempts, easy_frame, interrupt, odd_frame, refused, run, start
from sklearn.datasets import dump_svmlight_file

import discreg
from discreg import Comparison
from discreg.comparison.prepare import Decision, Plan, prepare
from discreg.comparison.running import engine
from discreg.model_files import load_model
from discreg.tables.table import as_table

MODELS = ("LSR", "LRLR", "LRRR")
SEVERAL = ("--candidates", ",".join(MODELS), "--folds", 8, "--n-jobs")
N_FITS = 4 * 8  # with the class frequencies
FEW = ("--candidates", "LSR,Logistic", "--folds", 3, "--n-jobs", 1)
PATIENCE = 120  # seconds to wait for what should come at once


def write(frame, path):
    frame.to_csv(path, index=False)
    return path


def pair_frame(n_rows=160, seed=0):
    """Two classes, one of them rare, a weak signal and a site."""
    chance = np.random.default_rng(seed)
    X = chance.normal(size=(n_rows, 3))
    p = 1 / (1 + np.exp(1.5 - 2 * X[:, 0]))
    frame = pd.DataFrame(X, columns=list("abc")).assign(site=np.arange(n_rows) % 2)
    return frame.assign(kind=np.where(chance.random(n_rows) < p, "case", "control"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with odd.csv and out, the output of a comparison on it, and what was printed."""
    folder = tmp_path_factory.mktemp("compared")
    table = write(odd_frame(), folder / "odd.csv")
    with redirect_stdout(io.StringIO()) as printed:
        assert run("compare", table, "--target", "kind", "--output", folder / "out", *FEW) == 0
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """A comparison from Python with a test table, a subgroup and a wanted recall."""
    folder = tmp_path_factory.mktemp("tested")
    options = {"candidates": ["LSR", "Logistic"], "cv": 3, "n_jobs": 1, "subgroup": "site"}
    test = pair_frame(80, seed=1)
    found = discreg.compare(
        pair_frame(), target="kind", test=test, recall=0.9, output=folder / "out", **options
    )
    return folder, found, test


def test_numbers_that_are_too_large_are_refused_before_the_first_fit(tmp_path, capsys):
    frame = easy_frame()
    frame.loc[3, frame.columns[0]] = 1.7e308
    table = write(frame, tmp_path / "huge.csv")
    said = refused(capsys, "compare", table, "--target", "kind", "--output", tmp_path / "out", *FEW)
    assert f"The numbers of '{frame.columns[0]}' are too large. Divide them" in said
    assert "RuntimeWarning" not in said
    assert attempts(tmp_path / "out") == []


@pytest.mark.parametrize("name", ["new.csv", "new.svm"])
def test_the_code_of_the_report_predicts_new_rows(tmp_path, monkeypatch, capsys, name):
    frame = easy_frame()
    features = frame.drop(columns="kind").select_dtypes("number").to_numpy()
    if name == "new.csv":
        frame.to_csv(tmp_path / name, index=False)
        table, target = tmp_path / name, {"target": "kind"}
    else:
        dump_svmlight_file(
            features, frame["kind"].astype("category").cat.codes, str(tmp_path / name)
        )
        table, target = tmp_path / name, {}
    discreg.compare(table, candidates=["LSR"], cv=3, n_jobs=1, output=tmp_path / "out", **target)
    (tmp_path / name).replace(tmp_path / "out" / name)
    monkeypatch.chdir(tmp_path / "out")
    page = unescape((tmp_path / "out" / "report.html").read_text())
    _, command, *python = re.findall(r"<pre.*?><code>(.*?)</code></pre>", page, re.DOTALL)
    assert run(*shlex.split(command)[1:]) == 0  # what a user would paste
    assert len(pd.read_csv("predicted.csv")) == len(frame)
    capsys.readouterr()
    for code in python:
        exec(code, {})
        assert len(capsys.readouterr().out.splitlines()) == len(frame)
    assert bool(python) == (name == "new.csv")


def test_the_rule_that_is_asked_for_is_the_one_that_is_announced():
    table = as_table(pair_frame(), "kind")
    for wish, text in (
        (Decision(recall=0.7), "the threshold for a recall of at least 0.7"),
        (Decision(costs={"case": 9.0}), "the smallest expected cost"),
        (Decision(), "the most probable class"),
    ):
        notes = prepare(table, Plan(candidates=["LSR"], decision=wish)).notes
        (note,) = (each for each in notes if "Labels follow" in each)
        assert text in note


def test_it_prints_what_it_found_and_did(finished):
    folder, printed = finished
    for fact in (
        "60 rows, 4 features, 3 classes",
        "<b>ill</b> (28)",
        "tuned and ranked by log-loss",
        "3 stratified folds.",
        str(folder / "out" / "report.html"),
    ):
        assert fact in printed
    assert "<b>ill</b>" not in (folder / "out" / "report.html").read_text()
    model = load_model(folder / "out" / "model.skops")
    assert {*model.classes_} == {*odd_frame()["kind"]}


def test_the_same_command_again_makes_no_fit_and_gives_the_same(finished, capsys):
    folder, printed = finished
    before = attempts(folder / "out")
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", folder / "out", *FEW)
    assert run(*again) == 0
    assert attempts(folder / "out") == before
    results = [line for line in printed.splitlines() if "interval" in line or "Use " in line]
    assert set(results) <= {*capsys.readouterr().out.splitlines()}


def test_another_comparison_is_refused_with_what_differs(finished, capsys):
    folder, _ = finished
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", folder / "out", *FEW)
    assert "seed was 0 and is now 1" in refused(capsys, *again, "--random-state", 1)
    assert "metric was log_loss and is now" in refused(capsys, *again, "--scoring", "accuracy")


def test_files_of_others_are_never_overwritten(tmp_path, capsys):
    table = write(easy_frame(), tmp_path / "table.csv")
    (tmp_path / "report.html").write_text("mine")
    message = refused(capsys, "compare", table, "--target", "kind", "--output", tmp_path, *FEW)
    assert "report.html exists and was not written by this comparison" in message
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_model_that_cannot_be_fitted_or_written_leaves_the_report(finished, monkeypatch, capsys):
    def broken(*arguments):
        raise ChildProcessError("no memory left")

    folder, _ = finished
    monkeypatch.setattr(engine, "call_in_worker", broken)
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", folder / "out", *FEW)
    assert run(*again) == 1
    told = "could not be fitted to all rows and saved: no memory left"
    printed = capsys.readouterr().out
    assert told in printed
    assert str(folder / "out" / "model.skops") not in printed  # the file is of the run before
    assert told in (folder / "out" / "report.html").read_text()


def test_the_test_table_is_scored_once_by_a_model_that_has_not_seen_it(tested):
    folder, found, test = tested
    numbers = {each.title: each for each in found.findings.test}
    right = found.model.predict(test) == test["kind"]
    assert numbers["accuracy"].value == pytest.approx(right.mean())
    assert len(found.evidence.y) == 160
    options = {"candidates": ["LSR", "Logistic"], "cv": 3, "n_jobs": 1, "subgroup": "site"}
    # Other labels in the test table change nothing else, and no stored fit is made again.
    turned = test.assign(kind=np.where(test["kind"] == "case", "control", "case"))
    other = discreg.compare(
        pair_frame(), target="kind", test=turned, recall=0.9, output=folder / "out", **options
    )
    assert other.verdict == found.verdict
    worse = {each.title: each for each in other.findings.test}
    assert worse["accuracy"].value == pytest.approx(1 - right.mean())


def test_the_decision_rule_is_the_same_in_the_model_file_and_in_every_number(tested):
    folder, found, test = tested
    assert found.rule.name == "the threshold for a recall of at least 0.9"
    point = found.threshold_at(recall=0.9)
    assert found.rule.threshold == pytest.approx(point.threshold)
    model = load_model(folder / "out" / "model.skops")
    assert model.decision == found.rule
    is_case = model.predict_proba(test)[:, 0] >= found.rule.threshold
    assert model.predict(test).tolist() == np.where(is_case, "case", "control").tolist()
    stored = model.point_at(0.9)
    assert (stored["threshold"], stored["recall"]) == (point.threshold, point.recall.value)
    again = found.model_at(precision=0.5)
    assert again.decision.name == "the threshold for a precision of at least 0.5"


def test_a_loaded_comparison_is_the_one_that_ran(tested):
    folder, found, _ = tested
    loaded = Comparison.load(folder / "out")
    assert repr(loaded) == repr(found)
    assert [n_rows for _, n_rows, _ in loaded.findings.subgroups] == [80, 80]
    assert {each["feature"] for each in loaded.findings.importance} == {"a", "b", "c", "site"}
    assert loaded.findings.importance[0]["feature"] == "a"
    sizes = [point["n"] for point in loaded.findings.learning_curve]
    assert sizes == sorted(sizes)


def test_a_red_flag_leaves_no_model(tmp_path):
    frame = pair_frame().assign(code=lambda frame: frame["kind"].map({"case": "x", "control": "y"}))
    options = {"target": "kind", "candidates": ["LSR"], "cv": 3, "n_jobs": 1}
    found = discreg.compare(frame, output=tmp_path, **options)
    assert found.verdict.kind == "red flag"
    assert found.model is None
    assert not (tmp_path / "model.skops").exists()
    accepted = discreg.compare(frame, accept="code", output=tmp_path, **options)
    assert accepted.verdict.recommended == "LSR"
    assert (tmp_path / "model.skops").exists()
    discreg.compare(frame, output=tmp_path, **options)
    assert not (tmp_path / "model.skops").exists()


def wait_for(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that these have."""
    try:
        own = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [*own, *(each for child in own for each in descendants(child))]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def has_numpy(pid: int) -> bool:
    return is_alive(pid) and "numpy" in Path(f"/proc/{pid}/maps").read_text()


def n_ended(output):
    return sum(ended for _, ended in attempts(output))


def check_complete(output):
    """That every fit was made to its end exactly once, and all predictions are there."""
    ended = Counter(name for name, has_ended in attempts(output) if has_ended)
    assert len(ended) == N_FITS
    assert set(ended.values()) == {1}
    assert pd.read_parquet(output / "predictions.parquet").notna().all(axis=None)


@pytest.mark.full
@pytest.mark.linux
def test_a_killed_and_an_interrupted_run_go_on_without_losing_a_fit(tmp_path):
    table, output = write(easy_frame(), tmp_path / "table.csv"), tmp_path / "out"
    arguments = ("compare", table, "--target", "kind", "--output", output, *SEVERAL)
    process = start(*arguments, 2)
    wait_for(lambda: n_ended(output) >= 3)
    workers = descendants(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_alive, workers)))
    killed = {name for name, ended in attempts(output) if ended}
    assert 3 <= len(killed) < N_FITS
    process = start(*arguments, 2)
    wait_for(lambda: n_ended(output) >= len(killed) + 3)
    for worker in descendants(process.pid):  # they leave Ctrl-C to their parent
        os.kill(worker, signal.SIGINT)
    interrupt(process)
    out, err = process.communicate()
    assert process.returncode == 130, out + err
    assert "Traceback" not in out + err
    n_done = n_ended(output)
    told = f"{N_FITS - n_done} of {N_FITS} fits are missing because the run was interrupted"
    assert told in " ".join(out.split())
    assert told in (output / "report.html").read_text()
    assert run(*arguments, 1) == 0
    check_complete(output)
    assert "missing because" not in (output / "report.html").read_text()


@pytest.mark.full
def test_a_time_budget_ends_the_run_and_the_same_command_goes_on(tmp_path, capsys):
    table, output = write(easy_frame(), tmp_path / "table.csv"), tmp_path / "out"
    arguments = ("compare", table, "--target", "kind", "--output", output, *SEVERAL, 1)
    assert run(*arguments, "--time-budget", "0.01s") == 1
    assert "because the time budget was used up" in capsys.readouterr().out
    assert run(*arguments) == 0
    check_complete(output)
