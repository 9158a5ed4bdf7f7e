"""The page on SHAP."""

import numpy as np
import pytest
from recipe_pages import run_page

pytest.importorskip("shap")


@pytest.mark.filterwarnings("ignore")
def test_contributions_add_up_to_the_predictions():
    page = run_page("shap")
    X, linear, kernel = page["X"], page["linear"], page["of_probabilities"]
    expected = page["model"].decision_function(X[:5])
    np.testing.assert_allclose(linear.values.sum(axis=1) + linear.base_values, expected, atol=1e-10)
    expected = page["kernel"].predict_proba(X[:2])
    np.testing.assert_allclose(kernel.values.sum(axis=1) + kernel.base_values, expected, atol=1e-6)
