"""Posterior of a difference of scores: the Bayesian correlated t-test.

References
----------
C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003.

A. Benavoli, G. Corani, J. Demšar and M. Zaffalon, "Time for a Change: a Tutorial for Comparing
Multiple Classifiers Through Bayesian Analysis", Journal of Machine Learning Research 18, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

__all__ = ["MIN_BLOCKS", "Posterior", "correlated_t", "correlated_t_test"]

LEVEL = 0.05
MIN_BLOCKS = 3  # with fewer scores, their spread is not known
ROUNDING = 1e-12


@dataclass(frozen=True)
class Posterior:
    """Student's t-distribution of a mean: location, scale and degrees of freedom."""

    mean: float
    scale: float
    df: float

    def above(self, value: float) -> float:
        """Compute the probability of a larger value."""
        if self.scale == 0:
            return float(self.mean > value)
        return float(stats.t.sf((value - self.mean) / self.scale, self.df))

    def below(self, value: float) -> float:
        """Compute the probability of a smaller value."""
        return Posterior(-self.mean, self.scale, self.df).above(-value)

    def within(self, reach: float) -> float:
        """Compute the probability of a value between -reach and reach."""
        return max(0.0, 1 - self.above(reach) - self.below(-reach))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval."""
        return self.scale * float(stats.t.isf(LEVEL / 2, self.df)) if self.scale else 0.0


def correlated_t(values: ArrayLike, test_to_train: float) -> Posterior:
    """Compute the posterior of the mean score of a model.

    Parameters
    ----------
    values : array-like of shape (n,)
        At least two values, one per fold.
    test_to_train : float
        Ratio ρ of the sizes of a test set and its training set.

    Returns
    -------
    Posterior
        Student's t-distribution with n - 1 degrees of freedom around the mean. The square of its
        scale is (1/n + ρ) times the variance of the values, because the training sets overlap. Its
        95 % interval is the corrected confidence interval of Nadeau and Bengio (2003).
    """
    each = np.asarray(values, dtype=np.float64)
    n, mean, spread = len(each), float(each.mean()), float(each.std(ddof=1))
    if spread <= ROUNDING * max(1.0, abs(mean)):
        spread = 0.0
    return Posterior(mean, spread * float(np.sqrt(1 / n + test_to_train)), n - 1)


def correlated_t_test(differences: ArrayLike, test_to_train: float) -> Posterior:
    """Compute the posterior of the mean difference of two models, as `correlated_t` does.

    Equal differences that are not zero have no spread, but the next one may be another. Their
    spread is taken to be as large as they are.
    """
    found = correlated_t(differences, test_to_train)
    if found.scale > 0 or abs(found.mean) <= ROUNDING:
        return found
    return Posterior(
        found.mean, abs(found.mean) * np.sqrt(1 / (found.df + 1) + test_to_train), found.df
    )
