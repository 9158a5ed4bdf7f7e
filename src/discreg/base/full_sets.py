"""Full conformal prediction.

A class is in the set of a new sample if the sample conforms with it. To decide this, the sample is
added to the training samples with this class. The nonconformity score of each sample is one minus
the probability of its class, from the leave-one-out scores of the model of all these samples at the
fitted temperature. The share of samples with smaller scores than the new one must be below the
confidence level. If the samples are exchangeable, so are the scores, which guarantees the level.

Regression on features z with the matrix B of its normal equations needs no refits: with a new
sample z_0 of weight w and target t, g = Z B⁻¹ z_0 and q = z_0ᵀB⁻¹z_0, the scores F and the
leverages h of the training samples become

    F + w g (t − F_0)ᵀ / (1 + w q),    h − w g² / (1 + w q),

and the leave-one-out scores of the new sample are those of the fitted model. If z_0 has a part
outside of the span of the training samples, its square over β is added to q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.ridge import KernelRegression
from discreg.linalg.rows import batches, row_dots
from discreg.linalg.types import Array, Indices

from .calibration import Temperature, probabilities

__all__ = ["Augmented", "BorderedRegression", "TrainingLabels", "full_sets"]

ROUNDING = 1e-12  # difference of nonconformity scores that counts as none
BATCH_BYTES = 8 << 20


@dataclass(frozen=True)
class TrainingLabels:
    """Labels and weights of the training samples that a model with a kernel keeps.

    Attributes
    ----------
    y : ndarray of shape (n_samples,)
        Class indices.
    weights, units : ndarray of shape (n_samples,)
        Weights, and the weight of one copy of each sample, with class weights.
    factors : ndarray of shape (n_classes,)
        Class weights.
    beta : float
        Penalty, not relative to the features.
    """

    y: Indices
    weights: Array
    units: Array
    factors: Array
    beta: float


# Yields each class and the scores of the training samples if new samples have this class, of shape
# (n_new, n_samples, n_classes).
Augmented = Callable[[slice], Iterator[tuple[int, Array]]]


def full_sets(
    labels: TrainingLabels,
    own: Array,
    augmented: Augmented,
    temperature: Temperature,
    confidence_level: float,
    *,
    class_conditional: bool,
    allow_empty: bool,
) -> NDArray[np.bool_]:
    """Return which classes each new sample conforms with.

    Parameters
    ----------
    labels : TrainingLabels
    own : ndarray of shape (n_new, n_classes)
        Scores of the new samples.
    augmented : callable
        Computes the leave-one-out scores of the training samples together with some new samples. A
        score of NaN counts as the largest nonconformity.
    temperature : Temperature
    confidence_level, class_conditional, allow_empty
        As for `predict_set`.
    """
    y, n_classes = labels.y, own.shape[1]
    shares = np.asarray(probabilities(own, temperature), dtype=np.float64)
    sets = np.zeros(own.shape, dtype=bool)
    everyone = np.arange(len(y))
    for rows in batches(len(own), max(1, BATCH_BYTES // (8 * len(y) * n_classes))):
        for k, scores in augmented(rows):
            compared = everyone[y == k] if class_conditional else everyone
            among = softmax(temperature.logits(scores[:, compared]), axis=2)
            of_class = among[:, np.arange(len(compared)), y[compared]]
            smaller = 1 - of_class < 1 - shares[rows, k, None] - ROUNDING
            weights = labels.weights[compared]
            wanted = confidence_level * (weights.sum() + labels.factors[k])
            sets[rows, k] = smaller @ weights < wanted * (1 - ROUNDING)
    if not allow_empty:
        sets[np.arange(len(sets)), shares.argmax(axis=1)] = True
    return sets


class BorderedRegression:
    """Kernel regression to which new samples can be added.

    Parameters
    ----------
    kernel : FittedKernel
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Training samples.
    labels : TrainingLabels
    centre : bool
        Whether there is an intercept.
    entries : ndarray of shape (n_classes,)
        Entry of the targets of each class in its own column.

    Attributes
    ----------
    total : float
        Sum of the weights.
    mean : ndarray of shape (n_classes,)
        Mean of the targets; zero without an intercept.
    moments : ndarray of shape (rank, n_classes)
        Products of the features with the targets.
    leverages : ndarray of shape (n_samples,)
    scores : ndarray of shape (n_samples, n_classes)
    """

    def __init__(
        self, kernel: FittedKernel, X: Any, labels: TrainingLabels, *, centre: bool, entries: Array
    ) -> None:
        self.kernel, self.X, self.labels = kernel, X, labels
        matrix, mean = kernel.centred_matrix(X, labels.weights if centre else None, copies=4)
        self.regression = regression = KernelRegression(matrix, labels.weights, mean)
        regression.at(labels.beta)
        totals, weights = regression.class_totals(labels.y, len(entries))
        self.total, self.moments = regression.total, totals * entries
        self.mean = weights * entries / self.total if centre else np.zeros(len(entries))
        self.coef = regression.solve(self.moments)
        self.leverages = regression.leverages(regression.X)
        self.scores = regression.X @ self.coef + self.mean

    def bordered(self, X: Any) -> tuple[Array, Array, Array]:
        """Compute g and q of new samples, and their scores."""
        regression, offset = self.regression, 1 / self.total if self.regression.centred else 0.0
        features, rest = regression.features_of(self.kernel(X, self.X), self.kernel.diagonal(X))
        solved = regression.solve(features.T).T
        inside = row_dots(solved, features) + offset
        outside = np.where(rest > 0, np.divide(rest, regression.beta or np.nan), 0.0)
        outside = np.nan_to_num(outside, nan=np.inf)  # without a penalty
        return solved @ regression.X.T + offset, inside + outside, features @ self.coef + self.mean
