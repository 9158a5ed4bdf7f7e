"""Prediction sets: the quantile of held-out scores, and coverage."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split

from discreg import LSRClassifier, LSRClassifierCV
from discreg.base.calibration import Calibration, fit_temperature, probabilities


def noisy(n_samples, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_samples)
    return np.eye(n_classes)[y] + 0.6 * rng.normal(size=(n_samples, n_classes)), y


def calibrated(scores, y, weights=None):
    weights = np.ones(len(y)) if weights is None else weights
    temperature = fit_temperature(scores, y, weights)
    return Calibration.of(scores, y, weights, scores.shape[1], temperature)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99])
def test_limit_is_the_quantile_of_one_more_score(level):
    """The ⌈level (n + 1)⌉-th smallest score; no limit if there are not so many."""
    scores, y = noisy(57)
    found = calibrated(scores, y)
    own = np.sort(1 - probabilities(scores, found.temperature)[np.arange(57), y])
    shares = np.linspace(0, 1, 10_001)[:, None] * [1, 0, 0, 0]
    rank = int(np.ceil(level * 58))
    inside = found.sets(shares, level, allow_empty=True)[:, 0]
    assert_array_equal(inside, 1 - shares[:, 0] <= (own[rank - 1] if rank <= 57 else np.inf))


def test_scale_of_all_weights_does_not_matter():
    scores, y = noisy(80)
    small = calibrated(scores, y, np.full(80, 1e-3))
    large = calibrated(scores, y)
    sets = [each.sets(probabilities(scores, each.temperature), 0.9) for each in (small, large)]
    assert_array_equal(*sets)


def test_a_class_without_held_out_samples_is_in_every_conditional_set():
    scores, y = noisy(100)
    known = y != 2
    found = calibrated(scores[known], y[known])
    shares = probabilities(scores, found.temperature)
    assert found.sets(shares, 0.9, class_conditional=True)[:, 2].all()


def test_an_empty_set_gets_the_most_probable_class():
    scores, y = noisy(400)
    found = calibrated(scores, y)
    shares = probabilities(noisy(400, seed=5)[0], found.temperature)
    empty = found.sets(shares, 0.5, allow_empty=True)
    filled = found.sets(shares, 0.5)
    none = ~empty.any(axis=1)
    assert none.any()
    assert_array_equal(filled[~none], empty[~none])
    assert_array_equal(filled[none].sum(axis=1), 1)
    assert_array_equal(filled[none].argmax(axis=1), shares[none].argmax(axis=1))


def test_fewer_than_ten_samples_have_the_prior_temperature():
    scores, y = noisy(9)
    found = calibrated(scores, y)
    assert found.temperature.inverse == pytest.approx(2.5 / np.ptp(scores, axis=1).mean())
    assert calibrated(scores[:0], y[:0]).temperature.inverse == 1


@pytest.mark.parametrize("class_conditional", [False, True])
def test_sets_cover_new_samples_at_their_level(class_conditional):
    """Mean over forty draws of 150 training samples, 15 of them of the rarest class."""
    covered = []
    for seed in range(40):
        X, y = make_classification(
            1_150, 8, n_informative=5, n_classes=3, weights=[0.6, 0.3], random_state=seed
        )
        X, X_test, y, y_test = train_test_split(X, y, train_size=150, random_state=seed)
        model = LSRClassifier().fit(X, y)
        sets = model.predict_set(X_test, 0.8, class_conditional=class_conditional, allow_empty=True)
        own = sets[np.arange(len(y_test)), y_test]
        covered.append([own.mean(), *(own[y_test == k].mean() for k in range(3))])
    means = np.mean(covered, axis=0)
    assert means[0] == pytest.approx(0.8, abs=0.02)
    if class_conditional:
        assert np.all(means[1:] > 0.8 - 0.02)
        assert np.all(means[1:] < 0.8 + 1 / 16 + 0.02)  # a quantile of 15 scores


def test_a_higher_level_gives_larger_sets():
    X, y = load_digits(return_X_y=True)
    model = LSRClassifier().fit(X[::3], y[::3])
    low, high = (model.predict_set(X[1::3], level, allow_empty=True) for level in (0.8, 0.99))
    assert np.all(high >= low)
    assert low.shape == (599, 10)
    assert low.dtype == bool


def test_search_predicts_the_sets_of_its_best_estimator():
    X, y = load_wine(return_X_y=True)
    search = LSRClassifierCV(betas=[1.0, 0.1]).fit(X, y)
    expected = search.best_estimator_.predict_set(X, 0.7, class_conditional=True)
    assert_array_equal(search.predict_set(X, 0.7, class_conditional=True), expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"confidence_level": 1}, "confidence_level must be a number between 0 and 1, got 1"),
        ({"confidence_level": "0.9"}, "confidence_level must be a number"),
        ({"allow_empty": 1}, "allow_empty must be True or False, got 1"),
        ({"class_conditional": "yes"}, "class_conditional must be True or False"),
    ],
)
def test_mistakes_in_the_call_are_named(wrong, message):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        LSRClassifier().fit(X, y).predict_set(X, **wrong)


def test_without_probability_there_are_no_sets():
    X, y = load_wine(return_X_y=True)
    model = LSRClassifier(probability=False).fit(X, y)
    for name in ("predict_proba", "predict_log_proba", "predict_set"):
        assert not hasattr(model, name)
    assert not hasattr(model, "inverse_temperature_")
    with pytest.raises(NotFittedError, match="Fit it with probability=True"):
        model.set_params(probability=True).predict_proba(X)


def test_conditional_sets_do_not_depend_on_class_weights_of_other_classes():
    """Of eight samples, the quantile of one more score at 90 % is infinite."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(88, 3)), np.repeat([0, 1], [80, 8])
    X[y == 1] += 3
    for class_weight in (None, "balanced", {0: 0.1, 1: 5.0}):
        model = LSRClassifier(class_weight=class_weight).fit(X, y)
        assert model.predict_set(X, 0.9, class_conditional=True)[:, 1].all()
        assert not model.predict_set(X, 0.8, class_conditional=True)[:, 1].all()
