"""Posterior of differences: formulas by hand, Monte Carlo, and limits."""

import numpy as np
import pytest
from scipy import stats

from discreg.comparison.statistics.contrasts import Posterior, correlated_t, correlated_t_test

DIFFERENCES = np.array([0.03, 0.01, -0.01, 0.04, 0.02, 0.0, 0.05, 0.02, 0.01, 0.03])


def test_scale_is_the_corrected_standard_error_of_nadeau_and_bengio():
    found = correlated_t_test(DIFFERENCES, 1 / 4)
    assert found.mean == pytest.approx(DIFFERENCES.mean(), rel=1e-14)
    assert found.scale**2 == pytest.approx((1 / 10 + 1 / 4) * DIFFERENCES.var(ddof=1), rel=1e-13)
    assert found.df == 9


def test_interval_is_that_of_the_corrected_t_test():
    found = correlated_t(DIFFERENCES, 1 / 4)
    low, high = stats.t.interval(0.95, 9, loc=found.mean, scale=found.scale)
    assert found.mean - found.half_width == pytest.approx(low, rel=1e-12)
    assert found.mean + found.half_width == pytest.approx(high, rel=1e-12)


def test_probabilities_are_those_of_the_posterior_by_monte_carlo():
    """Draw the variance and the mean of the normal model with correlation ρ / (1 + ρ)."""
    rng = np.random.default_rng(0)
    n, ratio, rope, n_draws = 10, 1 / 4, 0.01, 400_000
    correlation = ratio / (1 + ratio)
    centred = DIFFERENCES - DIFFERENCES.mean()
    # Eigenvalues of the covariance: 1 - ρ orthogonal to the mean, 1 + (n - 1) ρ along it.
    variance = centred @ centred / (1 - correlation) / rng.chisquare(n - 1, n_draws)
    spread = np.sqrt(variance * (1 + (n - 1) * correlation) / n)
    means = DIFFERENCES.mean() + spread * rng.standard_normal(n_draws)
    found = correlated_t_test(DIFFERENCES, ratio)
    assert found.above(rope) == pytest.approx(np.mean(means > rope), abs=0.004)
    assert found.within(rope) == pytest.approx(np.mean(np.abs(means) <= rope), abs=0.004)
    assert found.below(-rope) == pytest.approx(np.mean(means < -rope), abs=0.004)


@pytest.mark.parametrize("mean", [-0.02, 0.0, 0.005, 0.3])
def test_the_three_probabilities_add_up_to_one(mean):
    found = Posterior(mean, 0.01, 9)
    total = found.above(0.01) + found.within(0.01) + found.below(-0.01)
    assert total == pytest.approx(1, abs=1e-14)


def test_models_with_equal_scores_are_equivalent_with_certainty():
    found = correlated_t_test(np.zeros(10), 1 / 4)
    assert (found.above(0.01), found.within(0.01), found.below(-0.01)) == (0, 1, 0)
    assert found.half_width == 0


def test_equal_differences_on_few_folds_are_not_certain():
    found = correlated_t_test(np.full(3, 0.05), 1 / 2)
    assert 0.7 < found.above(0) < 0.9


def test_scores_that_are_all_equal_have_an_interval_without_width():
    assert correlated_t(np.full(10, 0.9), 1 / 4).half_width == 0


def test_intervals_cover_the_mean_of_correlated_scores():
    """The correction assumes a correlation of ρ / (1 + ρ) between folds."""
    rng = np.random.default_rng(1)
    correlation = 0.2
    common = rng.standard_normal((2000, 1)) * np.sqrt(correlation)
    scores = common + rng.standard_normal((2000, 10)) * np.sqrt(1 - correlation)
    found = [correlated_t(each, 1 / 4) for each in scores]
    covered = np.mean([abs(each.mean) <= each.half_width for each in found])
    assert covered == pytest.approx(0.95, abs=0.015)
