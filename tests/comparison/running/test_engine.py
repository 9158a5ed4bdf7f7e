"""The engine makes each fit once, whatever happens on the way."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from small_experiments import (
    FirstComputes,
    FirstIsSlow,
    Measured,
    Recorded,
    Threads,
    Troubled,
    Unreadable,
)

from discreg.comparison.running import engine
from discreg.comparison.running.store import Key, Store

TESTS = Path(__file__).parents[2]
FILES = {"log", "script.py", "store", "store.lock"}


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log").touch()
    return tmp_path / "log"


def fits(log: Path) -> Counter:
    return Counter(line.rsplit(" ", 1)[0] for line in log.read_text().splitlines())


def test_every_fit_is_made_once_in_the_order_of_the_keys(tmp_path, log):
    experiment, reports = Recorded(log), []
    with Store(tmp_path / "store", experiment.settings()) as store:
        progress = engine.run(experiment, store, on_progress=reports.append)
        stored = store.results().query("metric == 'fold'")
        assert [*stored[["dataset", "model", "repeat", "fold"]].itertuples(index=False)] == (
            experiment.keys()
        )
        assert store.array(Key("data", "model 2", 0, 1), "model") == ord("2")
    assert (progress.n_ended, progress.n_left, progress.stopped_by) == (12, 0, None)
    assert [each.n_ended for each in reports] == sorted(each.n_ended for each in reports)
    assert {each.latest for each in reports} == {None, *experiment.keys()}


def test_a_second_run_makes_no_fit(tmp_path, log):
    experiment = Recorded(log)
    with Store(tmp_path / "store", {}) as store:
        engine.run(experiment, store, n_jobs=2)
        assert sum(fits(log).values()) == 12
        progress = engine.run(experiment, store)
    assert sum(fits(log).values()) == 12
    assert (progress.n_before, progress.n_left) == (12, 0)


@pytest.mark.full
def test_two_workers_share_the_fits(tmp_path, log):
    with Store(tmp_path / "store", {}) as store:
        engine.run(Recorded(log, seconds=0.2), store, n_jobs=2)
    assert len({line.split()[-1] for line in log.read_text().splitlines()}) == 2


@pytest.mark.linux
def test_a_model_that_raises_or_whose_worker_is_killed_leaves_the_others_alone(tmp_path, log):
    with Store(tmp_path / "store", {}) as store:
        progress = engine.run(Troubled(log), store, n_jobs=2)
        reasons = store.failures()
        assert {key.model for key in store.ended()} == {"model 0", "model 2"}
    assert fits(log) == {f"model 2 {fold}": 1 for fold in range(4)}
    assert "ValueError: singular\nin small_experiments.py" in reasons[Key("data", "model 0", 0, 0)]
    lost = "the worker process was killed by signal 9; it may have run out of memory"
    assert reasons[Key("data", "model 1", 0, 0)] == lost
    # Later folds of what was lost are left out; those of a model that raises are not.
    assert (progress.n_ended, progress.n_dropped, progress.n_left) == (8, 4, 0)


@pytest.mark.full
@pytest.mark.linux
def test_a_fit_is_stopped_after_its_time_of_computing(tmp_path, log):
    with Store(tmp_path / "store", {}) as store:
        progress = engine.run(FirstComputes(log, n_models=3, n_folds=2), store, fit_limit=0.5)
        ended = {key.model for key in store.ended()}
        reason = store.failures()[Key("data", "model 0", 0, 0)]
    assert ended == {"model 1", "model 2"}
    assert (progress.n_ended, progress.n_dropped) == (4, 2)
    assert reason == "the fit exceeded its time limit of 0.5 s"


@pytest.mark.full
def test_a_slow_model_is_stopped_and_occupies_one_worker(tmp_path, log):
    experiment = FirstIsSlow(log, n_models=10, n_folds=2)
    with Store(tmp_path / "store", {}) as store:
        progress = engine.run(experiment, store, n_jobs=2, time_budget=15)
        ended = {(key.model, key.fold) for key in store.ended()}
        reason = store.failures()[Key("data", "model 0", 0, 0)]
    assert ended == {(f"model {model}", fold) for model in range(1, 10) for fold in range(2)}
    assert reason == "the fit exceeded its time limit of 3 s"
    assert (progress.n_dropped, progress.stopped_by) == (2, None)


def test_the_time_budget_stops_fits_under_way_and_the_next_run_makes_them(tmp_path, log):
    with Store(tmp_path / "store", {}) as store:
        slow = Recorded(log, n_models=1, n_folds=2, seconds=600)
        progress = engine.run(slow, store, time_budget=2)
        assert (progress.n_left, progress.stopped_by) == (2, "time budget")
        assert store.failures() == {}  # it is no fault of the fit that the time was over
        progress = engine.run(Recorded(log, n_models=1, n_folds=2), store)
        assert (progress.n_left, progress.stopped_by) == (0, None)


def run_in_a_process(store: Path, log: Path) -> subprocess.Popen:
    code = f"""
from pathlib import Path
from small_experiments import Measured, Recorded
from discreg.comparison.running import engine
from discreg.comparison.running.store import Store

if __name__ == "__main__":
    with Store(Path({str(store)!r}), {{}}) as store:
        progress = engine.run(Recorded(Path({str(log)!r}), seconds=0.5), store, n_jobs=2)
        print(progress.stopped_by, progress.n_left)
"""
    script = log.with_name("script.py")
    script.write_text(code)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "TMPDIR": str(store.parent),
    }
    return subprocess.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True
    )


def wait_for_fits(process: subprocess.Popen, log: Path, n_fits: int) -> None:
    while sum(fits(log).values()) < n_fits:
        assert process.poll() is None
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def assert_nothing_is_left(log: Path) -> None:
    """That the workers have ended and the folder with their data is gone."""
    wait_for_workers(log)
    assert {path.name.split("-")[0] for path in log.parent.iterdir()} <= FILES


def workers_of(log: Path) -> set[int]:
    return {int(line.split()[-1]) for line in log.read_text().splitlines()}


def wait_for_workers(log: Path) -> None:
    workers = workers_of(log)
    deadline = time.monotonic() + 30
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, workers))


@pytest.mark.linux
def test_a_killed_run_loses_the_fits_under_way_and_repeats_no_other(tmp_path, log):
    process = run_in_a_process(tmp_path / "store", log)
    wait_for_fits(process, log, 5)
    process.kill()
    process.communicate()
    assert_nothing_is_left(log)
    with Store(tmp_path / "store", {}) as store:
        done = {f"{key.model} {key.fold}" for key in store.ended()}
        engine.run(Recorded(log), store, n_jobs=2)
        assert len(store.ended()) == 12
    made = fits(log)
    assert len(made) == 12
    assert {name for name, times in made.items() if times > 1}.isdisjoint(done)
    assert sum(made.values()) <= 12 + 2  # two were under way


@pytest.mark.full
@pytest.mark.linux
def test_the_next_run_removes_what_a_run_left_that_was_killed_with_its_workers(tmp_path, log):
    process = run_in_a_process(tmp_path / "store", log)
    while len(workers_of(log)) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGSTOP)
    for pid in (*workers_of(log), process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    wait_for_workers(log)
    (left,) = tmp_path.glob(".store.workers-*")
    assert list(left.iterdir())
    assert not [*tmp_path.glob("pymp-*"), *tmp_path.glob("listener-*")]
    (tmp_path / ".store2.workers-1").mkdir()  # of another store
    Store(tmp_path / "store", {}).close()
    assert [path.name for path in tmp_path.glob(".*")] == [".store2.workers-1"]


@pytest.mark.full
@pytest.mark.linux
def test_an_interrupt_keeps_what_is_done(tmp_path, log):
    process = run_in_a_process(tmp_path / "store", log)
    wait_for_fits(process, log, 5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert_nothing_is_left(log)
    stopped_by, n_left = output.split()
    with Store(tmp_path / "store", {}) as store:
        assert len(store.ended()) == 12 - int(n_left)
    assert stopped_by == "interrupt"


def test_an_interrupt_lets_a_stored_fit_count_and_ends_the_run(tmp_path, log, monkeypatch):
    finish = Store.finish

    def interrupted(*given):
        finish(*given)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Store, "finish", interrupted)
    with Store(tmp_path / "store", {}) as store:
        progress = engine.run(Recorded(log), store)
        assert len(store.ended()) == progress.n_ended == 1
    assert progress.stopped_by == "interrupt"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_model_whose_fits_would_take_too_long_is_given_up_after_the_first(tmp_path, log):
    experiment = Measured(log)
    with Store(tmp_path / "store", experiment.settings()) as store:
        progress = engine.run(experiment, store, most_seconds=10.0)
        done = [(key.model, key.fold) for key in store.ended()]
        assert sorted(done) == [("model 0", fold) for fold in range(4)] + [("model 1", 0)]
        assert progress.n_dropped == 3
        again = engine.run(experiment, store, most_seconds=10.0)
        assert (again.n_ended, again.n_dropped) == (5, 3)
        assert engine.run(experiment, store).n_ended == 8


@pytest.mark.full
def test_workers_that_cannot_start_end_the_run(tmp_path, log, capfd):
    with (
        Store(tmp_path / "store", {}) as store,
        pytest.raises(ChildProcessError, match="could not start"),
    ):
        engine.run(Unreadable(log), store, n_jobs=2)
    assert "ValueError: not here" in capfd.readouterr().err


def test_a_worker_has_one_thread_and_this_process_keeps_its_environment(tmp_path, log, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with Store(tmp_path / "store", {}) as store:
        engine.run(Threads(log, n_models=1, n_folds=1), store)
        assert store.results()["value"].tolist() == [1, 1]
    assert os.environ == before


def test_a_function_is_called_in_another_process(tmp_path):
    with (
        Store(tmp_path / "store", {}) as store,
        engine.open_pool(store, 1, os.getpid) as pool,
    ):
        pid = engine.call_in_worker(pool)
    assert pid != os.getpid()
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("function", "argument", "error"),
    [(int, "six", "ValueError: invalid literal for int"), (os._exit, 9, "ended with exit code 9")],
)
def test_an_error_in_another_process_is_raised_here(tmp_path, function, argument, error):
    with (
        Store(tmp_path / "store", {}) as store,
        engine.open_pool(store, 1, function) as pool,
        pytest.raises(ChildProcessError, match=error),
    ):
        engine.call_in_worker(pool, argument)


@pytest.mark.full
def test_two_runs_share_workers_and_the_second_does_not_wait_for_the_first(tmp_path, log):
    slow = FirstIsSlow(log, n_models=1, n_folds=1)
    with (
        Store(tmp_path / "store", {}) as store,
        engine.open_pool(store, 1, slow.run) as pool,
    ):
        assert engine.run(slow, store, time_budget=1, pool=pool).stopped_by == "time budget"
        quick = Recorded(log, n_models=2, n_folds=1)
        assert engine.call_in_worker(pool, quick.keys()[1]).values["fold"] == 0
