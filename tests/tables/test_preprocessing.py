"""From columns to numbers inside a fold."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from discreg import load_model, save_model
from discreg.tables.preprocessing import preprocessor
from discreg.tables.table import Table


@pytest.fixture
def table():
    frame = pd.DataFrame(
        {
            "size": [1.0, 2.0, np.nan, 6.0, 7.0, 11.0],
            "flag": [True, False, None, True, True, False],
            "colour": ["red", "blue", "red", None, "green", "red"],
        }
    )
    return Table.from_arrays("small", frame, ["a", "b"] * 3)


def test_columns_become_filled_numbers_and_indicators(table):
    found = preprocessor(table, scale=False).fit_transform(table.X)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(
        found,
        [  # size, flag, blue, green, red
            [1, 1, 0, 0, 1],
            [2, 0, 1, 0, 0],
            [6, 1, 0, 0, 1],  # the median and the most frequent value
            [6, 1, 0, 0, 1],
            [7, 1, 0, 1, 0],
            [11, 0, 0, 0, 1],
        ],
    )


def test_scaling_standardises_the_numeric_columns_only(table):
    plain, scaled = (
        preprocessor(table, scale=scale).fit_transform(table.X) for scale in (False, True)
    )
    sizes = plain[:, 0]
    np.testing.assert_allclose(scaled[:, 0], (sizes - sizes.mean()) / sizes.std())
    np.testing.assert_array_equal(scaled[:, 1:], plain[:, 1:])


def test_only_the_training_rows_are_learnt_from(table):
    other = table.X.copy()
    other.loc[3:, "size"] = 1e6
    other.loc[3:, "colour"] = "violet"
    rows = slice(0, 3)
    first, second = (
        preprocessor(table, scale=True).fit(X[rows]).transform(table.X[rows])
        for X in (table.X, other)
    )
    np.testing.assert_array_equal(first, second)


def test_an_unknown_category_has_no_indicator(table):
    fitted = preprocessor(table, scale=False).fit(table.X[:3])
    np.testing.assert_array_equal(fitted.transform(table.X[4:5]), [[7, 1, 0, 0]])


def test_rare_and_unknown_categories_share_the_last_indicator():
    cities = [f"c{row % 49}" for row in range(196)] + [f"rare{row % 30}" for row in range(60)]
    table = Table.from_arrays("t", pd.DataFrame({"city": cities}), np.arange(256) % 2)
    fitted = preprocessor(table, scale=False).fit(table.X)
    rows = fitted.transform(pd.DataFrame({"city": ["c3", "rare29", "never seen"]}))
    assert rows.shape == (3, 50)
    np.testing.assert_array_equal(rows.sum(axis=1), [1, 1, 1])
    assert rows[0, -1] == 0
    np.testing.assert_array_equal(rows[1:, -1], [1, 1])


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("cell", [np.nan, "the same"], ids=["empty", "constant"])
def test_columns_without_information_in_a_fold_keep_their_place(table, scale, cell):
    train = table.X.copy()
    train[["size", "flag"]] = np.nan if cell is np.nan else 1.0
    train["colour"] = pd.Series([cell] * len(train), dtype=object)
    fitted = preprocessor(table, scale=scale)
    train, test = fitted.fit_transform(train), fitted.transform(table.X)
    assert train.shape == test.shape == (6, 3)
    assert np.isfinite(train).all()
    assert np.isfinite(test).all()


def test_sparse_features_stay_sparse():
    X = sparse.csr_array([[0.0, 4.0], [2.0, 0.0], [0.0, -8.0], [1.0, 0.0]])
    table = Table.from_arrays("s", X, [0, 1, 0, 1])
    scaled = preprocessor(table, scale=True).fit_transform(table.X)
    assert sparse.issparse(scaled)
    np.testing.assert_array_equal(scaled.toarray(), X.toarray() / [2, 8])
    plain = preprocessor(table, scale=False).fit_transform(table.X)
    np.testing.assert_array_equal(plain.toarray(), X.toarray())


@pytest.mark.parametrize("scale", [True, False])
def test_a_model_file_holds_a_fitted_one(tmp_path, table, scale):
    sparse_table = Table.from_arrays("s", sparse.csr_array(np.eye(4)), [0, 1, 0, 1])
    for each in (table, sparse_table):
        fitted = preprocessor(each, scale=scale).fit(each.X)
        save_model(fitted, tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        found, again = (part.transform(each.X) for part in (fitted, loaded))
        assert np.abs(found - again).max() == 0
