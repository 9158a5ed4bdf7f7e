"""What holds for every study of every paper."""

import pickle

import pytest

from discreg_reproduction.papers import studies
from discreg_reproduction.registry import Dataset, entries


@pytest.mark.parametrize("study", studies().values(), ids=lambda study: study.name)
def test_data_sets_are_in_the_registry(study):
    names = {each for each in study.datasets.values() if not isinstance(each, Dataset)}
    assert names <= set(entries())


@pytest.mark.parametrize("study", studies().values(), ids=lambda study: study.name)
def test_the_quick_form_takes_what_the_study_has(study):
    assert set(study.quick.datasets or ()) <= set(study.datasets)
    assert set(study.quick.methods or ()) <= set(study.methods)


@pytest.mark.parametrize("study", studies().values(), ids=lambda study: study.name)
def test_methods_reach_other_processes(study):
    restored = pickle.loads(pickle.dumps(study))
    assert restored.name == study.name
    assert repr(restored.methods) == repr(study.methods)


def test_a_study_that_shares_fits_has_those_of_the_other():
    for study in studies().values():
        if study.shares is not None:
            other = studies()[study.shares]
            shared = (study.datasets, study.methods, study.splits, study.prepare, study.scaler)
            assert shared == (
                other.datasets,
                other.methods,
                other.splits,
                other.prepare,
                other.scaler,
            )
