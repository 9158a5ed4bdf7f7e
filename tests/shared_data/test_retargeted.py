"""Facts about the retargeted family on the data sets of its papers."""

import numpy as np
import pytest
from oracles import MODELS, convex_optimum
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from discreg import (
    DLSRClassifier,
    GReLSRClassifier,
    LSRClassifier,
    LSRClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
)

CLASSES = {
    "lsr": LSRClassifier,
    "dlsr": DLSRClassifier,
    "relsr": ReLSRClassifier,
    "grelsr": lambda **params: GReLSRClassifier(group_penalty=1.0, **params),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_optimum_on_glass_equals_convex_programming(load_data, model, weighted):
    X, y = load_data("glass")
    X, y = StandardScaler().fit_transform(X), np.unique(y, return_inverse=True)[1]
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y)) if weighted else None
    fitted = CLASSES[model](beta=5.0, scale_beta=False).fit(X, y, sample_weight=weights)
    optimum = convex_optimum(model, X, y, 5.0, weights=weights, group_penalty=1.0)
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    np.testing.assert_allclose(fitted.coef_, optimum.coef.T, atol=1e-5)


LARGE = pytest.param("umist_28x23", marks=pytest.mark.full)


@pytest.mark.parametrize("name", ["usps_9298", "pendigits", "dna", LARGE, "lung_gordon"])
def test_objectives_are_ordered_and_certified(load_data, name):
    X, y = load_data(name)
    X, y = np.asarray(X[:1500], dtype=float), y[:1500]
    values = {}
    for model in MODELS:
        fitted = CLASSES[model](beta=0.05).fit(X, y)
        assert fitted.gap_ <= 1e-6
        values[model] = fitted.objective_history_[-1]
    rounding = 2e-6 * values["lsr"]  # the gaps
    assert values["lsr"] > values["dlsr"] >= values["relsr"] - rounding
    assert values["grelsr"] >= values["relsr"] - rounding


@pytest.mark.parametrize("name", ["glass", "vehicle", "vowel"])
def test_relsr_beats_lsr_as_its_paper_says(load_data, name):
    """40 % for training, raw features, beta from the papers' grid chosen on the training part."""
    X, y = load_data(name)
    X = np.asarray(X, dtype=float)
    grid = np.arange(1, 21) * 0.05
    gain = []
    for train, test in StratifiedShuffleSplit(3, train_size=0.4, random_state=0).split(X, y):
        scores = [
            search(betas=grid, cv=3).fit(X[train], y[train]).score(X[test], y[test])
            for search in (LSRClassifierCV, ReLSRClassifierCV)
        ]
        gain.append(scores[1] - scores[0])
    assert np.mean(gain) > 0
