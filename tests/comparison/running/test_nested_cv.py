"""Nested cross-validation: what is held out stays out, and what is judged is what was held out."""

import numpy as np
import pandas as pd
import pytest
from cli_runs import kept_models
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreg.comparison.prepare import Plan, prepare
from discreg.tables.table import as_table

NAMES = ["ReLSR", "SVC", "LDA"]


def table_with_folds(folder, frame):
    """The table of a frame with the columns ``kind`` and ``fold``, read as a user's is."""
    frame.to_csv(folder / "table.csv", index=False)
    return as_table(folder / "table.csv", target="kind", fold="fold")


def experiment_on(table, models, cv=None, **options):
    plan = Plan(candidates=models, cv=cv, **options)
    return prepare(table, plan).experiment


def keys_of(experiment, model):
    keys = experiment.keys()
    return [key for key in keys if key.model == model]


def leaking_frame(n_folds=2, n_rows=320):
    """Noise, and for each fold columns that tell the label in its rows and are empty elsewhere."""
    chance = np.random.default_rng(0)
    truth = np.tile([1.0, -1.0], n_rows // 2)
    frame = pd.DataFrame(
        {"noise": chance.normal(size=n_rows), "word": chance.choice(list("ab"), n_rows)}
    )
    frame["fold"] = np.arange(n_rows) // 2 % n_folds
    # A tenth is wrong: coefficients that separate all rows would leave the rest to rounding.
    told = np.where(chance.random(n_rows) < 0.1, -truth, truth)
    for fold in range(n_folds):
        inside = frame["fold"] == fold
        frame[f"number {fold}"] = np.where(inside, told, np.nan)
        frame[f"text {fold}"] = np.where(inside, np.where(told > 0, "yes", "no"), "")
    frame["kind"] = np.where(truth > 0, "up", "down")
    return frame


@pytest.mark.parametrize("model", NAMES)
def test_a_feature_that_tells_the_label_in_test_rows_only_gives_chance_accuracy(tmp_path, model):
    experiment = experiment_on(table_with_folds(tmp_path, leaking_frame()), [model])
    right = []
    for key in keys_of(experiment, model):
        labels = experiment.run(key).arrays["probabilities"].argmax(axis=1)
        right.append(labels == experiment.y[experiment.part(key.repeat, key.fold)[1]])
    right = np.concatenate(right)
    assert len(right) == 320
    assert abs(right.sum() - 160) < 3.5 * np.sqrt(320) / 2  # binomial standard deviations


@pytest.mark.parametrize("model", NAMES)
def test_what_a_model_learns_does_not_depend_on_the_rows_held_out(tmp_path, monkeypatch, model):
    chance = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "size": chance.normal(size=120),
            "gap": np.where(chance.random(120) < 0.3, np.nan, chance.normal(size=120)),
            "word": chance.choice(["a", "b", "c"], 120),
            "fold": np.arange(120) % 3,
        }
    )
    frame["kind"] = np.where(frame["size"] + chance.normal(size=120) > 0, "up", "down")
    other, held_out = frame.copy(), frame["fold"] == 0
    other.loc[held_out, "size"] = 1e3 + 1e3 * chance.random(40)
    other.loc[held_out, "gap"] = -1e3
    other.loc[held_out, "word"] = "d"
    other.loc[held_out, "kind"] = frame["kind"][held_out].to_numpy()[::-1]
    kept = kept_models(monkeypatch)
    for table in (table_with_folds(tmp_path, frame), table_with_folds(tmp_path, other)):
        experiment = experiment_on(table, [model])
        experiment.run(keys_of(experiment, model)[0])
    probe = table_with_folds(tmp_path, frame).X
    ours, theirs = kept
    np.testing.assert_array_equal(ours[:-1].transform(probe), theirs[:-1].transform(probe))
    np.testing.assert_array_equal(ours.predict(probe), theirs.predict(probe))


def noisy_table(n_rows=60, counts=None, **roles):
    chance = np.random.default_rng(0)
    y = np.arange(n_rows) % 2 if counts is None else np.repeat(np.arange(len(counts)), counts)
    X = chance.normal(size=(len(y), 4)) + y[:, None]
    return as_table(X, y, name="table", **roles)


class Spy(LogisticRegression):
    """A classifier that records the rows it was fitted to and the rows it predicted."""

    fitted, predicted = [], []

    def fit(self, X, y, sample_weight=None):
        Spy.fitted.append(np.asarray(X)[:, 0])
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        Spy.predicted.append(np.asarray(X)[:, 0])
        return super().predict(X)


def test_an_own_pipeline_gets_the_table_and_an_estimator_gets_features():
    Spy.fitted.clear()
    table = noisy_table()
    whole = make_pipeline(FunctionTransformer(), Spy())
    experiment = experiment_on(table, {"whole": whole, "bare": Spy()}, cv=3)
    for model in experiment.models.compared[:2]:
        experiment.run(keys_of(experiment, model.key)[0])
    train, _ = experiment.part(0, 0)
    raw = table.X.iloc[train, 0].to_numpy()
    np.testing.assert_array_equal(Spy.fitted[0], raw)
    np.testing.assert_allclose(Spy.fitted[1], (raw - raw.mean()) / raw.std())


def test_weights_reach_the_fits_and_the_scores(monkeypatch):
    weights = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    table = noisy_table(sample_weight=weights)
    experiment = experiment_on(table, ["Logistic"], cv=3)
    kept = kept_models(monkeypatch)
    outcome = experiment.run(keys_of(experiment, "Logistic")[0])
    train, test = experiment.part(0, 0)
    again = kept[0][-1].best_estimator_
    features = kept[0][0].transform(table.X.iloc[train])
    expected = LogisticRegression(max_iter=1000, C=again.C).fit(
        features, table.y[train], weights[train]
    )
    np.testing.assert_allclose(again.coef_, expected.coef_, rtol=1e-4)
    shares = kept[0].predict_proba(table.X.iloc[test])
    np.testing.assert_array_equal(outcome.arrays["probabilities"], shares)


@pytest.mark.parametrize("model", ["LSR", "SVC"])
def test_groups_with_a_random_label_each_give_no_information(model):
    chance = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    X = 2 * chance.normal(size=(40, 5))[groups] + 0.1 * chance.normal(size=(160, 5))
    y = chance.integers(0, 2, 40)[groups]
    table = as_table(X, y, name="table", groups=groups)
    experiment = experiment_on(table, [model], cv=4)
    right = [
        experiment.run(key).arrays["probabilities"].argmax(axis=1)
        == experiment.y[experiment.part(0, key.fold)[1]]
        for key in keys_of(experiment, model)
    ]
    assert np.concatenate(right).mean() < 0.75


def test_a_fit_is_the_same_whenever_it_is_made():
    experiment = experiment_on(noisy_table(), ["LinearSVC"], cv=3)
    key = keys_of(experiment, "LinearSVC")[0]
    first, second = (experiment.run(key).arrays["probabilities"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_rows_of_a_test_table_are_in_no_fit_and_in_no_fold():
    X, y = noisy_table(80).X.to_numpy(), np.arange(80) % 2
    table = as_table(X[:60], y[:60], name="table", test=(X[60:], y[60:]))
    prepared = prepare(table, Plan(candidates=["LSR"]))
    assert len(prepared.experiment.y) == 60
    np.testing.assert_array_equal(prepared.test.X.to_numpy(), X[60:])
    assert prepared.test.y.tolist() == y[60:].tolist()


def test_settings_tell_apart_what_gives_other_results():
    table = noisy_table(80)
    settings = experiment_on(table, ["LSR"], cv=3).settings()
    assert settings == experiment_on(noisy_table(80), ["lsr"], cv=3).settings()
    assert settings == experiment_on(table, ["LRLR", "KNN"], cv=3).settings()
    others = [
        experiment_on(noisy_table(82), ["LSR"], cv=3),
        experiment_on(
            table, ["LSR"], cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
        ),
        experiment_on(table, ["LSR"], cv=4),
        experiment_on(table, ["LSR"], cv=3, random_state=1),
        experiment_on(table, ["LSR"], cv=3, scoring="g_mean"),
        experiment_on(table, ["LSR"], cv=3, scoring="f1", pos_label="1"),
        experiment_on(table, ["LSR"], cv=3, scoring="f1", pos_label="0"),
    ]
    texts = [str(other.settings()) for other in others]
    assert str(settings) not in texts
    assert len({*texts}) == len(texts)
