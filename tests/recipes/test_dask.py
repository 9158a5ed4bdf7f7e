"""The page on Dask."""

import numpy as np
import pytest
from recipe_pages import run_page

from discreg import LSRClassifier

pytest.importorskip("distributed")


def test_the_model_of_the_cluster_is_that_of_the_rows_in_memory():
    page = run_page("dask")
    whole = LSRClassifier().fit(page["X"], page["y"])
    np.testing.assert_allclose(page["model"].coef_, whole.coef_, atol=1e-9)
    np.testing.assert_allclose(page["probabilities"], whole.predict_proba(page["X"]), atol=1e-6)
