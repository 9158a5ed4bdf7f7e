"""The members of an average, chosen on held-out samples, and estimates for new samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreg.linalg.types import Array

from ._average import average, beats, greedy_weights, mixture_weights, optimism
from ._scoring import HeldOutScorer
from ._trials import Samples, Trial, losses_of, metrics_of

__all__ = ["Selection"]

METRICS = ("log_loss", "accuracy", "balanced_accuracy")


@dataclass(frozen=True)
class Selection:
    """Members and weights of an average.

    Attributes
    ----------
    members : list of Trial
    weights : ndarray of shape (n_members,)
        Their weights, the largest first.
    log_probabilities : ndarray of shape (n_judged, n_classes)
        Held-out log-probabilities of the average.
    metrics : dict
        Log-loss, accuracy and balanced accuracy of held-out samples, corrected for the choice.
    is_constant : bool
        Whether the class frequencies are the only member.
    """

    members: list[Trial]
    weights: Array
    log_probabilities: Array
    metrics: dict[str, float]
    is_constant: bool

    @classmethod
    def of(
        cls,
        pool: Sequence[Trial],
        constant: Trial,
        samples: Samples,
        scorer: HeldOutScorer | None,
        *,
        ensemble: bool,
    ) -> Selection:
        """Select members of the pool, or the class frequencies if these are as good.

        Parameters
        ----------
        pool : sequence of Trial
            Candidates with held-out probabilities, the best first.
        constant : Trial
            The class frequencies.
        samples : Samples
        scorer : callable or None
            None means the log-loss, which must be lower than that of the class frequencies. With
            a scorer of labels, it suffices that the mean error of the classes is lower.
        ensemble : bool
            Whether to average candidates rather than to take the best.
        """
        logs = [trial.log_probabilities for trial in pool if trial.log_probabilities is not None]
        if logs and np.ptp(samples.y[samples.judged]):
            weights = np.eye(len(pool))[0]
            if ensemble:
                weights = _weights(logs, samples, scorer)
            members = np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)].tolist()
            best = average([logs[k] for k in members], weights[members])
            of_labels = scorer is not None and scorer.is_of_labels
            decisive = METRICS.index("balanced_accuracy" if of_labels else "log_loss")
            losses = np.array([losses_of(each, samples) for each in logs]).transpose(1, 0, 2)
            by_accuracy = scorer is not None and scorer.is_accuracy
            chosen_by = METRICS.index("accuracy") if by_accuracy else decisive
            bias = optimism(losses, chosen_by, samples.weights, samples.units)
            own = losses_of(best, samples)
            if scorer is not None:  # the members of the best score need not be the most likely ones
                own[0] = losses_of(average(logs, _weights(logs, samples, None)), samples)[0]
            base = losses_of(constant.logs, samples)
            if any(beats(own[k], base[k], samples.weights, bias[k]) for k in {0, decisive}):
                apparent = metrics_of(best, samples, None)
                metrics = {
                    name: float(apparent[name] + (each if name == "log_loss" else -each))
                    for name, each in zip(METRICS, bias, strict=True)
                }
                chosen = [pool[k] for k in members]
                return cls(chosen, weights[members], best, metrics, is_constant=False)
        metrics = {name: getattr(constant, name) for name in METRICS}
        return cls([constant], np.ones(1), constant.logs, metrics, is_constant=True)


def _weights(logs: Sequence[Array], samples: Samples, scorer: HeldOutScorer | None) -> Array:
    """Return the weights of the members of an average, zero for other candidates."""
    if scorer is None:
        return mixture_weights(_likelihoods(logs, samples), samples.weights)
    found = [np.exp(each) for each in logs]
    return greedy_weights(found, lambda mean: _loss(mean, samples, scorer))


def _likelihoods(logs: Sequence[Array], samples: Samples) -> Array:
    """Return the probabilities of the classes of the judged samples, by candidate."""
    y = samples.y[samples.judged]
    return np.exp([each[np.arange(len(y)), y] for each in logs])


def _loss(mean: Array, samples: Samples, scorer: HeldOutScorer) -> tuple[float, float]:
    """Return what decides first and second, smaller being better."""
    found = metrics_of(np.log(np.maximum(mean, np.finfo(np.float64).tiny)), samples, scorer)
    return -found["score"], found["log_loss"]
