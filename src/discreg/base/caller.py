"""The user's line, where warnings belong."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from os import sep
from pathlib import Path

__all__ = ["user_stacklevel"]

PACKAGES = ("discreg", "sklearn", "joblib", "numpy")  # numpy by its decorator errstate


def user_stacklevel() -> int:
    """Return the `stacklevel` for which `warnings.warn` names a line outside our packages.

    A method may be called by the user, by a pipeline or by another method. In a worker process
    without such a line, the outermost one is named.
    """
    ours = tuple(
        f"{Path(spec.origin).parent}{sep}"
        for spec in map(find_spec, PACKAGES)
        if spec is not None and spec.origin is not None
    )
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        level, frame = level + 1, frame.f_back
    return level
