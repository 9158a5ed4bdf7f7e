"""Chunks of Dask collections as recipes, so that reading and reducing a chunk is one task.

A scheduler spends milliseconds on every task. Where the tasks that lead to a chunk lead to no other
chunk, as those that read a part of a file do, they travel together and are run where the chunk is
needed. Chunks that share tasks, or that are there already, are left to the scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Recipe", "recipes"]

MOST_TASKS = 64  # that lead to one chunk


class Recipe:
    """The tasks that lead to some values, and the values that are known."""

    __slots__ = ("graph", "keys", "values")

    def __init__(self, graph: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
        self.graph, self.keys, self.values = graph, keys, values

    def computed(self) -> list[Any]:
        """The values in their order; one without a key is known."""
        from dask.local import get_sync

        wanted = [key for key in self.keys if key is not None]
        found = dict(zip(wanted, get_sync(self.graph, wanted), strict=True))
        pairs = zip(self.keys, self.values, strict=True)
        return [value if key is None else found[key] for key, value in pairs]


def recipes(chunks: Sequence[Sequence[Any]]) -> list[Recipe] | None:
    """A recipe for each chunk, whose parts are delayed or known; None where tasks are shared."""
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
    """Whether a value is on a cluster already."""
    values = (getattr(task, "value", task) for task in tasks.values())
    return any(type(value).__module__.startswith("distributed") for value in values)
