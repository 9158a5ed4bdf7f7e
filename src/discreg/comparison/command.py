"""The command or call of a comparison: how remedies of red flags change it, what it needs.

The command imports this module for its help, so that it imports nothing heavy.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .flags import Flag

OUTPUT = "discreg-comparison"  # folder of the command if none is named
PYTHON = "discreg.compare("
REPEATABLE = ("drop",)  # arguments that can have several values
# Options that a remedy replaces, or that cannot be combined with it.
CONTRADICTED = {"groups": ("groups", "fold"), "time_column": ("time_column", "fold")}


def remedied(flags: Sequence[Flag], call: str) -> str:
    """Add the remedies of red flags to a shell command or a Python call.

    Options that contradict a remedy are left out, and the results go to another folder, because
    the first one holds the fits without it. Empty if there is no remedy.
    """
    remedies: dict[str, dict[str, None]] = {}
    for flag in flags:
        for name, value in flag.remedy.items() if flag.level == "danger" else ():
            remedies.setdefault(name, {})[value] = None
    if not remedies:
        return ""
    chosen = {name: list(v) if name in REPEATABLE else list(v)[:1] for name, v in remedies.items()}
    is_python = call.startswith(PYTHON)
    return _python(call, chosen) if is_python else _shell(call, chosen)


def _shell(command: str, remedies: Mapping[str, Sequence[str]]) -> str:
    words = shlex.split(command)
    rest = words[words.index("--") :] if "--" in words else []
    words = words[: len(words) - len(rest)]
    output = _taken(words, "--output") or OUTPUT
    for name in remedies:
        for other in CONTRADICTED.get(name, ()):
            _taken(words, f"--{other}".replace("_", "-"))
        words = [word for word in words if name != "groups" or word != "--no-groups"]
    for name, values in remedies.items():
        for value in values:
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


def _python(call: str, remedies: Mapping[str, Sequence[str]]) -> str:
    made = ast.parse(call, mode="eval").body
    assert isinstance(made, ast.Call)
    given = {str(each.arg): ast.unparse(each.value) for each in made.keywords}
    for name, values in remedies.items():
        for other in CONTRADICTED.get(name, ()):
            given.pop({"fold": "cv"}.get(other, other), None)
        before = ast.literal_eval(given.get(name, "[]")) if name in REPEATABLE else []
        every = [*([before] if isinstance(before, str) else before), *values]
        given[name] = repr(every if len(every) > 1 else every[0])
    if "output" in given:
        given["output"] = repr(f"{ast.literal_eval(given['output'])}-{_suffix(remedies)}")
    first = [ast.unparse(each) for each in made.args]
    return f"{PYTHON}{', '.join([*first, *(f'{name}={text}' for name, text in given.items())])})"


def _suffix(remedies: Mapping[str, Sequence[str]]) -> str:
    return "-".join(name.partition("_")[0] for name in remedies)


def how_to_install(error: ImportError) -> str:
    """Say how to install what could not be imported, or that a package is too old."""
    package = (error.name or "").partition(".")[0]
    if package and find_spec(package) is None:
        return f"{package} is missing: pip install 'discreg[compare]'"
    return f"A package is too old ({error}): pip install --upgrade 'discreg[compare]'"
