"""Averages of candidates, chosen on held-out probabilities, and how optimistic the choice is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from discreg.base.calibration import Temperature, class_columns, log_probabilities
from discreg.linalg.types import Array, Indices

__all__ = ["average", "beats", "greedy_weights", "member_logs", "mixture_weights", "optimism"]

MOST_MEMBERS = 6  # of a mixture
SMALLEST_SHARE = 0.01  # weight of a member
N_STEPS = 300  # of the weights of a mixture
MOST_ADDED = 25  # members of a greedy average, with repetitions
SMALLEST_GAIN = 1e-4  # relative decrease of the loss that a further member must bring
N_BOOTSTRAP = 200  # samples


def mixture_weights(likelihoods: Array, sample_weights: Array) -> Array:
    r"""Find weights of candidates for which held-out samples are most likely.

    The log-likelihood :math:`\sum_i c_i \log \sum_k w_k p_{ki}` is concave in the weights. Steps of
    expectation maximisation increase it from equal weights on; a fixed number of them, which do not
    reach the maximum, keeps weights of similar candidates similar. Then the largest weights are
    found again without the other candidates, and weights below one per cent become zero.

    Parameters
    ----------
    likelihoods : ndarray of shape (n_candidates, n_samples)
        Held-out probabilities of the classes of the samples.
    sample_weights : ndarray of shape (n_samples,)

    Returns
    -------
    weights : ndarray of shape (n_candidates,)
        Shares that sum to 1, at most six of them positive.
    """
    shares = sample_weights / sample_weights.sum()
    members = np.arange(len(likelihoods))
    weights = _most_likely(likelihoods, shares)
    if len(members) > MOST_MEMBERS:
        members = np.argsort(-weights, kind="stable")[:MOST_MEMBERS]
        weights = _most_likely(likelihoods[members], shares)
    found = np.zeros(len(likelihoods))
    found[members] = np.where(weights < SMALLEST_SHARE, 0.0, weights)
    return np.asarray(found / found.sum())


def _most_likely(likelihoods: Array, shares: Array) -> Array:
    likelihoods = np.maximum(likelihoods, np.finfo(np.float64).tiny)
    weights = np.full(len(likelihoods), 1 / len(likelihoods))
    for _ in range(N_STEPS):
        weights *= likelihoods @ (shares / (weights @ likelihoods))
    return weights


def greedy_weights(
    candidates: Sequence[Array], loss: Callable[[Array], tuple[float, float]]
) -> Array:
    """Average probabilities greedily with replacement, as Caruana et al. (2004).

    Beginning with the first candidate, the one that lowers the loss of the average most is added,
    until none lowers it by more than a ten thousandth.

    Parameters
    ----------
    candidates : sequence of ndarray of shape (n_samples, n_classes)
        Held-out probabilities, the best candidate first.
    loss : callable
        Loss of probabilities of all samples, and a second one that decides between equal ones.

    Returns
    -------
    weights : ndarray of shape (n_candidates,)
        Shares that sum to 1.
    """
    times = np.zeros(len(candidates))
    times[0] = 1
    total, best = candidates[0].copy(), loss(candidates[0])
    for number in range(2, MOST_ADDED + 1):
        losses = [loss((total + each) / number) for each in candidates]
        chosen = min(range(len(losses)), key=losses.__getitem__)
        if not _is_lower(losses[chosen], best):
            break
        times[chosen] += 1
        total, best = total + candidates[chosen], losses[chosen]
    return np.asarray(times / times.sum())


def _is_lower(loss: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether the first loss is lower, or the second one if the first ones are equal."""
    place = 0 if loss[0] != other[0] else 1
    return loss[place] < other[place] - SMALLEST_GAIN * abs(other[place])


def average(log_probabilities: Sequence[Array], weights: Array) -> Array:
    """Compute the logarithm of the weighted mean of probabilities."""
    total = sum(
        weight * np.exp(each) for each, weight in zip(log_probabilities, weights, strict=True)
    )
    return np.asarray(np.log(np.maximum(total, np.finfo(np.float64).tiny)))


def member_logs(member: Any, temperature: Temperature, rows: Any) -> Array:
    """Compute the log-probabilities of a member."""
    if isinstance(member, DummyClassifier):
        return np.asarray(member.predict_log_proba(rows))
    scores = class_columns(member.decision_function(rows))
    return np.asarray(log_probabilities(scores, temperature), dtype=np.float64)


def beats(loss: Array, baseline: Array, weights: Array, bias: float) -> bool:
    """Return whether a mean loss is below another one by more than the standard error.

    Parameters
    ----------
    loss, baseline : ndarray of shape (n_samples,)
        Losses of held-out samples.
    weights : ndarray of shape (n_samples,)
    bias : float
        How much lower the mean of `loss` is for having been chosen, see `optimism`.
    """
    gain, shares = baseline - loss, weights / weights.sum()
    mean = shares @ gain
    error = np.sqrt(shares**2 @ (gain - mean) ** 2)
    return bool(mean - bias > error)


def optimism(losses: Array, decisive: int, weights: Array, groups: Indices) -> Array:
    """Estimate how much lower the losses of the best candidate are for having been chosen.

    The candidate that is best on a bootstrap sample of the held-out samples is judged on the
    samples that are not in it (Tsamardinos, Greasidou and Borboudakis, 2018), beside the best one
    on all samples: the mean loss of the latter outside of the bootstrap samples is that on all
    samples, and the same draws make the difference more precise.

    Parameters
    ----------
    losses : ndarray of shape (n_metrics, n_candidates, n_samples)
        Losses of held-out samples.
    decisive : int
        The metric that chooses.
    weights : ndarray of shape (n_samples,)
    groups : ndarray of shape (n_samples,)
        Numbers of the groups of samples that are drawn together, from 0.

    Returns
    -------
    bias : ndarray of shape (n_metrics,)
        Mean losses outside of the bootstrap samples less those of the best candidate on all; zero
        if they are negative, which a metric that does not choose can be.
    """
    random = np.random.default_rng(0)
    n_groups = int(groups.max()) + 1
    best = int(np.argmin(losses[decisive] @ weights))
    found = []
    for _ in range(N_BOOTSTRAP):
        times = np.bincount(random.integers(n_groups, size=n_groups), minlength=n_groups)[groups]
        inside, outside = times * weights, (times == 0) * weights
        if outside.any() and inside.any():
            chosen = int(np.argmin(losses[decisive] @ inside))
            found.append((losses[:, chosen] - losses[:, best]) @ outside / outside.sum())
    return np.maximum(np.mean(found, axis=0), 0.0) if found else np.zeros(len(losses))
