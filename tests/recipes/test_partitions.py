"""The page on partitions of rows."""

import numpy as np
from recipe_pages import run_page

from discreg import LSRClassifier


def test_the_merged_model_is_that_of_all_rows():
    page = run_page("partitions")
    X, y = page["X"], page["y"]
    assert any(len(np.unique(labels)) < 3 for _, labels in page["parts"])
    whole = LSRClassifier().fit(X, y)
    np.testing.assert_allclose(page["model"].coef_, whole.coef_, atol=1e-9)
    np.testing.assert_array_equal(page["model"].predict(X), whole.predict(X))
