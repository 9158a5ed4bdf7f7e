"""Memory and threads of the machine: what is free, and how many threads do the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock, local
from typing import Any, TypeVar

__all__ = [
    "available_bytes",
    "blas_threads",
    "one_blas_thread",
    "require_memory",
    "run_in_threads",
]

Task = TypeVar("Task")
MEMINFO = Path("/proc/meminfo")
OWN_CGROUPS = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")
# Memory is not asked about for less: the question takes longer than a fit to a small data set.
NEGLIGIBLE_BYTES = 16 << 20


def available_bytes() -> int | None:
    """Memory that can be allocated now without swapping.

    On Linux this is the kernel's own estimate, or what the control groups of the process (of a
    container or a batch job) leave of their limits, whichever is least. Elsewhere it is the
    physical memory of the machine, which is an upper bound.

    Returns
    -------
    int or None
        Bytes; None where the system does not tell.
    """
    in_kilobytes = _fields(MEMINFO).get("MemAvailable")
    if in_kilobytes is not None:
        return min([1024 * in_kilobytes, *_left_in_cgroups()])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def require_memory(n_bytes: int, what: str, remedy: str | Callable[[int], str]) -> None:
    """Raise if an allocation would not fit, before it is tried.

    Parameters
    ----------
    n_bytes : int
        Size of all that will be held at once.
    what : str
        What would be allocated: the subject of the message.
    remedy : str or callable
        What to do instead: a full sentence, or a function that makes it from the free bytes.

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
    """What each limited control group above the process has left, in bytes."""
    for folder in _cgroup_folders():
        # Version 2 and version 1 of the interface name the same three facts differently.
        for limit_file, usage_file, cache_field in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, usage = _number(folder / limit_file), _number(folder / usage_file)
            if limit is not None and usage is not None:
                # Cached files count as used but give way to an allocation.
                cached = _fields(folder / "memory.stat").get(cache_field, 0)
                yield max(0, limit - usage + cached)


def _cgroup_folders() -> Iterator[Path]:
    """Folders of the process's memory control groups, from its own up to the root's."""
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
    """The number in a file; None without the file, or where it says "max"."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    """Numbers by name from lines such as ``MemAvailable:  1024 kB`` or ``inactive_file 1024``."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


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
