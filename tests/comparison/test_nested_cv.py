"""Nested cross-validation: what is held out stays out, and what is judged is what was held out."""

import numpy as np
import pandas as pd
import pytest
from cli_runs import kept_models
from scipy import sparse
from sklearn.metrics import log_loss

from discreg.base.errors import InputError
from discreg.comparison import candidates
from discreg.comparison.candidates import CANDIDATES
from discreg.comparison.experiment import Key
from discreg.comparison.nested_cv import NestedCrossValidation
from discreg.tables.table import Table, read_table

NAMES = [candidate.name for candidate in CANDIDATES]


def table_with_folds(folder, frame):
    """The table of a frame with the columns ``kind`` and ``fold``, read as a user's is."""
    frame.to_csv(folder / "table.csv", index=False)
    return read_table(folder / "table.csv", target="kind", fold="fold")


def leaking_frame(n_folds=2, n_rows=320):
    """Noise, and for each fold columns that tell the label in its rows and are empty elsewhere."""
    chance = np.random.default_rng(0)
    truth = np.tile([1.0, -1.0], n_rows // 2)
    frame = pd.DataFrame(
        {"noise": chance.normal(size=n_rows), "word": chance.choice(list("ab"), n_rows)}
    )
    frame["fold"] = np.arange(n_rows) // 2 % n_folds
    for fold in range(n_folds):
        inside = frame["fold"] == fold
        frame[f"number {fold}"] = np.where(inside, truth, np.nan)
        frame[f"text {fold}"] = np.where(inside, np.where(truth > 0, "yes", "no"), "")
    frame["kind"] = np.where(truth > 0, "up", "down")
    return frame


@pytest.mark.parametrize("model", NAMES)
def test_a_feature_that_tells_the_label_in_test_rows_only_gives_chance_accuracy(tmp_path, model):
    experiment = NestedCrossValidation(table_with_folds(tmp_path, leaking_frame()), [model])
    keys = experiment.keys()
    confusion = sum(experiment.run(key).arrays["confusion"] for key in keys)
    n_right, n_rows = np.trace(confusion), confusion.sum()
    assert n_rows == 320
    assert abs(n_right - n_rows / 2) < 3.5 * np.sqrt(n_rows) / 2  # binomial standard deviations


@pytest.mark.parametrize("model", NAMES)
def test_what_a_model_learns_does_not_depend_on_the_rows_held_out(tmp_path, monkeypatch, model):
    chance = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "size": chance.normal(size=90),
            "gap": np.where(chance.random(90) < 0.3, np.nan, chance.normal(size=90)),
            "word": chance.choice(["a", "b", "c"], 90),
            "fold": np.arange(90) % 3,
        }
    )
    frame["kind"] = np.where(frame["size"] + chance.normal(size=90) > 0, "up", "down")
    other, held_out = frame.copy(), frame["fold"] == 0
    other.loc[held_out, "size"] = 1e3 + 1e3 * chance.random(30)
    other.loc[held_out, "gap"] = -1e3
    other.loc[held_out, "word"] = "d"
    other.loc[held_out, "kind"] = np.where(frame["kind"][held_out] == "up", "down", "up")
    kept = kept_models(monkeypatch)
    for table in (table_with_folds(tmp_path, frame), table_with_folds(tmp_path, other)):
        NestedCrossValidation(table, [model]).run(Key("table", model, 0, 0))
    probe = table_with_folds(tmp_path, frame).X
    ours, theirs = kept
    np.testing.assert_array_equal(ours[:-1].transform(probe), theirs[:-1].transform(probe))
    np.testing.assert_array_equal(ours.predict(probe), theirs.predict(probe))


def test_given_folds_are_used_exactly(tmp_path):
    chance = np.random.default_rng(0)
    frame = pd.DataFrame({"x": chance.normal(size=60), "z": chance.normal(size=60)})
    frame["kind"] = chance.choice(["a", "b", "c"], 60)
    frame["fold"] = chance.choice(["x", "y", "z"], 60, p=[0.2, 0.3, 0.5])
    experiment = NestedCrossValidation(
        table_with_folds(tmp_path, frame), ["LSR"], n_repeats=7, n_folds=2
    )
    keys = experiment.keys()
    assert [(key.repeat, key.fold) for key in keys] == [(0, 0), (0, 1), (0, 2)]
    for key, (_, rows) in zip(keys, frame.groupby("fold"), strict=True):
        held_out = experiment.run(key).arrays["confusion"].sum(axis=1)
        expected = rows["kind"].value_counts().reindex(experiment.classes, fill_value=0)
        assert held_out.tolist() == expected.tolist()


def noisy_table(n_rows=60, counts=None):
    chance = np.random.default_rng(0)
    y = np.arange(n_rows) % 2 if counts is None else np.repeat(np.arange(len(counts)), counts)
    X = chance.normal(size=(len(y), 4)) + y[:, None]
    return Table.from_arrays("table", X, y)


def test_every_row_is_held_out_once_in_every_repeat_and_repeats_differ():
    experiment = NestedCrossValidation(noisy_table(), ["LSR"], n_repeats=2, n_folds=3)
    keys = experiment.keys()
    parts = {(repeat, fold): experiment._parts(repeat, fold) for _, _, repeat, fold in keys}
    for train, test in parts.values():
        assert sorted([*train, *test]) == list(range(60))
    for repeat in range(2):
        held_out = [row for fold in range(3) for row in parts[repeat, fold][1]]
        assert sorted(held_out) == list(range(60))
    assert set(parts[0, 0][1]) != set(parts[1, 0][1])


def test_a_rare_class_is_missing_in_some_test_parts_and_never_in_training_and_that_is_said():
    table = noisy_table(counts=[30, 20, 3])
    experiment = NestedCrossValidation(table, ["LSR"], n_repeats=1, n_folds=5)
    said = "The rarest class has 3 rows, so that some folds have no test row of it."
    assert said in experiment.judged_by()
    for fold in range(5):
        train, test = experiment._parts(0, fold)
        assert (table.y[train] == 2).sum() >= 2
        assert len(test)


def test_there_are_no_more_folds_than_the_largest_class_has_rows():
    experiment = NestedCrossValidation(noisy_table(counts=[3] * 8), ["LSR"], n_repeats=1, n_folds=5)
    experiment.check()
    assert experiment.folds == 3
    assert len(experiment.keys()) == 3
    said = experiment.judged_by()
    assert "There are only 3 folds, because no class has more than 3 rows." in said
    assert said[0].startswith("1 x 3-fold")
    assert experiment.run(experiment.keys()[0]).values["accuracy"] >= 0


def test_folds_and_the_final_model_are_of_one_kind(monkeypatch):
    monkeypatch.setattr(candidates, "MANY_ROWS", 55)
    table = noisy_table(counts=[30, 30])  # all rows are many, those of a training part are few
    experiment = NestedCrossValidation(table, ["ODM"], n_repeats=1, n_folds=5)
    of_a_fold = experiment.pipeline("ODM", table.y[experiment._parts(0, 0)[0]])[-1]
    of_all = experiment.pipeline("ODM", table.y)[-1]
    assert of_a_fold.kernel == of_all.kernel == "linear"


def test_scores_are_those_of_the_held_out_predictions(monkeypatch):
    table = noisy_table()
    experiment = NestedCrossValidation(table, ["Logistic"], n_repeats=1, n_folds=3)
    kept = kept_models(monkeypatch)
    outcome = experiment.run(experiment.keys()[1])
    _, test = experiment._parts(0, 1)
    X, y = table.X.iloc[test], table.y[test]
    assert outcome.values["accuracy"] == pytest.approx(kept[0].score(X, y), abs=1e-12)
    expected = log_loss(y, kept[0].predict_proba(X))
    assert outcome.values["log_loss"] == pytest.approx(expected, rel=1e-12)
    margins = outcome.arrays["margins"]
    assert (margins > 0).mean() == pytest.approx(kept[0].score(X, y), abs=1e-12)
    assert np.abs(margins).mean() == pytest.approx(1, rel=1e-6)
    assert {"fit_seconds", "predict_seconds", "g_mean", "macro_f1"} <= {*outcome.values}


def test_a_fit_is_the_same_whenever_it_is_made():
    experiment = NestedCrossValidation(noisy_table(), ["LinearSVC"], n_repeats=1, n_folds=3)
    key = experiment.keys()[0]
    first, second = (experiment.run(key).arrays["confusion"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_settings_tell_apart_what_gives_other_results():
    table = noisy_table()
    settings = NestedCrossValidation(table, ["LSR"], 1, 3).settings()
    assert settings == NestedCrossValidation(noisy_table(), ["lsr"], 1, 3).settings()
    others = [
        NestedCrossValidation(noisy_table(62), ["LSR"], 1, 3),
        NestedCrossValidation(table, ["LRLR"], 1, 3),
        NestedCrossValidation(table, ["LSR"], 2, 3),
        NestedCrossValidation(table, ["LSR"], 1, 4),
        NestedCrossValidation(table, ["LSR"], 1, 3, seed=1),
    ]
    assert all(settings != other.settings() for other in others)


def test_a_comparison_of_nothing_is_refused():
    X = sparse.csr_array(np.eye(6))
    table = Table.from_arrays("table", X, np.arange(6) % 2)
    with pytest.raises(InputError, match="HistGB is left out: it does not support sparse data"):
        NestedCrossValidation(table, ["HistGB"]).check()
