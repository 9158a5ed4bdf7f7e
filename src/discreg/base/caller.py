"""What the caller of a fit sees: warnings at the line of the call, and tasks of callbacks.

Callbacks exist in scikit-learn 1.9 and newer. A search reports its rounds and their steps, a
classifier its fit as one task. With an older scikit-learn, estimators have no `set_callbacks`, and
tasks report nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from importlib.util import find_spec
from os import sep
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

_collected: ContextVar[list[str] | None] = ContextVar("collected convergence", default=None)
_silent: ContextVar[bool] = ContextVar("warnings are silenced", default=False)

PACKAGES = ("discreg", "sklearn", "joblib", "skops", "numpy")  # numpy by its decorator errstate


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the user's line, unless warnings are silenced."""
    if not _silent.get():
        warnings.warn(message, category, stacklevel=user_stacklevel())


@contextmanager
def silenced() -> Iterator[None]:
    """Silence the warnings of this package and of numpy's arithmetic in this thread."""
    token = _silent.set(True)
    try:
        with collected_convergence(), np.errstate(all="ignore"):
            yield
    finally:
        _silent.reset(token)


class _WhereSilenced:
    """A pattern that matches every message in threads that silence warnings, and none elsewhere."""

    pattern = "(?!)"  # what scikit-learn passes on to its workers: it matches nothing

    def match(self, message: str) -> bool:
        """Return whether this thread silences warnings."""
        return _silent.get()


_FILTER: tuple[Any, ...] = ("ignore", _WhereSilenced(), Warning, None, 0)
_changing_filters = Lock()


@contextmanager
def all_silenced() -> Iterator[None]:
    """Silence the warnings of all packages in this thread.

    Filters belong to the whole process. With ``warnings.catch_warnings`` in several threads, the
    last one to end restores the filters of another, and all warnings may be ignored from then on.
    So one filter is added, which stays and takes nothing from threads that do not silence.
    """
    with ExitStack() as stack:
        if getattr(sys.flags, "context_aware_warnings", False):  # each thread has its own filters
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        else:
            with _changing_filters:
                filters = cast(list[Any], warnings.filters)
                if _FILTER not in filters[:1]:
                    if _FILTER in filters:
                        filters.remove(_FILTER)
                    filters.insert(0, _FILTER)
        stack.enter_context(silenced())
        yield


def warn_of_convergence(message: str) -> None:
    """Issue a ConvergenceWarning at the user's line, unless the caller collects the messages."""
    messages = _collected.get()
    if messages is None:
        warn_user(message, ConvergenceWarning)
    else:
        messages.append(message)


@contextmanager
def collected_convergence() -> Iterator[list[str]]:
    """Collect the messages of `warn_of_convergence` in this thread."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def warn_of_early_stops(gaps: Sequence[float], n_fits: int, final: Sequence[str]) -> None:
    """Warn once of all fits of a search that stopped before `tol` was reached.

    Parameters
    ----------
    gaps : sequence of float
        Gaps of the fits on held-out samples that stopped early.
    n_fits : int
        Number of fits on held-out samples.
    final : sequence of str
        Messages of the final fit.
    """
    if not gaps and not final:
        return
    worst = f", the worst at a gap of {max(gaps):.2g}" if gaps else ""
    so_did = f" So did the final fit: {final[0]}" if final else ""
    warn_of_convergence(
        f"{len(gaps)} of {n_fits} fits on held-out samples stopped before tol was reached{worst}. "
        f"Increase max_iter or tol, leave out the weakest penalties, or scale the features.{so_did}"
    )


def warn_of_equal_weights(scoring: object) -> None:
    """Warn that a scorer ignores the sample weights."""
    warn_user(
        f"The scorer {scoring!r} does not accept sample_weight: its score weighs all held-out "
        "samples equally."
    )


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


Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")


class CallbackSupportMixin:
    """Nothing: this scikit-learn has no callbacks."""


def _with_callbacks(method: Method) -> Method:
    """Return the method unchanged."""
    return method


if not TYPE_CHECKING:
    with suppress(ImportError):
        from sklearn.callback import CallbackSupportMixin  # noqa: F401  # the base class of ours
        from sklearn.callback import with_callbacks as _with_callbacks


def unchanged_if_it_fails(method: Method) -> Method:
    """Decorate a method that fits: if it raises, the estimator is as it was before the call."""

    @wraps(method)
    def fit(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = vars(estimator).copy()
        try:
            return method(estimator, *args, **kwargs)
        except BaseException:  # also KeyboardInterrupt
            vars(estimator).clear()
            vars(estimator).update(before)
            raise

    return cast(Method, fit)


def with_callbacks(method: Method) -> Method:
    """Decorate `fit`: callbacks see it, and an estimator does not change if the fit fails."""
    return unchanged_if_it_fails(_with_callbacks(method))


class Task:
    """A task reported to scikit-learn's callbacks.

    Parameters
    ----------
    estimator : object
        The estimator that is fitted.
    context : CallbackContext or None
        What scikit-learn knows of the task; None without callbacks.
    """

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator, self.context = estimator, context

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
        return Task(self.estimator, context)

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
