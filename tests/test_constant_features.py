"""A constant feature has no effect, however small the penalty is."""

import numpy as np
import pytest
from products import every_pair
from scipy import sparse

from discreg import DLSRClassifier, GReLSRClassifier, LRRRClassifier, LSRClassifier, ReLSRClassifier

MODELS = [LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier, LRRRClassifier]


# No certificate can be small for a penalty of 1e-100: it divides rounding errors by the penalty.
@pytest.mark.filterwarnings("ignore:.* stopped at a relative optimality gap")
@every_pair(
    model=MODELS, beta=[1e-100, 1e-12, 0.1], convert=[np.asarray, sparse.csr_array, "memmap"]
)
def test_a_constant_feature_has_no_coefficient(model, beta, convert, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    signal = rng.normal(size=(90, 2)) + y[:, None] * [1.0, -0.5]
    X = np.column_stack([np.full(90, 0.1), signal])
    given = X
    if convert == "memmap":
        given = np.memmap(tmp_path / "rows", dtype=X.dtype, mode="w+", shape=X.shape)
        given[:] = X
    elif convert is not np.asarray:
        given = convert(X)
    classifier = model(beta=beta, class_weight="balanced")
    with_it = classifier.fit(given, y)
    scores = with_it.decision_function(X)
    np.testing.assert_array_equal(with_it.coef_[:, 0], 0)
    assert beta == 1e-100 or getattr(with_it, "gap_", 0.0) < 1e-6
    # A relative penalty is in units of the mean square of a feature.
    scale = 2 / 3 if getattr(classifier, "scale_beta", False) else 1.0
    without = model(beta=scale * beta, class_weight="balanced").fit(signal, y)
    expected = without.decision_function(signal)
    if beta == 1e-100:  # too small to determine what the scores of all classes have in common
        scores, expected = (each - each.mean(axis=1, keepdims=True) for each in (scores, expected))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
