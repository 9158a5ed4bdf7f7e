"""Processes that make the fits of an experiment, one at a time each, and die with their parent."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from discreg.base.errors import InputError

from .experiment import Experiment, Key, Outcome
from .processes import started

__all__ = ["Aside", "Ended", "Workers"]

GONE = "the process that made the fit ended without a word; it may have run out of memory"


@dataclass(frozen=True)
class Ended:
    """How one fit ended: with an outcome, with an error of the model's, or with a lost process."""

    key: Key
    outcome: Outcome | None = None
    error: str | None = None
    lost: bool = False


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    ready: bool = False  # whether it has imported everything and read the experiment
    key: Key | None = None
    until: float = float("inf")


class Workers:
    """A number of processes that make fits; a context that leaves none of them behind."""

    def __init__(self, experiment: Experiment, n_jobs: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="discreg-")
        self._path = os.path.join(self._folder.name, "experiment")
        with open(self._path, "wb") as file:
            pickle.dump(experiment, file)
        self._workers: list[_Worker] = []
        try:
            for _ in range(n_jobs):
                self._workers.append(self._start())
        except BaseException:
            self.__exit__()
            raise

    def _start(self) -> _Worker:
        return _Worker(*started(_serve, self._path))

    @property
    def idle(self) -> bool:
        """Whether a process waits for a fit to make."""
        return any(worker.ready and worker.key is None for worker in self._workers)

    @property
    def busy(self) -> bool:
        """Whether a fit is under way."""
        return any(worker.key is not None for worker in self._workers)

    @property
    def under_way(self) -> set[Key]:
        """The fits that are being made."""
        return {worker.key for worker in self._workers if worker.key is not None}

    def hand(self, key: Key, *, until: float) -> None:
        """Let an idle process make a fit; it is stopped where `time.monotonic` passes `until`."""
        worker = next(each for each in self._workers if each.ready and each.key is None)
        worker.key, worker.until = key, until
        with suppress(ConnectionError):  # a process that is gone is found out by `ended`
            worker.pipe.send(key)

    def ended(self, timeout: float) -> Iterator[Ended]:
        """The fits that end within `timeout` seconds; returns as soon as there is one."""
        at_work = [each for each in self._workers if each.key is not None or not each.ready]
        nearest = min((worker.until for worker in at_work), default=float("inf"))
        patience = max(0.0, min(timeout, nearest - time.monotonic()))
        heard = wait([worker.pipe for worker in at_work], patience)
        for worker in at_work:
            if worker.pipe in heard and not worker.ready:
                _welcome(worker)
            elif worker.pipe in heard:
                yield self._receive(worker)
            elif worker.until <= time.monotonic():
                yield self._stop(worker)

    def _receive(self, worker: _Worker) -> Ended:
        key = worker.key
        assert key is not None
        try:
            outcome, error = worker.pipe.recv()
        except (EOFError, ConnectionError):
            self._replace(worker)
            return Ended(key, error=GONE, lost=True)
        worker.key = None
        return Ended(key, outcome, error)

    def _stop(self, worker: _Worker) -> Ended:
        key = worker.key
        assert key is not None
        self._replace(worker)
        return Ended(key, error="the fit took longer than it may", lost=True)

    def _replace(self, worker: _Worker) -> None:
        _end(worker)
        self._workers[self._workers.index(worker)] = self._start()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._workers:
            worker.process.kill()  # all of them before the first is waited for
        for worker in self._workers:
            _end(worker)
        self._folder.cleanup()


def _welcome(worker: _Worker) -> None:
    """Hear from a process that has started; one that cannot is an error, as all would be."""
    try:
        trouble = worker.pipe.recv()
    except (EOFError, ConnectionError):
        trouble = "it ended without a word"
    if trouble is not None:
        raise InputError(f"A process that should make the fits could not start: {trouble}.")
    worker.ready = True


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


class Aside:
    """A call in a process of its own while this one goes on; a context that leaves none behind.

    Warnings are not heard of.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._worker = _Worker(*started(_answer, function, arguments))

    def answer(self) -> Any:
        """Wait for what the call returns; an error of its own is a `InputError` here."""
        try:
            answer, trouble = self._worker.pipe.recv()
        except (EOFError, ConnectionError):
            raise InputError(GONE) from None
        if trouble is not None:
            raise InputError(trouble)
        return answer

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *exception: object) -> None:
        _end(self._worker)


def _serve(pipe: Connection, path: str) -> None:
    """What a worker does: make the fits whose keys it is sent, until the parent is gone."""
    _depend_on_parent(os.path.dirname(path))
    try:
        with open(path, "rb") as file:
            experiment = pickle.load(file)
    except Exception as error:
        pipe.send(_told(error))
        return
    pipe.send(None)
    while True:
        try:
            key = pipe.recv()
        except (EOFError, ConnectionError):
            return
        outcome, trouble = _attempt(experiment, key)
        try:
            pipe.send((outcome, trouble))
        except Exception as error:  # an outcome that cannot be pickled
            pipe.send((None, _told(error)))


def _answer(pipe: Connection, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Send what a call returns, or what went wrong."""
    _depend_on_parent()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipe.send((function(*arguments), None))
    except Exception as error:
        pipe.send((None, str(error) or type(error).__name__))


def _depend_on_parent(folder: str | None = None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_die_with_parent, args=(folder,), daemon=True).start()


def _die_with_parent(folder: str | None) -> None:
    """End when the parent ends; where it was killed, remove the folder that it leaves behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def _attempt(experiment: Experiment, key: Key) -> tuple[Outcome | None, str | None]:
    """The outcome of a fit, or what went wrong in one line and where in the next."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return experiment.run(key), None
    except Exception as error:
        return None, _told(error)


def _told(error: Exception) -> str:
    """What went wrong in one line, and where in the next."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}, line {place.lineno}"
    return f"{type(error).__name__}: {error}\nin {where}"
