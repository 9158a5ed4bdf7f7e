"""``discreg compare`` from a file to its report, its numbers and its model, whatever happens."""

import io
import os
import re
import shutil
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runs import attempts, easy_frame, interrupt, odd_frame, refused, run, start
from sklearn.model_selection import StratifiedKFold

import discreg
from discreg import Comparison
from discreg.comparison.running import engine
from discreg.model_files import load_model

COLUMNS = ["model", "repeat", "fold", "metric", "value"]
SCORES = {"accuracy", "balanced_accuracy", "rare_recall", "g_mean", "macro_f1", "brier", "roc_auc"}
SCORES |= {"log_loss", "fit_seconds", "predict_seconds"}
MODELS = ("LSR", "LRLR", "KNN")
SEVERAL = ("--candidates", ",".join(MODELS), "--repeats", 2, "--folds", 5, "--n-jobs")
N_FITS = 4 * 2 * 5  # with the majority class
FEW = ("--candidates", "LSR,KNN", "--repeats", 1, "--folds", 2, "--n-jobs", 1)
PATIENCE = 60  # seconds to wait for what should come at once


def write(frame, path):
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with odd.csv and out, the output of a comparison on it, and what was printed."""
    folder = tmp_path_factory.mktemp("compared")
    table = write(odd_frame(), folder / "odd.csv")
    options = ("--candidates", "LSR,DLSR,Logistic", "--repeats", 1, "--n-jobs", 1)
    with redirect_stdout(io.StringIO()) as printed:
        assert run("compare", table, "--target", "kind", "--output", folder / "out", *options) == 0
    return folder, printed.getvalue()


def test_it_says_what_it_found_and_what_it_did(finished):
    _, printed = finished
    for fact in (
        "60 rows, 4 features, 3 classes",
        "<b>ill</b> (28)",
        "the most frequent class has 47",
        "2 numeric, 1 boolean, 1 categorical",
        "up to 4 indicator columns",
        "column 'unit' is constant and left out",
        "3 missing values in 2 columns ('a b', 'colour')",
        "by balanced accuracy, because the rarest class 'rare' has 13",
        "5 stratified folds.",
    ):
        assert fact in printed
    assert {line.split()[0] for line in ranking(printed)} == {"LSR", "DLSR", "Logistic", "majority"}


def ranking(printed):
    """The lines of the printed table of models."""
    return [line for line in printed.splitlines() if re.search(r"\d \(-?\d\.\d+ to ", line)]


def test_results_are_long_and_unique_and_complete(finished):
    folder, _ = finished
    results = pd.read_parquet(folder / "out" / "results.parquet")
    assert list(results) == COLUMNS
    assert not results.duplicated(COLUMNS[:4]).any()
    fits = results.groupby(["model", "repeat", "fold"])["metric"].agg(set)
    assert len(fits) == 20
    assert all(metrics >= SCORES for metrics in fits)
    assert results["value"].between(0, 100).all()


def test_the_report_tells_of_the_data_and_escapes_their_names(finished):
    folder, _ = finished
    page = (folder / "out" / "report.html").read_text()
    assert "<b>ill</b>" not in page
    for fact in (
        "&lt;b&gt;ill&lt;/b&gt;",
        "balanced accuracy",
        "model.skops",
        "load_model",
    ):
        assert fact in page


def test_the_model_is_one_of_those_compared_and_fitted_to_all_rows(finished):
    folder, _ = finished
    model = load_model(folder / "out" / "model.skops")
    assert {*model.classes_} == {*odd_frame()["kind"]}
    assert any(
        name.lower() in type(model.pipeline[-1]).__name__.lower()
        for name in ("LSR", "DLSR", "Logistic")
    )


def test_a_model_that_cannot_be_fitted_to_all_rows_leaves_the_report(finished, monkeypatch, capsys):
    def broken(*arguments):
        raise ChildProcessError("no memory left")

    folder, _ = finished
    monkeypatch.setattr(engine, "call_in_worker", broken)
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", folder / "out")
    assert run(*again, "--candidates", "logistic,dlsr,LSR", "--repeats", "1") == 1
    told = "could not be fitted to all rows and saved: no memory left"
    printed = capsys.readouterr().out
    assert told in printed
    assert str(folder / "out" / "model.skops") not in printed  # the file is of the run before
    page = (folder / "out" / "report.html").read_text()
    assert told in page


def test_a_model_that_cannot_be_written_is_a_failure(finished, monkeypatch, capsys):
    def broken(*arguments):
        raise OSError(28, "No space left on device")

    folder, _ = finished
    monkeypatch.setattr("discreg.comparison.execute.save_model", broken)
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", folder / "out")
    assert run(*again, "--candidates", "logistic,dlsr,LSR", "--repeats", "1") == 1
    assert "saved: [Errno 28] No space left on device" in capsys.readouterr().out


def test_a_store_that_was_changed_is_refused_with_what_to_do(finished, tmp_path, capsys):
    folder, _ = finished
    shutil.copytree(folder / "out", tmp_path / "out")
    store = tmp_path / "out" / "results.sqlite"
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript("ALTER TABLE attempts RENAME COLUMN ended TO finished")
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", tmp_path / "out")
    message = refused(capsys, *again, "--candidates", "logistic,dlsr,LSR", "--repeats", "1")
    assert message.startswith(f"{store} cannot be used, because it is damaged or was changed")
    assert "Move that file away" in message
    assert "disk" not in message


def test_drafts_of_a_killed_run_are_removed(finished, tmp_path):
    folder, _ = finished
    shutil.copytree(folder / "out", tmp_path / "out")
    for name in (".model.skops.1", ".report.html.22", ".results.parquet.333"):
        (tmp_path / "out" / name).touch()
    (tmp_path / "out" / ".results.sqlite.workers-x").mkdir()
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", tmp_path / "out")
    assert run(*again, "--candidates", "logistic,dlsr,LSR", "--repeats", "1") == 0
    assert not list((tmp_path / "out").glob(".*"))


def test_an_interrupt_of_the_final_fit_keeps_the_results(finished, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    folder, _ = finished
    monkeypatch.setattr(engine, "call_in_worker", interrupted)
    again = ("compare", folder / "odd.csv", "--target", "kind", "--output", folder / "out")
    assert run(*again, "--candidates", "logistic,dlsr,LSR", "--repeats", "1") == 130
    assert "Interrupted." in capsys.readouterr().err
    assert (folder / "out" / "results.parquet").exists()


def test_the_same_command_again_makes_no_fit(finished, capsys):
    folder, printed = finished
    before = attempts(folder / "out")
    arguments = ("compare", folder / "odd.csv", "--target", "kind", "--output", folder / "out")
    assert run(*arguments, "--candidates", "logistic,dlsr,LSR", "--repeats", "1") == 0
    assert attempts(folder / "out") == before
    assert ranking(capsys.readouterr().out) == ranking(printed)


def test_models_are_added_and_left_out_later_without_repeating_fits(finished, tmp_path, capsys):
    folder, printed = finished
    shutil.copytree(folder / "out", tmp_path / "out")
    before = attempts(tmp_path / "out")
    arguments = ("compare", folder / "odd.csv", "--target", "kind", "--output", tmp_path / "out")
    options = ("--candidates", "logistic,lsr,ridge", "--exclude", "LSR", "--repeats", 1)
    assert run(*arguments, *options) == 0
    fits = [name.split()[0] for name, _ in attempts(tmp_path / "out")[len(before) :]]
    assert {*fits} <= {"Ridge", "Logistic"}  # the inspection of the recommended model may fit it
    assert fits.count("Ridge") >= 5
    lines = {line.split()[0] for line in ranking(capsys.readouterr().out)}
    assert lines == {"Logistic", "Ridge", "majority"}


def test_files_of_others_are_never_overwritten(finished, tmp_path, capsys):
    folder, _ = finished
    (tmp_path / "report.html").write_text("mine")
    told = refused(capsys, "compare", folder / "odd.csv", "--target", "kind", "--output", tmp_path)
    assert "was not written by this comparison" in told
    assert (tmp_path / "report.html").read_text() == "mine"


def test_python_and_the_shell_give_the_same_numbers(finished):
    folder, _ = finished
    stored = Comparison.load(folder / "out")
    frame = pd.read_csv(folder / "odd.csv")
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    here = discreg.compare(
        frame, target="kind", candidates=["LSR", "DLSR", "Logistic"], cv=splitter, n_jobs=1
    )
    key = ["model", "repeat", "fold", "metric"]
    clock = ["fit_seconds", "predict_seconds"]
    ours, theirs = (
        each.results[~each.results["metric"].isin(clock)].set_index(key)["value"].sort_index()
        for each in (stored, here)
    )
    pd.testing.assert_series_equal(ours, theirs)
    assert here.verdict == stored.verdict
    assert here.folder is None
    new = frame.drop(columns="kind")
    np.testing.assert_array_equal(here.model.predict(new), stored.model.predict(new))


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        (["--target", "smokes"], "classes was"),
        (["--target", "kind", "--repeats", "1", "--random-state", "1"], "seed was 0 and is now 1"),
        (["--target", "kind", "--repeats", "1", "--folds", "2"], "is now 2 stratified folds"),
        (["--target", "kind"], "is now 2 x 5 stratified folds"),
        (["--target", "kind", "--fold", "smokes"], "is now 2 folds that the table defines"),
        (["--target", "kind", "--scoring", "g_mean"], "metric was balanced_accuracy"),
    ],
)
def test_another_comparison_is_refused_with_what_differs(finished, capsys, arguments, difference):
    folder, _ = finished
    table = folder / "odd.csv"
    models = ["--candidates", "LSR,DLSR,Logistic"]
    message = refused(capsys, "compare", table, "--output", folder / "out", *models, *arguments)
    assert "contains results of another run" in message
    assert difference in message
    assert "Give another directory for the output" in message


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
    """That every fit was made to its end exactly once, and all are in the results."""
    ended = Counter(name for name, has_ended in attempts(output) if has_ended)
    assert len(ended) == N_FITS
    assert set(ended.values()) == {1}
    results = pd.read_parquet(output / "results.parquet")
    assert not results.duplicated(COLUMNS[:4]).any()
    assert results.groupby(["model", "repeat", "fold"]).ngroups == N_FITS
    assert all(set(fit) >= SCORES for _, fit in results.groupby(COLUMNS[:3])["metric"])


@pytest.mark.linux
def test_a_killed_run_goes_on_without_repeating_or_losing_a_fit(tmp_path, capsys):
    table, output = write(easy_frame(), tmp_path / "table.csv"), tmp_path / "out"
    arguments = ("compare", table, "--target", "kind", "--output", output, *SEVERAL)
    process = start(*arguments, 2)
    wait_for(lambda: n_ended(output) >= 2)
    process.send_signal(signal.SIGSTOP)  # so that it does not end before a second one begins
    assert "is in use by another run" in refused(capsys, *arguments, 1)
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: n_ended(output) >= 5)
    workers = descendants(process.pid)
    assert sum(map(has_numpy, workers)) >= 2
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_alive, workers)))
    before = attempts(output)
    finished_before = {name for name, ended in before if ended}
    assert 5 <= len(finished_before) < N_FITS
    assert sum(not ended for _, ended in before) <= 2
    assert run(*arguments, 1) == 0
    after = attempts(output)[len(before) :]
    assert finished_before.isdisjoint(name for name, _ in after)
    assert len(after) == N_FITS - len(finished_before)
    check_complete(output)


def test_a_test_table_without_the_rarest_class_has_a_report(tmp_path):
    frame = easy_frame()
    y, X = frame.pop("kind"), frame
    X_test, y_test = X[:30].assign(x1=8.0), y[:30].replace("cedar", "ash")
    found = discreg.compare(
        X, y, test=(X_test, y_test), candidates=["LSR"], scoring="accuracy", n_jobs=1
    )
    found.report(tmp_path / "report.html")
    assert "one split: 30 rows of the test table" in (tmp_path / "report.html").read_text()
    assert "on held-out test rows" in found.findings.methods


CALL = """
import sys
import discreg

comparison = discreg.compare(
    sys.argv[1], target="kind", candidates=sys.argv[3].split(","), n_jobs=2, output=sys.argv[2]
)
print(comparison.findings.incomplete)
"""


@pytest.mark.linux
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.full),
        pytest.param(signal.SIGKILL, marks=pytest.mark.full),
    ],
)
def test_a_call_from_python_that_is_stopped_goes_on_later(tmp_path, number):
    table, output = write(easy_frame(), tmp_path / "table.csv"), tmp_path / "out"
    process = start(table, output, ",".join(MODELS), program=CALL)
    wait_for(lambda: n_ended(output) >= 5)
    workers = descendants(process.pid)
    process.send_signal(number)
    out, err = process.communicate()
    wait_for(lambda: not any(map(is_alive, workers)))
    finished_before = [name for name, ended in attempts(output) if ended]
    assert 5 <= len(finished_before) < N_FITS
    if number == signal.SIGINT:  # the comparison of the finished fits is returned
        assert process.returncode == 0, err
        assert "fits are missing because the run was interrupted" in out
    else:
        assert process.returncode == -number
    again = discreg.compare(table, target="kind", candidates=MODELS, n_jobs=1, output=output)
    assert again.findings.incomplete is None
    check_complete(output)


@pytest.mark.full
@pytest.mark.linux
def test_an_interrupted_run_reports_what_is_done_and_goes_on(tmp_path):
    table, output = write(easy_frame(), tmp_path / "table.csv"), tmp_path / "out"
    arguments = ("compare", table, "--target", "kind", "--output", output, *SEVERAL)
    process = start(*arguments, 2)
    wait_for(lambda: any(map(has_numpy, descendants(process.pid))))
    for worker in descendants(process.pid):  # they leave Ctrl-C to their parent from the beginning
        os.kill(worker, signal.SIGINT)
    wait_for(lambda: n_ended(output) >= 5)
    interrupt(process)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in out + err
    n_done = n_ended(output)
    assert 5 <= n_done < N_FITS
    told = f"{N_FITS - n_done} of {N_FITS} fits are missing because the run was interrupted"
    assert told in " ".join(out.split())
    assert told in (output / "report.html").read_text()
    assert (output / "model.skops").exists()
    assert pd.read_parquet(output / "results.parquet").groupby(COLUMNS[:3]).ngroups == n_done
    assert run(*arguments, 1) == 0
    check_complete(output)
    assert "missing because" not in (output / "report.html").read_text()


@pytest.mark.linux
def test_a_request_to_end_before_the_first_fit_has_ended_is_told_in_a_sentence(tmp_path):
    table, output = write(easy_frame(), tmp_path / "table.csv"), tmp_path / "out"
    process = start("compare", table, "--target", "kind", "--output", output, *SEVERAL, 1)
    wait_for(lambda: attempts(output))
    process.terminate()  # as Ctrl-C, which other tests press
    out, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert f"{N_FITS} of {N_FITS} fits are missing because the run was interrupted" in out
    assert "not started)" in out


@pytest.mark.full
def test_files_named_like_modules_are_not_imported(tmp_path):
    table, output = write(easy_frame(), tmp_path / "table.csv"), tmp_path / "out"
    for name in ("random", "pandas", "select"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('mine')")
    script = tmp_path / "bin" / "discreg"  # in a folder of its own, as pip puts it
    script.parent.mkdir()
    script.write_text("from discreg.cli import main\nif __name__ == '__main__':\n    main()\n")
    arguments = ("compare", table, "--target", "kind", "--output", output, *FEW)
    process = start(*arguments, script=script, folder=tmp_path)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert (output / "model.skops").exists()


@pytest.mark.full
def test_a_large_file_keeps_to_the_time_budget(tmp_path, capsys):
    chance = np.random.default_rng(0)
    n_rows = 60_000
    frame = pd.DataFrame(
        chance.normal(size=(n_rows, 20)).round(3), columns=[f"x{place}" for place in range(20)]
    )
    frame["kind"] = np.where(frame["x0"] + chance.normal(size=n_rows) > 0, "up", "down")
    table, output = write(frame, tmp_path / "large.csv"), tmp_path / "out"
    names = ("LSR", "LRLR", "LRRR", "Ridge", "LDA", "KNN", "SVC")
    models = ("--candidates", ",".join(names), "--repeats", 1, "--folds", 2, "--n-jobs", 1)
    budget = ("--time-budget", "36s")  # 6 s for each model but SVC
    assert run("compare", table, "--target", "kind", "--output", output, *models, *budget) == 0
    printed = capsys.readouterr().out
    results = pd.read_parquet(output / "results.parquet")
    assert "KNN is not ranked: finished 0 of 2 folds: the fit exceeded its time limit" in printed
    assert "SVC is left out: one fit of 30,000 rows, 20 features and 2 classes" in printed
    n_missing = 14 - results.groupby(["model", "fold"]).ngroups
    assert n_missing >= 2
    missing = f"{n_missing} of 14 fits are missing"
    assert f"{missing} because some fits exceeded their time limit" in printed
    page = (output / "report.html").read_text()
    assert missing in page
    assert "KNN" in page


def verdict_on(folder, frame, models):
    table = write(frame, folder / "table.csv")
    options = ("--candidates", models, "--repeats", 2, "--folds", 5, "--n-jobs", 1)
    assert run("compare", table, "--target", "kind", "--output", folder / "out", *options) == 0
    return Comparison.load(folder / "out").verdict


@pytest.mark.full
def test_chance_has_no_winner(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(150, 4)), columns=list("abcd"))
    frame["kind"] = np.random.default_rng(1).choice(["u", "v"], 150)
    verdict = verdict_on(tmp_path, frame, "LSR,LRLR,KNN")
    assert verdict.kind == "nothing beats the majority class"
    assert not (tmp_path / "out" / "model.skops").exists()


def test_a_clear_winner_is_named(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["kind"] = np.where(X.prod(axis=1) > 0, "same", "other")  # exclusive or
    verdict = verdict_on(tmp_path, frame, "LSR,KNN")
    assert (verdict.kind, verdict.recommended) == ("clear winner", "KNN")
    assert "Neighbors" in type(load_model(tmp_path / "out" / "model.skops").pipeline[-1]).__name__


@pytest.mark.parametrize("option", ["--folds", "--repeats"])
def test_folds_are_given_or_drawn_and_not_both(tmp_path, capsys, option):
    table = write(easy_frame(), tmp_path / "table.csv")
    told = refused(capsys, "compare", table, "--target", "kind", "--fold", "x1", option, 3)
    assert told == (
        "--fold takes the folds from the table and cannot be combined with --folds or --repeats.\n"
    )


@pytest.mark.full
def test_given_folds_are_those_of_the_results(tmp_path, capsys):
    frame = easy_frame()
    frame["part"] = np.repeat(["b", "a", "c"], [20, 30, 40])
    table, output = write(frame, tmp_path / "table.csv"), tmp_path / "out"
    options = ("--fold", "part", "--candidates", "LSR", "--n-jobs", 1)
    assert run("compare", table, "--target", "kind", "--output", output, *options) == 0
    assert "3 folds that the table defines." in capsys.readouterr().out
    results = pd.read_parquet(output / "results.parquet")
    results = results.query("metric == 'accuracy' and model == 'LSR'")
    assert results["fold"].tolist() == [0, 1, 2]
    n_right = results["value"].to_numpy() * [30, 20, 40]
    np.testing.assert_allclose(n_right, np.round(n_right), atol=1e-9)
