"""Decorator for methods of fitted models that are lazy on Dask collections."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .validation import is_dask, require_fitted

__all__ = ["lazily"]


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method that treats rows independently return a lazy array for a Dask collection."""

    @wraps(method)
    def on_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_dask(X):
            return method(self, X, *args, **kwargs)
        from .dask_source import map_rows

        require_fitted(self)
        return map_rows(self, method.__name__, X, *args, **kwargs)

    return on_rows
