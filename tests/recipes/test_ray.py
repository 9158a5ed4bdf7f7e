"""The page on Ray."""

import numpy as np
import pytest
from recipe_pages import run_page

from discreg import LSRClassifier

pytest.importorskip("ray")


@pytest.mark.filterwarnings("ignore")
def test_the_merged_model_is_that_of_all_rows():
    page = run_page("ray")
    whole = LSRClassifier().fit(page["X"], page["y"])
    np.testing.assert_allclose(page["model"].coef_, whole.coef_, atol=1e-9)
