"""The page on Spark."""

import shutil
import sys

import numpy as np
import pytest
from recipe_pages import run_page

from discreg import LSRClassifier

pytest.importorskip("pyspark")


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")
def test_the_merged_model_is_that_of_all_rows(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    page = run_page("spark")
    wine, model = page["wine"], page["model"]
    whole = LSRClassifier().fit(wine.drop(columns="target"), wine["target"])
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-9)
    assert list(model.feature_names_in_) == list(whole.feature_names_in_)
