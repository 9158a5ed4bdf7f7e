"""The page on imbalanced-learn."""

import numpy as np
import pytest
from recipe_pages import run_page
from sklearn.metrics import recall_score

pytest.importorskip("imblearn")


def test_repeated_samples_are_weights_and_rare_samples_are_found():
    page = run_page("imbalanced")
    X, y = page["X"], page["y"]
    found = page["by_weights"].decision_function(X)
    np.testing.assert_allclose(page["repeated"].decision_function(X), found, atol=1e-10)
    plain = recall_score(y, type(page["repeated"])().fit(X, y).predict(X))
    for name in ("weighted", "smote"):
        assert recall_score(y, page[name].fit(X, y).predict(X)) > plain
