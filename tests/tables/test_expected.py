"""The columns that a model is fitted to, and the fit of new ones to it."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from discreg.base.errors import InputError
from discreg.tables.expected import ExpectedColumns, check_columns, expected_columns
from discreg.tables.table import Table

FRAME = pd.DataFrame(
    {
        "size": [1.0, 2.0, np.nan, 6.0, 7.0, 11.0],
        "flag": [True, False, None, True, True, False],
        "colour": ["red", "blue", "red", None, "green", "red"],
    }
)
LABELS = ["a", "b"] * 3


@pytest.fixture
def table():
    return Table.from_arrays("small", FRAME, LABELS)


@pytest.fixture
def expected(table):
    return expected_columns(table)


def test_expected_columns_survive_json(expected):
    assert expected.kinds == {"size": "numeric", "flag": "boolean", "colour": "categorical"}
    stored = json.dumps(dataclasses.asdict(expected))
    assert ExpectedColumns(**json.loads(stored)) == expected


def test_fitting_columns_come_out_in_order_and_others_are_ignored(table, expected):
    new = FRAME[["colour", "size", "flag"]].assign(target=LABELS)
    pd.testing.assert_frame_equal(check_columns(new, expected.kinds), table.X)


def test_columns_take_the_kind_that_the_model_knows(expected):
    new = pd.DataFrame({"size": ["1", "?"], "flag": [1, 0], "colour": [3, 4]})
    found = check_columns(new, expected.kinds)
    np.testing.assert_array_equal(found["size"], [1, np.nan])
    np.testing.assert_array_equal(found["flag"], [1, 0])
    assert found["colour"].tolist() == ["3", "4"]
    declared = new.assign(size=pd.Categorical(["1", "2"]), flag=["TRUE", None])
    np.testing.assert_array_equal(check_columns(declared, expected.kinds)["size"], [1, 2])
    np.testing.assert_array_equal(check_columns(declared, expected.kinds)["flag"], [1, np.nan])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"size": ["1", "?", "abc"]},
            "column 'size' contains text 'abc' in row 3 where numbers were",
        ),
        ({"size": [1, np.inf, 2]}, "column 'size' is infinite in row 2"),
        (
            {"flag": ["true", "maybe", "?"]},
            "contains text 'maybe' in row 2 where true or false was",
        ),
        ({"flag": [0, 1, 2]}, "column 'flag' contains text '2' in row 3 where true or false was"),
    ],
)
def test_columns_of_another_type_are_refused_with_the_cell(expected, changes, said):
    with pytest.raises(InputError) as caught:
        check_columns(FRAME[:3].assign(**changes), expected.kinds)
    assert said in str(caught.value)


def test_missing_columns_are_refused_by_name(expected):
    with pytest.raises(
        InputError, match="2 of 3 columns are missing: 'size', 'colour'; is 'color'"
    ):
        check_columns(FRAME.rename(columns={"size": "x", "colour": "color"}), expected.kinds)
