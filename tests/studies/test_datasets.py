"""Data sets by name."""

import pytest

from discreg.studies.datasets import BUNDLED, load_bundled


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_data_set_has_one_label_a_sample(name):
    X, y = load_bundled(name)
    assert X.ndim == 2
    assert y.shape == X.shape[:1]


def test_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'mnist'; there are digits, wine"):
        load_bundled("mnist")
