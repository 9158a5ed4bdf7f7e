"""Extreme scales, weights and penalties give finite scores or a refusal, never NumPy's warnings."""

import numpy as np
import pytest
from products import every_pair

import discreg

NAMES = ["LSR", "DLSR", "ReLSR", "GReLSR", "LRLR", "LRRR", "SLRR", "DRM"]


def samples(seed, scale, dtype):
    random = np.random.RandomState(seed)
    X = random.randn(24, random.choice([2, 30]))
    if seed % 3 == 0:
        X[:, 0] = 1.0
    if seed % 4 == 1:
        X[12:] = X[:12]
    y = random.randint(3, size=24)
    y[:3] = [0, 1, 2]
    with np.errstate(over="ignore", under="ignore"):
        return (scale * X).astype(dtype), y


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::UserWarning")
@every_pair(
    name=NAMES,
    scale=[1e-150, 1e-75, 1e-20, 1.0, 1e20, 1e75, 1e150],
    weight=[1e-15, 1.0, 1e15],
    seed=range(4),
)
def test_scores_are_finite_or_refused_in_words(name, scale, weight, seed):
    X, y = samples(seed, scale, np.float32 if scale in (1e-20, 1e20) else np.float64)
    random = np.random.RandomState(seed)
    model = getattr(discreg, f"{name}Classifier")()
    options = {"max_iter": 5, "beta": random.choice([1e-300, 1e-8, 1.0, 1e100])}
    if name != "SLRR":
        options["kernel"] = random.choice(["linear", "rbf", "poly", "laplacian"])
    model.set_params(**{k: v for k, v in options.items() if k in model.get_params()})
    weights = weight * random.randint(1, 4, size=len(y))
    scores, refusal = np.zeros(1), "Scale"
    try:
        scores = model.fit(X, y, weights).decision_function(X)
    except ValueError as error:
        refusal = str(error)
    assert np.isfinite(scores).all()
    assert any(word in refusal for word in ("Scale", "larger beta"))
    assert not np.isnan(getattr(model, "gap_", 0.0))
