"""Scores do not depend on the origin of the features: models with intercept, and RBF kernels."""

import numpy as np
from products import every_value
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

import discreg

LINEAR = ["LSR", "DLSR", "ReLSR", "GReLSR", "LRLR", "LRRR", "SLRR", "ODM", "LDM"]
CASES = [(name, {}) for name in LINEAR]
CASES += [(name, {"kernel": "rbf", "gamma": 0.1}) for name in LINEAR if name != "SLRR"]
CASES += [("DRM", {"kernel": "rbf", "gamma": 0.1})]
CASES += [(name, {"solver": "alternating"}) for name in ("DLSR", "ReLSR", "GReLSR")]


@every_value(case=CASES, n_classes=[2, 3])
def test_scores_do_not_change_with_an_offset_of_the_features(case, n_classes):
    name, options = case
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[y < n_classes], y[y < n_classes]
    if name in ("ODM", "LDM"):
        options = {"kernel": "linear", **options}
    model = getattr(discreg, f"{name}Classifier")(**options)
    expected = model.fit(X, y).decision_function(X)
    scores = model.fit(X + 100.0, y).decision_function(X + 100.0)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
