"""Held-out scores of ODM and LDM equal those of refits without the sample."""

import numpy as np
import pytest
from margin_problems import (
    LDM,
    close,
    every_kernel,
    every_model,
    make,
    new_points,
    three_classes,
    two_classes,
    with_and_without_intercept,
)
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from discreg import LDMClassifier, ODMClassifier
from discreg.base.calibration import Temperature
from discreg.base.calibration import log_loss as loss_at

FIXED = {"gamma": 0.3, "degree": 2, "coef0": 1.0}
PENALTIES = ("C1", "C2", "C", "lambda1", "lambda2")
CALIBRATED = {"inverse_temperature_", "loo_decision_function_", "loo_is_exact_", "_calibrated"}


def refitted(model, X, y, weights=None, units=None, rows=None):
    """Scores of samples from refits without a unit of them; the costs of the others stay."""
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    units = np.minimum(weights, 1.0) if units is None else units
    found = []
    for i in range(len(y)) if rows is None else rows:
        rest = weights.copy()
        rest[i] -= units[i]
        refit = clone(model).set_params(probability=False, class_weight=None, tol=1e-8)
        factor = rest.sum() / weights.sum()
        refit.set_params(**{k: factor * v for k, v in refit.get_params().items() if k in PENALTIES})
        found.append(refit.fit(X, y, sample_weight=rest).decision_function(X[[i]])[0])
    return np.array(found)


def mixed_weights(n, seed=3):
    return np.random.default_rng(seed).choice([0.3, 1.0, 2.0, 3.5], size=n)


@every_model
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@with_and_without_intercept
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_equal_those_of_refits(name, kernel, fit_intercept, weighted):
    X, y = two_classes(20)
    weights = mixed_weights(20) if weighted else None
    model = make(name, kernel=kernel, fit_intercept=fit_intercept, **FIXED).fit(X, y, weights)
    close(model.loo_decision_function_, refitted(model, X, y, weights), 1e-9)
    assert model.loo_is_exact_


@pytest.mark.parametrize(
    "params",
    [
        {"C": 10.0, "lambda1": 0.0, "lambda2": 0.0},
        {"C": 10.0, "lambda1": 0.0, "lambda2": 0.2},
        {"C": 200.0, "lambda1": 20.0, "lambda2": 5.0},
        {"C": 1000.0, "lambda1": 1000.0, "lambda2": 0.0},
    ],
)
@every_kernel
@pytest.mark.parametrize("weighted", [False, True])
def test_other_penalties_of_ldm(params, kernel, weighted):
    X, y = two_classes(20)
    weights = mixed_weights(20) if weighted else None
    model = LDMClassifier(kernel=kernel, gamma=0.3, **params).fit(X, y, weights)
    # Without a variance the intercept has no penalty at all.
    tolerance = 1e-7 if params["lambda1"] == 0 else 1e-8
    close(model.loo_decision_function_, refitted(model, X, y, weights), tolerance)


@pytest.mark.parametrize(("C1", "C2", "D"), [(1e4, 1e3, 0.4), (50.0, 50.0, 0.0), (3.0, 90.0, 0.0)])
@every_kernel
def test_other_penalties_of_odm(C1, C2, D, kernel):
    X, y = two_classes(30)
    model = ODMClassifier(C1=C1, C2=C2, D=D, kernel=kernel, gamma=0.3).fit(X, y)
    close(model.loo_decision_function_, refitted(model, X, y), 1e-9)
    assert model.loo_is_exact_


@every_model
@every_kernel
def test_class_weights_and_three_classes(name, kernel):
    """The unit that leaves weighs as much as its class weight says."""
    X, y = three_classes()
    copies = mixed_weights(50)
    factors = np.array([0.5, 1.0, 2.5])
    model = make(name, kernel=kernel, gamma=0.3, class_weight=dict(enumerate(factors)))
    model.fit(X, y, sample_weight=copies)
    rows = [0, 7, 20, 33, 49]
    units = np.minimum(copies, 1.0) * factors[y]
    expected = refitted(model, X, y, copies * factors[y], units, rows)
    close(model.loo_decision_function_[rows], expected, 1e-9)


@every_model
def test_rows_of_weight_zero_have_their_ordinary_scores(name):
    X, y = two_classes(30)
    weights = np.ones(30)
    weights[:6] = 0.0
    for kernel in ("linear", "rbf", "precomputed"):
        rows = rbf_kernel(X, gamma=0.3) if kernel == "precomputed" else X
        model = make(name, kernel=kernel, gamma=0.3).fit(rows, y, weights)
        scores = model.loo_decision_function_
        close(scores[:6], model.decision_function(rows)[:6], 1e-12)
        some = make(name, kernel=kernel, gamma=0.3)
        inside = rows[6:, 6:] if kernel == "precomputed" else rows[6:]
        close(scores[6:], some.fit(inside, y[6:]).loo_decision_function_, 1e-9)


@every_model
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_more_features_than_samples(name, container):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(24, 40)), np.arange(24) % 2
    X[:, 0] += y
    model = make(name, kernel="linear").fit(container(X), y)
    close(model.loo_decision_function_, refitted(model, X, y), 1e-9)


def test_large_costs_and_more_features_than_samples():
    """Without the sample next to nothing determines its score: differences of large numbers."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(24, 200)), np.arange(24) % 2
    model = ODMClassifier(C1=1e4, C2=1e3, kernel="linear").fit(X, y)
    close(model.loo_decision_function_, refitted(model, X, y), 1e-9)


@every_model
@every_kernel
def test_batches_do_not_matter(name, kernel, monkeypatch):
    from discreg.margin import _hinge_refits, _refits

    X, y = two_classes()
    expected = make(name, kernel=kernel).fit(X, y).loo_decision_function_
    for module in (_hinge_refits, _refits):
        monkeypatch.setattr(module, "BATCH", 2)
    model = make(name, kernel=kernel).fit(X, y)
    close(model.loo_decision_function_, expected, 1e-10)
    assert model.loo_is_exact_


@every_model
def test_single_precision_and_sparse_rows(name):
    X, y = two_classes(30)
    expected = make(name, kernel="linear").fit(X, y).loo_decision_function_
    for rows in (X.astype(np.float32), sparse.csr_array(X)):
        close(make(name, kernel="linear").fit(rows, y).loo_decision_function_, expected, 1e-5)


@every_model
@every_kernel
def test_every_solver_has_the_same_scores(name, kernel):
    X, y = two_classes(30)
    model = make(name, kernel=kernel, gamma=0.3, random_state=0).fit(X, y)
    solvers = ["active_set", "dcd"]
    if kernel == "linear":
        solvers += ["svrg", "newton"] if name == "odm" else ["svrg"]
    for solver in solvers:
        tol = {"odm": 1e-13, "ldm": 0.05}[name] if solver == "svrg" else 1e-3
        other = clone(model).set_params(solver=solver, tol=tol).fit(X, y)
        close(other.loo_decision_function_, model.loo_decision_function_, 1e-6)


@every_model
@every_kernel
def test_weight_k_equals_k_copies(name, kernel):
    X, y = two_classes(30)
    copies = np.random.default_rng(1).integers(1, 4, size=30)
    rows = np.repeat(np.arange(30), copies)
    weighted = make(name, kernel=kernel, gamma=0.3).fit(X, y, sample_weight=copies)
    copied = make(name, kernel=kernel, gamma=0.3).fit(X[rows], y[rows])
    close(copied.loo_decision_function_, weighted.loo_decision_function_[rows], 1e-9)
    points = new_points()
    close(copied.predict_proba(points), weighted.predict_proba(points), 1e-9)


def test_samples_inside_the_band_do_not_move():
    X, y = two_classes(60)
    model = ODMClassifier(C1=100.0, C2=10.0, D=0.5, gamma=0.3).fit(X, y)
    inside = np.setdiff1d(np.arange(60), model.support_)
    assert len(inside) > 5
    close(model.loo_decision_function_[inside], model.decision_function(X)[inside], 1e-12)


# More samples, fewer guarantees -------------------------------------------------------------------


def many_rows(n=1100, p=5, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, (X[:, 0] + 0.4 * X[:, 1] ** 2 + 0.8 * rng.normal(size=n) > 0.3).astype(int)


@pytest.mark.parametrize(
    ("model", "share"),
    [
        (ODMClassifier(kernel="linear"), 1e-2),
        (ODMClassifier(gamma=0.3), 5e-2),
        (ODMClassifier(gamma=0.3, fit_intercept=False, C1=50.0), 1e-2),
        (LDMClassifier(gamma=0.3), 0.15),
        (LDMClassifier(gamma=0.3, lambda1=0.0), 0.3),
        (LDMClassifier(kernel="linear"), 0.3),  # with few features the hinge is smoothed
        (LDMClassifier(kernel="linear", C=10.0, lambda1=0.0), 0.7),
    ],
)
def test_one_step_is_close_to_refits(model, share, monkeypatch):
    """Relative to the distance between the scores of training samples and those held out."""
    from discreg.margin import _hinge_samples, _left_out

    X, y = many_rows(400)
    exact = clone(model).fit(X, y).loo_decision_function_
    for module in (_hinge_samples, _left_out):
        monkeypatch.setattr(module, "SMALL", 100)
    model = clone(model).fit(X, y)
    assert not model.loo_is_exact_
    scores = model.loo_decision_function_
    apart = np.abs(model.decision_function(X) - exact)
    assert 0 < np.mean(np.abs(scores - exact)) <= share * np.mean(apart)
    assert np.mean((scores > 0) == (exact > 0)) >= 0.97


@pytest.mark.parametrize("name", ["odm", "ldm"])
@pytest.mark.parametrize("n", [1100, 2100])
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
    assert hasattr(model, "loo_decision_function_") == (n <= 2000)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed", "linear"])
def test_samples_left_out_together(kernel, monkeypatch):
    """If a system is too large, one more fit contains none of the samples left out."""
    import discreg.margin._calibrate as calibrate

    X, y = many_rows(600)
    rows = rbf_kernel(X, gamma=0.3) if kernel == "precomputed" else X
    exact = ODMClassifier(C1=100.0, kernel=kernel, gamma=0.3).fit(rows, y)
    for limit in ("LARGEST_SYSTEM", "FEW_FEATURES"):
        monkeypatch.setattr(calibrate, limit, 3)
    monkeypatch.setattr(calibrate, "FEWEST_TOGETHER", 100)
    model = clone(exact).fit(rows, y)
    assert not model.loo_is_exact_
    assert not hasattr(model, "loo_decision_function_")
    assert model.inverse_temperature_ == pytest.approx(exact.inverse_temperature_, rel=0.3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_blocks_and_memory_have_the_same_probabilities(n_classes, tmp_path):
    X, y = many_rows()
    y = y + (X[:, 2] > 0.5) if n_classes == 3 else y
    np.save(tmp_path / "X.npy", X)
    weights = mixed_weights(len(y))
    for params in ({"kernel": "linear"}, {"n_components": 30, "random_state": 0}):
        model = ODMClassifier(C1=50.0, tol=1e-14, class_weight="balanced", **params)
        memory = clone(model).fit(X, y, weights)
        with config_context(working_memory=4096 / (1 << 20)):  # blocks of 4 kB
            blocks = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights)
        assert not hasattr(blocks, "support_")
        close(blocks.predict_proba(X[:50]), memory.predict_proba(X[:50]), 1e-7)
        assert not blocks.loo_is_exact_


@every_model
def test_components_have_held_out_scores(name):
    X, y = two_classes(60)
    model = make(name, n_components=10, random_state=0, gamma=0.3).fit(X, y)
    features = model._features(X)
    linear = make(name, kernel="linear").fit(features, y)
    close(model.loo_decision_function_, linear.loo_decision_function_, 1e-9)


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
    with pytest.warns(UserWarning, match="Class 1 has only one sample"):
        model = make(name, kernel=kernel, gamma=0.3).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_searches_calibrate_only_the_best_setting(monkeypatch):
    from discreg import LDMClassifierCV
    from discreg.margin import _classifier

    calls = []
    real = _classifier.calibrate_on_rows
    monkeypatch.setattr(
        _classifier, "calibrate_on_rows", lambda *args: (calls.append(1), real(*args))
    )
    X, y = two_classes()
    search = LDMClassifierCV(Cs=(1.0, 10.0), lambda1s=(LDM["lambda1"],), lambda2s=(0.0,), cv=3)
    search.set_params(gammas=("scale",)).fit(X, y)
    assert calls == [1]
    close(search.predict_proba(X).sum(axis=1), 1.0, 1e-12)
