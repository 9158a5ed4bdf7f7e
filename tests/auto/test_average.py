"""Weights of averages, the bias of choosing the best, and ranks."""

import numpy as np
import pytest
from scipy.stats import rankdata

from discreg.auto._average import average, beats, greedy_weights, mixture_weights, optimism
from discreg.auto._scaling import RankScaler


def log_loss(y):
    return lambda mean: (-np.log(mean[np.arange(len(y)), y]).mean(), 0.0)


def test_two_candidates_that_err_on_different_samples_are_averaged():
    y = np.array([0, 0, 1, 1])
    first = np.array([[0.9, 0.1], [0.3, 0.7], [0.1, 0.9], [0.1, 0.9]])
    second = np.array([[0.3, 0.7], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    useless = np.full((4, 2), 0.5)
    weights = greedy_weights([first, second, useless], log_loss(y))
    np.testing.assert_allclose(weights, [0.5, 0.5, 0.0])
    mean = average([np.log(first), np.log(second)], weights[:2])
    np.testing.assert_allclose(np.exp(mean), (first + second) / 2)


def test_a_candidate_that_no_other_improves_stays_alone():
    y = np.array([0, 1])
    good, bad = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.2, 0.8], [0.8, 0.2]])
    np.testing.assert_array_equal(greedy_weights([good, bad], log_loss(y)), [1.0, 0.0])


def log_likelihood(weights, likelihoods, sample_weights):
    return sample_weights @ np.log(weights @ likelihoods)


def test_held_out_samples_are_most_likely_with_the_weights_of_a_mixture():
    random = np.random.default_rng(0)
    likelihoods, sample_weights = random.uniform(0.01, 1, (2, 50)), random.uniform(1, 3, 50)
    found = mixture_weights(likelihoods, sample_weights)
    shares = np.linspace(0, 1, 100_001)
    each = np.log(np.outer(shares, likelihoods[0]) + np.outer(1 - shares, likelihoods[1]))
    assert found[0] == pytest.approx(shares[(each @ sample_weights).argmax()], abs=1e-4)
    assert found.sum() == pytest.approx(1.0)


def test_a_mixture_is_nearly_as_likely_as_the_best_one_and_more_than_its_members():
    random = np.random.default_rng(0)
    likelihoods, sample_weights = random.uniform(0.01, 1, (6, 200)), np.ones(200)
    found = mixture_weights(likelihoods, sample_weights)
    # The log-likelihood is concave: this bounds the distance to its maximum from above.
    bound = (likelihoods @ (sample_weights / (found @ likelihoods))).max() - sample_weights.sum()
    assert bound < 1.0
    reached = log_likelihood(found, likelihoods, sample_weights)
    assert reached > max(np.log(each).sum() for each in likelihoods)


def test_a_mixture_has_at_most_six_members_and_weights_are_copies():
    random = np.random.default_rng(0)
    likelihoods = random.uniform(0.1, 1, (20, 30))
    copies = random.integers(1, 4, 30)
    found = mixture_weights(likelihoods, copies.astype(float))
    assert 0 < np.count_nonzero(found) <= 6
    each_right_elsewhere = np.kron(np.eye(8), np.ones((1, 5))) * 0.8 + 0.1
    assert np.count_nonzero(mixture_weights(each_right_elsewhere, np.ones(40))) == 6
    repeated = np.repeat(likelihoods, copies, axis=1)
    np.testing.assert_allclose(mixture_weights(repeated, np.ones(copies.sum())), found, atol=1e-12)


def test_equal_candidates_have_equal_weights_and_a_useless_one_has_none():
    likelihoods = np.array([[0.9, 0.8, 0.9], [0.9, 0.8, 0.9], [0.1, 0.1, 0.1]])
    found = mixture_weights(likelihoods, np.ones(3))
    np.testing.assert_allclose(found, [0.5, 0.5, 0.0], rtol=1e-12)


def test_the_best_of_many_equal_candidates_looks_too_good():
    random = np.random.default_rng(0)
    n_samples, weights = 100, np.ones(100)
    biases, true = [], []
    for _ in range(30):
        errors = (random.random((50, n_samples)) < 0.3).astype(float)
        biases.append(optimism(errors[None], 0, weights, np.arange(n_samples))[0])
        true.append(0.3 - errors.mean(axis=1).min())
    assert np.mean(biases) == pytest.approx(np.mean(true), abs=0.03)
    assert np.mean(true) > 0.08


def test_one_candidate_has_no_bias():
    errors = (np.random.default_rng(0).random((1, 1, 200)) < 0.3).astype(float)
    assert optimism(errors, 0, np.ones(200), np.arange(200))[0] == 0.0


def test_a_metric_that_does_not_choose_is_never_corrected_for_the_better():
    random = np.random.default_rng(0)
    chosen_by = random.random((2, 100))  # two candidates of about the same loss
    best = chosen_by.mean(axis=1).argmin()
    other = np.zeros((2, 100))
    other[best] = 1.0
    bias = optimism(np.array([chosen_by, other]), 0, np.ones(100), np.arange(100))
    assert bias[0] > 0
    assert bias[1] == 0.0


def test_a_gain_must_exceed_its_standard_error_and_the_bias():
    weights = np.ones(100)
    gain = np.tile([0.5, -0.3], 50)  # mean 0.1, standard error 0.04
    assert beats(-gain, np.zeros(100), weights, bias=0.05)
    assert not beats(-gain, np.zeros(100), weights, bias=0.07)


def test_ranks_are_middle_ranks_and_weights_are_copies():
    random = np.random.default_rng(0)
    X = random.integers(5, size=(40, 3)).astype(float)
    found = RankScaler().fit_transform(X)
    expected = np.column_stack([(rankdata(column) - 0.5) / 40 for column in X.T])
    np.testing.assert_allclose(found, expected)
    weights = random.integers(3, size=40)
    weighted = RankScaler().fit(X, sample_weight=weights).transform(X)
    repeated = RankScaler().fit(X.repeat(weights, axis=0)).transform(X)
    np.testing.assert_allclose(weighted, repeated)


def test_values_between_and_beyond_those_of_training():
    scaler = RankScaler().fit([[0.0], [1.0]])
    np.testing.assert_allclose(scaler.transform([[-9.0], [0.5], [9.0]]).ravel(), [0.25, 0.5, 0.75])


def test_many_values_keep_the_distribution():
    x = np.random.default_rng(0).normal(size=(5_000, 1))
    ranks = RankScaler().fit_transform(x).ravel()
    assert np.abs(np.sort(ranks) - (np.arange(5_000) + 0.5) / 5_000).max() < 2e-3
