"""Rounds of a search: which settings are tried on which samples, and which of them is the best.

With many samples, all settings are tried on a part of them and the best ones on more. Default grids
are continued beyond their edges.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from discreg.linalg.types import Indices

from .callbacks import Task
from .held_out import Judged, Setting, Weights
from .trials import Trials

if TYPE_CHECKING:
    from .search import ClassifierSearch

__all__ = ["best_of", "beyond", "try_all", "try_beyond"]

DIVISORS = (9, 3)  # of the number of samples in the rounds before the last one
FEWEST_ROWS = 300  # of a round
FEWEST_OF_CLASS = 10
FEW_SETTINGS = 9  # which are tried on all samples
KEPT = 3  # one setting of three stays in the next round
# Distance from the best score within which settings stay, in standard errors. Settings err on the
# same samples, so that the standard error of a difference is smaller than that of a score.
NEAR = 0.5
FEWEST_VALUES = 2  # of a parameter whose values are continued beyond the edge
ROUNDING = 1e-12  # relative difference of equal losses
SMALLEST = 1e-9  # value of a parameter beyond the edge
MOST_BEYOND = 3  # steps beyond the edge of a grid
SMALLEST_GAIN = 1e-3  # relative increase of the score that leads to a further step


def try_all(
    search: ClassifierSearch,
    trials: Trials,
    grid: Sequence[tuple[Setting, Setting]],
    indices: Indices,
    task: Task,
    *,
    by_groups: bool,
) -> list[list[Judged]]:
    """Try all settings; without a `cv` on growing parts of the samples if there are many."""
    parts = []
    if search.cv is None and not by_groups:
        parts = _parts(indices, trials.weights, len(grid))
    judged: list[list[Judged]] = [[] for _ in grid]
    alive = list(range(len(grid)))
    for number, part in enumerate([*parts, None]):
        started = perf_counter()
        here = trials if part is None else trials.on(part)
        share = len(here.y) / len(trials.y)
        plan = [(grid[k][0], search._for_share(grid[k][1], share)) for k in alive]
        for k, found in zip(alive, here.judge(plan, task, f"round {number + 1}"), strict=True):
            judged[k] = found
        if search.verbose:
            best = best_of(judged)
            print(
                f"Round {number + 1} of {len(parts) + 1}: {_settings(len(alive))} on "
                f"{len(here.y):,} samples in {perf_counter() - started:.1f} s, best score "
                f"{_mean_score(judged[best]):.4g} with {grid[best][1] | grid[best][0]}"
            )
        if part is not None:
            alive = _survivors(judged, alive)
    return judged


def try_beyond(
    search: ClassifierSearch,
    trials: Trials,
    grid: list[tuple[Setting, Setting]],
    judged: list[list[Judged]],
    task: Task,
) -> None:
    """Add settings beyond the edge of a default grid as long as the score increases."""
    signature = inspect.signature(type(search).__init__).parameters
    names = [
        name
        for name, candidates in search._continued.items()
        if name in grid[0][0] | grid[0][1]
        and type(getattr(search, candidates)) is type(signature[candidates].default)
        and getattr(search, candidates) == signature[candidates].default  # `clone` copies tuples
    ]
    for _ in range(MOST_BEYOND):
        best = best_of(judged)
        if judged[best][0].failure is not None:
            return
        kernel, penalty = grid[best]
        tried = [one | other for one, other in grid]
        further = [
            ({k: each[k] for k in kernel}, {k: each[k] for k in penalty})
            for each in search._beyond(tried, kernel | penalty, names)
        ]
        if not further:
            return
        grid += further
        judged += trials.judge(further, task, "beyond the grid")
        if search.verbose:
            top = best_of(judged)
            print(
                f"Beyond the grid: {_settings(len(further))}, best score "
                f"{_mean_score(judged[top]):.4g} with {grid[top][1] | grid[top][0]}"
            )
        gain = _mean_score(judged[best_of(judged)]) - _mean_score(judged[best])
        if not gain > SMALLEST_GAIN * abs(_mean_score(judged[best])):
            return


def _parts(y: Indices, weights: Weights, n_settings: int) -> list[Indices]:
    """Return the rows of the rounds before the last one: nested, stratified random parts.

    There are none for few settings or few rows.
    """
    if n_settings <= FEW_SETTINGS:
        return []
    seen = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    shuffled = np.random.default_rng(0).permutation(seen)
    of_classes = [shuffled[y[shuffled] == k] for k in np.unique(y[seen])]
    parts = []
    for divisor in DIVISORS:
        if len(seen) // divisor >= FEWEST_ROWS:
            sizes = [max(len(rows) // divisor, FEWEST_OF_CLASS) for rows in of_classes]
            chosen = [rows[:size] for rows, size in zip(of_classes, sizes, strict=True)]
            parts.append(np.sort(np.concatenate(chosen)))
    return parts


def _survivors(judged: Sequence[list[Judged]], alive: Sequence[int]) -> list[int]:
    """Return the best third of the settings, and all within half a standard error of the best.

    The standard error is that of a share; scores that are no shares have none.
    """
    scores = np.array([np.mean([each.score for each in judged[k]]) for k in alive])
    losses = np.array([judged[k][0].log_loss for k in alive])
    scores, losses = np.nan_to_num(scores, nan=-np.inf), np.nan_to_num(losses, nan=np.inf)
    order = np.lexsort([losses, -scores])
    best = scores[order[0]]
    error = np.sqrt(max(best * (1 - best), 0.0) / judged[alive[order[0]]][0].n_rows)
    stays = scores >= best - NEAR * error
    stays[order[: -(-len(alive) // KEPT)]] = True
    return [k for k, kept in zip(alive, stays, strict=True) if kept and np.isfinite(scores).any()]


def best_of(judged: Sequence[list[Judged]]) -> int:
    """Return the setting with the best score among those tried on most samples.

    Ties go to the smallest log-loss, then to the first setting.
    """
    scores = np.array([np.mean([each.score for each in on_folds]) for on_folds in judged])
    n_rows = np.array([on_folds[0].n_rows for on_folds in judged])
    losses = np.array([on_folds[0].log_loss for on_folds in judged])
    keys = np.where(n_rows == n_rows.max(), np.nan_to_num(scores, nan=-np.inf), -np.inf)
    tied = np.flatnonzero(keys == keys.max())
    of_tied = np.nan_to_num(losses[tied], nan=np.inf)
    return int(tied[np.argmax(of_tied <= (1.0 + ROUNDING) * of_tied.min())])


def beyond(tried: Sequence[Setting], best: Setting, names: Sequence[str]) -> list[Setting]:
    """Return settings next to the best one beyond the edges of the grid, for some parameters.

    The values of a parameter are continued by the ratio of the two at the edge. Zero ends them.
    """
    further = []
    for name in names:
        values = sorted({setting[name] for setting in tried})
        if len(values) < FEWEST_VALUES:
            continue
        if best[name] == values[-1] and values[-2] > 0:
            value = values[-1] * values[-1] / values[-2]
        elif best[name] == values[0] > 0:
            value = values[0] * values[0] / values[1]
        else:
            continue
        if SMALLEST < value < 1 / SMALLEST:
            further.append(best | {name: value})
    return further


def _settings(number: int) -> str:
    return f"{number} setting" + "s" * (number != 1)


def _mean_score(on_folds: Sequence[Judged]) -> float:
    return float(np.mean([each.score for each in on_folds]))
