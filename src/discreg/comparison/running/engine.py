"""Run the fits of an experiment that are missing in a store, in worker processes.

An experiment (`discreg.comparison.running.store.Experiment`) has settings, a list of keys and a
function of a key::

    class Fits:
        def settings(self):  # a store with other settings raises an error
            return {"data": "iris", "seed": "0"}

        def keys(self):  # one key per fit, in the order in which fits run
            return [Key("iris", model, 0, fold) for fold in range(5) for model in ("LSR", "DRM")]

        def run(self, key):  # one fit and its scores
            return Outcome({"accuracy": accuracy_of(key.model, key.fold)})

    with Store(Path("results.sqlite"), Fits().settings()) as store:
        run(Fits(), store, n_jobs=2)
        store.results()  # a DataFrame: dataset, model, repeat, fold, metric, value

Every outcome is stored when its fit ends. After Ctrl-C or a crash, the same call runs only the
missing fits.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle
from pebble import ProcessExpired, ProcessPool

from .store import CPU_SECONDS, Experiment, Key, Store

TICK = 0.25  # seconds between two calls of `on_progress` while fits are running
HAS_TIMERS = hasattr(signal, "setitimer")
FOR_WORKERS = {
    # One thread per worker, because fits run in parallel and their times are compared.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # A file random.py in the current directory must not replace the module.
    "PYTHONSAFEPATH": "1",
}


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    n_fits: int  # all fits of the experiment
    n_before: int  # fits in the store when the run began
    n_ended: int  # fits in the store now
    n_dropped: int = 0  # fits given up in this run: too slow, or their worker died
    seconds: float = 0.0  # time since the run began
    latest: Key | None = None  # the fit that ended last
    stopped_by: str | None = None  # "time budget" or "interrupt"

    @property
    def n_left(self) -> int:
        """Number of remaining fits."""
        return self.n_fits - self.n_ended - self.n_dropped

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining seconds; None before the first fit has ended."""
        n_new = self.n_ended + self.n_dropped - self.n_before
        return self.seconds / n_new * self.n_left if n_new else None


def run(
    experiment: Experiment,
    store: Store,
    *,
    n_jobs: int = 1,
    time_budget: float | None = None,
    fit_limit: float | None = None,
    most_seconds: float | None = None,
    pool: ProcessPool | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Run every fit of the experiment that is not in the store.

    A fit that raises an exception is stored as failed and not repeated. If a fit is too slow or its
    worker dies, the waiting fits of its model on its data set are also given up; the next run tries
    them again.

    Parameters
    ----------
    experiment : Experiment
        The fits.
    store : Store
        Store of the outcomes.
    n_jobs : int
        Number of worker processes.
    time_budget : float, optional
        Seconds after which running fits are stopped. The time limit of a single fit is the budget
        divided by the number of models and data sets, so that one slow model does not use up the
        budget.
    fit_limit : float, optional
        Seconds of computing after which a single fit is stopped; where processes have no timers,
        seconds.
    most_seconds : float, optional
        Seconds that all fits of a model may take, as estimated from the "cpu_seconds" of those that
        ended. The waiting fits of a model that would take longer are given up.
    pool : ProcessPool, optional
        Workers of `open_pool` whose function runs the fit of a key; by default workers are started
        for this run.
    on_progress : callable
        Called with the progress after every fit and a few times per second.

    Returns
    -------
    Progress
        Progress at the end, and the reason for stopping.
    """
    limits = _Limits(time_budget, fit_limit, most_seconds)
    return _Run(experiment, store, n_jobs, limits, on_progress).finish(pool)


@dataclass(frozen=True)
class _Limits:
    """Seconds that a run, one fit, and all fits of a model may take."""

    time_budget: float | None
    fit_limit: float | None
    most_seconds: float | None


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        store: Store,
        n_jobs: int,
        limits: _Limits,
        on_progress: Callable[[Progress], None],
    ) -> None:
        time_budget, fit_limit = limits.time_budget, limits.fit_limit
        self._experiment, self._store, self._on_progress = experiment, store, on_progress
        self._keys = list(experiment.keys())
        ended = store.ended()
        self._waiting = [key for key in self._keys if key not in ended]
        n_before = len(self._keys) - len(self._waiting)
        self._progress = Progress(len(self._keys), n_before, n_before)
        self._n_jobs = min(n_jobs, len(self._waiting))
        self._running: dict[Future[Any], tuple[Key, int]] = {}  # key and attempt
        self._began = time.monotonic()
        self._deadline, self._share = float("inf"), None
        if time_budget is not None:
            n_models = max(1, len({key[:2] for key in self._waiting}))
            self._deadline = self._began + time_budget
            self._share = min(1.0, self._n_jobs / n_models) * time_budget
        self._fit_limit, self._most_seconds = fit_limit, limits.most_seconds
        patience = [self._share, None if HAS_TIMERS else fit_limit]
        self._timeout = min((limit for limit in patience if limit is not None), default=None)
        self._cpu_seconds: dict[tuple[str, str], list[float]] = {}
        if self._most_seconds is not None:
            stored = store.results()
            stored = stored[stored["metric"] == CPU_SECONDS]
            for row in stored.itertuples():
                self._cpu_seconds.setdefault((row.dataset, row.model), []).append(row.value)
            for model in list(self._cpu_seconds):
                self._drop_if_slow(model)

    def finish(self, pool: ProcessPool | None) -> Progress:
        """Run until all fits are done, the time budget is used up, or an interrupt."""
        self._update()
        if not self._waiting:
            return self._progress
        opened = open_pool(self._store, self._n_jobs, self._experiment.run)
        with opened if pool is None else nullcontext(pool) as workers, _deferred() as interrupts:
            try:
                self._work(workers, interrupts)
            finally:
                for future in self._running:
                    future.cancel()
        stopped = "interrupt" if interrupts else "time budget" if self._progress.n_left else None
        self._update(stopped_by=stopped)
        return self._progress

    def _work(self, workers: ProcessPool, interrupts: list[int]) -> None:
        with _explained_start():
            while (self._waiting or self._running) and not (interrupts or self._is_late()):
                self._schedule(workers)
                patience = min(TICK, self._deadline - time.monotonic())
                for future in wait(self._running, patience, FIRST_COMPLETED).done:
                    self._keep(future)
                self._update()

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _schedule(self, pool: ProcessPool) -> None:
        while self._waiting and len(self._running) < self._n_jobs:
            key = self._next_key()
            self._waiting.remove(key)
            attempt = self._store.begin(key)
            future = pool.schedule(_call_within, args=[self._fit_limit, key], timeout=self._timeout)
            self._running[future] = key, attempt

    def _next_key(self) -> Key:
        """Select the next key; with a time budget, prefer models that are not running.

        A slow model then occupies only one worker.
        """
        running = {key[:2] for key, _ in self._running.values()} if self._share else set()
        return next((key for key in self._waiting if key[:2] not in running), self._waiting[0])

    def _keep(self, future: Future[Any]) -> None:
        """Store the outcome or the error of a fit."""
        key, attempt = self._running.pop(future)
        try:
            outcome, error = _unpacked(future)
        except (TimeoutError, ProcessExpired) as trouble:
            limit = self._timeout if isinstance(trouble, TimeoutError) else self._fit_limit
            self._give_up(key, attempt, _reason(trouble, limit))
            return
        if outcome is not None:
            self._store.finish(attempt, key, outcome)
        else:
            self._store.fail(attempt, error or "")
        self._update(n_ended=self._progress.n_ended + 1, latest=key)
        if outcome is not None and CPU_SECONDS in outcome.values:
            self._cpu_seconds.setdefault(key[:2], []).append(outcome.values[CPU_SECONDS])
            self._drop_if_slow(key[:2])

    def _drop_if_slow(self, model: tuple[str, str]) -> None:
        """Give up the waiting fits of a model if all of its fits would take too long."""
        n_fits = sum(key[:2] == model for key in self._keys)
        seconds = self._cpu_seconds[model]
        if self._most_seconds is None or n_fits * sum(seconds) / len(seconds) <= self._most_seconds:
            return
        n_waiting = len(self._waiting)
        self._waiting = [key for key in self._waiting if key[:2] != model]
        n_dropped = n_waiting - len(self._waiting)
        self._progress = replace(self._progress, n_dropped=self._progress.n_dropped + n_dropped)

    def _give_up(self, lost: Key, attempt: int, reason: str) -> None:
        """Give up a fit, and the waiting fits of its model on its data set."""
        self._store.fail(attempt, reason, retry=True)
        n_waiting = len(self._waiting)
        self._waiting = [key for key in self._waiting if key[:2] != lost[:2]]
        n_dropped = 1 + n_waiting - len(self._waiting)
        self._update(n_dropped=self._progress.n_dropped + n_dropped, latest=lost)

    def _update(self, **changes: Any) -> None:
        seconds = time.monotonic() - self._began
        self._progress = replace(self._progress, seconds=seconds, **changes)
        self._on_progress(self._progress)


def call_in_worker(pool: ProcessPool, *arguments: Any) -> Any:
    """Call the function of a pool in a worker, so that a crash does not end this process."""
    with _explained_start():
        try:
            value, error = _unpacked(pool.schedule(_call, args=arguments))
        except ProcessExpired as trouble:
            raise ChildProcessError(_reason(trouble)) from None
    if error is not None:
        raise ChildProcessError(error.splitlines()[0])
    return value


@contextmanager
def open_pool(store: Store, n_jobs: int, function: Callable[..., Any]) -> Iterator[ProcessPool]:
    """Start workers that call a function, and stop them at the end.

    Workers read the pickled function from a file, all at the same time. Classes and functions of a
    script or a notebook are pickled by value, so that workers do not run the script again.
    """
    with store.temporary_folder() as folder, _environment(FOR_WORKERS), _hidden_script():
        path = Path(folder) / "function.pickle"
        path.write_bytes(cloudpickle.dumps(function))
        context = multiprocessing.get_context("spawn")
        pool = ProcessPool(n_jobs, initializer=_start_worker, initargs=[path], context=context)
        try:
            _start(pool)
            yield pool
        finally:
            pool.stop()
            pool.join()


@contextmanager
def _deferred() -> Iterator[list[int]]:
    """Collect the signals that would raise KeyboardInterrupt; the second one raises it.

    An exception at any place could leave a fit half stored, or the pool in a state that never ends.
    """
    found: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: Any) -> None:
        found.append(number)
        if len(found) > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for each in map(int, signal.valid_signals()):
            if signal.getsignal(each) is signal.default_int_handler:
                before[each] = signal.signal(each, note)
    try:
        yield found
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _explained_start() -> Iterator[None]:
    try:
        yield
    except BrokenExecutor as error:
        raise ChildProcessError("The worker processes could not start.") from error


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes that are started in this context."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Hide the file of the main script, which new processes would otherwise run."""
    main = vars(sys.modules["__main__"])
    hidden: tuple[str, ...] = ("__file__", "__spec__")
    before = {name: main[name] for name in hidden if name in main}
    main.pop("__file__", None)
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(before)


def _start(pool: ProcessPool) -> bool:
    """Start the workers with SIGINT ignored, also while they import modules."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        return pool.active
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


def _reason(error: TimeoutError | ProcessExpired, limit: float | None = None) -> str:
    is_late = isinstance(error, TimeoutError) or (HAS_TIMERS and error.exitcode == -signal.SIGPROF)
    if is_late:
        of = "" if limit is None else f" of {limit:.3g} s"
        return f"the fit exceeded its time limit{of}"
    assert isinstance(error, ProcessExpired)
    code = error.exitcode
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the worker process {how}; it may have run out of memory"


_function: Callable[..., Any]  # set in each worker


def _start_worker(path: Path) -> None:
    """Initialise a worker: read the function to call."""
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows does not pass it on from the parent
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # also stops compiled code
    threading.Thread(target=_end_with_parent, args=[path.parent], daemon=True).start()
    warnings.simplefilter("ignore")
    _function = cloudpickle.loads(path.read_bytes())


def _end_with_parent(folder: Path) -> None:
    """End this worker and remove the temporary directory if the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGTERM)


def _unpacked(future: Future[Any]) -> tuple[Any, str | None]:
    packed, error = future.result()
    return None if packed is None else cloudpickle.loads(packed), error


def _call_within(limit: float | None, key: Key) -> tuple[bytes | None, str | None]:
    """Call the function in a worker, which ends after this time of computing, compiled or not."""
    if limit is not None and HAS_TIMERS:
        signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return _call(key)
    finally:
        if HAS_TIMERS:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _call(*arguments: Any) -> tuple[bytes | None, str | None]:
    """Call the function in a worker; return its pickled value, or the error and its location."""
    try:
        return cloudpickle.dumps(_function(*arguments)), None
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}, line {place.lineno}"
        return None, f"{type(error).__name__}: {error}\nin {where}"
