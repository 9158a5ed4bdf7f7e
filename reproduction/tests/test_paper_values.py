"""The reported numbers: all of them, under the names of the studies."""

import pytest

from discreg_reproduction.paper_values import Reported, reported
from discreg_reproduction.papers import studies

N_VALUES = {
    "drm/table2": 133,
    "drm/table4": 25,
    "drm/table7": 105,
    "odm/table2": 128,
    "odm/table3": 128,
    "odm/table4": 33,
    "relsr/table1": 18,
}


def test_every_table_of_numbers_is_there_and_no_other():
    counts = {name: len(reported(name)) for name in studies()}
    assert {name: count for name, count in counts.items() if count} == N_VALUES


@pytest.mark.parametrize("name", N_VALUES)
def test_data_sets_and_methods_are_those_of_the_study(name):
    values, study = reported(name), studies()[name]
    assert list(dict.fromkeys(dataset for dataset, _ in values)) == list(study.datasets)
    assert {method for _, method in values} == set(study.methods) - set(study.variants)
    assert set(study.variants.values()) <= {method for _, method in values}


@pytest.mark.parametrize("name", N_VALUES)
def test_values_are_shares(name):
    assert all(0 <= value.mean <= 1 for value in reported(name).values())
    assert all(value.std is None or 0 <= value.std < 0.5 for value in reported(name).values())


@pytest.mark.parametrize(
    ("study", "dataset", "method", "mean", "std"),
    [
        ("drm/table2", "Tic_tac_toe", "SVM(R)", 0.8494, 0.0118),
        ("drm/table2", "Tic_tac_toe", "DRM(P)", 0.9941, 0.0092),
        ("drm/table4", "Shuttle", "DRM-APG", 0.900, None),
        ("drm/table7", "haberman", "SVM(R)", 0.4212, 0.1451),
        ("odm/table4", "adult-a", "LDA", 0.719, 0.003),
        ("odm/table4", "rcv1", "SVM", 0.969, 0.0),
        ("relsr/table1", "x3", "DLSR", 0.5, None),
        ("relsr/table1", "x6", "ReLSR", 0.18, None),
    ],
)
def test_values_are_the_printed_ones(study, dataset, method, mean, std):
    assert reported(study)[dataset, method] == Reported(mean, std)


def test_a_figure_has_no_numbers():
    assert reported("relsr/fig2") == {}
