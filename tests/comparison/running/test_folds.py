"""Folds: groups stay together, time never runs backwards, and rare classes reduce their number."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import RepeatedStratifiedKFold

from discreg.base.errors import InputError
from discreg.comparison.running.folds import RowFacts, draw_folds, inner_folds


def labels(*counts):
    return np.repeat(np.arange(len(counts)), counts)


def splits(facts, rows, seed):
    """The inner folds of some training rows."""
    inner = inner_folds(facts.take(rows), seed)
    y = facts.y[rows]
    return inner if isinstance(inner, list) else list(inner.split(y, y))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(4, 30), st.integers(2, 6), st.integers(2, 4))
def test_groups_never_cross_folds_inside_or_outside(seed, n_groups, rows_each, n_classes):
    chance = np.random.default_rng(seed)
    groups = chance.permutation(np.repeat(np.arange(n_groups), rows_each))
    y = chance.integers(0, n_classes, len(groups))
    y[:n_classes] = np.arange(n_classes)
    facts = RowFacts(y, groups)
    try:
        folds = draw_folds(facts, seed=seed)
    except InputError:  # few groups may leave one class outside a fold
        assume(False)
    for repeat in folds.repeats:
        tested = np.concatenate([test for _, test in repeat])
        assert sorted(tested.tolist()) == list(range(len(y)))
    for train, test in folds.parts():
        assert not set(groups[train]) & set(groups[test])
        try:
            inner = splits(facts, train, seed)
        except InputError:
            continue
        for learned, held_out in inner:
            assert not set(groups[train][learned]) & set(groups[train][held_out])
            assert len(np.unique(y[train][learned])) > 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 60))
def test_folds_in_time_never_look_ahead_inside_or_outside(seed, n_times):
    chance = np.random.default_rng(seed)
    time = chance.integers(0, n_times, 90).astype(float)
    y = chance.integers(0, 2, 90)
    facts = RowFacts(y, None, time)
    try:
        folds = draw_folds(facts, cv=4)
    except InputError:  # the earliest rows may be of one class
        assume(False)
    assert len(folds.repeats) == 1
    for train, test in folds.parts():
        assert time[train].max() < time[test].min()
        try:
            inner = splits(facts, train, 0)
        except InputError:
            continue
        for learned, held_out in inner:
            assert time[train][learned].max() < time[train][held_out].min()


def test_groups_in_time_are_not_on_both_sides():
    groups = np.arange(60) % 5
    facts = RowFacts(np.arange(60) // 2 % 2, groups, np.arange(60.0) // 12 + groups)
    for train, test in draw_folds(facts, cv=3).parts():
        assert not set(groups[train]) & set(groups[test])


def test_every_row_is_held_out_once():
    folds = draw_folds(RowFacts(labels(30, 30)))
    assert folds.text == "10 stratified folds"
    (parts,) = folds.repeats
    assert sorted(np.concatenate([test for _, test in parts]).tolist()) == list(range(60))
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(60))
    assert folds.test_to_train == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("counts", "n_folds"),
    [((30, 30), 10), ((30, 7), 7), ((30, 3), 3), ((30, 2), 3), ((2, 2), 2)],
)
def test_a_class_with_fewer_rows_than_folds_reduces_them_to_three(counts, n_folds):
    folds = draw_folds(RowFacts(labels(*counts)))
    assert len(folds.parts()) == n_folds
    lacks = any(len(np.unique(labels(*counts)[test])) < 2 for _, test in folds.parts())
    assert lacks == any("some folds have no test row" in note for note in folds.notes)


def test_many_rows_have_fewer_folds():
    assert len(draw_folds(RowFacts(labels(2_501, 2_500))).parts()) == 5
    assert len(draw_folds(RowFacts(labels(25_001, 25_000))).parts()) == 3
    assert len(draw_folds(RowFacts(labels(25_001, 25_000)), cv=5).parts()) == 5


def test_folds_of_the_table_are_used_exactly():
    y, given = labels(10, 10), np.arange(20) % 4
    folds = draw_folds(RowFacts(y), given=given)
    assert [test.tolist() for _, test in folds.parts()] == [
        np.flatnonzero(given == k).tolist() for k in range(4)
    ]


def test_a_splitter_and_given_splits_are_used_exactly():
    y = labels(12, 12)
    splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    folds = draw_folds(RowFacts(y), cv=splitter)
    assert [len(repeat) for repeat in folds.repeats] == [3, 3]
    expected = [test.tolist() for _, test in splitter.split(y, y)]
    assert [test.tolist() for _, test in folds.parts()] == expected
    ((train, test),) = draw_folds(
        RowFacts(y), cv=[(range(5, 25), range(1, 5))], kept=np.arange(25) >= 1
    ).parts()
    assert train.tolist() == list(range(4, 24))  # the table lacks the first row of the data
    assert test.tolist() == list(range(4))


def test_given_splits_may_name_rows_that_the_table_lacks():
    y, kept = labels(12, 12), np.arange(27) < 24
    splits = [(range(4, 27), range(4)), (range(20), range(20, 27))]
    parts = draw_folds(RowFacts(y), cv=splits, kept=kept).parts()
    assert [len(test) for _, test in parts] == [4, 4]
    with pytest.raises(InputError, match="rows that the data do not have"):
        draw_folds(RowFacts(y), cv=[(range(4, 28), range(4))], kept=kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": [(range(12), range(12, 24))]}, "need at least two classes"),
        ({"cv": [(range(20), range(10, 24))]}, "overlap"),
        ({"cv": [(range(20), range(24, 30))]}, "rows that the data do not have"),
        ({"cv": []}, "no splits"),
        ({"cv": [1, 2]}, "cv contains 1. A split is a pair"),
        ({"cv": 0}, "cv is 0. At least two folds"),
        ({"cv": 1}, "cv is 1. At least two folds"),
        ({"cv": 2.5}, "cv is 2.5. Give the number of folds"),
        ({"given": labels(12, 12)}, "All rows outside fold 1 of 2 belong to class '1'"),
    ],
)
def test_folds_that_cannot_be_fitted_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        draw_folds(RowFacts(labels(12, 12)), **options)


def test_a_splitter_that_separates_groups_is_refused():
    facts = RowFacts(labels(12, 12), np.arange(24) // 2)
    with pytest.raises(InputError, match="respects groups"):
        draw_folds(facts, cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=1, random_state=0))


def test_splits_that_look_ahead_in_time_are_refused():
    facts = RowFacts(np.tile([0, 1], 12), time=np.arange(24.0))
    for options in ({"cv": RepeatedStratifiedKFold(n_splits=3)}, {"given": np.arange(24) % 3}):
        with pytest.raises(InputError, match="not earlier than all test rows"):
            draw_folds(facts, **options)
    ((train, test),) = draw_folds(facts, cv=[(range(12), range(12, 24))]).parts()
    assert train.max() < test.min()


def test_the_note_on_fewer_folds_has_the_reason():
    why = {
        "the most frequent class has 12 rows": (RowFacts(labels(9, 12)), 20),
        "there are 4 groups": (RowFacts(np.tile([0, 1], 12), np.arange(24) // 6), 9),
        "the rarest class has 4 rows": (RowFacts(labels(4, 12)), None),
    }
    for reason, (facts, n_folds) in why.items():
        assert reason in draw_folds(facts, cv=n_folds).notes[0]
