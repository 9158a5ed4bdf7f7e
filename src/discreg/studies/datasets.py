"""Data sets that come with scikit-learn, by name."""

from __future__ import annotations

from typing import Any

__all__ = ["BUNDLED", "load_bundled"]

BUNDLED = ("digits", "wine", "breast_cancer", "iris")


def load_bundled(name: str) -> tuple[Any, Any]:
    """Features and class indices of one of the data sets in `BUNDLED`."""
    if name not in BUNDLED:
        raise ValueError(f"Unknown data set {name!r}; there are {', '.join(BUNDLED)}.")
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, y
