"""What AutoClassifier chooses, how it holds samples out, and what it accepts."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.metrics import brier_score_loss, f1_score, log_loss, make_scorer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreg import AutoClassifier, LSRClassifier, load_model, save_model
from discreg.base.calibration import class_columns, fit_temperature, log_probabilities

CONSTANT = "better than the class frequencies.*: the class frequencies are the prediction"


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, train_size=80, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def fitted(wine):
    X_train, _, y_train, _ = wine
    return AutoClassifier().fit(X_train, y_train)


def test_probabilities_of_new_samples_are_about_as_good_as_estimated(fitted, wine):
    _, X_test, _, y_test = wine
    assert fitted.score(X_test, y_test) > 0.95
    assert log_loss(y_test, fitted.predict_proba(X_test)) < 2 * fitted.held_out_log_loss_
    assert 0.9 < fitted.held_out_accuracy_ < 1
    np.testing.assert_array_equal(
        fitted.classes_[fitted.predict_proba(X_test).argmax(axis=1)], fitted.predict(X_test)
    )


def test_held_out_metrics_of_a_candidate_are_those_of_refits():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3] + np.linspace(0, 1e-3, 50)[:, None], y[::3]  # no two rows are equal
    model = AutoClassifier(families=["LSR"]).fit(X, y)
    found = model.leaderboard(1000)
    scaled = StandardScaler().fit_transform(X)
    candidates = found[(found.kernel == "rbf") & (found.scaling == "standard")]
    for _, candidate in candidates.iloc[[0, 20, 40]].iterrows():
        classifier = LSRClassifier(
            kernel="rbf", gamma=candidate.gamma, probability=False, **candidate.params
        )
        scores = np.empty((len(y), 3))
        for k in range(len(y)):
            rest = np.arange(len(y)) != k
            refit = clone(classifier).fit(scaled[rest], y[rest])
            scores[k] = class_columns(refit.decision_function(scaled[[k]]))[0]
        temperature = fit_temperature(scores, y, np.ones(len(y)))
        logs = log_probabilities(scores, temperature)
        assert candidate.accuracy == np.mean(logs.argmax(axis=1) == y)
        np.testing.assert_allclose(
            candidate.log_loss, -logs[np.arange(len(y)), y].mean(), rtol=1e-6
        )


def test_members_are_the_candidates_with_weights(fitted, wine):
    X_train, X_test, _, _ = wine
    found = fitted.leaderboard(1000)
    assert found.weight.sum() == pytest.approx(1.0)
    assert sorted(found.weight[found.weight > 0]) == pytest.approx(sorted(fitted.weights_))
    scores = fitted.decision_function(X_test)
    mean = sum(
        weight * np.exp(log_probabilities(class_columns(member.decision_function(X_test)), tau))
        for member, weight, tau in zip(
            fitted.estimators_, fitted.weights_, fitted._temperatures, strict=True
        )
    )
    np.testing.assert_allclose(np.exp(scores), mean)


def test_the_average_is_not_worse_than_its_best_member_on_held_out_samples(wine):
    X_train, _, y_train, _ = wine
    alone = AutoClassifier(ensemble=False).fit(X_train, y_train)
    assert len(alone.estimators_) == 1
    best = alone.leaderboard(1)
    assert best.weight[0] == 1.0
    assert best.log_loss[0] == min(alone.cv_results_["log_loss"])


@pytest.mark.parametrize("seed", range(3))
def test_random_labels_lead_to_the_class_frequencies(seed):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(90, 8)), np.repeat(["a", "b", "b"], 30)
    random.shuffle(y)
    with pytest.warns(UserWarning, match=CONSTANT):
        model = AutoClassifier().fit(X, y)
    assert isinstance(model.estimators_[0], DummyClassifier)
    np.testing.assert_allclose(model.predict_proba(X[:2]), [[1 / 3, 2 / 3]] * 2)
    assert model.predict_set(X[:1], 0.9).all()
    assert set(model.predict(X)) == {"b"}


def test_repeated_rows_are_held_out_together():
    # Every row occurs twice with the same random label: a copy would predict it perfectly.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 4)), random.integers(2, size=60)
    with pytest.warns(UserWarning, match=CONSTANT):
        AutoClassifier().fit(np.vstack([X, X]), np.concatenate([y, y]))


@pytest.mark.parametrize("scale", [1.0, 0.4, 3.0])
def test_the_weight_of_a_row_is_held_out_as_a_whole(scale):
    # Part of the weight of a row in training would give its random label away.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(80, 4)), random.integers(2, size=80)
    with pytest.warns(UserWarning, match=CONSTANT):
        AutoClassifier().fit(X, y, sample_weight=scale * random.uniform(1, 4, size=80))


def test_copies_with_small_weights_are_held_out_together():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 4)), random.integers(2, size=60)
    with pytest.warns(UserWarning, match=CONSTANT):
        AutoClassifier().fit(np.vstack([X, X, X]), np.tile(y, 3), sample_weight=np.full(180, 0.5))


def test_a_ranking_that_predicts_no_rare_label_is_kept():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 3))
    y = (random.random(150) < 1 / (1 + np.exp(3.2 - 1.5 * X[:, 0]))).astype(int)
    model = AutoClassifier(scoring="roc_auc", families=["LSR"]).fit(X, y)
    assert not isinstance(model.estimators_[0], DummyClassifier)
    assert model.leaderboard(1).score[0] > 0.75


def test_folds_without_a_rare_class_do_not_count():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(80, 5)), np.repeat([0, 1], [77, 3])
    X[77:] += 2.5
    model = AutoClassifier(scoring="roc_auc", families=["LSR"]).fit(X, y)
    assert np.isfinite(model.cv_results_["score"]).all()
    with pytest.raises(ValueError, match="not defined on held-out samples"):
        AutoClassifier(scoring=lambda *given, **weights: np.nan).fit(X, y)


def test_samples_of_a_group_are_held_out_together():
    # Rows of a patient are similar, and each patient has a random label.
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(40), 5)
    X = random.normal(size=(40, 3))[groups] + 0.05 * random.normal(size=(200, 3))
    y = random.integers(2, size=40)[groups]
    assert AutoClassifier().fit(X, y).held_out_accuracy_ > 0.9
    with pytest.warns(UserWarning, match=CONSTANT):
        by_group = AutoClassifier().fit(X, y, groups=groups)
    assert set(by_group.cv_results_["held_out"]) == {"one group at a time", "not held out"}


def test_a_rare_class_of_groups_is_held_out_without_a_warning():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 3)), np.repeat([0, 1, 2], [30, 27, 3])
    X[:, 0] += 3 * y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AutoClassifier().fit(X, y, groups=np.arange(60) % 20)
    assert set(model.cv_results_["held_out"]) == {"one group at a time", "not held out"}


def test_equal_rows_of_a_table_of_counts_are_different_samples():
    # Eight distinct rows, each with its own frequency of the second class.
    random = np.random.default_rng(0)
    X = random.integers(2, size=(400, 3)).astype(float)
    shares = np.array([0.05, 0.9, 0.8, 0.1, 0.95, 0.2, 0.1, 0.9])[(X @ [1, 2, 4]).astype(int)]
    y = (random.random(400) < shares).astype(int)
    model = AutoClassifier().fit(X, y)
    assert model.held_out_accuracy_ > 0.8
    assert np.abs(model.predict_proba(X)[:, 1] - shares).mean() < 0.1


def test_weights_are_equivalent_to_repeated_rows():
    X, y = load_iris(return_X_y=True)
    random = np.random.default_rng(0)
    X, y = X[::4], y[::4]
    weights = random.integers(4, size=len(y))
    weighted = AutoClassifier().fit(X, y, sample_weight=weights)
    order = random.permutation(weights.sum())
    repeated = AutoClassifier().fit(X.repeat(weights, axis=0)[order], y.repeat(weights)[order])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)
    assert weighted.held_out_accuracy_ == pytest.approx(repeated.held_out_accuracy_, abs=0.01)


@pytest.mark.parametrize(
    ("scoring", "held_out"),
    [("balanced_accuracy", "one sample at a time"), ("g_mean", None), ("roc_auc", "5 folds")],
)
def test_the_scorer_decides(scoring, held_out):
    X, y = make_classification(150, 6, weights=[0.85], flip_y=0.05, random_state=0)
    model = AutoClassifier(scoring=scoring, families=["LSR"]).fit(X, y)
    assert model.cv_results_["score"][0] == max(model.cv_results_["score"])
    assert "balanced" in model.cv_results_["class_weight"]
    if held_out is not None:
        assert set(model.cv_results_["held_out"]) == {held_out, "not held out"}
    if scoring == "balanced_accuracy":
        np.testing.assert_allclose(
            model.cv_results_["score"][0], model.cv_results_["balanced_accuracy"][0]
        )


@pytest.mark.parametrize("scoring", [None, "accuracy", "g_mean"])
def test_estimates_are_not_better_than_the_held_out_metrics_of_the_best(scoring):
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 3))
    y = np.where(X[:, 0] + random.normal(size=80) > 0, 1, 0)
    y[:3] = 2
    model = AutoClassifier(scoring=scoring, ensemble=False).fit(X, y)
    best = {name: column[0] for name, column in model.cv_results_.items()}
    assert best["weight"] == 1.0
    assert model.held_out_log_loss_ >= best["log_loss"]
    assert model.held_out_accuracy_ <= best["accuracy"]
    assert model.held_out_balanced_accuracy_ <= best["balanced_accuracy"]


@pytest.mark.full
def test_auc_of_random_labels_is_a_half():
    random = np.random.default_rng(0)
    found = []
    for _ in range(6):
        X, y = random.normal(size=(80, 4)), np.repeat([0, 1], 40)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = AutoClassifier(scoring="roc_auc", families=["LSR"]).fit(X, y)
        found.append(np.median(model.cv_results_["score"]))
    assert abs(np.mean(found) - 0.5) < 0.06


def test_balanced_probabilities_refer_to_the_weighted_population():
    X, y = make_classification(120, 4, weights=[0.9], class_sep=0.7, random_state=1)
    plain = AutoClassifier(families=["LSR"]).fit(X, y)
    balanced = AutoClassifier(families=["LSR"], class_weight="balanced").fit(X, y)
    named = AutoClassifier(families=["LSR"], class_weight=_balanced(y)).fit(X, y)
    weights = np.array(list(_balanced(y).values()))[y]
    shares = [np.average(m.predict_proba(X)[:, 1], weights=w)
              for m, w in ((plain, None), (balanced, weights))]  # fmt: skip
    np.testing.assert_allclose(shares, [y.mean(), 0.5], atol=0.06)
    np.testing.assert_allclose(named.predict_proba(X), balanced.predict_proba(X))


def _balanced(y):
    counts = np.bincount(y)
    return {k: len(y) / (2 * count) for k, count in enumerate(counts)}


def test_a_class_of_one_sample_is_learned_but_not_judged():
    X, y = load_iris(return_X_y=True)
    rows = np.r_[0, 50:100, 100:150]
    with pytest.warns(UserWarning, match="Class 0 has only one sample"):
        model = AutoClassifier().fit(X[rows], y[rows])
    assert model.predict_proba(X).shape == (150, 3)
    assert np.isfinite(model.predict_proba(X)).all()


def test_classes_of_one_sample_each_have_no_candidates():
    with pytest.warns(UserWarning, match="none can be held out"):
        model = AutoClassifier().fit([[0.0], [1.0]], ["a", "b"])
    np.testing.assert_allclose(model.predict_proba([[0.5]]), [[0.5, 0.5]])


def test_features_in_any_form_give_the_same_labels(wine):
    X_train, X_test, y_train, _ = wine
    names = np.array(["red", "white", "rosé"])
    frame = pd.DataFrame(X_train, columns=[f"f{k}" for k in range(X_train.shape[1])])
    model = AutoClassifier().fit(frame, names[y_train])
    labels = model.predict(pd.DataFrame(X_test, columns=frame.columns))
    np.testing.assert_array_equal(
        labels, names[AutoClassifier().fit(X_train, y_train).predict(X_test)]
    )
    single = AutoClassifier().fit(X_train.astype(np.float32), y_train)
    assert np.mean(single.predict(X_test.astype(np.float32)) == names.searchsorted(labels)) >= 0
    rows = sparse.csr_array(np.where(X_train > np.median(X_train, axis=0), X_train, 0.0))
    assert AutoClassifier().fit(rows, y_train).score(rows, y_train) > 0.9


def test_frames_with_categories_dates_and_missing_values():
    random = np.random.default_rng(0)
    n = 160
    frame = pd.DataFrame(
        {
            "patient_id": np.arange(n) // 2,
            "age": np.where(random.random(n) < 0.1, np.nan, random.integers(20, 80, n)),
            "sex": pd.Categorical(random.choice(["f", "m"], n)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(300, size=n), "D"),
        }
    )
    y = np.where(frame["sex"] == "m", "ill", "well")
    model = AutoClassifier().fit(frame[:100], y[:100])
    assert model.score(frame[100:], y[100:]) == 1.0
    assert model.preprocessor_.left_out_ == {"patient_id": "identifier"}
    with pytest.raises(ValueError, match="sex"):
        model.predict(frame[["age", "day", "patient_id"]])


def test_frames_of_polars(wine):
    polars = pytest.importorskip("polars")
    X_train, X_test, y_train, _ = wine
    names = [f"f{k}" for k in range(X_train.shape[1])]
    frames = [polars.DataFrame(X, schema=names, orient="row") for X in (X_train, X_test)]
    model = AutoClassifier().fit(frames[0], y_train)
    expected = AutoClassifier().fit(pd.DataFrame(X_train, columns=names), y_train)
    np.testing.assert_array_equal(
        model.predict_proba(frames[1]),
        expected.predict_proba(pd.DataFrame(X_test, columns=names)),
    )


def test_saved_models_predict_the_same(fitted, wine, tmp_path):
    X_test = wine[1]
    save_model(fitted, tmp_path / "model.skops")
    for loaded in (load_model(tmp_path / "model.skops"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(loaded.predict_proba(X_test), fitted.predict_proba(X_test))
        np.testing.assert_array_equal(loaded.predict_set(X_test), fitted.predict_set(X_test))


def test_jobs_do_not_change_the_model(fitted, wine):
    X_train, X_test, y_train, _ = wine
    parallel = AutoClassifier(n_jobs=2).fit(X_train, y_train)
    np.testing.assert_allclose(parallel.predict_proba(X_test), fitted.predict_proba(X_test))


def test_many_rows_are_compared_on_a_part_first(capsys):
    X, y = make_classification(700, 6, class_sep=1.5, random_state=0)
    model = AutoClassifier(verbose=1).fit(X, y)
    sizes = model.cv_results_["n_samples"]
    assert sizes[0] == 700
    assert min(sizes) < 400
    assert "Kernels: 9 of 9 tried on" in capsys.readouterr().out


def test_the_kernel_of_very_many_rows_is_approximated():
    X, y = make_classification(2_500, 5, class_sep=1.5, random_state=0)
    model = AutoClassifier(random_state=0).fit(X[:2_200], y[:2_200])
    again = AutoClassifier(random_state=0).fit(X[:2_200], y[:2_200])
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert {1000, None} >= set(model.cv_results_["n_components"][:3])
    assert abs(model.score(X[2_200:], y[2_200:]) - model.held_out_accuracy_) < 0.05


def test_families_that_are_not_tried_on_many_rows_are_named():
    X, y = make_classification(2_100, 3, n_redundant=0, class_sep=2.0, random_state=0)
    with pytest.warns(UserWarning, match="Only the family 'LSR' is tried on .*, not 'DRM'"):
        model = AutoClassifier(families=["LSR", "DRM"], time_budget=1e-6).fit(X, y)
    assert set(model.cv_results_["family"]) == {"LSR", "constant"}


def test_without_time_one_candidate_is_tried_on_all_rows():
    X, y = make_classification(600, 4, n_redundant=0, class_sep=2.0, random_state=0)
    model = AutoClassifier(time_budget=1e-6).fit(X, y)
    assert model.cv_results_["n_samples"][0] == 600
    assert model.score(X, y) > 0.9


def test_without_time_one_kernel_is_tried(wine):
    X_train, _, y_train, _ = wine
    model = AutoClassifier(time_budget=1e-6).fit(X_train, y_train)
    assert len({*zip(model.cv_results_["kernel"], model.cv_results_["gamma"], strict=True)}) == 2


def test_pipelines_and_sets(wine):
    X_train, X_test, y_train, y_test = wine
    model = make_pipeline(StandardScaler(), AutoClassifier(families=["LSR"])).fit(X_train, y_train)
    assert model.predict_proba(X_test).shape == (len(y_test), 3)
    X, y = load_breast_cancer(return_X_y=True)
    model = AutoClassifier(families=["LSR"]).fit(X[::3], y[::3])
    sets = model.predict_set(X[1::3], 0.9, allow_empty=True)
    assert 0.85 < sets[np.arange(len(sets)), y[1::3]].mean() < 0.96
    with pytest.raises(ValueError, match="method='full' needs"):
        model.predict_set(X, method="full")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"families": "LSR"}, "families must be 'auto' or a list of names among"),
        ({"families": ["LSR", "SVM"]}, "families must be 'auto' or a list of names among"),
        ({"families": None}, "families must be 'auto' or a list of names among"),
        ({"families": []}, "families must be 'auto' or a list of names among"),
        ({"time_budget": -1.0}, "time_budget"),
        ({"scoring": 3}, "scoring"),
        ({"ensemble": "yes"}, "ensemble"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        AutoClassifier(**params).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])


def test_values_whose_squares_overflow_are_refused():
    X, y = np.arange(20.0)[:, None], np.repeat([0, 1], 10)
    with pytest.raises(ValueError, match=r"X has values up to 1.9e\+201, whose squares overflow"):
        AutoClassifier().fit(1e200 * X, y)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_groups_are_refused(missing):
    X, y = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    with pytest.raises(ValueError, match="groups has missing values"):
        AutoClassifier().fit(X, y, groups=pd.Series(["a", "b", missing, "c"] * 2, dtype=object))


@pytest.mark.parametrize("first", [None, "a"])
@pytest.mark.parametrize("as_frame", [False, True])
def test_missing_labels_are_refused(first, as_frame):
    X, y = np.arange(8.0)[:, None], np.array([first, "b", None, "b"] * 2, dtype=object)
    with pytest.raises(ValueError, match=r"y has missing labels\. Leave out the rows"):
        AutoClassifier().fit(pd.DataFrame(X) if as_frame else X, y)


def test_a_metric_of_one_class_needs_to_know_it():
    X, y = np.arange(20.0)[:, None], np.repeat(["healthy", "ill"], 10)
    advice = r"scoring='f1_macro'.*scoring=make_scorer\(f1_score, pos_label='ill'\)"
    with pytest.raises(ValueError, match=advice):
        AutoClassifier(scoring="f1").fit(X, y)
    model = AutoClassifier(scoring=make_scorer(f1_score, pos_label="ill"), families=["LSR"])
    assert model.fit(X, y).score(X, y) == 1.0
    options = {"greater_is_better": False, "response_method": "predict_proba", "pos_label": "ill"}
    advice = ", ".join(f"{name}={value!r}" for name, value in options.items())
    advice = re.escape(f"Name the positive class: scoring=make_scorer(brier_score_loss, {advice}).")
    with pytest.raises(ValueError, match=advice):
        AutoClassifier(scoring="neg_brier_score").fit(X, y)
    scoring = make_scorer(brier_score_loss, **options)
    assert AutoClassifier(scoring=scoring, families=["LSR"]).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize(("scoring", "advised"), [("roc_auc", "roc_auc_ovr"), ("f1", "f1_macro")])
def test_a_metric_of_two_classes_names_that_of_several(wine, scoring, advised):
    with pytest.raises(ValueError, match=f"Use scoring='{advised}'"):
        AutoClassifier(scoring=scoring).fit(wine[0], wine[2])
