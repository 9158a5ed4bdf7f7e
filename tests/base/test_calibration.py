"""Damped scores and one temperature: the best one, and never a change of winner."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from sklearn.metrics import log_loss as reference_log_loss

from discreg.base.calibration import (
    Temperature,
    fit_temperature,
    log_loss,
    log_probabilities,
    probabilities,
)


def noisy_scores(n_samples=80, n_classes=3, strength=1.0, seed=0):
    """Scores that are right more often than not."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    return strength * (np.eye(n_classes)[y] + rng.normal(size=(n_samples, n_classes))), y


def damped(scores, typical):
    """Scores times asinh(x) / x, where x is their spread in units of the typical one."""
    x = np.ptp(scores, axis=1, keepdims=True) / typical
    return scores * np.arcsinh(x) / x


def smoothed_loss(scores, y, weights, tau):
    """Log-loss with the target (n + 1) / (n + 2) for the own class; the others share the rest."""
    n_classes = scores.shape[1]
    total = 0.0
    for row, own, weight in zip(log_softmax(tau * scores, axis=1), y, weights, strict=True):
        size = weights.sum() ** 2 / (weights @ weights)
        targets = np.full(n_classes, 1 / (size + 2) / (n_classes - 1))
        targets[own] = (size + 1) / (size + 2)
        total -= weight * targets @ row
    return total


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("strength", [1e-6, 0.3, 1.0, 1e6])
def test_fitted_temperature_has_the_least_loss(n_classes, strength):
    scores, y = noisy_scores(n_classes=n_classes, strength=strength)
    weights = np.random.default_rng(1).uniform(0.2, 3, size=len(y))
    found = fit_temperature(scores, y, weights)
    spreads = np.ptp(scores, axis=1)
    at_least = [weights[spreads <= found.spread].sum(), weights[spreads >= found.spread].sum()]
    assert found.spread in spreads
    assert min(at_least) >= weights.sum() / 2
    tau, scores = found.inverse, damped(scores, found.spread)
    best = minimize_scalar(
        lambda power: smoothed_loss(scores, y, weights, np.exp(power) / strength),
        bounds=(-6, 6),
        method="bounded",
        options={"xatol": 1e-12},
    )
    # A minimum is known to the square root of the precision of its values.
    assert tau == pytest.approx(np.exp(best.x) / strength, rel=1e-6)
    assert smoothed_loss(scores, y, weights, tau) <= best.fun * (1 + 1e-14)


def test_perfect_separation_has_a_finite_temperature():
    y = np.arange(60) % 3
    for strength in (1e-6, 1.0, 1e6):
        found = fit_temperature(strength * np.eye(3)[y], y, np.ones(60))
        assert 1 < found.inverse * strength < 1e3
        # The smoothed target of n samples is the share that their classes get.
        shares = probabilities(strength * np.eye(3), found)
        np.testing.assert_allclose(np.diag(shares), 61 / 62, rtol=1e-9)


def test_more_samples_that_are_separated_are_trusted_more():
    taus = []
    for n_samples in (12, 60, 600, 60_000):
        y = np.arange(n_samples) % 3
        taus.append(fit_temperature(np.eye(3)[y], y, np.ones(n_samples)).inverse)
    assert np.all(np.diff(taus) > 0)
    assert np.isfinite(taus[-1])


def test_scores_that_are_always_wrong_have_a_positive_temperature():
    """The winner keeps the largest probability, by a hair."""
    y = np.arange(60) % 3
    scores = -np.eye(3)[y]
    found = fit_temperature(scores, y, np.ones(60))
    assert 0 < found.inverse < 0.01
    np.testing.assert_allclose(probabilities(scores, found), 1 / 3, atol=1e-2)


@pytest.mark.parametrize("value", [0.0, 1.0, -3e5])
def test_scores_that_are_all_equal_have_some_temperature(value):
    y = np.arange(12) % 3
    tau = fit_temperature(np.full((12, 3), value), y, np.ones(12)).inverse
    assert np.isfinite(tau)
    assert tau > 0


@pytest.mark.parametrize("strength", [1e-290, 1e-303, 1e-307, 5e-324])
def test_scores_that_hardly_differ_have_a_finite_temperature(strength):
    scores, y = noisy_scores(strength=strength)
    weights = np.ones(len(y))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = fit_temperature(scores, y, weights)
        loss = log_loss(scores, y, weights, found)
    assert 0 < found.inverse < np.inf
    assert 0 < loss < np.inf


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6), st.booleans())
def test_the_scale_of_the_weights_does_not_matter(seed, factor, has_offsets):
    scores, y = noisy_scores(30, seed=seed)
    weights = np.random.default_rng(seed).uniform(0.2, 3, size=30)
    offsets = np.zeros(3) if has_offsets else None
    one = fit_temperature(scores, y, weights, offsets)
    other = fit_temperature(scores, y, factor * weights, offsets)
    np.testing.assert_allclose(
        probabilities(scores, other), probabilities(scores, one), rtol=1e-6, atol=1e-9
    )


def rare_scores(n_samples, share, seed):
    """Scores of two or three classes that are as frequent as each other, and rare ones in fact."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_samples) < share).astype(int)
    x = rng.normal(size=n_samples) + 2 * y - 1  # the log-odds of equally frequent classes are 2 x
    return np.column_stack([-x, x]), y


def test_offsets_are_the_optimum_of_their_loss():
    scores, y = noisy_scores(80, 4)
    scores[:, 2] += 1.0
    weights = np.random.default_rng(1).uniform(0.2, 3, size=80)
    prior = np.array([0.5, -1.0, 0.2, 0.0])
    found = fit_temperature(scores, y, weights, prior)
    assert found.offsets is not None
    size = weights.sum() ** 2 / (weights @ weights)
    shares = np.bincount(y, weights) / weights.sum()
    targets = ((size + 1) * np.eye(4)[y] + shares) / (size + 2)
    logits = damped(scores, found.spread)

    def loss(at):
        logs = log_softmax(at[0] * logits + at[1:], axis=1)
        fit = -(targets * logs).sum(axis=1) @ weights * size / weights.sum()
        return fit + 0.5 * np.sum((at[1:] - prior + prior.mean()) ** 2)

    best = minimize(loss, np.array([1.0, *prior]), method="BFGS", options={"gtol": 1e-9})
    ours = np.array([found.inverse, *found.offsets])
    np.testing.assert_allclose(ours, best.x, atol=1e-5)
    assert loss(ours) <= best.fun * (1 + 1e-12)


@pytest.mark.parametrize(("n_samples", "share"), [(100, 0.1), (300, 0.05), (2_000, 0.02)])
def test_offsets_restore_how_frequent_the_classes_are(n_samples, share):
    errors = []
    for seed in range(30):
        scores, y = rare_scores(n_samples, share, seed)
        found = fit_temperature(scores, y, np.ones(n_samples), np.log([1 - y.mean(), y.mean()]))
        new, _ = rare_scores(20_000, share, seed + 1_000)
        errors.append(probabilities(new, found)[:, 1].mean() - share)
    assert abs(np.mean(errors)) < 0.2 * share


def test_offsets_of_scores_that_say_nothing_give_the_class_shares():
    y = np.repeat([0, 1], [190, 10])
    scores = np.random.default_rng(0).normal(size=(200, 2))
    found = fit_temperature(scores, y, np.ones(200), np.log([0.95, 0.05]))
    assert probabilities(scores, found)[:, 1].mean() == pytest.approx(0.05, abs=1e-3)
    constant = Temperature.constant(np.array([0.95, 0.05]))
    np.testing.assert_allclose(probabilities(scores, constant), [[0.95, 0.05]] * 200, rtol=1e-12)
    np.testing.assert_allclose(
        log_probabilities(1e300 * scores, constant), np.log([[0.95, 0.05]] * 200), rtol=1e-12
    )


@given(st.integers(0, 2**32 - 1), st.floats(1e-9, 1e9))
def test_scaling_the_scores_divides_the_temperature(seed, factor):
    scores, y = noisy_scores(30, seed=seed)
    one = fit_temperature(scores, y, np.ones(30))
    other = fit_temperature(factor * scores, y, np.ones(30))
    assert other.inverse * factor == pytest.approx(one.inverse, rel=1e-9)
    np.testing.assert_allclose(
        probabilities(factor * scores, other), probabilities(scores, one), atol=1e-9
    )


@given(st.integers(0, 2**32 - 1))
def test_a_shift_of_all_scores_of_a_sample_does_not_matter(seed):
    scores, y = noisy_scores(30, seed=seed)
    shifts = np.random.default_rng(seed).normal(scale=10, size=(30, 1))
    one = fit_temperature(scores, y, np.ones(30))
    other = fit_temperature(scores + shifts, y, np.ones(30))
    assert other.inverse == pytest.approx(one.inverse, rel=1e-9)
    np.testing.assert_allclose(
        probabilities(scores + shifts, one), probabilities(scores, one), atol=1e-12
    )


def test_log_loss_is_that_of_the_probabilities():
    scores, y = noisy_scores()
    weights = np.random.default_rng(1).uniform(0.2, 3, size=len(y))
    for found in (Temperature(1.7), Temperature(1.7, 0.4)):
        shares = probabilities(scores, found)
        expected = reference_log_loss(y, shares, sample_weight=weights)
        assert log_loss(scores, y, weights, found) == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(log_probabilities(scores, found), np.log(shares), rtol=1e-12)


def test_large_differences_are_damped():
    scores = np.array([[0.0, 1e-4], [0.0, 3.0], [0.0, -3.0], [-4.0, 1e6]])
    shares = probabilities(scores, Temperature(2.0, 0.5))
    logits = np.log(shares[:, 1] / shares[:, 0])
    np.testing.assert_allclose(logits[:3], 2 * 0.5 * np.arcsinh([2e-4, 6, -6]), rtol=1e-9)
    assert logits[0] == pytest.approx(2e-4, rel=1e-6)  # small ones are not
    assert logits[3] == pytest.approx(np.log(2 * 1_000_004 / 0.5), rel=1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30, unique=True))
def test_probabilities_of_two_classes_have_the_order_of_the_scores(differences):
    """The area under the ROC curve is that of the decision values."""
    differences = np.sort(np.round(differences, 6))
    scores = np.column_stack([np.zeros_like(differences), differences])
    logits = np.diff(log_probabilities(scores, Temperature(1.0, 2.0)), axis=1)[:, 0]
    assert np.all(np.diff(logits)[np.diff(differences) > 0] > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_score_has_the_largest_probability(dtype):
    """Also where rounding would make equal probabilities of different scores."""
    rng = np.random.default_rng(0)
    base = np.repeat(rng.normal(size=(200, 1)), 4, axis=1)
    scores = base + rng.choice([0, 1e-15, 1e-12, 1e-8], size=(200, 4)) * rng.normal(size=(200, 4))
    for tau in (1e-6, 1.0, 1e3):
        shares = probabilities(scores, Temperature(tau, 1e-6), dtype)
        assert shares.dtype == dtype
        np.testing.assert_array_equal(shares.argmax(axis=1), scores.argmax(axis=1))
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=4 * np.finfo(dtype).eps)


def test_extreme_scores_have_finite_probabilities():
    scores = np.array([[1e300, -1e300, 0.0], [-1e5, -1e5, -1e5]])
    for dtype in (np.float32, np.float64):
        np.testing.assert_allclose(
            probabilities(scores, Temperature(1.0), dtype),
            [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]],
            rtol=1e-6,
        )


def test_one_outlier_does_not_flatten_all_probabilities():
    y = np.arange(60) % 3
    scores = np.eye(3)[y] + 0.1 * np.random.default_rng(0).normal(size=(60, 3))
    without = fit_temperature(scores, y, np.ones(60))
    scores[5] *= 1e6
    assert fit_temperature(scores, y, np.ones(60)).inverse > 0.5 * without.inverse
