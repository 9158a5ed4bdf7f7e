"""What AutoClassifier predicts, how it holds samples out, and what it accepts."""

import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Event

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreg import AutoClassifier, load_model, save_model

CONSTANT = "better than the class frequencies: the class frequencies are the prediction"
QUICK = ["kernels"]


def noisy(n_rows=260, n_features=4, seed=0, **params):
    """Two classes with a moderate signal, more rows than are held out in repeated fits."""
    return make_classification(
        n_rows, n_features, n_informative=3, n_redundant=0, flip_y=0.1, random_state=seed, **params
    )


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, train_size=80, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def data():
    X, y = noisy(700, weights=[0.7])
    return X[:400], X[400:], y[:400], y[400:]


@pytest.fixture(scope="module")
def fitted(data):
    return AutoClassifier().fit(data[0], data[2])


def test_probabilities_of_new_samples_are_about_as_good_as_estimated(fitted, data):
    _, X, _, y = data
    loss = log_loss(y, fitted.predict_proba(X))
    assert abs(loss - fitted.held_out_log_loss_) < 3 * fitted.held_out_std_error_["log_loss"]
    difference = fitted.score(X, y) - fitted.held_out_accuracy_
    assert abs(difference) < 3 * fitted.held_out_std_error_["accuracy"]
    sets = fitted.predict_set(X, 0.9)
    assert 0.85 < sets[np.arange(len(y)), y].mean() < 0.96


def test_all_families_are_tried_and_members_have_the_weights(fitted):
    results = fitted.cv_results_
    assert set(results["family"]) == {"kernels", "trees", "boosting", "logistic", "constant"}
    weights = np.array(results["weight"])
    assert sorted(weights[weights > 0]) == sorted(fitted.weights_)
    assert len(fitted.estimators_) == len(fitted.weights_) <= 6
    board = fitted.leaderboard(100)
    assert board["kind"].is_unique
    assert board["log_loss"].is_monotonic_increasing
    assert set(board["kind"]) == set(results["kind"])


def test_the_prediction_is_the_softmax_of_the_weighted_members(fitted, data):
    X = data[1][:, fitted._columns]
    total = sum(
        weight * member.predict_log_proba(X)
        for member, weight in zip(fitted.estimators_, fitted.weights_, strict=True)
    )
    p = np.exp(total)
    np.testing.assert_allclose(
        fitted.predict_proba(data[1]), p / p.sum(axis=1, keepdims=True), atol=1e-12
    )
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(data[1])).sum(axis=1), 1.0)


def test_class_weights_move_decisions_and_not_probabilities(fitted, data):
    X_train, X, y_train, _ = data
    balanced = AutoClassifier(class_weight="balanced").fit(X_train, y_train)
    named = AutoClassifier(class_weight={0: 1.0, 1: 5.0}).fit(X_train, y_train)
    p = fitted.predict_proba(X)
    for model, factors in ((balanced, 1 / np.bincount(y_train)), (named, np.array([1.0, 5.0]))):
        np.testing.assert_allclose(model.predict_proba(X), p, atol=1e-12)
        np.testing.assert_array_equal(model.predict(X), (p * factors).argmax(axis=1))
        assert model.held_out_log_loss_ == fitted.held_out_log_loss_
    assert balanced.held_out_balanced_accuracy_ > fitted.held_out_balanced_accuracy_


def test_a_classifier_of_the_user_is_a_family(data):
    X_train, X, y_train, y = data
    model = AutoClassifier(families=[("mine", GaussianNB())]).fit(X_train, y_train)
    assert [member.kind for member in model.estimators_] == ["mine"]
    alone = GaussianNB().fit(X_train, y_train)
    # The calibration is monotonic: the order of the samples is that of the classifier.
    assert roc_auc_score(y, model.predict_proba(X)[:, 1]) == pytest.approx(
        roc_auc_score(y, alone.predict_proba(X)[:, 1]), abs=2e-3
    )


@pytest.mark.parametrize("family", ["DRM", "ODM", "LRRR"])
def test_families_on_request(family):
    X, y = load_iris(return_X_y=True)
    model = AutoClassifier(families=[family]).fit(X[::2], y[::2])
    assert {member.family for member in model.estimators_} == {family}
    assert model.score(X[1::2], y[1::2]) > 0.9


@pytest.mark.parametrize("seed", [1, 26])  # worse than the class frequencies; better by chance
def test_random_labels_lead_to_the_class_frequencies(seed):
    n_rows = 90
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(n_rows, 4)), np.resize(["a", "b", "b"], n_rows)
    with pytest.warns(UserWarning, match=CONSTANT):
        model = AutoClassifier(families=QUICK).fit(X, y)
    assert model.estimators_ == []
    np.testing.assert_allclose(model.predict_proba(X[:2]), [[1 / 3, 2 / 3]] * 2)
    assert model.predict_set(X[:1], 0.9).all()
    assert set(model.predict(X)) == {"b"}


def test_repeated_rows_are_held_out_together():
    # Every row occurs several times with the same random label: a copy would give it away.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 4)), random.integers(2, size=60)
    with pytest.warns(UserWarning, match=CONSTANT):
        AutoClassifier().fit(np.tile(X, (3, 1)), np.tile(y, 3))


def test_the_weight_of_a_row_is_held_out_as_a_whole():
    # Part of the weight of a row in training would give its random label away.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(80, 4)), random.integers(2, size=80)
    with pytest.warns(UserWarning, match=CONSTANT):
        AutoClassifier().fit(X, y, sample_weight=random.uniform(1, 4, size=80))


def test_samples_of_a_group_are_held_out_together():
    # Rows of a patient are similar, and each patient has a random label.
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(50), 5)
    X = random.normal(size=(50, 3))[groups] + 0.05 * random.normal(size=(250, 3))
    y = random.integers(2, size=50)[groups]
    assert AutoClassifier(families=QUICK).fit(X, y).held_out_accuracy_ > 0.9
    with pytest.warns(UserWarning, match=CONSTANT):
        by_group = AutoClassifier().fit(X, y, groups=groups)
    assert set(by_group.cv_results_["held_out"]) == {
        "one group at a time", "5 folds of whole groups", "not held out",
    }  # fmt: skip


def test_equal_rows_of_a_table_of_counts_are_different_samples():
    # Eight distinct rows, each with its own frequency of the second class.
    random = np.random.default_rng(0)
    X = random.integers(2, size=(400, 3)).astype(float)
    shares = np.array([0.05, 0.9, 0.8, 0.1, 0.95, 0.2, 0.1, 0.9])[(X @ [1, 2, 4]).astype(int)]
    y = (random.random(400) < shares).astype(int)
    model = AutoClassifier().fit(X, y)
    assert model.held_out_accuracy_ > 0.8
    assert np.abs(model.predict_proba(X)[:, 1] - shares).mean() < 0.1


@pytest.mark.parametrize("n_rows", [120, 560])
def test_weights_are_equivalent_to_repeated_rows(n_rows):
    X, y = noisy(n_rows)
    random = np.random.default_rng(0)
    weights = random.integers(4, size=len(y))
    weighted = AutoClassifier().fit(X, y, sample_weight=weights)
    order = random.permutation(weights.sum())
    repeated = AutoClassifier().fit(X.repeat(weights, axis=0)[order], y.repeat(weights)[order])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert weighted.held_out_log_loss_ == pytest.approx(repeated.held_out_log_loss_, abs=1e-6)


def test_boosting_sees_the_same_bins_with_and_without_weights():
    """Equal weights, for which scikit-learn would compute other bins, change next to nothing."""
    X, y = make_classification(600, 20, random_state=0)
    plain, weighted = (
        AutoClassifier(families=["boosting"]).fit(X, y, sample_weight=weights)
        for weights in (None, np.full(600, 1 + 1e-9))
    )
    np.testing.assert_allclose(weighted.predict_proba(X), plain.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("scale", [[2.0**-20, 8.0, 0.5, 1024.0], [1e-3, 0.37, 25.4, 1e4]])
def test_units_and_order_of_columns_and_rows_do_not_matter(scale):
    X, y = noisy(850, n_classes=3, n_clusters_per_class=1)
    X, X_new, y = X[:550], X[550:], y[:550]
    X[:, 3], X_new[:, 3] = X[:, 3].round(1), X_new[:, 3].round(1)  # values repeat
    random = np.random.default_rng(0)
    columns, rows = [2, 0, 3, 1], random.permutation(len(y))
    expected = AutoClassifier().fit(X, y).predict_proba(X_new)
    other = AutoClassifier().fit((scale * X)[rows][:, columns], y[rows])
    found = other.predict_proba((scale * X_new)[:, columns])
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_few_features_and_three_classes():
    # The middle class is masked in least squares, and found by the calibration.
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, size=(240, 1))
    y = np.digitize(X[:, 0] + 0.3 * random.normal(size=240), [-1, 1])
    model = AutoClassifier(families=QUICK).fit(X[:210], y[:210])
    assert model.score(X[210:], y[210:]) > 0.8
    assert (model.predict([[-2.5], [0.0], [2.5]]) == [0, 1, 2]).all()


def test_a_class_of_one_sample_is_learned_but_not_judged():
    X, y = load_iris(return_X_y=True)
    rows = np.r_[0, 50:100, 100:150]
    model = AutoClassifier(families=QUICK).fit(X[rows], y[rows])
    assert model.predict_proba(X).shape == (150, 3)
    assert np.isfinite(model.predict_proba(X)).all()


def test_classes_of_one_sample_each_have_no_candidates():
    with pytest.warns(UserWarning, match="none can be held out"):
        model = AutoClassifier().fit([[0.0], [1.0]], ["a", "b"])
    np.testing.assert_allclose(model.predict_proba([[0.5]]), [[0.5, 0.5]])


def test_features_in_any_form_give_the_same_probabilities(wine):
    X_train, X, y_train, _ = wine
    names = np.array(["red", "white", "rosé"])
    columns = [f"f{k}" for k in range(X.shape[1])]
    model = AutoClassifier(families=QUICK).fit(X_train, y_train)
    of_frame = AutoClassifier(families=QUICK).fit(
        pd.DataFrame(X_train, columns=columns), names[y_train]
    )
    expected = model.predict_proba(X)[:, names.argsort()]
    frame = pd.DataFrame(X, columns=columns)
    np.testing.assert_allclose(of_frame.predict_proba(frame), expected, atol=1e-6)
    np.testing.assert_allclose(of_frame.predict_proba(frame[columns[::-1]]), expected, atol=1e-6)
    with pytest.warns(UserWarning, match=r"Column 'new' is not among .* ignored"):
        found = of_frame.predict_proba(frame.assign(new=1.0))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with sklearn.config_context(transform_output="pandas"):
        again = AutoClassifier(families=QUICK).fit(
            pd.DataFrame(X_train, columns=columns), names[y_train]
        )
        np.testing.assert_allclose(again.predict_proba(frame), expected, atol=1e-6)


def test_sparse_rows():
    X, y = noisy(260)
    X = np.where(X > 0, X, 0.0)
    dense = AutoClassifier(families=["kernels", "trees"]).fit(X, y)
    model = AutoClassifier(families=["kernels", "trees", "logistic"]).fit(sparse.csr_array(X), y)
    rows = sparse.csr_array(X)
    np.testing.assert_allclose(model.predict_proba(rows), model.predict_proba(X))
    assert abs(model.held_out_accuracy_ - dense.held_out_accuracy_) < 0.05


def test_frames_of_polars(wine):
    polars = pytest.importorskip("polars")
    X_train, X_test, y_train, _ = wine
    names = [f"f{k}" for k in range(X_train.shape[1])]
    frames = [polars.DataFrame(X, schema=names, orient="row") for X in (X_train, X_test)]
    model = AutoClassifier(families=QUICK).fit(frames[0], y_train)
    expected = AutoClassifier(families=QUICK).fit(pd.DataFrame(X_train, columns=names), y_train)
    np.testing.assert_array_equal(
        model.predict_proba(frames[1]),
        expected.predict_proba(pd.DataFrame(X_test, columns=names)),
    )


def test_categories_dates_and_missing_values():
    random = np.random.default_rng(0)
    n = 160
    frame = pd.DataFrame(
        {
            "patient_id": np.arange(n) // 2,
            "age": np.where(random.random(n) < 0.1, np.nan, random.integers(20, 80, n)),
            "sex": random.choice(["f", "m"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(300, size=n), "D"),
        }
    )
    y = np.where(frame["sex"] == "m", "ill", "well")
    model = AutoClassifier(families=QUICK).fit(frame[:100], y[:100])
    assert model.score(frame[100:], y[100:]) == 1.0
    assert model.preprocessor_.left_out_ == {"patient_id": "identifier"}
    with pytest.raises(ValueError, match="sex"):
        model.predict(frame[["age", "day", "patient_id"]])
    with pytest.warns(UserWarning, match="Column 'sex' has categories that") as caught:
        model.predict(frame[:4].assign(sex=["f", "x", "y", "z"]))
    assert len(caught) == 1


def test_arrays_with_missing_values_are_imputed_as_frames_are():
    X, y = noisy(260)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = AutoClassifier(families=QUICK).fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd"))
    expected = AutoClassifier(families=QUICK).fit(frame, y)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(frame), atol=1e-6)
    complete = AutoClassifier(families=QUICK).fit(np.nan_to_num(X), y)
    assert np.isfinite(complete.predict_proba(X)).all()


def test_saved_models_predict_the_same(fitted, data, tmp_path):
    X = data[1]
    save_model(fitted, tmp_path / "model.skops")
    for loaded in (load_model(tmp_path / "model.skops"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
        np.testing.assert_array_equal(loaded.predict_set(X), fitted.predict_set(X))


def test_jobs_do_not_change_the_model(fitted, data):
    X_train, X, y_train, _ = data
    parallel = AutoClassifier(n_jobs=2).fit(X_train, y_train)
    np.testing.assert_allclose(parallel.predict_proba(X), fitted.predict_proba(X), atol=1e-8)


def test_a_failed_fit_leaves_the_model_as_it_was(wine):
    X_train, X, y_train, _ = wine

    class Broken(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("broken")

    model = AutoClassifier(families=QUICK).fit(X_train, y_train)
    before = model.predict_proba(X), model.predict_set(X), model.cv_results_
    with pytest.raises(RuntimeError, match="broken"):
        model.set_params(families=[("broken", Broken())]).fit(X_train[:50, :4], y_train[:50])
    np.testing.assert_array_equal(model.predict_proba(X), before[0])
    np.testing.assert_array_equal(model.predict_set(X), before[1])
    assert model.cv_results_ is before[2]


@pytest.mark.parametrize(
    ("params", "factor", "message"),
    [
        ({"time_budget": -1.0}, 1.0, "time_budget"),
        ({"class_weight": {5: 1.0}}, 1.0, "class_weight"),
        ({}, np.inf, "infinity"),
        ({}, 1e200, "overflow"),
    ],
)
def test_a_first_fit_that_fails_leaves_no_model(params, factor, message):
    X, y = factor * np.arange(1.0, 21.0)[:, None], np.repeat([0, 1], 10)
    model = AutoClassifier(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    for method in ("predict", "predict_proba", "predict_set", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)


def test_without_time_one_kind_is_tried(wine):
    X_train, _, y_train, _ = wine
    model = AutoClassifier(time_budget=1e-6).fit(X_train, y_train)
    assert len(set(model.cv_results_["kind"])) == 2  # with the class frequencies


def test_pipelines(wine):
    X_train, X_test, y_train, y_test = wine
    model = make_pipeline(StandardScaler(), AutoClassifier(families=QUICK)).fit(X_train, y_train)
    assert model.score(X_test, y_test) > 0.9


def test_the_rounds_are_printed(capsys):
    X, y = noisy(260)
    AutoClassifier(verbose=1, families=QUICK).fit(X, y)
    assert "Kernels: 10 of 10 tried on 260 samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"families": "kernels"}, "families must be 'auto' or a list of names among"),
        ({"families": ["kernels", "SVM"]}, "families must be 'auto' or a list of names among"),
        ({"families": [("mine", 3)]}, "families must be 'auto' or a list of names among"),
        ({"families": None}, "families must be 'auto' or a list of names among"),
        ({"families": []}, "families must be 'auto' or a list of names among"),
        ({"time_budget": -1.0}, "time_budget"),
        ({"class_weight": "equal"}, "class_weight"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        AutoClassifier(**params).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("largest", ["1.9e+201", "1.7e+308"])
def test_values_whose_squares_overflow_are_refused(as_frame, largest):
    X = float(largest) * np.cos(np.arange(20.0))[:, None]
    with pytest.raises(ValueError, match=rf"values up to {re.escape(largest)}|too large to"):
        AutoClassifier().fit(pd.DataFrame(X) if as_frame else X, np.arange(20) % 2)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_groups_are_refused(missing):
    X, y = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    with pytest.raises(ValueError, match="groups has missing values"):
        AutoClassifier().fit(X, y, groups=pd.Series(["a", "b", missing, "c"] * 2, dtype=object))


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("as_frame", [False, True])
def test_missing_labels_are_refused(as_frame, missing):
    X, y = np.arange(8.0)[:, None], np.array([missing, "b", missing, "b"] * 2, dtype=object)
    with pytest.raises(ValueError, match=r"y has missing labels\. Leave out the rows"):
        AutoClassifier().fit(pd.DataFrame(X) if as_frame else X, y)


def test_no_warnings_of_candidates_reach_the_user():
    X, y = noisy(260)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AutoClassifier().fit(X, y)


def test_a_fit_in_another_thread_leaves_the_warnings_of_this_one():
    """Also if the fit ends while this thread has filters of its own."""
    X, y = noisy(60)
    fitting, ending = Event(), Event()

    class Slow(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            fitting.set()
            assert ending.wait(60)
            warnings.warn("a warning of a candidate", stacklevel=1)
            return super().fit(X, y, sample_weight)

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(AutoClassifier(families=["kernels", ("mine", Slow())]).fit, X, y)
        assert fitting.wait(60)
        with pytest.warns(UserWarning, match="of this thread"):
            warnings.warn("a warning of this thread", stacklevel=1)
        with warnings.catch_warnings():
            ending.set()
            job.result()
    with pytest.raises(UserWarning, match="after the fit"):
        warnings.warn("after the fit", stacklevel=1)


@pytest.mark.parametrize("cell", [Decimal("1.0"), pd.Timestamp("2024-01-31"), " 3.0", "x "])
def test_cells_of_the_training_rows_are_no_unseen_category(cell):
    cells = np.array([cell, None], dtype=object)[np.arange(60) % 2]
    rows = pd.DataFrame({"size": np.arange(60.0) % 7, "other": cells})
    model = AutoClassifier(families=QUICK).fit(rows, np.arange(60) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(rows)


@pytest.mark.parametrize("blank", [" ", None])
def test_blank_cells_are_no_unseen_category(blank):
    random = np.random.default_rng(0)
    smokes = random.random(120) < 0.5
    labels, age = np.where(smokes, "ill", "well"), random.normal(size=120)

    def frame(yes):
        return pd.DataFrame({"smoker": [yes if each else blank for each in smokes], "age": age})

    model = AutoClassifier(families=QUICK).fit(frame("yes "), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(model.predict(frame("yes"))) == {"ill", "well"}
