"""The environment, for bug reports."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires, version

from discreg import __version__
from discreg.linalg.compiled import cache_folder


def show_versions() -> None:
    """Print the versions of Python, of discreg and of all packages that it can use.

    Also printed are the libraries with threads of their own and the folder where numba keeps
    compiled loops. Please add the output to a bug report.

    Examples
    --------
    >>> import discreg
    >>> discreg.show_versions()  # doctest: +ELLIPSIS
    System:
        python: 3...
    """
    from threadpoolctl import threadpool_info

    system = {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "platform": platform.platform(),
    }
    packages = {"discreg": __version__, **{name: _version(name) for name in _dependencies()}}
    folder = cache_folder() or "no writable folder"
    sections: dict[str, Mapping[str, str | None]] = {
        "System": system,
        "Packages": packages,
        "Compiled loops": {"cache": folder},
    }
    for title, entries in sections.items():
        print(f"{title}:")
        for name, value in entries.items():
            print(f"    {name}: {value}")
    print("Threads:")
    for library in threadpool_info():
        print("    " + ", ".join(f"{name}: {value}" for name, value in library.items()))


def _dependencies() -> list[str]:
    """Return the packages that discreg requires, and those of its extras for users."""
    try:
        found = requires("discreg") or []
    except PackageNotFoundError:  # a copy of the sources on the path
        found = ["numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl"]
    names = (
        re.match(r"[\w.-]+", requirement)
        for requirement in found
        if not re.search(r"extra == .(test|dev)", requirement)
    )
    return sorted({name.group() for name in names if name} - {"discreg"})


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
