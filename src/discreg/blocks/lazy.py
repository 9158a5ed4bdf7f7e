"""Decorator for methods of fitted models: results are of the kind of the samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .namespaces import in_namespace_of
from .validation import dispatched, is_dask, require_fitted

__all__ = ["lazily"]


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method that treats rows independently return a lazy array for a Dask collection.

    With scikit-learn's ``array_api_dispatch``, arrays of other libraries get results of their kind.
    """

    @wraps(method)
    def on_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_dask(X):
            rows = dispatched(X)
            found = method(self, rows, *args, **kwargs)
            return found if rows is X else in_namespace_of(X, found)
        from .dask_source import map_rows

        require_fitted(self)
        return map_rows(self, method.__name__, X, *args, **kwargs)

    return on_rows
