"""The engine makes each fit once, whatever happens to it on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from study_experiments import (
    FirstIsSlow,
    Recorded,
    Troubled,
    Unreadable,
    Unsendable,
    Unwelcome,
)

from discreg.base.errors import InputError
from discreg.comparison import engine
from discreg.comparison.experiment import Key
from discreg.comparison.store import Store
from discreg.comparison.workers import Aside

TESTS = Path(__file__).parents[1]


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log").touch()
    return tmp_path / "log"


def fits(log: Path) -> Counter:
    return Counter(line.rsplit(" ", 1)[0] for line in log.read_text().splitlines())


def test_every_fit_is_made_once_in_the_order_of_the_keys(tmp_path, log):
    experiment, told = Recorded(log), []
    with Store(tmp_path / "store", experiment.settings()) as store:
        progress = engine.run(experiment, store, tell=told.append)
        assert [row[:4] for row in store.results()[::2]] == experiment.keys()
        assert store.array(Key("data", "model 2", 0, 1), "model") == ord("2")
    assert (progress.n_ended, progress.n_left, progress.stopped_by) == (12, 0, None)
    assert [each.latest for each in told if each.latest] != []
    assert [each.n_ended for each in told] == sorted(each.n_ended for each in told)


def test_a_second_run_makes_no_fit(tmp_path, log):
    experiment = Recorded(log)
    with Store(tmp_path / "store", {}) as store:
        engine.run(experiment, store, n_jobs=2)
        assert sum(fits(log).values()) == 12
        progress = engine.run(experiment, store)
    assert sum(fits(log).values()) == 12
    assert (progress.n_before, progress.n_left) == (12, 0)


def test_two_workers_share_the_fits(tmp_path, log):
    with Store(tmp_path / "store", {}) as store:
        engine.run(Recorded(log, seconds=0.2), store, n_jobs=2)
    assert len({line.split()[-1] for line in log.read_text().splitlines()}) == 2


def test_trouble_with_one_model_leaves_the_others_alone(tmp_path, log):
    experiment = Troubled(log, n_models=4)
    with Store(tmp_path / "store", {}) as store:
        progress = engine.run(experiment, store, n_jobs=2, time_budget=12)
        reasons = store.failures()
        assert {key.model for key in store.ended()} == {"model 0", "model 3"}
    assert fits(log) == {f"model 3 {fold}": 1 for fold in range(4)}
    assert "ValueError: singular" in reasons[Key("data", "model 0", 0, 0)]
    assert "out of memory" in reasons[Key("data", "model 1", 0, 0)]
    assert "longer than" in reasons[Key("data", "model 2", 0, 0)]
    # Later folds of what was lost are left out; those of a model that raises are not.
    assert (progress.n_ended, progress.n_dropped, progress.n_left) == (8, 8, 0)


def test_within_a_budget_a_slow_model_holds_up_one_process(tmp_path, log):
    experiment = FirstIsSlow(log, n_models=3, n_folds=3)
    with Store(tmp_path / "store", {}) as store:
        engine.run(experiment, store, n_jobs=2, time_budget=9)
        ended = {(key.model, key.fold) for key in store.ended()}
    assert ended == {(f"model {model}", fold) for model in (1, 2) for fold in range(3)}


def test_the_time_budget_stops_fits_under_way_and_the_next_run_makes_them(tmp_path, log):
    with Store(tmp_path / "store", {}) as store:
        slow = Recorded(log, n_models=1, n_folds=2, seconds=600)
        progress = engine.run(slow, store, n_jobs=1, time_budget=3)
        assert (progress.n_left, progress.stopped_by) == (2, "time budget")
        assert store.failures() == {}  # it is no fault of the fit that the time was over
        progress = engine.run(Recorded(log, n_models=1, n_folds=2), store)
        assert (progress.n_left, progress.stopped_by) == (0, None)


def run_in_a_process(store: Path, log: Path) -> subprocess.Popen:
    code = f"""
from pathlib import Path
from study_experiments import Recorded
from discreg.comparison import engine
from discreg.comparison.store import Store
from discreg.comparison.workers import Aside

if __name__ == "__main__":
    with Store(Path({str(store)!r}), {{}}) as store:
        progress = engine.run(Recorded(Path({str(log)!r}), seconds=0.3), store, n_jobs=2)
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


def wait_for_fits(log: Path, n_fits: int) -> None:
    while sum(fits(log).values()) < n_fits:
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_killed_run_loses_the_fits_under_way_and_repeats_no_other(tmp_path, log):
    process = run_in_a_process(tmp_path / "store", log)
    wait_for_fits(log, 5)
    process.kill()
    process.communicate()
    workers = {int(line.split()[-1]) for line in log.read_text().splitlines()}
    deadline = time.monotonic() + 30
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, workers))
    assert not list(tmp_path.glob("discreg-*"))  # where workers found what to fit
    with Store(tmp_path / "store", {}) as store:
        done = {f"{key.model} {key.fold}" for key in store.ended()}
        engine.run(Recorded(log), store, n_jobs=2)
        assert len(store.ended()) == 12
    made = fits(log)
    assert len(made) == 12
    assert {name for name, times in made.items() if times > 1}.isdisjoint(done)
    assert sum(made.values()) <= 12 + 2  # two were under way


def test_an_interrupt_keeps_what_is_done(tmp_path, log):
    process = run_in_a_process(tmp_path / "store", log)
    wait_for_fits(log, 5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    stopped_by, n_left = output.split()
    with Store(tmp_path / "store", {}) as store:
        assert len(store.ended()) == 12 - int(n_left)
    assert stopped_by == "interrupt"


def test_a_fit_that_an_interrupt_finds_stored_is_counted(tmp_path, log, monkeypatch):
    finish = Store.finish

    def interrupted(*given):
        finish(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "finish", interrupted)
    with Store(tmp_path / "store", {}) as store:
        progress = engine.run(Recorded(log), store)
        assert len(store.ended()) == progress.n_ended == 1
    assert progress.stopped_by == "interrupt"


@pytest.mark.parametrize(
    ("experiment", "trouble"),
    [(Unreadable, "it ended without a word"), (Unwelcome, "ValueError: not here")],
)
def test_a_process_that_cannot_start_is_told_and_not_waited_for(experiment, trouble, tmp_path, log):
    with (
        Store(tmp_path / "store", {}) as store,
        pytest.raises(InputError, match=f"could not start: {trouble}"),
    ):
        engine.run(experiment(log, n_models=2, n_folds=2), store, n_jobs=2)


def test_an_outcome_that_cannot_be_sent_is_an_error_of_its_fit(tmp_path, log):
    with Store(tmp_path / "store", {}) as store:
        engine.run(Unsendable(log, n_models=1, n_folds=1), store)
        (error,) = store.failures().values()
    assert "pickle" in error


def test_a_call_aside_is_made_in_another_process():
    with Aside(os.getpid) as call:
        pid = call.answer()
    assert pid != os.getpid()
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("function", "arguments", "trouble"),
    [
        (int, ("six",), "invalid literal for int"),
        (os._exit, (9,), "ended without a word"),
        (threading.Lock, (), "pickle"),
    ],
)
def test_trouble_aside_is_told(function, arguments, trouble):
    with Aside(function, *arguments) as call, pytest.raises(InputError, match=trouble):
        call.answer()


def test_a_call_aside_that_nobody_waits_for_is_ended():
    began = time.monotonic()
    with Aside(time.sleep, 600):
        pass
    assert time.monotonic() - began < 60
