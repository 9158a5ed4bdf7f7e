"""Names and types of columns are small in model files, and come back as they were."""

import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest

from discreg import TablePreprocessor, load_model, save_model
from discreg.tables.preprocessor import pack, unpack


@pytest.mark.parametrize(
    "value",
    [
        ["a", "bb", "ü"],
        {"a": "numeric", "b": "date"},
        [{"name": "a", "n": 3}, {"name": "b", "n": 4}],
        ["ends with NUL\0", "b"],
        {1: "numeric", "1": "date"},
        [{"name": "a"}, {"name": "b", "n": 4}],
        ["a", None],
        [["a"], ["b"]],
        [],
        {},
        None,
    ],
)
def test_a_value_comes_back_as_it_was(value):
    back = unpack(pack(value))
    assert back == value
    assert type(back) is type(value)


def test_files_of_an_earlier_version_hold_arrays():
    names = np.array(["a", "b"])
    assert unpack(("list", names)) == ["a", "b"]
    assert unpack(("dict", names, names[::-1])) == {"a": "b", "b": "a"}
    assert unpack(("records", {"x": names, "y": np.arange(2)})) == [
        {"x": "a", "y": 0},
        {"x": "b", "y": 1},
    ]


@pytest.fixture(scope="module")
def wide():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(12, 1500)), columns=[f"gene {k}" for k in range(1500)])
    return frame.assign(colour=["red", "blue", "red"] * 4, patient_id=range(12))


def test_a_preprocessor_comes_back_as_it_was(wide):
    kinds = {"gene 7": "categorical"}
    fitted = TablePreprocessor(kinds=kinds).fit(wide)
    back = pickle.loads(pickle.dumps(fitted))
    assert back.kinds == kinds
    assert back.columns_ == fitted.columns_
    assert list(back.kinds_.items()) == list(fitted.kinds_.items())
    assert back.left_out_ == {"patient_id": "identifier"}
    assert back.feature_names_in_.dtype == object
    assert list(back.feature_names_in_) == list(wide)
    np.testing.assert_array_equal(back.transform(wide), fitted.transform(wide))


def test_the_file_of_a_wide_model_has_few_lines_per_column(wide, tmp_path):
    fitted = TablePreprocessor(scale=True).fit(wide)
    save_model(fitted, tmp_path / "model.skops")
    with zipfile.ZipFile(tmp_path / "model.skops") as file:
        assert file.getinfo("schema.json").file_size < 100 * wide.shape[1]
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.transform(wide), fitted.transform(wide))
