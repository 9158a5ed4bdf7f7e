"""The label of samples that DRMClassifier rejects."""

import numpy as np
import pytest
from drm_kinds import wine

from discreg import DRMClassifier

BIG = 2**63
IDENTIFIERS = np.array([BIG, BIG + 1, BIG + 2049], dtype=np.uint64)


def predictions(names, label=None):
    """Predictions for the training samples and for samples far from all of them."""
    X, y = wine()
    model = DRMClassifier(reject_above=0.9, unknown_label=label).fit(X, names[y])
    return model.predict(X), model.predict(X[:3] + 100)


@pytest.mark.parametrize(
    ("names", "label", "expected"),
    [
        (["a", "bb", "c"], None, "unknown"),
        (["a", "b", "unknown"], None, "unknown_2"),
        (["unknown", "unknown_2", "unknown_3"], None, "unknown_4"),
        (["a", "bb", "c"], "none of them", "none of them"),
        (np.array(["a", "bb", "c"], dtype=object), None, "unknown"),
        ([0, 1, 2], None, -1),
        ([-1, 0, 1], None, -2),
        ([-3, -2, -1], None, -4),
        ([0, 1, 2], 99, 99),
        ([0, 1, 2], -7.0, -7),
        (np.array([0, 1, 2], dtype=np.uint8), None, -1),
        (np.array([0, 1, 2], dtype=np.uint8), 255, 255),
        (np.array([0, 1, 2], dtype=np.int8), 1000, 1000),
        ([-1.0, 0.0, 1.0], None, -2.0),
        (np.array([0, 1, 2], dtype=np.float32), 0.1, 0.1),
        (IDENTIFIERS, None, 0),
        (IDENTIFIERS, 7, 7),
        (IDENTIFIERS, np.uint64(2**64 - 1), 2**64 - 1),
    ],
    ids=str,
)
def test_labels_come_back_unchanged_with_the_unknown_label(names, label, expected):
    X, y = wine()
    names = np.asarray(names)
    known, unknown = predictions(names, label)
    plain = DRMClassifier().fit(X, names[y]).predict(X)
    assert known.tolist() == plain.tolist() or np.array_equal(known, plain)
    assert known.dtype.kind == names.dtype.kind or names.dtype == np.uint8
    assert np.all(unknown == expected)


@pytest.mark.parametrize("dtype", ["M8[D]", "m8[s]"])
def test_samples_with_times_as_labels_cannot_be_rejected(dtype):
    with pytest.raises(ValueError, match=r"numbers or strings, got .*y\.astype\(str\)"):
        predictions(np.arange(3).astype(dtype))


def test_numbers_can_be_unknown_as_nan():
    known, unknown = predictions(np.array([0.0, 1.0, 2.0]), np.nan)
    assert not np.isnan(known).any()
    assert np.isnan(unknown).all()


def test_samples_of_two_classes_called_plus_and_minus_one():
    X, y = wine()
    y = np.where(y == 0, -1, 1)
    model = DRMClassifier(reject_above=0.9).fit(X, y)
    assert model.score(X, y) > 0.95
    assert np.all(model.predict(X[:3] + 100) == -2)


@pytest.mark.parametrize(
    ("names", "label", "what"),
    [
        ([0, 1, 2], 2, "an integer"),
        ([0, 1, 2], "none", "an integer"),
        ([0, 1, 2], np.nan, "an integer"),
        ([0, 1, 2], np.inf, "an integer"),
        ([0, 1, 2], 0.5, "an integer"),
        ([0, 1, 2], 2**80, "an integer"),
        ([0, 1, 2], np.timedelta64(5, "D"), "an integer"),
        (IDENTIFIERS, -1, "an integer"),
        (IDENTIFIERS, BIG, "an integer"),
        ([0.0, 1.0, 2.0], 1, "a number"),
        ([0.0, 1.0, 2.0], "none", "a number"),
        (["a", "b", "c"], "b", "a string"),
        (["a", "b", "c"], -1, "a string"),
        (["a", "b", "c"], np.nan, "a string"),
    ],
    ids=str,
)
def test_unknown_label_that_is_a_class_or_of_another_type_is_refused(names, label, what):
    with pytest.raises(ValueError, match=f"unknown_label must be {what} of .*not be one of them"):
        predictions(np.asarray(names), label)


def test_an_unknown_label_that_is_a_class_does_no_harm_without_rejection():
    X, y = wine()
    model = DRMClassifier(unknown_label=0).fit(X, y)
    assert model.score(X, y) > 0.9
