"""Nested cross-validation: what is held out stays out, and what is judged is what was held out."""

import numpy as np
import pandas as pd
import pytest
from cli_runs import kept_models
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreg.comparison.candidates.registry import CANDIDATES
from discreg.comparison.prepare import prepare_table
from discreg.comparison.running.store import Store
from discreg.comparison.statistics.collect import collect
from discreg.comparison.statistics.evidence import WHOLE_REPEAT
from discreg.tables.table import Table, read_table

NAMES = [candidate.name for candidate in CANDIDATES]


def table_with_folds(folder, frame):
    """The table of a frame with the columns ``kind`` and ``fold``, read as a user's is."""
    frame.to_csv(folder / "table.csv", index=False)
    return read_table(folder / "table.csv", target="kind", fold="fold")


def experiment_on(table, models, n_repeats=1, n_folds=None, **options):
    return prepare_table(
        table, candidates=models, n_repeats=n_repeats, n_folds=n_folds, **options
    ).experiment


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
        arrays = experiment.run(key).arrays
        right.append(arrays["labels"] == experiment.y[arrays["rows"]])
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
    return Table.from_arrays("table", X, y, **roles)


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
    experiment = experiment_on(table, {"whole": whole, "bare": Spy()}, n_folds=3)
    for model in experiment.models.compared[:2]:
        experiment.run(keys_of(experiment, model.key)[0])
    train, _ = experiment.part(0, 0)
    raw = table.X.iloc[train, 0].to_numpy()
    np.testing.assert_array_equal(Spy.fitted[0], raw)
    np.testing.assert_allclose(Spy.fitted[1], (raw - raw.mean()) / raw.std())


def test_weights_reach_the_fits_and_the_scores(monkeypatch):
    weights = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    table = noisy_table(sample_weight=weights)
    experiment = experiment_on(table, ["Logistic"], n_folds=3)
    kept = kept_models(monkeypatch)
    outcome = experiment.run(keys_of(experiment, "Logistic")[0])
    train, test = experiment.part(0, 0)
    again = kept[0][-1].best_estimator_
    features = kept[0][0].transform(table.X.iloc[train])
    expected = LogisticRegression(max_iter=1000, C=again.C).fit(
        features, table.y[train], weights[train]
    )
    np.testing.assert_allclose(again.coef_, expected.coef_, rtol=1e-4)
    score = kept[0].score(table.X.iloc[test], table.y[test], sample_weight=weights[test])
    assert outcome.values["accuracy"] == pytest.approx(score)


@pytest.mark.parametrize("model", ["LSR", "Logistic", "SVC", "Auto", "DRM"])
def test_groups_with_a_random_label_each_give_no_information(model):
    chance = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    X = 2 * chance.normal(size=(40, 5))[groups] + 0.1 * chance.normal(size=(160, 5))
    y = chance.integers(0, 2, 40)[groups]
    table = Table.from_arrays("table", X, y, groups=groups)
    experiment = experiment_on(table, [model], n_folds=4)
    outcomes = [experiment.run(key) for key in keys_of(experiment, model)]
    assert np.mean([each.values["accuracy"] for each in outcomes]) < 0.75


def test_scores_are_those_of_the_held_out_predictions(monkeypatch):
    table = noisy_table(80)
    experiment = experiment_on(table, ["Logistic"], n_folds=3)
    kept = kept_models(monkeypatch)
    outcome = experiment.run(keys_of(experiment, "Logistic")[1])
    _, test = experiment.part(0, 1)
    X, y = table.X.iloc[test], table.y[test]
    assert outcome.values["accuracy"] == pytest.approx(kept[0].score(X, y), abs=1e-12)
    expected = log_loss(y, kept[0].predict_proba(X))
    assert outcome.values["log_loss"] == pytest.approx(expected, rel=1e-6)
    assert outcome.arrays["rows"].tolist() == test.tolist()
    np.testing.assert_array_equal(experiment.classes[outcome.arrays["labels"]], kept[0].predict(X))
    np.testing.assert_allclose(outcome.arrays["probabilities"], kept[0].predict_proba(X), atol=1e-6)
    assert str(outcome.arrays["params"]).startswith("C=")


def test_class_weights_are_tried_where_a_class_is_rare():
    rare = experiment_on(noisy_table(counts=[70, 12]), ["Logistic", "LSR"], n_folds=3)
    assert rare.scoring.name == "balanced_accuracy"
    for name in ("Logistic", "LSR"):
        params = str(rare.run(keys_of(rare, name)[0]).arrays["params"])
        assert "class_weight=" in params
    common = experiment_on(noisy_table(80), ["LSR"], n_folds=3)
    assert "class_weight" not in str(common.run(keys_of(common, "LSR")[0]).arrays["params"])


def test_a_class_that_a_fold_lacks_is_scored_by_repeats(tmp_path):
    table = noisy_table(counts=[40, 30, 2])
    experiment = experiment_on(table, ["LSR"], n_folds=3, n_repeats=2)
    with Store(tmp_path / "store", experiment.settings()) as store:
        keys = experiment.keys()
        for key in keys:
            store.finish(store.begin(key), key, experiment.run(key))
        evidence = collect(experiment, store)
    is_whole = evidence.results["fold"] == WHOLE_REPEAT
    of_majority = "model == 'majority' and metric == 'balanced_accuracy'"
    whole = evidence.results[is_whole].query(of_majority)
    assert len(whole) == 2
    np.testing.assert_allclose(whole["value"], 1 / 3)
    by_fold = evidence.results[~is_whole].query(of_majority)["value"]
    assert by_fold.isna().any()
    np.testing.assert_allclose(by_fold.dropna(), 1 / 3)
    assert "roc_auc" not in set(evidence.results[is_whole]["metric"])
    for held_out in evidence.held_out["LSR"]:
        assert sorted(held_out.rows.tolist()) == list(range(72))


def test_a_fit_is_the_same_whenever_it_is_made():
    experiment = experiment_on(noisy_table(), ["LinearSVC"], n_folds=3)
    key = keys_of(experiment, "LinearSVC")[0]
    first, second = (experiment.run(key).arrays["scores"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_test_table_is_predicted_by_a_model_that_has_not_seen_it(monkeypatch):
    X, y = noisy_table(80).X.to_numpy(), np.arange(80) % 2
    table = Table.from_arrays("table", X[:60], y[:60], test=(X[60:], y[60:]))
    experiment = experiment_on(table, ["LSR"])
    kept = kept_models(monkeypatch)
    (key,) = keys_of(experiment, "LSR")
    assert experiment.run(key).arrays["rows"].tolist() == list(range(60, 80))
    final = experiment.final("LSR")
    new = table.X
    np.testing.assert_array_equal(final.predict(new), kept[0].predict(new))


def test_settings_tell_apart_what_gives_other_results():
    table = noisy_table(80)
    settings = experiment_on(table, ["LSR"], 1, 3).settings()
    assert settings == experiment_on(noisy_table(80), ["lsr"], 1, 3).settings()
    assert settings == experiment_on(table, ["LRLR", "KNN"], 1, 3).settings()
    others = [
        experiment_on(noisy_table(82), ["LSR"], 1, 3),
        experiment_on(table, ["LSR"], 2, 3),
        experiment_on(table, ["LSR"], 1, 4),
        experiment_on(table, ["LSR"], 1, 3, random_state=1),
        experiment_on(table, ["LSR"], 1, 3, scoring="g_mean"),
        experiment_on(table, ["LSR"], 1, 3, scoring="f1", pos_label="1"),
        experiment_on(table, ["LSR"], 1, 3, scoring="f1", pos_label="0"),
    ]
    texts = [str(other.settings()) for other in others]
    assert str(settings) not in texts
    assert len({*texts}) == len(texts)
