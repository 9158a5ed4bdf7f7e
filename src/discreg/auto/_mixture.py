"""The choice of members and their fit: from samples to a mixture with held-out estimates."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sklearn
from joblib import Parallel, delayed
from scipy.special import log_softmax

from discreg.base.caller import Task, all_silenced
from discreg.base.held_out import N_FOLDS
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array

from ._candidates import (
    EXACT_ROWS,
    RELSR_ROWS,
    AutoCandidate,
    Kind,
    finer,
    independence_p_value,
    kernel_family,
    kernel_kinds,
    kinds_of,
    seconds_of,
)
from ._pool import (
    Calibrator,
    JudgedRows,
    Pool,
    cross_fitted,
    fit_pool,
    gain_over_shares,
    pool_logs,
)
from ._samples import Samples
from ._scaling import Scaling

SCREENED_FROM, PART = 500, 400  # rows from which kernels are compared on a part, and its rows
KERNELS_OF_MANY = 3  # kinds of kernels that are tried on many rows
FEW, MOST_REPEATED = 200, 2_000  # units and rows up to which the fit is repeated in folds
TINY = 1e-300
KNOWN = 1e-3  # probability of a class that a fold has lost, times the number of rows
DECISIVE, LEVEL = 2.0, 0.12  # standard errors of a gain that needs no test, and level of the test
PER_KIND = 2  # candidates of a kind that can become members


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
        self.estimated = self.measured = 1e-9  # seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.budget - (time.perf_counter() - self.started)

    def allows(self, seconds: float) -> bool:
        """Return whether work that is estimated to take so long is expected to end in time."""
        return self.measured / self.estimated * seconds <= self.left

    def learn(self, estimated: float, measured: float) -> None:
        """Compare the estimated with the measured time of work that has ended."""
        self.estimated += estimated
        self.measured += measured


@dataclass(frozen=True)
class Member:
    """A fitted model of scaled features with its calibration.

    Attributes
    ----------
    family, kind : str
    scaling : Shift or Ranks
    model : callable
        Scores of scaled rows, one column per class.
    calibrator : Calibrator
    """

    family: str
    kind: str
    scaling: Scaling
    model: Any
    calibrator: Calibrator

    def predict_log_proba(self, X: Any) -> Array:
        """Predict the logarithms of the class probabilities from features."""
        return self.calibrator(self.model(self.scaling(X)))


@dataclass(frozen=True)
class Mixture:
    """Members and their weights, with what is known of held-out samples.

    Attributes
    ----------
    members : list of Member
        Empty if the class frequencies are the prediction.
    weights : ndarray of shape (n_members,)
    shares : ndarray of shape (n_classes,)
        Class frequencies.
    candidates : list of AutoCandidate
    pooled : list of float
        Weight of each candidate.
    judged : JudgedRows
    logs : ndarray of shape (n_judged, n_classes)
        Held-out log-probabilities of the mixture.
    constant_logs : ndarray of shape (n_judged, n_classes)
        Those of the class frequencies.
    """

    members: list[Member]
    weights: Array
    shares: Array
    candidates: list[AutoCandidate]
    pooled: list[float]
    judged: JudgedRows
    logs: Array
    constant_logs: Array


def log_probabilities(members: Sequence[Member], weights: Array, shares: Array, X: Any) -> Array:
    """Compute log-probabilities of rows; those of the class shares without members."""
    if not members:
        return np.tile(_log(shares), (X.shape[0], 1))
    return pool_logs([member.predict_log_proba(X) for member in members], weights)


@dataclass
class Search:
    """How members are searched.

    Attributes
    ----------
    families : sequence
        Names of families, or pairs of a name and a classifier.
    clock : Clock
    n_jobs : int or None
    verbose : int
    task : Task
        The fit, whose parts are the rounds.
    is_quick : bool
        Whether slow steps that matter little are left out.
    """

    families: Sequence[Any]
    clock: Clock
    n_jobs: int | None
    verbose: int
    task: Task
    is_quick: bool = False
    started: bool = False

    def fit(self, samples: Samples) -> Mixture:
        """Choose members and fit them to all samples.

        Up to 200 rows, or groups, the fit is repeated in five folds for honest estimates.
        """
        mixture = self._fit_once(samples)
        seconds = time.perf_counter() - self.clock.started
        is_small = samples.units.max() < FEW and len(samples) <= MOST_REPEATED
        if is_small and mixture.candidates and N_FOLDS * seconds < self.clock.left:
            mixture = self._repeated(mixture, samples)
        return _verdict(mixture, samples)

    def _repeated(self, mixture: Mixture, samples: Samples) -> Mixture:
        """Replace held-out log-probabilities by those of fits without each of five folds."""
        folds = samples.plain_folds
        part = self.task.begin("estimates", len(folds))
        again = Search(self.families, Clock(None), self.n_jobs, 0, Task(None, None), is_quick=True)
        logs = np.empty((len(samples), samples.n_classes))
        inner = (samples.take(train, keep_shares=False) for train, _ in folds)
        fits = (_verdict(again._fit_once(each), each) for each in inner)
        for (_, test), found in zip(folds, part.steps("fold", fits, len(folds)), strict=True):
            given = found.members, found.weights, found.shares, samples.X[test]
            logs[test] = log_probabilities(*given)
        part.end()
        logs = log_softmax(np.log(np.exp(logs) + KNOWN / len(samples)), axis=1)
        judged = JudgedRows(samples.y, samples.weights, samples.units, samples.shares)
        return replace(mixture, logs=logs, judged=judged, constant_logs=_constant_logs(samples))

    def _fit_once(self, samples: Samples) -> Mixture:
        judged = JudgedRows(
            samples.y[samples.judged],
            samples.judged_weights,
            samples.units[samples.judged],
            samples.shares,
        )
        prior = _constant_logs(samples)[samples.judged]
        empty = Mixture([], np.empty(0), samples.shares, [], [], judged, prior, prior)
        if not len(judged.y) or not np.ptp(judged.y):
            return empty
        checked = sklearn.config_context(assume_finite=True, skip_parameter_validation=True)
        with all_silenced(), checked:  # warnings of candidates
            others, candidates = self._candidates(samples)
            if not candidates:
                return replace(empty, candidates=others, pooled=[0.0] * len(others))
            logs = [each.logs for each in candidates]
            temperatures = [each.temperature for each in candidates]
            pool, calibrators = fit_pool(logs, temperatures, judged)
            held_out = pool.of_logs(logs)
            if not self.is_quick:
                held_out = cross_fitted(logs, temperatures, judged, calibrators)
            members = self._members(pool, candidates, samples)
        pooled = [0.0] * (len(candidates) + len(others))
        for place, weight in zip(pool.members, pool.weights.tolist(), strict=True):
            pooled[place] = weight
        found = [*candidates, *others]
        return Mixture(
            members, pool.weights, samples.shares, found, pooled, judged, held_out, prior
        )

    def _members(
        self, pool: Pool, candidates: Sequence[AutoCandidate], samples: Samples
    ) -> list[Member]:
        """Fit the members to all samples."""
        part, found = self.task.begin("fit of the members"), []
        for place, calibrator in zip(pool.members, pool.calibrators, strict=True):
            chosen = candidates[place]
            scaling = samples.scalings[chosen.scaling]
            found.append(Member(chosen.family, chosen.kind, scaling, chosen.fit(), calibrator))
        part.end()
        return found

    def _candidates(self, samples: Samples) -> tuple[list[AutoCandidate], list[AutoCandidate]]:
        """Try all kinds; return the candidates that cannot be members, and those that can."""
        found: list[AutoCandidate] = []
        screened: list[AutoCandidate] = []
        needs_kernel = [name for name in self.families if name in ("DRM", "ODM", "LRRR")]
        if "kernels" in self.families or needs_kernel:
            found, screened = self._kernels(samples)
            best = min(
                (each for each in found if each.kind == "RBF"),
                key=lambda each: each.log_loss, default=None,
            )  # fmt: skip
            if best is not None:
                if "kernels" in self.families and len(samples) <= RELSR_ROWS and not self.is_quick:
                    needs_kernel = ["ReLSR", *needs_kernel]
                kinds = [kernel_family(name, best) for name in needs_kernel]
                found += self._round("Models with the best kernel", kinds, samples)
            if "kernels" not in self.families:
                found = [each for each in found if each.family != "kernels"]
        found += self._round(
            "Other families", kinds_of(self.families, samples, is_quick=self.is_quick), samples
        )
        usable: list[AutoCandidate] = []
        sources, counts = set[int](), Counter[str]()
        for each in sorted(found, key=lambda each: each.log_loss):
            if id(each.source) not in sources and counts[each.kind] < PER_KIND:
                usable.append(each)
                sources.add(id(each.source))
                counts[each.kind] += 1
        rest = [each for each in found if not any(each is one for one in usable)]
        return [*rest, *screened], usable

    def _kernels(self, samples: Samples) -> tuple[list[AutoCandidate], list[AutoCandidate]]:
        """Try kernels; of many rows, the best widths on a part of them are tried on all."""
        kinds = kernel_kinds(samples)
        if len(samples) <= SCREENED_FROM:
            return self._round("Kernels", kinds, samples), []
        part = samples.part(PART)
        screened = self._round("Kernels", kinds, part)
        best: dict[str, AutoCandidate] = {}
        for each in sorted(screened, key=lambda each: each.log_loss):
            best.setdefault(each.kind, each)
        chosen = list(best.values())
        if len(samples) > EXACT_ROWS:
            chosen = chosen[:KERNELS_OF_MANY]
        kinds = [finer(each) for each in chosen]
        return self._round("Kernels on all rows", kinds, samples), screened

    def _round(self, name: str, kinds: Sequence[Kind], samples: Samples) -> list[AutoCandidate]:
        """Try kinds for which there is time."""
        started, found, tried = time.perf_counter(), [], 0

        def allowed() -> Any:
            for kind in kinds:
                if not self.started or self.clock.allows(seconds_of(kind, samples)):
                    self.started = True
                    yield delayed(_without_warnings)(kind, samples)

        jobs = Parallel(
            n_jobs=self.n_jobs, prefer="threads", return_as="generator", pre_dispatch="n_jobs"
        )(allowed())
        part = self.task.begin(name, len(kinds))
        for candidates in part.steps("kind", jobs, len(kinds)):
            tried += 1
            if candidates:
                kind = candidates[0].source
                taken = sum(each.seconds for each in candidates)
                self.clock.learn(seconds_of(kind, samples), taken)
            found += candidates
        part.end()
        if self.verbose and found:
            best = min(found, key=lambda each: each.log_loss)
            print(
                f"{name}: {tried} of {len(kinds)} tried on {len(samples):,} samples in "
                f"{time.perf_counter() - started:.1f} s, best {best.kind} with held-out log-loss "
                f"{best.log_loss:.4g} and accuracy {best.accuracy:.4g}"
            )
        return found


def _without_warnings(kind: Kind, samples: Samples) -> list[AutoCandidate]:
    """Try a kind, maybe in a thread of its own."""
    with all_silenced():
        return kind(samples)


def _verdict(mixture: Mixture, samples: Samples) -> Mixture:
    """Keep the members if they are better than the class frequencies, and not by chance."""
    if mixture.candidates:
        gain, error = gain_over_shares(mixture.logs, mixture.judged)
        if gain > DECISIVE * error:
            return mixture
        if gain > 0 and independence_p_value(samples.take(samples.judged)) <= LEVEL:
            return mixture
    pooled = [0.0] * len(mixture.candidates)
    return replace(
        mixture, members=[], weights=np.empty(0), pooled=pooled, logs=mixture.constant_logs
    )


def _constant_logs(samples: Samples) -> Array:
    """Compute the class frequencies without each of five folds, as log-probabilities."""
    logs = np.tile(_log(samples.shares), (len(samples), 1))
    for train, test in samples.plain_folds:
        sizes = class_sums(samples.y[train], samples.weights[train], samples.n_classes)
        logs[test] = _log(sizes / sizes.sum() + KNOWN / len(samples))
    return logs


def _log(shares: Array) -> Array:
    return np.asarray(np.log(np.maximum(shares, TINY)))
