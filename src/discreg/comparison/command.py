"""The command of a comparison: how remedies of red flags change it, what it needs.

The command imports this module for its help, so that it imports nothing heavy.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .flags import Flag

OUTPUT = "discreg-comparison"  # folder of the command if none is named
PYTHON = "discreg.compare("
REPEATABLE = ("drop",)  # arguments that can have several values
# Options that a remedy replaces, or that cannot be combined with it.
CONTRADICTED = {"groups": ("groups", "fold"), "time_column": ("time_column", "fold")}


def remedied(flags: Sequence[Flag], command: str) -> str:
    """Add the remedies of red flags to a command.

    Options that contradict a remedy are left out, and the results go to another folder, because
    the first one holds the fits without it. Empty if there is no remedy, or if the command is a
    call in Python, for which the flags name the arguments.
    """
    remedies: dict[str, dict[str, None]] = {}
    for flag in flags:
        for name, value in flag.remedy.items() if flag.level == "danger" else ():
            remedies.setdefault(name, {})[value] = None
    if not remedies or command.startswith(PYTHON):
        return ""
    words = shlex.split(command)
    rest = words[words.index("--") :] if "--" in words else []
    words = words[: len(words) - len(rest)]
    output = _taken(words, "--output") or OUTPUT
    for name in remedies:
        for other in CONTRADICTED.get(name, ()):
            _taken(words, f"--{other}".replace("_", "-"))
        words = [word for word in words if name != "groups" or word != "--no-groups"]
    for name, values in remedies.items():
        for value in list(values)[: None if name in REPEATABLE else 1]:
            words += [f"--{name.replace('_', '-')}", value]
    return shlex.join([*words, "--output", f"{output}-{_suffix(remedies)}", *rest])


def _taken(words: list[str], option: str) -> str:
    """Remove an option from the words of a command, and return its value."""
    for place, word in enumerate(words):
        if word == option:
            _, value = words[place : place + 2]
            del words[place : place + 2]
            return value
        if word.startswith(f"{option}="):
            return words.pop(place).partition("=")[2]
    return ""


def _suffix(remedies: Iterable[str]) -> str:
    return "-".join(name.partition("_")[0] for name in remedies)


def how_to_install(error: ImportError) -> str:
    """Say how to install what could not be imported, or that a package is too old."""
    package = (error.name or "").partition(".")[0]
    if package and find_spec(package) is None:
        return f"{package} is missing: pip install 'discreg[compare]'"
    return f"A package is too old ({error}): pip install --upgrade 'discreg[compare]'"
