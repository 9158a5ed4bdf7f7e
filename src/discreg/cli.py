"""The ``discreg`` command."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["INSTALL", "INTERRUPTED", "main"]

INTERRUPTED = 130  # exit code of a process that Ctrl-C has ended
WITH_FITS = (["compare"], ["reproduce"])  # jobs that make fits, in other processes
INSTALL = "The discreg command needs more packages: pip install 'discreg[cli]'"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the process, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a sign that it cannot write is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if arguments[:1] in WITH_FITS and "--help" not in arguments:
            from .studies.processes import prepare

            prepare()  # a process that imports what fits need while this one gets ready
        from ._commands import app
    except ImportError as error:
        print(f"{INSTALL} ({error.name} is missing).", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    try:
        app(args=None if argv is None else arguments, prog_name="discreg")
    finally:
        if argv is None:  # the process ends: it need not search all that it holds for garbage
            gc.freeze()
