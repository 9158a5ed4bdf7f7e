"""Bad input is refused with its cause and a remedy, or answered correctly; nothing is NaN."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from margin_oracles import kernel_features, ldm_optimum, odm_optimum
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from discreg import LDMClassifier, ODMClassifier

ODM = {"C1": 8.0, "C2": 2.0, "D": 0.2}
LDM = {"C": 10.0, "lambda1": 0.5, "lambda2": 0.3}
MODELS = [ODMClassifier(probability=False, **ODM), LDMClassifier(probability=False, **LDM)]
every_model = pytest.mark.parametrize("model", MODELS)
every_kernel = pytest.mark.parametrize("kernel", ["linear", "rbf"])
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def make(model, **params):
    return clone(model).set_params(**params)


def two_classes(n=40, p=4):
    rng = np.random.default_rng(0)
    y = np.where(rng.permutation(n) % 5 < 3, 1, -1)
    return rng.normal(size=(n, p)) + 0.6 * y[:, None], y


def optimum(model, F, y, **options):
    if isinstance(model, ODMClassifier):
        return odm_optimum(F, y, **ODM, **options)
    return ldm_optimum(F, y, **LDM, **options)


# Parameters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "params", "message"),
    [
        (ODMClassifier, {"C1": 0}, r"The 'C1' parameter of ODMClassifier must be .* \(0, inf\)"),
        (ODMClassifier, {"C2": np.nan}, "'C2'"),
        (ODMClassifier, {"D": 1.0}, r"The 'D' parameter of ODMClassifier must be .* \[0, 1\)"),
        (ODMClassifier, {"kernel": "linear", "solver": "sgd"}, "'solver'.*'dcd'"),
        (ODMClassifier, {"tol": -1e-3}, "'tol'"),
        (LDMClassifier, {"C": np.inf}, r"The 'C' parameter of LDMClassifier must .* \(0, inf\)"),
        (LDMClassifier, {"lambda1": -1e-9}, r"'lambda1'.*\[0, inf\)"),
        (LDMClassifier, {"lambda2": True}, "'lambda2'"),
        (LDMClassifier, {"kernel": "linear", "solver": "newton"}, "'solver'"),
        (LDMClassifier, {"warm_start": "yes"}, "'warm_start'.*must be a bool"),
        (LDMClassifier, {"class_weight": {1: 0.0}}, "class 1 have zero total weight"),
        (LDMClassifier, {"kernel": "rbf", "solver": "svrg"}, "svrg.*linear|linear.*svrg"),
    ],
)
def test_parameters_are_checked(estimator, params, message):
    with pytest.raises(ValueError, match=message):
        estimator(**params).fit(*two_classes())


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_newton_is_for_the_linear_kernel(kernel):
    X, y = two_classes()
    X = X if kernel == "rbf" else X @ X.T
    with pytest.raises(ValueError, match=r"newton.*linear|linear.*newton"):
        ODMClassifier(probability=False, kernel=kernel, solver="newton").fit(X, y)


@every_kernel
def test_unbounded_objectives_of_ldm_are_refused(kernel):
    """Without variance the mean grows with b faster than the minority's hinge if λ2 is large."""
    X, y = two_classes()
    y = np.where(np.arange(40) < 30, 1, -1)  # Σ y = 20, minority 10: unbounded from λ2 = C/2
    for labels in (y, -y):
        for lambda2 in (0.5, 0.6, 100.0):
            model = LDMClassifier(
                probability=False, C=1.0, lambda1=0.0, lambda2=lambda2, kernel=kernel
            )
            with pytest.raises(ValueError, match="no minimum for class 1 "):
                model.fit(X, labels)
            bounded = [{"lambda1": 0.1}, {"fit_intercept": False}, {"class_weight": "balanced"}]
            for params in bounded:
                scores = make(model, **params).fit(X, labels).decision_function(X)
                assert np.all(np.isfinite(scores))
    weights = np.where(y == 1, 1.0, 3.0)  # as many of each: nothing to gain by b
    model.set_params(lambda2=0.4).fit(X, y)
    model.set_params(lambda2=100.0).fit(X, y, sample_weight=weights)
    three = np.arange(40) % 3  # each class is a third or so of one-vs-rest: λ2 < C is needed
    with pytest.raises(ValueError, match=r"no minimum for class \d "):
        model.set_params(lambda2=2.0).fit(X, three)


# Data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(X > 1, np.nan, X), y), "NaN"),
        (lambda X, y: (np.where(X > 1, np.inf, X), y), "infinity"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, np.ones(len(y))), "one class only: 1.0. Add samples"),
        (lambda X, y: (X[:1], y[:1]), "one class only|1 sample"),
        (lambda X, y: (X, np.linspace(0, 1, len(y))), "continuous"),
        (lambda X, y: (X, np.where(y == 1, np.nan, 0.0)), "NaN"),
    ],
)
def test_data_are_checked(change, message):
    for model in MODELS:
        with pytest.raises(ValueError, match=message):
            make(model).fit(*change(*two_classes()))


@every_model
def test_labels_of_mixed_types_are_refused(model):
    X, y = two_classes()
    labels = np.where(y == 1, "a", None).astype(object)
    labels[y == -1] = 3
    with pytest.raises(ValueError, match="labels of different types"):
        make(model).fit(X, labels)


@every_model
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda y: -np.ones(len(y)), "non-negative"),
        (lambda y: np.full(len(y), np.nan), "NaN"),
        (lambda y: np.ones(len(y) - 1), "one number for each of the 40 samples"),
        (lambda y: (y != 1).astype(float), "class 1 have zero total weight by sample_weight"),
        (lambda y: np.zeros(len(y)), "zero total weight"),
    ],
)
def test_weights_are_checked(model, weights, message):
    X, y = two_classes()
    with pytest.raises(ValueError, match=message):
        make(model).fit(X, y, sample_weight=weights(y))


@every_model
def test_kernel_matrices_are_checked(model):
    X, y = two_classes()
    kernel = X @ X.T
    model = make(model, kernel="precomputed")
    with pytest.raises(ValueError, match=r"square matrix.*\(40, 4\)"):
        model.fit(X, y)
    crooked = kernel.copy()
    crooked[0, 1] += 1
    with pytest.raises(ValueError, match=r"not symmetric.*up to 1"):
        model.fit(crooked, y)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        model.fit(kernel - 5 * np.eye(40), y)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        model.fit(-kernel, y)
    with pytest.raises(ValueError, match=r"kernel 'sigmoid'.*not positive semi-definite"):
        make(model, kernel="sigmoid", gamma=1.0, coef0=-1).fit(X, y)
    with pytest.raises(ValueError, match="infinite or undefined values"):
        make(model, kernel="poly", gamma=1.0, degree=200).fit(1e5 * X, y)
    with pytest.raises(ValueError, match="40 features"):
        model.fit(kernel, y).predict(kernel[:, :20])


# Odd data that have an answer ---------------------------------------------------------------------


@every_model
@every_kernel
@with_and_without_intercept
def test_duplicated_and_contradictory_rows(model, kernel, fit_intercept):
    X, y = two_classes(24)
    X = np.vstack([X, X, X[:6]])
    y = np.concatenate([y, y, -y[:6]])
    F = X if kernel == "linear" else kernel_features(rbf_kernel(X, gamma=0.3))
    fitted = make(model, kernel=kernel, gamma=0.3, fit_intercept=fit_intercept).fit(X, y)
    best = optimum(model, F, y, fit_intercept=fit_intercept)
    assert fitted.objective_ == pytest.approx(best.objective, rel=1e-7)
    np.testing.assert_allclose(fitted.decision_function(X), best.decision, rtol=0, atol=1e-6)


@every_model
@every_kernel
@with_and_without_intercept
def test_a_constant_feature_beside_others(model, kernel, fit_intercept):
    """With an intercept it changes nothing; rbf never sees it."""
    X, y = two_classes()
    more = np.hstack([X, np.full((40, 1), 3.0)])
    params = {"kernel": kernel, "gamma": 0.3, "fit_intercept": fit_intercept}
    fitted = make(model, **params).fit(more, y)
    assert np.all(np.isfinite(fitted.decision_function(more)))
    if fit_intercept or kernel == "rbf":
        plain = make(model, **params).fit(X, y)
        np.testing.assert_allclose(
            fitted.decision_function(more), plain.decision_function(X), rtol=0, atol=1e-7
        )


@every_kernel
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
@pytest.mark.parametrize(
    ("model", "score"),
    [
        # ½‖w‖² + (C/m) Σ (b - y)²: the mean label
        (ODMClassifier(probability=False, C1=1.0, C2=1.0, D=0.0), 1 / 3),
        # 0.1 · 8/9 b² - b/30 + 1 - b/3 on [-1, 1], and a hinge of one third beyond
        (LDMClassifier(probability=False, C=1.0, lambda1=0.1, lambda2=0.1), 1.0),
    ],
)
def test_constant_features_predict_the_largest_class(model, score, kernel, value):
    X, y = np.full((60, 3), value), np.repeat([0, 1, 1], 20)
    fitted = make(model, kernel=kernel).fit(X, y)
    size = 3 * value**2 if kernel == "linear" else 1.0
    scores = fitted.decision_function(X)
    np.testing.assert_allclose(scores, score, atol=max(1e-7, 1e-15 * size))
    assert np.all(fitted.predict(X) == 1)


def refusal_of(model, X, y):
    """What a fit says when it refuses the data; empty where it does not. It may stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, y)
        except ValueError as error:
            return str(error)
    return ""


@every_model
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_constant_features_with_huge_kernel_values(model, value):
    """Where gamma="scale" divides by a variance of rounding: an answer, or what to do about it."""
    X, y = np.full((60, 3), value), np.repeat([0, 1, 1], 20)
    model = make(model, kernel="poly")
    refusal = refusal_of(model, X, y)
    if refusal:
        assert "Scale the features" in refusal
        return
    assert np.all(np.isfinite(model.decision_function(X)))
    assert np.all(model.predict(X) == 1)


@every_model
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_features_of_zeros_without_an_intercept(model, kernel):
    X, y = np.zeros((30, 3)), np.repeat([0, 1, 1], 10)
    fitted = make(model, kernel=kernel, fit_intercept=False).fit(X, y)
    scores = fitted.decision_function(X)
    assert np.all(np.isfinite(scores))
    if kernel == "linear":
        np.testing.assert_array_equal(scores, 0)
        np.testing.assert_array_equal(fitted.coef_, 0)


@every_model
@every_kernel
@with_and_without_intercept
@pytest.mark.filterwarnings("ignore:Classes .* have only one sample:UserWarning")
def test_one_sample_of_each_class(model, kernel, fit_intercept):
    X, y = np.array([[0.0, 1.0], [1.0, -1.0]]), np.array([-1, 1])
    F = X if kernel == "linear" else kernel_features(rbf_kernel(X, gamma=0.3))
    fitted = make(model, kernel=kernel, gamma=0.3, fit_intercept=fit_intercept).fit(X, y)
    best = optimum(model, F, y, fit_intercept=fit_intercept)
    np.testing.assert_allclose(fitted.decision_function(X), best.decision, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(fitted.predict(X), y)
    three = make(model, kernel=kernel, gamma=0.3, fit_intercept=fit_intercept)
    three.fit(np.eye(3), ["a", "b", "c"])
    np.testing.assert_array_equal(three.predict(np.eye(3)), ["a", "b", "c"])


@every_model
@every_kernel
@pytest.mark.filterwarnings("ignore:Class 1 has only one sample:UserWarning")
def test_one_sample_against_many(model, kernel):
    X, y = two_classes()
    y = np.where(np.arange(40) == 7, 1, -1)
    F = X if kernel == "linear" else kernel_features(rbf_kernel(X, gamma=0.3))
    fitted = make(model, kernel=kernel, gamma=0.3).fit(X, y)
    best = optimum(model, F, y)
    np.testing.assert_allclose(fitted.decision_function(X), best.decision, rtol=0, atol=1e-6)


@settings(max_examples=12)
@given(
    st.sampled_from(MODELS),
    st.sampled_from(["linear", "rbf", "poly"]),
    st.booleans(),
    st.sampled_from([1e-12, 1e-6, 1e6, 1e12]),
    st.sampled_from([np.asarray, sparse.csr_array]),
)
def test_scales_of_features(model, kernel, fit_intercept, scale, container):
    """An answer of finite numbers, or a ValueError that speaks of the scale."""
    X, y = two_classes()
    X = container(scale * X)
    model = make(model, kernel=kernel, fit_intercept=fit_intercept)
    refusal = refusal_of(model, X, y)
    if refusal:
        assert "Scale the features" in refusal
        return
    scores = model.decision_function(X)
    assert np.all(np.isfinite(scores))
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.gap_)
    if kernel == "rbf":  # gamma="scale" makes it the same problem
        plain = make(model).fit(two_classes()[0], y)
        np.testing.assert_allclose(
            scores, plain.decision_function(two_classes()[0]), rtol=0, atol=1e-6
        )


@every_model
@pytest.mark.parametrize(("kernel", "fit_intercept"), [("linear", True), ("rbf", False)])
@pytest.mark.parametrize("cost", [1e-12, 1e12])
def test_scales_of_costs(model, kernel, fit_intercept, cost):
    X, y = two_classes()
    costs = {"C1": cost, "C2": cost} if isinstance(model, ODMClassifier) else {"C": cost}
    model = make(model, kernel=kernel, fit_intercept=fit_intercept, **costs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert np.all(np.isfinite(model.decision_function(X)))
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.gap_)


@every_model
@every_kernel
def test_huge_ratios_of_weights(model, kernel):
    X, y = two_classes()
    weights = np.where(np.arange(40) < 20, 1e-12, 1.0)
    heavy = make(model, kernel=kernel, gamma=0.3).fit(X, y, sample_weight=weights)
    alone = make(model, kernel=kernel, gamma=0.3).fit(X[20:], y[20:])
    np.testing.assert_allclose(
        heavy.decision_function(X), alone.decision_function(X), rtol=0, atol=1e-6
    )
