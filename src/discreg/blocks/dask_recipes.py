"""Recipes of the chunks of Dask collections: reading and reducing a chunk is one task.

A scheduler spends milliseconds on every task. If no tasks are shared between chunks, for example if
each chunk reads its own part of a file, the tasks of a chunk are combined into one. If chunks share
tasks, or if they are on a cluster already, the scheduler runs the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Recipe", "recipes"]

MOST_TASKS = 64  # for one chunk


class Recipe:
    """Tasks that compute some values, and values that are known without them."""

    __slots__ = ("graph", "keys", "values")

    def __init__(self, graph: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
        self.graph, self.keys, self.values = graph, keys, values

    def computed(self) -> list[Any]:
        """Compute the values in order; values without a key are known."""
        from dask.local import get_sync

        wanted = [key for key in self.keys if key is not None]
        found = dict(zip(wanted, get_sync(self.graph, wanted), strict=True))
        pairs = zip(self.keys, self.values, strict=True)
        return [value if key is None else found[key] for key, value in pairs]


def recipes(chunks: Sequence[Sequence[Any]]) -> list[Recipe] | None:
    """Create a recipe for each chunk, a sequence of delayed objects and values.

    Returns None if chunks share tasks, have more than MOST_TASKS, or are on a cluster already.
    """
    from dask.delayed import Delayed
    from dask.optimization import cull
    from dask.utils import ensure_dict

    graphs: dict[int, dict[Any, Any]] = {}
    seen: set[Any] = set()
    found = []
    for chunk in chunks:
        tasks: dict[Any, Any] = {}
        keys = [part.key if isinstance(part, Delayed) else None for part in chunk]
        for part, key in zip(chunk, keys, strict=True):
            if key is not None:
                graph = part.__dask_graph__()
                if id(graph) not in graphs:
                    graphs[id(graph)] = ensure_dict(graph)
                tasks.update(cull(graphs[id(graph)], [key])[0])
        if len(tasks) > MOST_TASKS or not seen.isdisjoint(tasks) or _has_futures(tasks):
            return None
        seen.update(tasks)
        values = [part if key is None else None for part, key in zip(chunk, keys, strict=True)]
        found.append(Recipe(tasks, keys, values))
    return found


def _has_futures(tasks: dict[Any, Any]) -> bool:
    """Return whether a value is on a cluster already."""
    values = (getattr(task, "value", task) for task in tasks.values())
    return any(type(value).__module__.startswith("distributed") for value in values)
