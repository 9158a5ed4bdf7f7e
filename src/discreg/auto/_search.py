"""Rounds of trials: all kernels of least squares first, then other families with the best ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from discreg.base.callbacks import Task
from discreg.base.held_out import Setting

from ._machines import FAMILIES, Machine, kernels_of, ridge_of
from ._trials import Samples, Scorer, Trial, try_machine

__all__ = ["Clock", "Search", "describe"]

BEST_OF_PART = 3  # kernels that are tried on all samples after a part of them
BEST_KERNELS = 2  # with which the other families are tried
RATE = 2e9  # multiplications per second, before any is measured
FIXED, PER_SCORE = 1e8, 1e4  # multiplications that take as long as a small path, and as a score
REFITS = 2.0  # time of a path on all samples with the fits of its members, relative to the path


class Clock:
    """Decides whether there is time for a piece of work.

    Parameters
    ----------
    budget : float or None
        Seconds from now; None means no limit.
    """

    def __init__(self, budget: float | None) -> None:
        self.started = time.perf_counter()
        self.budget = np.inf if budget is None else budget
        self.measured: dict[str, tuple[float, float]] = {}  # the most work, and its speed

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.budget - (time.perf_counter() - self.started)

    def allows(self, family: str, work: float) -> bool:
        """Return whether this many multiplications are expected to end in time."""
        return work / self.measured.get(family, (0.0, RATE))[1] < self.left

    def learn(self, family: str, work: float, seconds: float) -> None:
        """Measure the speed of work that has ended.

        The most work decides, because large matrices are multiplied faster than small ones, and of
        equal work the slowest.
        """
        if seconds > 0:
            known, new = self.measured.get(family, (0.0, RATE)), (work, work / seconds)
            self.measured[family] = max(known, new, key=lambda each: (each[0], -each[1]))


@dataclass
class Search:
    """Trials of candidates on held-out samples.

    Attributes
    ----------
    families : sequence of str
        Names in `FAMILIES`; "LSR" tries all kernels, the others the best of them.
    scorer : callable or None
        None means the log-loss.
    clock : Clock
    n_jobs : int or None
    verbose : int
    task : Task
        The fit, whose parts are the rounds.
    linear : bool
        Whether only linear models are tried.
    trials : list of Trial
        All trials so far.
    started : bool
        Whether a machine has been tried.
    """

    families: Sequence[str]
    scorer: Scorer | None
    clock: Clock
    n_jobs: int | None
    verbose: int
    task: Task
    linear: bool = False
    trials: list[Trial] = field(default_factory=list)
    started: bool = False

    def run(
        self,
        samples: Samples,
        part: Samples | None,
        class_weights: Sequence[Any],
        n_components: int | None,
        seed: int,
    ) -> list[Trial]:
        """Try candidates; return those of the last round, the best first.

        Parameters
        ----------
        samples : Samples
        part : Samples or None
            A part of the samples to compare all kernels on; None means all of them.
        class_weights : sequence
            Class weights to try, first those for all kernels.
        n_components : int or None
            Number of components that approximate a kernel of all samples.
        seed : int
            Seed for drawing them.
        """
        first = samples if part is None else part
        kernels = [
            replace(machine, class_weight=class_weights[0], seed=seed)
            for scaling, X in first.X.items()
            for machine in kernels_of(X, first.distinct, scaling)
            if machine.kernel == "linear" or not self.linear
        ]
        paths = self._round("Kernels", [(machine, {}) for machine in kernels], first)
        tops, others = [path[0] for path in paths[:BEST_KERNELS]], []
        for name, changes in self._variants(class_weights):
            plan = [(replace(top.machine, **changes), _known(top, first)) for top in tops]
            others += self._round(name, plan, first)
        if part is None:
            paths += others
        else:
            # More samples can bear a narrower kernel, so several kernels stay.
            finalists = [*paths[:BEST_OF_PART], *sorted(others, key=_key)[:1]]
            plan = [
                (replace(path[0].machine, n_components=n_components), _known(path[0], first))
                for path in finalists
            ]
            if paths and not any(self._allows(machine, samples, REFITS) for machine, _ in plan):
                # One machine is tried in any case: the cheapest, which is linear.
                cheapest = min(paths, key=lambda path: _work(path[0].machine, samples))[0]
                machine = replace(cheapest.machine, n_components=n_components)
                plan = [(machine, _known(cheapest, first))]
                self.started = False
            paths = self._round("All samples", plan, samples, REFITS)
        return sorted((trial for path in paths for trial in path), key=lambda trial: trial.key)

    def _variants(self, class_weights: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the other families and class weights."""
        for family in self.families:
            if family != "LSR":
                yield family, {"family": family, "class_weight": class_weights[0]}
        for class_weight in class_weights[1:]:
            for family in self.families:
                what = f"{family} with class weights"
                yield what, {"family": family, "class_weight": class_weight}

    def _round(
        self,
        name: str,
        plan: Sequence[tuple[Machine, Setting]],
        samples: Samples,
        factor: float = 1.0,
    ) -> list[list[Trial]]:
        """Try machines for which there is time; the one with the best candidate comes first.

        The second item of the plan has good settings that are known. There must be time for the
        path times the factor.
        """
        started, paths = time.perf_counter(), []
        jobs = Parallel(n_jobs=self.n_jobs, return_as="generator", pre_dispatch="n_jobs")(
            delayed(try_machine)(machine, samples, known, self.scorer)
            for machine, known in plan
            if self._has_time(machine, samples, factor)
        )
        part = self.task.begin(name, len(plan))
        for path in part.steps("path of fits", jobs, len(plan)):
            if path:
                machine = path[0].machine
                seconds = sum(trial.seconds for trial in path)
                self.clock.learn(machine.family, _work(machine, samples), seconds)
                paths.append(path)
        part.end()
        paths.sort(key=_key)
        self.trials += [trial for path in paths for trial in path]
        if self.verbose and paths:
            best = paths[0][0]
            print(
                f"{name}: {len(paths)} of {len(plan)} tried on {len(samples.y):,} samples in "
                f"{time.perf_counter() - started:.1f} s, best {describe(best.machine)} with "
                f"held-out log-loss {best.log_loss:.4g} and accuracy {best.accuracy:.4g}"
            )
        return paths

    def _has_time(self, machine: Machine, samples: Samples, factor: float) -> bool:
        """Return whether a machine may start; the first one always does."""
        may_start = not self.started or self._allows(machine, samples, factor)
        self.started = True
        return may_start

    def _allows(self, machine: Machine, samples: Samples, factor: float) -> bool:
        return self.clock.allows(machine.family, factor * _work(machine, samples))


def _key(path: Sequence[Trial]) -> tuple[float, float, float]:
    return path[0].key


def _known(trial: Trial, samples: Samples) -> Setting:
    """Return the settings of a trial, with the relative penalty if there is one."""
    ridge = ridge_of(trial.machine, samples.size, trial.params)
    return trial.params if ridge is None else trial.params | {"ridge": ridge}


def describe(machine: Machine) -> str:
    """Name a machine."""
    gamma = "" if machine.gamma is None else f" (gamma {machine.gamma:.3g})"
    weights = "" if machine.class_weight is None else ", class weights"
    return f"{machine.family}, {machine.kernel} kernel{gamma}, {machine.scaling} scaling{weights}"


def _work(machine: Machine, samples: Samples) -> float:
    """Estimate the multiplications of a path, up to a factor that depends on the family."""
    n_rows, n_features = len(samples.y), samples.size.n_features
    width = n_features if machine.kernel == "linear" else machine.n_components or n_rows
    width = min(width, n_rows)
    one_by_one = FAMILIES[machine.family].leaves_out(groups=samples.groups is not None)
    n_folds = 1 if one_by_one and not samples.by_folds else len(samples.folds)
    scores = FIXED + PER_SCORE * len(samples.judged) * samples.size.n_classes
    return float(n_folds * (10 * n_rows * width**2 + n_rows * width * n_features) + scores)
