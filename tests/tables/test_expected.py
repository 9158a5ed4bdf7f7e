"""The columns that a model is fitted to, and the fit of new ones to it."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from discreg.tables.classifier import ExpectedColumns, expected_columns
from discreg.tables.table import as_table

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
    return as_table(FRAME, LABELS, name="small")


@pytest.fixture
def expected(table):
    return expected_columns(table)


def test_expected_columns_survive_json(expected):
    assert expected.kinds == {"size": "numeric", "flag": "boolean", "colour": "categorical"}
    stored = json.dumps(dataclasses.asdict(expected))
    assert ExpectedColumns(**json.loads(stored)) == expected


def test_fitting_columns_come_out_in_order_and_others_are_ignored(table, expected):
    new = FRAME[["colour", "size", "flag"]].assign(target=LABELS)
    pd.testing.assert_frame_equal(expected.checked(new), table.X)


def test_columns_take_the_kind_that_the_model_knows(expected):
    new = pd.DataFrame({"size": ["1", "?"], "flag": [1, 0], "colour": [3, 4]})
    found = expected.checked(new)
    np.testing.assert_array_equal(found["size"], [1, np.nan])
    np.testing.assert_array_equal(found["flag"], [1, 0])
    assert found["colour"].tolist() == ["3", "4"]
    declared = new.assign(size=pd.Categorical(["1", "2"]), flag=["TRUE", None])
    np.testing.assert_array_equal(expected.checked(declared)["size"], [1, 2])
    np.testing.assert_array_equal(expected.checked(declared)["flag"], [1, np.nan])
