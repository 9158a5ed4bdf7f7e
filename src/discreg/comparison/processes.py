"""How processes beside this one are started: with one thread each, deaf to Ctrl-C, and fast.

On Linux `prepare` starts a process that imports what fits need while this one still reads its
table; workers are then forked from it in no time. Everywhere else, and without `prepare`, each
process is a new one that imports for itself. Importing this module imports nothing heavy.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from discreg.base.errors import InputError

__all__ = ["prepare", "started"]

# One BLAS thread a process: fits side by side, and seconds that can be compared.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
IMPORTS = "discreg.comparison._imports"
IS_SERVER = "DISCREG_FORK_SERVER"  # environment variable that tells a process that it is the one
_method = "spawn"


def prepare() -> None:
    """Let a process that workers can be forked from begin to import, where there is such a thing.

    Workers then have the environment variables of this moment, not of the one when they start.
    This process has one thread, too: it makes no fits, and a second one, which BLAS lets spin for
    a while after it is loaded, would take the core on which the other process imports.
    """
    global _method
    os.environ.update(ONE_THREAD)
    if sys.platform != "linux":  # elsewhere a fork does not get on with the system's libraries
        return
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload([IMPORTS])
    own = {**_own_environment(), IS_SERVER: "1"}
    with suppress(OSError), _environment(own), _no_interrupt():
        forkserver.ensure_running()
        _method = "forkserver"


def started(target: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """A new process that runs ``target(pipe, *arguments)``, and our end of the pipe."""
    context: Any = multiprocessing.get_context(_method)
    ours, theirs = context.Pipe()
    process = context.Process(
        target=target, args=(theirs, *arguments), daemon=True, name="discreg fit"
    )
    try:
        with _environment(_own_environment()), _no_interrupt():
            process.start()
    except (EOFError, OSError) as error:
        ours.close()
        raise InputError(f"A process for the fits could not be started: {error}") from error
    finally:
        theirs.close()
    return process, ours


def _own_environment() -> dict[str, str]:
    """What a process needs that imports for others: threads, and the places of this one."""
    places = os.pathsep.join(str(place) or os.getcwd() for place in sys.path)
    # Safe: no module of the current directory takes the place of another.
    return {**ONE_THREAD, "PYTHONPATH": places, "PYTHONSAFEPATH": "1"}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables that hold while a process is started, as it reads them first of all."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """A process that is started meanwhile does not hear Ctrl-C: what is ignored stays so in it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what is done about signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
