"""The page on Optuna."""

import pytest
from recipe_pages import run_page
from sklearn.model_selection import cross_val_score

pytest.importorskip("optuna")


def test_the_best_trial_can_be_repeated():
    page = run_page("optuna")
    study, X, y = page["study"], page["X"], page["y"]
    again = cross_val_score(page["pipeline"](study.best_params), X, y, cv=3).mean()
    assert again == study.best_value == max(trial.value for trial in study.trials)
    assert page["model"].score(X, y) >= 0.95
