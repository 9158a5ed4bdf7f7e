"""Callbacks of scikit-learn 1.9 and newer: fits report their parts as tasks.

A search reports its rounds and their steps, a classifier the iterations of its solver.

With an older scikit-learn, estimators have no `set_callbacks`, and tasks report nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["CallbackSupportMixin", "Task", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")


class CallbackSupportMixin:
    """Nothing: this scikit-learn has no callbacks."""


def with_callbacks(method: Method) -> Method:
    """Return the method unchanged."""
    return method


if not TYPE_CHECKING:
    with suppress(ImportError):
        from sklearn.callback import CallbackSupportMixin, with_callbacks


class Task:
    """A part of a fit that callbacks are told about.

    Parameters
    ----------
    estimator : object
        The estimator that is fitted.
    context : CallbackContext or None
        What scikit-learn knows of the task; None without callbacks.
    above : Task or None, default=None
        The task of which this one is a part.

    Attributes
    ----------
    is_stopped : bool
        Whether a callback has stopped iterations of this task, or of a part of it.
    """

    def __init__(self, estimator: Any, context: Any, above: Task | None = None) -> None:
        self.estimator, self.context, self.above = estimator, context, above
        self.is_stopped = False

    @classmethod
    def fit(cls, estimator: Any, X: Any, y: Any, n_subtasks: int | None = None) -> Task:
        """Begin the fit; `with_callbacks` around the method ends it if it raises.

        Parameters
        ----------
        estimator : object
            The estimator that is fitted.
        X, y
            Its training data.
        n_subtasks : int or None
            Number of subtasks; None means that it is not known.
        """
        if not hasattr(estimator, "_init_callback_context"):
            return cls(estimator, None)
        context = estimator._init_callback_context(max_subtasks=n_subtasks)
        return cls(estimator, context.call_on_fit_task_begin(estimator=estimator, X=X, y=y))

    def end(self) -> None:
        """Report that the task is done."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator)

    def begin(self, name: str, n_subtasks: int | None = 0) -> Task:
        """Begin a part of this task."""
        if self.context is None:
            return self
        context = self.context.subcontext(name, max_subtasks=n_subtasks)
        context.call_on_fit_task_begin(estimator=self.estimator)
        return Task(self.estimator, context, self)

    def iterated(self, n_done: int) -> bool:
        """Report that iterations are done; return whether a callback asked to stop them."""
        if self.context is not None and hasattr(self.estimator, "_skl_callbacks"):
            for _ in range(n_done):
                context = self.context.subcontext("iteration")
                context.call_on_fit_task_begin(estimator=self.estimator)
                if context.call_on_fit_task_end(estimator=self.estimator):
                    self._stop()
        return self.is_stopped

    def _stop(self) -> None:
        self.is_stopped = True
        if self.above is not None:
            self.above._stop()

    def steps(self, name: str, results: Iterable[Result], n_steps: int) -> Iterator[Result]:
        """Yield at most this many results while they are computed, each a part of this task."""
        results = iter(results)
        for _ in range(n_steps):
            step = self.begin(name)
            try:
                result = next(results)
            except StopIteration:  # there was no time for the others
                step.end()
                return
            step.end()
            yield result
