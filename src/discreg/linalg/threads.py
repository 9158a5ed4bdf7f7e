"""A loop over independent tasks on a few threads, for work that releases the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import Any, TypeVar

__all__ = ["blas_threads", "one_blas_thread", "run_in_threads"]

Task = TypeVar("Task")


def run_in_threads(function: Callable[[Task], object], tasks: Iterable[Task]) -> None:
    """Call ``function(task)`` for every task, on as many threads as BLAS and numba may use.

    BLAS itself is held to one thread meanwhile: tasks that alternate between BLAS and compiled
    loops then never wait for each other.
    Limits set by the environment, by the CPU affinity, by ``threadpool_limits`` or by joblib for
    its workers hold here too. Where only one thread is allowed, the caller's own does the work.

    The threads live as long as the call, so that there is no pool for a fork to break.

    Parameters
    ----------
    function : callable
        Called once for each task; what it returns is dropped.
    tasks : iterable
        Tasks that do not depend on each other. They are begun in the given order.
    """
    tasks = list(tasks)
    if len(tasks) > 1 and not _is_worker():
        # BLAS's number of threads belongs to the process, so calls that need several take turns:
        # were they to overlap, the first to end would give BLAS its threads back too early.
        with _turn.lock:
            n_threads = _permitted_threads()
            if n_threads > 1:
                with (
                    _blas().limit(limits=1),
                    ThreadPoolExecutor(n_threads, initializer=_become_worker) as pool,
                ):
                    for _ in pool.map(function, tasks):
                        pass
                return
    for task in tasks:
        function(task)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, for many small products whose threads would wait for each other.

    The number of threads belongs to the process: while another call has changed it, it is left as
    that call wants it.
    """
    if _is_worker() or not _turn.lock.acquire(blocking=False):
        yield
        return
    try:
        _become_worker()  # what runs in threads otherwise must not wait for this lock
        with _blas().limit(limits=1):
            yield
    finally:
        _thread.is_worker = False
        _turn.lock.release()


class _Turn:
    """The lock of the call whose turn it is."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.lock = Lock()


_turn = _Turn()
if hasattr(os, "register_at_fork"):  # a child has no thread that would release a lock it copied
    os.register_at_fork(after_in_child=_turn.renew)

_thread = local()


def _become_worker() -> None:
    _thread.is_worker = True


def _is_worker() -> bool:
    return getattr(_thread, "is_worker", False)


def _permitted_threads() -> int:
    from numba import config  # get_num_threads() would start numba's own threads

    of_numba: int = vars(config)["NUMBA_NUM_THREADS"]  # set from the environment at import
    return min([of_numba, *blas_threads()])


def blas_threads() -> set[int]:
    """Numbers of threads of the BLAS libraries; those built without threads do not count."""
    return {
        library["num_threads"]
        for library in _blas().info()
        if library.get("threading_layer") != "disabled"
    }


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
