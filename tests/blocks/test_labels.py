"""Labels and weights become indices and one number a row."""

import numpy as np
import pandas as pd
import pytest

from discreg import LSRClassifier, ReducedRankRegression
from discreg.base.validation import LabelledRows, encode_labels, sample_weights
from discreg.linalg.rows import find_labels, one_hot


def test_labels_of_any_kind_are_sorted():
    for labels in (["b", "a", "b"], [2.0, -1.0, 2.0], [True, False, True], np.array([7, 3, 7])):
        classes, indices = encode_labels(np.asarray(labels))
        assert list(indices) == [1, 0, 1]
        assert list(classes) == sorted(set(labels))
        np.testing.assert_array_equal(one_hot(indices, 2), [[0, 1], [1, 0], [0, 1]])


def test_one_class_is_refused_by_name():
    with pytest.raises(ValueError, match="one class only: 'only'"):
        encode_labels(np.array(["only", "only"]))


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", "b", pd.NA], dtype="string"),
        pd.Series([1, 2, pd.NA], dtype="Int64"),
        pd.Series([True, False, pd.NA], dtype="boolean"),
        pd.Categorical(["a", "b", None]),
        ["a", "b", None],
    ],
)
def test_missing_labels_are_named_in_every_type_of_pandas(labels):
    with pytest.raises(ValueError, match="y has missing labels"):
        LSRClassifier().fit(np.eye(3), labels)


def test_bytes_are_no_labels():
    with pytest.raises(ValueError, match=r"y contains bytes.*np\.char\.decode\(y\)"):
        LSRClassifier().fit(np.eye(3), np.array([b"a", b"b", b"a"]))


@pytest.mark.parametrize("cell", ["female", pd.Timestamp("2024-01-31"), np.nan])
def test_columns_without_numbers_need_a_preprocessor(cell):
    rows = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "other": cell})
    fitted = LSRClassifier().fit(rows[["size"]].assign(other=1.0), [0, 1, 0, 1])
    for call in (
        lambda: LSRClassifier().fit(rows, [0, 1, 0, 1]),
        lambda: ReducedRankRegression().fit(rows, [0.0, 1.0, 0.5, 2.0]),
        lambda: fitted.predict(rows),
    ):
        with pytest.raises(ValueError, match="TablePreprocessor"):
            call()


def test_weights_are_a_fresh_array():
    given = np.array([1.0, 2.0])
    weights = sample_weights(given, 2)
    weights[0] = 5
    assert given[0] == 1
    np.testing.assert_array_equal(sample_weights(None, 3), 1)
    np.testing.assert_array_equal(sample_weights(2, 3), 2)


def test_class_weights_multiply():
    labels, given = np.array(["a", "a", "b", "b", "b"]), [1, 1, 2, 2, 2]
    model = LSRClassifier(class_weight={"a": 3.0})
    rows = LabelledRows.of(model, np.eye(5), labels, given)
    np.testing.assert_array_equal(rows.weights, [3, 3, 2, 2, 2])
    np.testing.assert_array_equal(rows.sizes, [2, 6])
    rows = LabelledRows.of(LSRClassifier(class_weight="balanced"), np.eye(5), labels, given)
    np.testing.assert_allclose([rows.weights[:2].sum(), rows.weights[2:].sum()], [4, 4])


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1, 3, -5], dtype=np.int8),
        np.array([200, 7, 200], dtype=np.uint8),
        np.array([2**63 + 1, 2**63, 5], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1]),
        np.array([10**12, 0, 10**12]),
        np.array([True, False, True]),
        np.array([0.5, -1.5, 0.5]),
        np.array(["b", "a", "b"]),
        np.array([], dtype=int),
    ],
)
def test_labels_are_found_whatever_their_type(labels):
    classes, places = find_labels(labels)
    expected, indices = np.unique(labels, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(places, indices)
    assert classes.dtype == labels.dtype
    if len(labels):
        np.testing.assert_array_equal(find_labels(labels[::-1], expected)[1], indices[::-1])


def test_strange_labels_are_found_to_be_others():
    classes = np.array([2, 4, 9])
    strange = np.array([1, 3, 10, 4])
    _, places = find_labels(strange, classes)
    np.testing.assert_array_equal(classes[places] == strange, [False, False, False, True])
