"""Every way to divide a data set tests rows that it has not trained on."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from discreg.base.errors import InputError
from discreg_reproduction.registry import Dataset
from discreg_reproduction.splits import (
    AllRows,
    KFold,
    OfficialSplit,
    PerClass,
    RandomSplit,
    StoredFolds,
)

Y = np.repeat([0, 1, 2], [40, 20, 10])
DATA = Dataset("data", np.zeros((70, 2)), Y, folds=np.tile([1, 2, 3, 4, 5], 14), n_train=50)
WAYS = [
    StoredFolds(),
    KFold(5, 2),
    RandomSplit(3),
    RandomSplit(3, 0.4, True),
    RandomSplit(3, test_sizes={"data": 9}),
    PerClass(3, 4),
    OfficialSplit(0.5),
]


@pytest.mark.parametrize("splits", WAYS, ids=repr)
def test_the_parts_do_not_overlap_and_are_the_same_each_time(splits):
    for repeat in range(splits.n_repeats):
        for fold in range(splits.n_folds):
            train, test = splits.rows(DATA, repeat, fold)
            assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(70))
            again = splits.rows(DATA, repeat, fold)
            assert_array_equal(train, again[0])
            assert_array_equal(test, again[1])


@pytest.mark.parametrize("splits", [StoredFolds(), KFold(5, 2)], ids=repr)
def test_folds_hold_out_every_row_once(splits):
    held_out = np.concatenate([splits.rows(DATA, 0, fold)[1] for fold in range(5)])
    assert_array_equal(np.sort(held_out), np.arange(70))


@pytest.mark.parametrize("splits", [KFold(5, 2), RandomSplit(3), PerClass(3, 4)], ids=repr)
def test_repeats_differ(splits):
    assert list(splits.rows(DATA, 0, 0)[0]) != list(splits.rows(DATA, 1, 0)[0])


def test_stored_folds_are_those_of_the_data_set():
    assert_array_equal(StoredFolds().rows(DATA, 0, 2)[1], np.flatnonzero(DATA.folds == 3))


def test_per_class_draws_the_same_number_of_each():
    train, _ = PerClass(3, 4).rows(DATA, 0, 0)
    assert_array_equal(np.bincount(Y[train]), [4, 4, 4])


def test_stratified_halves_keep_the_shares_of_the_classes():
    train, _ = RandomSplit(3, 0.4, True).rows(DATA, 0, 0)
    assert_array_equal(np.bincount(Y[train]), [16, 8, 4])


def test_a_copy_without_the_folds_is_named():
    with pytest.raises(InputError, match="This version of data has no folds"):
        StoredFolds().rows(Dataset("data", DATA.X, Y), 0, 0)


def test_test_sizes_are_given_by_data_set():
    _, test = RandomSplit(1, stratified=True, test_sizes={"data": 14}).rows(DATA, 0, 0)
    assert_array_equal(np.bincount(Y[test]), [8, 4, 2])


def test_the_official_split_is_taken_where_there_is_one():
    train, test = OfficialSplit(0.25).rows(DATA, 0, 0)
    assert_array_equal(train, np.arange(50))
    assert_array_equal(test, np.arange(50, 70))
    train, test = OfficialSplit(0.2).rows(Dataset("data", DATA.X, Y), 0, 0)
    assert_array_equal(np.bincount(Y[test]), [8, 4, 2])


def test_the_first_fold_is_one_of_all():
    for rows, expected in zip(KFold(1).rows(DATA, 0, 0), KFold(5).rows(DATA, 0, 0), strict=True):
        assert_array_equal(rows, expected)


def test_all_rows_are_in_both_parts():
    for rows in AllRows().rows(DATA, 0, 0):
        assert_array_equal(rows, np.arange(70))
