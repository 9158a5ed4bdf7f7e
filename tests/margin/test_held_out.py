"""Held-out scores of ODM and LDM are those of fits without folds; probabilities follow them."""

import warnings

import margin_problems
import numpy as np
import pytest
from margin_problems import (
    LDM,
    close,
    every_kernel,
    every_model,
    new_points,
    three_classes,
    two_classes,
)
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from discreg import LDMClassifier, ODMClassifier
from discreg.base.calibration import Temperature, class_columns, fit_temperature
from discreg.base.calibration import log_loss as loss_at
from discreg.base.held_out import holdout_folds, holdout_part, prior_offsets
from discreg.blocks.kept_rows import row_keys
from discreg.blocks.source import ArrayBlocks

CALIBRATED = {
    "inverse_temperature_",
    "held_out_by_",
    "held_out_decision_function_",
    "_calibrated",
}


def make(name, **params):
    return margin_problems.make(name, **{"probability": True, **params})


def mixed_weights(n, seed=3):
    return np.random.default_rng(seed).choice([0.3, 1.0, 2.0, 3.5], size=n)


def refitted(model, X, y, weights):
    """Scores of samples from models that are fitted without the fold of the sample."""
    classes, indices = np.unique(y, return_inverse=True)
    found = np.full((len(y), len(classes)) if len(classes) > 2 else len(y), np.nan)
    for train, test in holdout_folds(row_keys(X, weights), indices, weights):
        refit = clone(model).set_params(probability=False)
        found[test] = refit.fit(X[train], y[train], weights[train]).decision_function(X[test])
    return found


@every_model
@pytest.mark.parametrize(("kernel", "n_classes"), [("linear", 3), ("rbf", 2), ("poly", 2)])
def test_scores_equal_those_of_refits(name, kernel, n_classes):
    X, y = two_classes(40) if n_classes == 2 else three_classes()
    weights = mixed_weights(len(y))
    model = make(name, kernel=kernel, gamma=0.3, class_weight="balanced").fit(X, y, weights)
    assert model.held_out_by_ == "5 folds"
    close(model.held_out_decision_function_, refitted(model, X, y, weights), 1e-8)
    assert np.isfinite(model.predict_proba(new_points())).all()


@every_model
@every_kernel
def test_weight_k_equals_k_copies(name, kernel):
    X, y = two_classes(30)
    copies = np.random.default_rng(1).integers(1, 4, size=30)
    rows = np.repeat(np.arange(30), copies)
    weighted = make(name, kernel=kernel, gamma=0.3).fit(X, y, sample_weight=copies)
    copied = make(name, kernel=kernel, gamma=0.3).fit(X[rows], y[rows])
    close(copied.held_out_decision_function_, weighted.held_out_decision_function_[rows], 1e-8)
    points = new_points()
    close(copied.predict_proba(points), weighted.predict_proba(points), 1e-8)


@every_model
@every_kernel
def test_the_scale_of_weights_does_not_matter(name, kernel):
    X, y = two_classes(30)
    weights = mixed_weights(30)
    model, scaled = (
        make(name, kernel=kernel, gamma=0.3).fit(X, y, factor * weights) for factor in (1, 10)
    )
    close(scaled.held_out_decision_function_, model.held_out_decision_function_, 1e-9)
    close(scaled.predict_proba(X), model.predict_proba(X), 1e-9)


@every_model
def test_rows_of_weight_zero_have_their_ordinary_scores(name):
    X, y = two_classes(40, apart=1.0)
    weights = np.ones(40)
    weights[:6] = 0.0
    for kernel in ("linear", "rbf", "precomputed"):
        rows = rbf_kernel(X, gamma=0.3) if kernel == "precomputed" else X
        model = make(name, kernel=kernel, gamma=0.3).fit(rows, y, weights)
        scores = model.held_out_decision_function_
        close(scores[:6], model.decision_function(rows)[:6], 1e-12)
        some = make(name, kernel=kernel, gamma=0.3)
        inside = rows[6:, 6:] if kernel == "precomputed" else rows[6:]
        close(scores[6:], some.fit(inside, y[6:]).held_out_decision_function_, 1e-8)


@every_model
@every_kernel
def test_every_solver_has_the_same_scores(name, kernel):
    X, y = two_classes(30)
    model = make(name, kernel=kernel, gamma=0.3, random_state=0).fit(X, y)
    solvers = ["active_set", "dcd"] + ["newton"] * (name == "odm" and kernel == "linear")
    for solver in solvers:
        other = clone(model).set_params(solver=solver).fit(X, y)
        close(other.held_out_decision_function_, model.held_out_decision_function_, 1e-6)


@every_model
def test_single_precision_and_sparse_rows(name):
    X, y = two_classes(30)
    X = X.astype(np.float32).astype(np.float64)  # rows are drawn by their values
    expected = make(name, kernel="linear").fit(X, y).held_out_decision_function_
    for rows in (X.astype(np.float32), sparse.csr_array(X)):
        found = make(name, kernel="linear").fit(rows, y).held_out_decision_function_
        close(found, expected, 1e-5)


# Probabilities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", [0.0, 0.7])
def test_rare_cases_have_rare_probabilities(relation):
    """With "balanced" weights too, probabilities estimate the population: 2 % of cases."""
    rng = np.random.default_rng(0)
    y = (np.arange(1700) % 50 == 0).astype(int)
    X = rng.normal(size=(len(y), 12))
    X[:, 0] += relation * y
    model = LDMClassifier(C=10, class_weight="balanced", gamma=0.07, lambda1=0, lambda2=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The held-out scores .* are worse than chance")
        model.fit(X[:700], y[:700])
    assert model.held_out_by_ == "5 folds"
    shares = model.predict_proba(X[700:])[:, 1]
    assert 0.01 < shares.mean() < 0.04
    assert np.quantile(shares, 0.9) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_all_cases_at_their_limit_leave_the_middle_of_the_best_intercepts(seed):
    """Fits without some rows then have nearly the same intercept, as calibration needs."""
    rng = np.random.default_rng(seed)
    y = (rng.random(4500) < 0.02).astype(int)
    X = rng.normal(size=(len(y), 12))
    X[:, 0] += 2 * y
    model = LDMClassifier(C=10, class_weight="balanced", gamma=0.07, lambda1=0, lambda2=0)
    model.fit(X[:1500], y[:1500])
    scores = model.decision_function(X[:1500])
    signs, costs = 2 * y[:1500] - 1, 1 / np.bincount(y[:1500])[y[:1500]]
    steps = np.linspace(-0.5, 0.5, 201)
    losses = costs @ np.maximum(0, 1 - signs[:, None] * (scores[:, None] + steps))
    best = steps[losses <= losses.min() * (1 + 1e-9)]
    assert np.ptp(best) > 0.1
    assert abs(best[0] + best[-1]) < 0.03
    shares = model.predict_proba(X[1500:])[:, 1]
    assert abs(shares.mean() - y[:1500].mean()) < 0.01
    assert log_loss(y[1500:], shares) < 0.85 * log_loss(y[1500:], np.full(3000, y[:1500].mean()))


def many_rows(n=1100, p=5, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, (X[:, 0] + 0.4 * X[:, 1] ** 2 + 0.8 * rng.normal(size=n) > 0.3).astype(int)


@every_model
@pytest.mark.parametrize("n", [300, 1100])
def test_many_samples_with_a_kernel_are_calibrated(name, n):
    """The log-loss on new samples is close to the best of all temperatures."""
    X, y = many_rows(n + 2000)
    model = make(name, gamma=0.3, **({"C1": 100.0} if name == "odm" else {})).fit(X[:n], y[:n])
    probabilities = model.predict_proba(X[n:])
    scores = model.decision_function(X[n:])
    columns = np.column_stack([np.zeros_like(scores), scores])
    taus = map(Temperature, np.geomspace(0.1, 100, 200))
    best = min(loss_at(columns, y[n:], np.ones(2000), tau) for tau in taus)
    assert log_loss(y[n:], probabilities) <= 1.03 * best


def test_of_many_rows_one_part_is_held_out(monkeypatch):
    from discreg.base import held_out

    monkeypatch.setattr(held_out, "MOST_IN_FOLDS", 2000)
    X, y = many_rows(6000)
    model = ODMClassifier(C1=50.0, kernel="linear").fit(X, y)
    assert model.held_out_by_ == "2,000 rows"
    assert not hasattr(model, "held_out_decision_function_")
    small = ODMClassifier(C1=50.0, kernel="linear").fit(X[:2000], y[:2000])
    close(model.predict_proba(X[:50]), small.predict_proba(X[:50]), 0.1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("params", [{"kernel": "linear"}, {"n_components": 30}])
def test_rows_in_blocks_are_judged_by_a_model_without_them(n_classes, params, tmp_path):
    X, y = many_rows()
    y = y + (X[:, 2] > 0.5) if n_classes == 3 else y
    np.save(tmp_path / "X.npy", X)
    weights = mixed_weights(len(y))
    model = ODMClassifier(C1=50.0, class_weight="balanced", random_state=0, tol=1e-13, **params)
    with config_context(working_memory=4096 / (1 << 20)):  # blocks of 4 kB
        blocks = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights)
    assert not hasattr(blocks, "support_")
    assert blocks.held_out_by_ == "220 rows"
    assert not hasattr(blocks, "held_out_decision_function_")
    part = holdout_part(ArrayBlocks(X, y, weights, "balanced"))
    others = weights * ~np.isin(X[:, 0], part.X[:, 0])
    refit = clone(model).set_params(probability=False).fit(X, y, others)
    prior = prior_offsets(model, refit.classes_, np.bincount(y, weights))
    scores = class_columns(refit.decision_function(part.X))
    expected = fit_temperature(scores, part.y, part.weights, prior)
    assert blocks.inverse_temperature_ == pytest.approx(expected.inverse, rel=1e-5)
    close(blocks.class_offsets_, expected.offsets, 1e-5)


@every_model
def test_components_have_held_out_scores(name):
    """A fold has components of its own."""
    X, y = two_classes(60)
    model = make(name, n_components=10, random_state=0, gamma=0.3).fit(X, y)
    close(model.held_out_decision_function_, refitted(model, X, y, np.ones(60)), 1e-8)


# What a fit sets ----------------------------------------------------------------------------------


@every_model
@every_kernel
def test_a_fit_without_probabilities_sets_nothing(name, kernel):
    X, y = two_classes()
    model = make(name, kernel=kernel, warm_start=True).fit(X, y)
    assert set(vars(model)) >= CALIBRATED
    before = model.decision_function(X)
    model.set_params(probability=False).fit(X, y)
    assert not set(vars(model)) & CALIBRATED
    close(model.decision_function(X), before, 1e-6)
    plain = make(name, kernel=kernel, probability=False).fit(X, y)
    again = make(name, kernel=kernel).fit(X, y)
    close(plain.decision_function(X), again.decision_function(X), 1e-12)


@every_model
def test_probabilities_agree_with_predictions(name):
    X, y = three_classes()
    model = make(name).fit(X, y)
    points = new_points()
    probabilities = model.predict_proba(points)
    close(probabilities.sum(axis=1), 1.0, 1e-12)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(points))
    sets = model.predict_set(X, 0.8)
    assert sets[np.arange(len(y)), y].mean() >= 0.7


@every_model
@every_kernel
def test_a_class_of_one_sample_is_named(name, kernel):
    X, y = two_classes(30)
    y = np.where(np.arange(30) == 7, 1, -1)
    with pytest.warns(UserWarning, match="Class 1 has only one distinct row"):
        model = make(name, kernel=kernel, gamma=0.3).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_only_the_fit_to_all_rows_warns_and_reports_to_callbacks():
    pytest.importorskip("sklearn.callback")

    class Counted:
        begun = 0

        def setup(self, estimator, context):
            self.begun += 1

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            return False

        def teardown(self, estimator, context):
            pass

    X, y = two_classes(apart=2.0)
    counted = Counted()
    model = ODMClassifier(kernel="linear", solver="svrg", max_iter=3, tol=1e-12)
    model.set_callbacks(counted)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [each.category.__name__ for each in caught] == ["ConvergenceWarning"]
    assert counted.begun == 1


def test_searches_calibrate_only_the_best_setting(monkeypatch):
    from discreg import LDMClassifierCV
    from discreg.margin import _classifier

    calls = []
    real = _classifier.calibrate_on_rows

    def counted(*args, **options):
        calls.append(1)
        real(*args, **options)

    monkeypatch.setattr(_classifier, "calibrate_on_rows", counted)
    X, y = two_classes()
    search = LDMClassifierCV(Cs=(1.0, 10.0), lambda1s=(LDM["lambda1"],), lambda2s=(0.0,), cv=3)
    search.set_params(gammas=("scale",)).fit(X, y)
    assert calls == [1]
    close(search.predict_proba(X).sum(axis=1), 1.0, 1e-12)
