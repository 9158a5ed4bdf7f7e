"""Labels and weights become indices and one number a row."""

import numpy as np
import pytest

from discreg.blocks.validation import (
    encode_labels,
    find_labels,
    row_weights,
    sample_weights,
)
from discreg.linalg.rows import one_hot


def test_labels_of_any_kind_are_sorted():
    for labels in (["b", "a", "b"], [2.0, -1.0, 2.0], [True, False, True], np.array([7, 3, 7])):
        classes, indices = encode_labels(np.asarray(labels))
        assert list(indices) == [1, 0, 1]
        assert list(classes) == sorted(set(labels))
        np.testing.assert_array_equal(one_hot(indices, 2), [[0, 1], [1, 0], [0, 1]])


def test_one_class_is_refused_by_name():
    with pytest.raises(ValueError, match="one class only: 'only'"):
        encode_labels(np.array(["only", "only"]))


def test_weights_are_a_fresh_array():
    given = np.array([1.0, 2.0])
    weights = sample_weights(given, 2)
    weights[0] = 5
    assert given[0] == 1
    np.testing.assert_array_equal(sample_weights(None, 3), 1)
    np.testing.assert_array_equal(sample_weights(2, 3), 2)


def test_class_weights_multiply():
    classes, indices = encode_labels(np.array(["a", "a", "b", "b", "b"]))
    weights = row_weights([1, 1, 2, 2, 2], {"a": 3.0}, classes, indices)
    np.testing.assert_array_equal(weights, [3, 3, 2, 2, 2])
    balanced = row_weights([1, 1, 2, 2, 2], "balanced", classes, indices)
    np.testing.assert_allclose([balanced[:2].sum(), balanced[2:].sum()], [4, 4])


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
