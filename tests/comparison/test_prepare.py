"""What is known of a comparison before its first fit."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, make_scorer

from discreg import compare
from discreg.base.errors import InputError
from discreg.comparison.prepare import prepare


@pytest.mark.parametrize(
    ("scoring", "said"),
    [
        ("f1", "by f1 of class 'ill'."),
        (make_scorer(f1_score, pos_label="well"), " of class 'well'."),
        ("matthews_corrcoef", "by matthews corrcoef."),
        ("roc_auc", "by ROC AUC."),
    ],
)
def test_a_metric_of_one_class_names_it(scoring, said):
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.repeat(["ill", "well"], [35, 45])
    notes = prepare(X, y, scoring=scoring, candidates=["LSR"], cv=2).notes
    assert notes[0].startswith("Models are tuned and ranked by ")
    assert notes[0].endswith(said)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"time_budget": "10m"}, "number of seconds above 0, not '10m'"),
        ({"time_budget": -1}, "number of seconds above 0, not -1"),
        ({"n_jobs": 0}, "n_jobs is 0"),
    ],
)
def test_wrong_times_and_numbers_of_processes_are_refused_before_the_data_are_read(option, said):
    with pytest.raises(InputError, match=said):
        compare(None, **option)
