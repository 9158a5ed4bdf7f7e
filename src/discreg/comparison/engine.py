"""The engine of every study: make the fits that are missing, keep each as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .experiment import Experiment, Key
from .store import Store
from .workers import Ended, Workers

__all__ = ["Progress", "run"]

TICK = 0.25  # seconds between two looks at the clock while fits are under way


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    n_fits: int  # of the experiment
    n_before: int  # of them in the store when the run began
    n_ended: int  # of them in the store now
    n_dropped: int = 0  # of them given up in this run: too slow, or their process was lost
    seconds: float = 0.0  # since the run began
    latest: Key | None = None  # the fit that ended last
    stopped_by: str | None = None  # "time budget", "interrupt"; None: it goes on or it is done

    @property
    def n_left(self) -> int:
        """Fits that are still to be made."""
        return self.n_fits - self.n_ended - self.n_dropped

    @property
    def seconds_left(self) -> float | None:
        """Expected seconds until the end; None before the first fit has ended."""
        n_new = self.n_ended + self.n_dropped - self.n_before
        return self.seconds / n_new * self.n_left if n_new else None


def run(
    experiment: Experiment,
    store: Store,
    *,
    n_jobs: int = 1,
    time_budget: float | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Make every fit of the experiment that is not in the store; how far that went.

    Parameters
    ----------
    experiment : Experiment
        What to fit.
    store : Store
        Where results go as they come; what is there is not repeated.
    n_jobs : int
        Number of processes.
    time_budget : float, optional
        Seconds after which fits under way are stopped. A fit that takes all of its model's fair
        share of them is stopped too, and the other fits of that model on that data set are left
        out, so that one slow model does not take the time of all.
    tell : callable
        Told of the progress after every fit and a few times a second.
    """
    return _Run(experiment, store, n_jobs, time_budget, tell).finish()


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        store: Store,
        n_jobs: int,
        time_budget: float | None,
        tell: Callable[[Progress], None],
    ) -> None:
        self._experiment, self._store, self._tell = experiment, store, tell
        self._keys = list(experiment.keys())
        ended = store.ended()
        self._waiting = [key for key in self._keys if key not in ended]
        n_before = len(self._keys) - len(self._waiting)
        self._progress = Progress(len(self._keys), n_before, n_before)
        self._n_jobs = min(n_jobs, len(self._waiting))
        self._attempts: dict[Key, int] = {}
        self._began = time.monotonic()
        self._deadline = self._began + (float("inf") if time_budget is None else time_budget)
        n_models = len({key[:2] for key in self._waiting})
        self._share = float("inf")
        if time_budget is not None and n_models:
            self._share = min(1.0, self._n_jobs / n_models) * time_budget

    def finish(self) -> Progress:
        """Work until everything is done, the time is over or somebody interrupts."""
        self._update()
        if self._waiting:
            try:
                with Workers(self._experiment, self._n_jobs) as workers:
                    while (self._waiting or workers.busy) and not self._late():
                        self._hand_out(workers)
                        for fit in workers.ended(TICK):
                            self._keep(fit)
                        self._update()
            except KeyboardInterrupt:  # perhaps after a fit was stored and before it was counted
                ended = self._store.ended()
                n_ended = sum(key in ended for key in self._keys)
                self._update(stopped_by="interrupt", n_ended=n_ended)
            else:
                self._update(stopped_by="time budget" if self._progress.n_left else None)
        return self._progress

    def _late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _hand_out(self, workers: Workers) -> None:
        while self._waiting and workers.idle:
            key = self._waiting.pop(self._next(workers.under_way))
            self._attempts[key] = self._store.begin(key)
            workers.hand(key, until=min(self._deadline, time.monotonic() + self._share))

    def _next(self, under_way: set[Key]) -> int:
        """Place of the key to take; within a budget one of a model that is not at work, if any.

        A model that is too slow then holds up one process and not all of them.
        """
        if self._share == float("inf"):
            return 0
        at_work = {key[:2] for key in under_way}
        places = (place for place, key in enumerate(self._waiting) if key[:2] not in at_work)
        return next(places, 0)

    def _keep(self, fit: Ended) -> None:
        attempt = self._attempts[fit.key]
        if fit.outcome is not None:
            self._store.finish(attempt, fit.key, fit.outcome)
        elif not fit.lost:
            self._store.fail(attempt, fit.error or "")
        elif self._late():  # the time is over: no fault of the fit's, as with an interrupt
            return
        else:
            self._store.lose(attempt, fit.error or "")
            self._drop(fit.key)
            return
        self._update(n_ended=self._progress.n_ended + 1, latest=fit.key)

    def _drop(self, lost: Key) -> None:
        """Give up a fit, and the waiting ones of its model on its data set."""
        n_waiting = len(self._waiting)
        self._waiting = [key for key in self._waiting if key[:2] != lost[:2]]
        n_dropped = 1 + n_waiting - len(self._waiting)
        self._update(n_dropped=self._progress.n_dropped + n_dropped, latest=lost)

    def _update(self, **changes: Any) -> None:
        seconds = time.monotonic() - self._began
        self._progress = replace(self._progress, seconds=seconds, **changes)
        self._tell(self._progress)
