"""The page on MAPIE and crepes."""

import numpy as np
from recipe_pages import run_page


def test_sets_of_both_libraries_agree_and_contain_the_true_class():
    page = run_page("conformal")
    y, by_mapie, by_crepes = page["y_test"], page["by_mapie"][:, :, 0], page["by_crepes"]
    assert page["own"].shape == by_mapie.shape == by_crepes.shape == (len(y), 3)
    shares = page["model"].predict_proba(page["X_cal"])
    scores = np.sort(1 - shares[np.arange(len(shares)), page["y_cal"]])
    highest = scores[int(np.ceil(0.9 * (len(scores) + 1))) - 1]  # by the definition of split sets
    expected = 1 - page["model"].predict_proba(page["X_test"]) <= highest
    np.testing.assert_array_equal(by_mapie, expected)
    np.testing.assert_array_equal(by_crepes, expected)
    for sets in (page["own"], by_mapie):
        assert sets[np.arange(len(y)), y].mean() > 0.8
