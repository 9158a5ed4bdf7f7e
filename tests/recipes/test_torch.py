"""The page on PyTorch."""

import numpy as np
import pytest
from recipe_pages import run_page

from discreg import LSRClassifier


def test_the_model_of_tensors_is_that_of_arrays(capsys):
    pytest.importorskip("torch")
    page = run_page("torch")
    assert capsys.readouterr().out == "<class 'torch.Tensor'>\n"
    whole = LSRClassifier().fit(np.asarray(page["X"]), np.asarray(page["y"]))
    np.testing.assert_array_equal(page["model"].coef_, whole.coef_)
