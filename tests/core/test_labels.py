"""Labels and weights become indices and one number a row."""

import numpy as np
import pytest

from discreg.core.labels import encode_labels, one_hot, row_weights, sample_weights


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
