"""Free memory of the machine, and work in threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from pathlib import Path
from threading import Lock, local
from typing import Any, TypeVar, cast

import numpy as np

Task = TypeVar("Task")
Method = TypeVar("Method", bound=Callable[..., Any])
MEMINFO = Path("/proc/meminfo")
OWN_CGROUPS = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")
# Smaller sizes are not checked: reading the free memory takes longer than a small fit.
NEGLIGIBLE_BYTES = 16 << 20
# Up to this number, which takes some 50 ms, more threads of BLAS gain little. On a busy machine
# they wait for each other at every product, so that a search takes many times longer.
FEW_MULTIPLICATIONS = 1_000_000_000
PRODUCTS = 5  # of the size of the Gram matrix in a fit, about


def available_bytes() -> int | None:
    """Return the memory that can be allocated now without swapping.

    On Linux this is the estimate of the operating system, or the memory that the control groups of
    the process (a container or a batch job) still allow if it is smaller. On other systems it is
    the physical memory of the machine, which is an upper bound.

    Returns
    -------
    int or None
        Number of bytes; None if it is unknown.
    """
    in_kilobytes = _fields(MEMINFO).get("MemAvailable")
    if in_kilobytes is not None:
        return min([1024 * in_kilobytes, *_left_in_cgroups()])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def require_memory(n_bytes: int, what: str, remedy: str | Callable[[int], str]) -> None:
    """Raise MemoryError if an allocation would not fit into the free memory.

    Parameters
    ----------
    n_bytes : int
        Total size of the arrays that are in memory at once.
    what : str
        Name of the arrays: the subject of the message.
    remedy : str or callable
        Advice: a full sentence, or a function of the free bytes that returns one.

    Raises
    ------
    MemoryError
    """
    free = available_bytes() if n_bytes > NEGLIGIBLE_BYTES else None
    if free is not None and n_bytes > free:
        advice = remedy if isinstance(remedy, str) else remedy(free)
        raise MemoryError(
            f"{what} would take {n_bytes / 1e9:,.1f} GB of memory, but {free / 1e9:,.1f} GB are "
            f"free. {advice}"
        )


def _left_in_cgroups() -> Iterator[int]:
    """Yield the bytes that each control group of the process with a limit still allows."""
    for folder in _cgroup_folders():
        # Names of limit, usage and cache in version 2 and in version 1 of the interface.
        for limit_file, usage_file, cache_field in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, usage = _number(folder / limit_file), _number(folder / usage_file)
            if limit is not None and usage is not None:
                # Cached files count as used, but the system drops them for an allocation.
                cached = _fields(folder / "memory.stat").get(cache_field, 0)
                yield max(0, limit - usage + cached)


def _cgroup_folders() -> Iterator[Path]:
    """Yield the folders of the memory control groups of the process, from its own to the root."""
    for line in _read(OWN_CGROUPS).splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if controllers in ("", "memory"):
            mount = CGROUP_ROOT / controllers
            group = mount / path.lstrip("/")
            yield group
            yield from (parent for parent in group.parents if parent.is_relative_to(mount))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """Read the number in a file; None if the file is missing or contains "max"."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    """Read numbers from lines such as ``MemAvailable:  1024 kB`` or ``inactive_file 1024``."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def run_in_threads(function: Callable[[Task], object], tasks: Iterable[Task]) -> None:
    """Call ``function(task)`` for every task, on as many threads as BLAS and numba may use.

    During the call BLAS uses one thread, so that tasks that alternate between BLAS and compiled
    loops do not wait for each other. Limits set by the environment, the CPU affinity,
    ``threadpool_limits`` or joblib are respected. If only one thread is allowed, or while another
    call of this module controls BLAS, the tasks run in the calling thread.

    The threads end with the call, so that a fork cannot break a thread pool.

    Parameters
    ----------
    function : callable
        Called once per task; its return value is ignored.
    tasks : iterable
        Independent tasks. They are started in the given order.
    """
    tasks = list(tasks)
    # The number of BLAS threads is a setting of the process: if two calls changed it, the first one
    # to end would reset it while the other one runs. Waiting for the other call could take forever,
    # because it may wait for this thread.
    if len(tasks) > 1 and not _is_worker() and _turn.lock.acquire(blocking=False):
        try:
            n_threads = _permitted_threads()
            if n_threads > 1:
                initial = (np.geterr(), np.geterrcall())  # a setting of each thread
                with (
                    _blas().limit(limits=1),
                    ThreadPoolExecutor(n_threads, initializer=_start, initargs=initial) as pool,
                ):
                    for _ in pool.map(function, tasks):
                        pass
                return
        finally:
            _turn.lock.release()
    for task in tasks:
        function(task)


def threads_for(multiplications: float) -> AbstractContextManager[None]:
    """Return a context that limits BLAS to one thread for work of few multiplications."""
    return one_blas_thread() if multiplications <= FEW_MULTIPLICATIONS else nullcontext()


def threads_for_fit(
    X: Any, kernel: Any, *, of_features: bool = False
) -> AbstractContextManager[None]:
    """Return a context that limits BLAS to one thread for a fit to a small X.

    Counted are products as large as the Gram matrix and its Cholesky factorisation. The matrix is
    that of the rows for a kernel; for linear models the smaller one, or that of the features.
    """
    match getattr(X, "shape", None):
        case (int(n_samples), int(n_features)):
            smaller = n_features if of_features else min(n_samples, n_features)
            size = smaller if kernel == "linear" else n_samples
            return threads_for(PRODUCTS * n_samples * n_features * size + size**3 / 6)
    return nullcontext()


def small_fits_in_one_thread(fit: Method) -> Method:
    """Limit BLAS to one thread during the method `fit` of an estimator if X is small."""

    @wraps(fit)
    def limited(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        with threads_for_fit(X, self.kernel):
            return fit(self, X, *args, **kwargs)

    return cast(Method, limited)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, for many small products whose threads would wait for each other.

    The number of BLAS threads is a setting of the process. It is not changed here while another
    call of this module controls it.
    """
    if _is_worker() or not _turn.lock.acquire(blocking=False):
        yield
        return
    try:
        _become_worker()  # nested calls must not wait for this lock
        with _blas().limit(limits=1):
            yield
    finally:
        _thread.is_worker = False
        _turn.lock.release()


class _Turn:
    """Lock of the call that controls the number of BLAS threads."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.lock = Lock()


_turn = _Turn()
if hasattr(os, "register_at_fork"):  # a child process has no thread to release the lock
    os.register_at_fork(after_in_child=_turn.renew)

_thread = local()


def _start(errors: Any, call: Any) -> None:
    """Make a new thread a worker that treats floating-point errors as its caller does."""
    np.seterr(**errors)
    np.seterrcall(call)
    _become_worker()


def _become_worker() -> None:
    _thread.is_worker = True


def _is_worker() -> bool:
    return getattr(_thread, "is_worker", False)


def _permitted_threads() -> int:
    from numba import config  # get_num_threads() would start numba's own threads

    of_numba: int = vars(config)["NUMBA_NUM_THREADS"]  # read from the environment at import
    return min([of_numba, *blas_threads()])


def blas_threads() -> set[int]:
    """Return the numbers of threads of all BLAS libraries that were built with threads."""
    return {
        library["num_threads"]
        for library in _blas().info()
        if library.get("threading_layer") != "disabled"
    }


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
