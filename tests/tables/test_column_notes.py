"""The notes on the columns of a table."""

import numpy as np
import pandas as pd
import pytest

from discreg.base.errors import InputError
from discreg.tables.table import describe


def test_many_identifiers_are_told_in_one_sentence():
    names = {f"gene{place}": [f"{place}-{row}" for row in range(9)] for place in range(500)}
    with pytest.raises(InputError, match="no column can be used as a feature") as told:
        describe(pd.DataFrame(names))
    assert len(str(told.value)) < 500


def table(n_rows=20):
    half = n_rows // 2
    return pd.DataFrame(
        {
            "size": np.linspace(0, 1, n_rows),
            "flag": [True, False] * half,
            "colour": ["red", "blue"] * (half - 1) + ["green", None],
            "site": ["here"] * n_rows,
            "blank": [None] * n_rows,
            "patient": [f"P{row}" for row in range(n_rows)],
            "Id": np.random.default_rng(0).permutation(n_rows),
            "count": np.arange(n_rows) + 1001,
        }
    )


def test_all_columns_are_described_and_the_useful_ones_kept():
    X, columns, notes, identifiers = describe(table())
    assert [(column.name, column.kind) for column in columns] == [
        ("size", "numeric"),
        ("flag", "boolean"),
        ("colour", "categorical"),
        ("site", "constant"),
        ("blank", "constant"),
        ("patient", "identifier"),
        ("Id", "identifier"),
        ("count", "identifier"),
    ]
    assert list(X) == ["size", "flag", "colour"]
    assert list(identifiers) == ["patient", "Id", "count"]
    assert (columns[2].n_distinct, columns[2].n_missing) == (3, 1)
    text = "\n".join(notes)
    assert "3 of 8 columns are used: 1 numeric, 1 boolean, 1 categorical" in text
    assert "column 'site' is constant and left out" in text
    assert "column 'blank' is empty and left out" in text
    assert (
        "columns 'patient', 'Id', 'count' are named or filled like an identifier and left out"
    ) in text
    assert (
        "1 missing value in 1 column ('colour'): the median of the training rows replaces numbers"
        in text
    )


def test_numbers_in_the_order_of_the_rows_are_left_out_even_if_rows_are_gone():
    _, columns, *_ = describe(table().drop(index=[3, 7]))
    assert columns[-1].kind == "identifier"


def test_different_whole_numbers_by_another_name_are_kept():
    frame = pd.DataFrame({"income": np.random.default_rng(0).permutation(20)})
    assert describe(frame)[1][0].kind == "numeric"


def test_a_column_that_a_few_texts_keep_from_being_numeric_is_noted():
    frame = pd.DataFrame({"age": ["41", "52"] * 20 + ["old"], "x": np.arange(41) % 2})
    _, columns, notes, _ = describe(frame)
    assert columns[0].kind == "categorical"
    assert any(
        "'age' is numeric except for 1 cell, the first 'old' in data row 41" in n for n in notes
    )


def test_many_categories_are_noted():
    frame = pd.DataFrame({"city": [f"c{row % 60}" for row in range(200)]})
    notes = "\n".join(describe(frame)[2])
    assert (
        "column 'city' has 60 categories: the 49 most frequent ones in the training rows" in notes
    )


def test_infinite_cells_are_refused_with_their_place():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, np.inf, 2.0]}).drop(index=0)
    with pytest.raises(InputError, match="column 'b' is infinite in data row 2;"):
        describe(frame)


def test_a_table_without_useful_columns_is_refused():
    with pytest.raises(
        InputError, match="no column can be used as a feature: column 'site' is const"
    ):
        describe(table()[["site", "patient"]])
