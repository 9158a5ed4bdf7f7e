"""The ``discreg`` command."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["INSTALL", "INTERRUPTED", "main"]

INTERRUPTED = 130  # exit code of a process that Ctrl-C has ended
WITH_FITS = (["compare"], ["reproduce"])  # jobs that make fits, in other processes
INSTALL = "The discreg command needs more packages: pip install 'discreg[cli]'"


def _end_as_by_ctrl_c() -> None:
    """Let a request to end keep what is done, and leave nothing behind, as Ctrl-C does."""
    for name in ("SIGTERM", "SIGHUP"):  # which not every system has
        number = getattr(signal, name, None)
        ours = threading.current_thread() is threading.main_thread()
        if ours and number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _end_at_once(codes: Sequence[int]) -> None:
    """End the process with the first code, if there is one, without taking apart all it holds."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads any more: the interpreter knows what to do
        return
    if codes:
        os._exit(codes[0])


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the process, and exit."""
    codes: list[int] = []
    if argv is None:
        atexit.register(_end_at_once, codes)  # what is registered first is done last
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a sign that it cannot write is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if arguments[:1] in WITH_FITS and "--help" not in arguments:
            from discreg.comparison.processes import prepare

            _end_as_by_ctrl_c()
            prepare()  # a process that imports what fits need while this one gets ready
        from discreg._commands import app
    except ImportError as error:
        print(f"{INSTALL} ({error.name} is missing).", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    try:
        app(args=None if argv is None else arguments, prog_name="discreg")
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise
