"""Data sets that come with scikit-learn."""

import pytest

from discreg.base.errors import InputError
from discreg.tables.table import BUNDLED, bundled_table


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [("breast_cancer", (569, 30), 2), ("wine", (178, 13), 3), ("iris", (150, 4), 3)],
)
def test_a_bundled_data_set_is_a_table(name, shape, n_classes):
    table = bundled_table(name)
    assert table.name == name
    assert table.X.shape == shape
    assert len(table.class_counts) == n_classes
    assert sum(table.class_counts.values()) == shape[0]


def test_columns_that_are_constant_are_left_out_of_digits():
    table = bundled_table("digits")
    assert table.X.shape == (1797, 61)
    assert any("constant" in note for note in table.notes)


def test_classes_and_columns_have_their_names():
    table = bundled_table(BUNDLED[0])
    assert set(table.class_counts) == {"benign", "malignant"}
    assert "mean radius" in table.X


def test_an_unknown_name_is_refused_with_all():
    with pytest.raises(InputError, match="no data set 'wnie'") as refusal:
        bundled_table("wnie")
    assert all(name in str(refusal.value) for name in BUNDLED)
