"""ReducedRankRegressionCV: groups, jobs and progress."""

import numpy as np
import pytest
from joblib import parallel_backend
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut

from discreg import ReducedRankRegression, ReducedRankRegressionCV

BETAS = [3.0, 0.1]


def problem():
    """Groups of three samples with a common shift of their targets."""
    rng = np.random.default_rng(0)
    groups = np.arange(36) // 3
    X = rng.normal(size=(36, 5))
    Y = X @ rng.normal(size=(5, 2)) @ rng.normal(size=(2, 3)) + rng.normal(size=(12, 3))[groups]
    return X, Y + 0.3 * rng.normal(size=Y.shape), groups


def test_samples_of_a_group_are_held_out_together():
    X, Y, groups = problem()
    ranks = [1, 3]
    search = ReducedRankRegressionCV(betas=BETAS, ranks=ranks)
    search.fit(X, Y, groups=groups.astype(str))
    grid = {"beta": BETAS, "rank": ranks}
    slow = GridSearchCV(ReducedRankRegression(), grid, cv=GroupKFold(5))
    slow.fit(X, Y, groups=np.unique(groups.astype(str), return_inverse=True)[1])
    found, expected = (each.cv_results_["mean_test_score"] for each in (search, slow))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert set(search.cv_results_["held_out"]) == {"5 folds of whole groups"}
    assert not hasattr(search, "loo_predictions_")


def test_a_splitter_gets_the_groups():
    X, Y, groups = problem()
    search = ReducedRankRegressionCV(betas=BETAS, cv=LeaveOneGroupOut()).fit(X, Y, groups=groups)
    assert "split11_test_score" in search.cv_results_
    assert set(search.cv_results_["held_out"]) == {"12 folds"}


def test_duplicates_are_a_group():
    X, Y, _ = problem()
    rows, targets = np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0)
    numbers = np.repeat(np.arange(len(X)), 2)
    named = ReducedRankRegressionCV(betas=BETAS, cv=LeaveOneGroupOut())
    found = named.fit(rows, targets, groups="duplicates").cv_results_["mean_test_score"]
    expected = named.fit(rows, targets, groups=numbers).cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, expected)


def test_without_groups_one_sample_is_held_out_at_a_time():
    X, Y, _ = problem()
    search = ReducedRankRegressionCV(betas=BETAS).fit(X, Y)
    assert set(search.cv_results_["held_out"]) == {"one row at a time"}


def test_jobs_do_not_change_the_results():
    X, Y, _ = problem()
    search = ReducedRankRegressionCV(betas=BETAS, cv=3)
    alone = search.fit(X, Y).cv_results_
    with parallel_backend("threading"):
        together = search.set_params(n_jobs=2).fit(X, Y).cv_results_
    np.testing.assert_allclose(together["mean_test_score"], alone["mean_test_score"], rtol=1e-12)


def test_progress_is_printed_when_asked_for(capsys):
    X, Y, _ = problem()
    search = ReducedRankRegressionCV(betas=BETAS, ranks=[1, 2])
    search.fit(X, Y)
    assert capsys.readouterr().out == ""
    search.set_params(verbose=1).fit(X, Y)
    line = capsys.readouterr().out
    assert line.startswith("4 settings on 36 samples in ")
    assert line.endswith(f"with {search.best_params_}\n")


@pytest.mark.parametrize(
    ("params", "groups", "message"),
    [
        ({"n_jobs": 1.5}, None, "n_jobs"),
        ({"verbose": -1}, None, "verbose"),
        ({}, np.zeros(36), "only one group"),
        ({}, np.zeros(35), "inconsistent numbers of samples"),
        ({"cv": []}, None, "gives no splits"),
        ({"cv": [([0, 1, 2], [1000])]}, None, "cv gives rows that X does not have"),
    ],
)
def test_refused_parameters(params, groups, message):
    X, Y, _ = problem()
    with pytest.raises(ValueError, match=message):
        ReducedRankRegressionCV(**params).fit(X, Y, groups=groups)
