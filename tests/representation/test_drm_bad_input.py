"""Bad input to DRM is refused with its cause and a remedy, or answered; nothing is NaN."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from discreg import DRMClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*only one distinct row, which cannot be held out"),
    pytest.mark.filterwarnings("ignore:The held-out scores of .* are worse than chance"),
]

SOLVERS = ["closed", "scatter", "gd", "ppa", "apg"]
unfinished = pytest.mark.filterwarnings(
    f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning"
)


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def with_a_single_sample():
    """Class 7 has one sample."""
    X, y = wine()
    y[0] = 7
    return X, y


# Parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"beta": 0}, r"'beta' parameter of DRMClassifier must be a float in \(0, inf\)"),
        ({"beta": -1.0}, "'beta'"),
        ({"beta": np.nan}, "'beta'"),
        ({"beta": np.inf}, "'beta'"),
        ({"beta": "1"}, "'beta'"),
        ({"alpha": -0.1}, r"'alpha' parameter of DRMClassifier must be a float in \[0, inf\)"),
        ({"alpha": np.nan}, "'alpha'"),
        ({"kernel": "rbff"}, "'kernel'.*'rbf'"),
        ({"gamma": 0.0}, "'gamma'"),
        ({"gamma": "big"}, "'scale'"),
        ({"kernel_params": 3}, "'kernel_params'"),
        ({"solver": "sgd"}, "'auto', 'closed', 'scatter', 'gd', 'ppa' or 'apg'"),
        ({"penalty": "l1"}, "'ridge', 'lasso', 'group_lasso', 'exclusive_lasso' or a triple"),
        ({"penalty": (3, 1, "identity")}, r"q and r in \{1, 2, inf\}"),
        ({"penalty": (2, 2, "square")}, "'identity' or 'half_square'"),
        ({"penalty": (2, 2)}, r"triple \(q, r, rho\)"),
        ({"penalty": None}, "'penalty'"),
        ({"n_components": 0}, "'n_components'"),
        ({"n_components": 2.5}, "'n_components'"),
        ({"approximation": "random"}, "'nystroem' or 'random_features'"),
        ({"backtracking": 1}, "'backtracking' parameter of DRMClassifier must be a bool"),
        ({"backtracking": True}, "backtracking=True requires solver='apg' and penalty='ridge'"),
        ({"backtracking": True, "solver": "ppa"}, "got solver='ppa' and penalty='ridge'"),
        ({"backtracking": True, "solver": "gd"}, "got solver='gd' and penalty='ridge'"),
        ({"backtracking": True, "solver": "apg", "penalty": "lasso"}, "and penalty='lasso'"),
        ({"probability": "yes"}, "'probability'"),
        ({"reject_above": -0.1}, "'reject_above'"),
        ({"unknown_label": [1]}, "'unknown_label'"),
        ({"tol": -1e-3}, "'tol'"),
        ({"max_iter": 0}, "'max_iter'"),
        ({"class_weight": "even"}, "'balanced'"),
        ({"class_weight": {0: -1.0}}, "class_weight must be finite and non-negative"),
        ({"class_weight": {0: 0.0}}, "class 0 have zero total weight by class_weight"),
    ],
)
def test_parameters_are_checked(params, message):
    with pytest.raises(ValueError, match=message):
        DRMClassifier(**params).fit(*wine())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"solver": "scatter"}, "requires a linear kernel.*kernel='linear', or set n_components"),
        ({"solver": "closed", "penalty": "lasso"}, r"solver='closed' requires penalty='ridge'"),
        ({"solver": "gd", "penalty": "lasso"}, r"solver='gd'.*Use solver='auto' or 'apg'"),
        (
            {"kernel": "linear", "solver": "scatter", "penalty": (2, 2, "identity")},
            "solver='scatter' requires penalty='ridge'",
        ),
        (
            {"kernel": "poly", "n_components": 10, "approximation": "random_features"},
            r"kernel='laplacian' or 'rbf', not the kernel 'poly'\. Use approximation='nystroem'",
        ),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        DRMClassifier(**params).fit(*wine())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_components": 10}, "cannot approximate a precomputed kernel.*Set n_components=None"),
        ({"reject_above": 0.9}, r"reject_above needs k\(x, x\) of new samples"),
        ({"solver": "scatter"}, "requires a linear kernel"),
    ],
)
def test_parameters_that_need_more_than_a_kernel_matrix_are_refused(params, message):
    X, y = wine()
    with pytest.raises(ValueError, match=message):
        DRMClassifier(kernel="precomputed", **params).fit(rbf_kernel(X), y)


# Data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(X > 3, np.nan, X), y), "NaN"),
        (lambda X, y: (np.where(X > 3, np.inf, X), y), "infinity"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, np.zeros(len(y))), "one class only: 0.0. Add samples"),
        (lambda X, y: (X, np.linspace(0, 1, len(y))), "continuous"),
        (lambda X, y: (1e200 * X, y), "Scale the features"),
    ],
)
def test_data_are_checked(kernel, change, message):
    with pytest.raises(ValueError, match=message):
        DRMClassifier(kernel=kernel).fit(*change(*wine()))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda y: -np.ones(len(y)), "non-negative"),
        (lambda y: np.full(len(y), np.nan), "NaN"),
        (lambda y: np.ones(len(y) - 1), "one number for each of the 178 samples"),
        (lambda y: (y != 1).astype(float), "class 1 have zero total weight by sample_weight"),
        (lambda y: np.zeros(len(y)), "class 0, 1, 2 have zero total weight"),
    ],
)
def test_weights_are_checked(weights, message):
    X, y = wine()
    with pytest.raises(ValueError, match=message):
        DRMClassifier().fit(X, y, sample_weight=weights(y))


def test_a_class_weight_of_zero_names_its_class():
    X, y = wine()
    with pytest.raises(ValueError, match="class 2 have zero total weight by class_weight"):
        DRMClassifier(class_weight={2: 0}).fit(X, y)


def test_kernel_matrices_are_checked():
    X, y = wine()
    kernel = X @ X.T
    model = DRMClassifier(kernel="precomputed")
    with pytest.raises(ValueError, match=r"square matrix.*\(178, 13\)"):
        model.fit(X, y)
    with pytest.raises(ValueError, match=r"square matrix.*\(178, 13\)"):
        model.fit(sparse.csr_array(X), y)
    crooked = kernel.copy()
    crooked[0, 1] += 1
    with pytest.raises(ValueError, match=r"not symmetric.*up to 1"):
        model.fit(crooked, y)
    with pytest.raises(ValueError, match="infinite or undefined values"):
        DRMClassifier(kernel="poly", gamma=1.0, degree=200).fit(1e5 * X, y)
    with pytest.raises(ValueError, match="178 features"):
        model.fit(kernel, y).predict(kernel[:, :20])


@pytest.mark.parametrize("solver", ["closed", "gd", "ppa", "apg"])
def test_indefinite_kernels_are_refused_with_their_smallest_eigenvalue(solver):
    X, y = wine()
    kernel = rbf_kernel(X) - 0.5 * np.eye(len(y))
    with pytest.raises(ValueError, match="not positive semi-definite") as refusal:
        DRMClassifier(kernel="precomputed", solver=solver).fit(kernel, y)
    named = re.search(r"smallest eigenvalue is (\S+)\.", str(refusal.value))
    assert float(named[1]) == pytest.approx(np.linalg.eigvalsh(kernel)[0], rel=1e-2)
    with pytest.raises(ValueError, match=r"kernel 'sigmoid'.*smallest eigenvalue is -"):
        DRMClassifier(kernel="sigmoid", gamma=1.0, coef0=-1, solver=solver).fit(X, y)


@pytest.mark.parametrize("solver", SOLVERS)
def test_new_samples_are_checked(solver):
    X, y = wine()
    model = DRMClassifier(kernel="linear", solver=solver, beta=100.0)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.where(X > 3, np.nan, X))
    with pytest.raises(ValueError, match="13 features"):
        model.predict(X[:, :5])


@pytest.mark.parametrize("solver", SOLVERS)
def test_new_samples_whose_residuals_overflow_are_refused(solver):
    X, y = wine()
    model = DRMClassifier(kernel="linear", solver=solver, beta=100.0).fit(X, y)
    with pytest.raises(ValueError, match=r"overflow\. Scale the features"):
        model.predict(1e200 * X)


# A class with one sample -------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_class_with_one_sample_is_fitted_and_predicted(solver):
    X, y = with_a_single_sample()
    params = {"kernel": "linear", "beta": 5.0, "max_iter": 5000}
    model = DRMClassifier(solver=solver, **params).fit(X, y)
    assert np.all(np.isfinite(model.decision_function(X)))
    kernel = DRMClassifier().fit(X, y)
    assert kernel.predict(X[:1]) == 7
    assert kernel.predict(X[1:2]) == 0


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"kernel": "linear"},
        {"penalty": "lasso", "beta": 0.5, "max_iter": 5000},
        {"n_components": 20, "random_state": 0},
    ],
)
def test_a_class_with_one_sample_has_probabilities_and_is_named(params):
    X, y = with_a_single_sample()
    with pytest.warns(UserWarning, match="Class 7 has only one distinct row"):
        model = DRMClassifier(**params).fit(X, y)
    assert np.all(np.isfinite(model.predict_proba(X)))
    assert not hasattr(model, "held_out_decision_function_")
    assert 7 not in model.classes_[model._calibrated.y]
    names = np.array([f"grape {label}" for label in y])
    names[1] = "grape 8"
    with pytest.warns(UserWarning, match="Classes 'grape 7', 'grape 8' have only one distinct row"):
        DRMClassifier(**params).fit(X, names)


def test_two_samples_and_one_feature():
    for solver in SOLVERS:
        model = DRMClassifier(kernel="linear", solver=solver, max_iter=10_000)
        model.fit([[-1.0], [2.0]], ["a", "b"])
        assert np.all(np.isfinite(model.class_residuals([[-1.0], [2.0]])))
    model = DRMClassifier(gamma=1.0).fit([[0.0], [1.0]], ["a", "b"])
    assert list(model.predict([[-1.0], [2.0]])) == ["a", "b"]


# Degenerate features -----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("solver", ["closed", "scatter", "gd"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_constant_features_predict_the_largest_class(kernel, solver, value):
    """All samples are the same: the class that has most of them explains most of each point."""
    if solver == "scatter" and kernel != "linear":
        solver = "auto"
    X, y = np.full((90, 5), value), np.repeat([0, 1, 1], 30)
    model = DRMClassifier(kernel=kernel, solver=solver, probability=True).fit(X, y)
    assert np.all(model.predict(X[:4]) == 1)
    assert np.all(np.isfinite(model.class_residuals(X[:4])))
    assert np.all(np.isfinite(model.predict_proba(X[:4])))


@pytest.mark.parametrize("solver", SOLVERS)
def test_features_of_zeros_have_residuals_of_zero(solver):
    X, y = np.zeros((20, 3)), np.repeat([0, 1], 10)
    model = DRMClassifier(kernel="linear", solver=solver, probability=True).fit(X, y)
    np.testing.assert_array_equal(model.class_residuals(X), 0)
    np.testing.assert_array_equal(model.predict_proba(X), 0.5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_duplicated_rows_of_different_classes_go_to_the_majority(solver):
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 30, axis=0)
    y = np.r_[np.zeros(20), np.ones(10), np.ones(20), np.zeros(10)].astype(int)
    for kernel in ("linear", "rbf"):
        if solver == "scatter" and kernel == "rbf":
            continue
        model = DRMClassifier(kernel=kernel, solver=solver, max_iter=20_000, probability=True)
        model.fit(X, y)
        assert list(model.predict([[0.0, 1.0], [1.0, 0.0]])) == [0, 1]
        assert np.all(np.isfinite(model.predict_proba(X)))


def test_duplicated_features_double_the_kernel():
    X, y = wine()
    for solver in ("closed", "scatter"):
        params = {"kernel": "linear", "solver": solver}
        one = DRMClassifier(beta=1.0, **params).fit(X, y)
        double = DRMClassifier(beta=2.0, **params).fit(np.hstack([X, X]), y)
        np.testing.assert_allclose(
            double.representation(np.hstack([X, X])), one.representation(X), atol=1e-10
        )


@unfinished
@pytest.mark.parametrize(("data", "scale"), [(wine, 1e12), (with_a_single_sample, 1e-12)])
@pytest.mark.parametrize(
    "params",
    [
        *({"kernel": "linear", "solver": solver} for solver in SOLVERS),
        {"kernel": "linear", "solver": "apg", "backtracking": True},
        {"kernel": "linear", "penalty": "lasso", "max_iter": 20},
        {"kernel": "rbf"},
        {"kernel": "poly"},
        {"kernel": "poly", "gamma": 1.0},
        {"kernel": "cosine"},
        {"kernel": "rbf", "n_components": 30, "random_state": 0},
        {
            "kernel": "rbf",
            "n_components": 30,
            "approximation": "random_features",
            "random_state": 0,
        },
    ],
    ids=lambda params: "-".join(str(value) for value in params.values()),
)
def test_extreme_scales_have_a_finite_answer_or_advice(params, data, scale):
    X, y = data()
    X = scale * X
    model, refusal = DRMClassifier(probability=False, **params), ""
    try:
        model.fit(X, y)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert "Use a larger beta" in refusal
        assert "scale the features" in refusal
        return
    assert np.all(np.isfinite(model.class_residuals(X)))
    assert np.all(np.isfinite(model.representation(X)))


@pytest.mark.parametrize("solver", ["closed", "scatter"])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_probabilities_at_extreme_scales_are_finite(solver, scale):
    X, y = wine()
    model = DRMClassifier(kernel="linear", solver=solver, probability=True).fit(scale * X, y)
    shares = model.predict_proba(scale * X)
    assert np.all(np.isfinite(shares))
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(scale * X))
    assert model.score(scale * X, y) > 0.7


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_of_the_features_does_not_matter_when_beta_has_their_square(scale):
    X, y = wine()
    for solver in ("closed", "scatter"):
        params = {"kernel": "linear", "solver": solver}
        one = DRMClassifier(beta=1.0, **params).fit(X, y)
        scaled = DRMClassifier(beta=scale**2, **params).fit(scale * X, y)
        np.testing.assert_allclose(
            scaled.representation(scale * X), one.representation(X), atol=1e-9
        )
    plain, scaled = DRMClassifier().fit(X, y), DRMClassifier().fit(scale * X, y)
    np.testing.assert_allclose(
        scaled.decision_function(scale * X), plain.decision_function(X), atol=1e-9
    )


@unfinished
@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("solver", SOLVERS)
def test_extreme_scales_of_single_features_have_a_finite_answer(solver, scale):
    X, y = wine()
    X = X * np.where(np.arange(13) % 2, scale, 1.0)
    model = DRMClassifier(kernel="linear", solver=solver).fit(X, y)
    assert np.all(np.isfinite(model.class_residuals(X)))


@pytest.mark.parametrize(("alpha", "beta"), [(0, 1e-12), (1e-12, 1e12), (1e12, 1e-3), (1e12, 1e12)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_extreme_parameters_are_answered_or_refused_with_advice(kernel, alpha, beta):
    X, y = wine()
    for solver in ("closed", "scatter") if kernel == "linear" else ("closed",):
        model = DRMClassifier(alpha=alpha, beta=beta, kernel=kernel, solver=solver)
        refusal = ""
        try:
            model.fit(X, y)
        except ValueError as error:
            refusal = str(error)
        if refusal:
            assert "Use a larger beta" in refusal
        else:
            assert np.all(np.isfinite(model.class_residuals(X)))
            assert np.all(np.isfinite(model.representation(X)))


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = wine()
    model = DRMClassifier(kernel="linear", solver="closed").fit(X, y)
    before = model.predict_proba(X)
    huge = 1e9 * np.random.default_rng(0).normal(size=(50, 13))
    with pytest.raises(ValueError, match="numerically singular"):
        model.set_params(alpha=0.0).fit(huge, np.arange(50) % 2)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_tiny_weights_are_no_reason_to_refuse():
    X, y = wine()
    weights = np.where(np.arange(len(y)) % 7 == 0, 1e-18, 1.0)
    tiny = DRMClassifier().fit(X, y, weights)
    none = DRMClassifier(gamma=tiny._solver.training.kernel.gamma).fit(X, y, np.round(weights))
    np.testing.assert_allclose(tiny.decision_function(X), none.decision_function(X), atol=1e-9)


def test_one_sample_with_nearly_all_weight_of_its_class_can_be_left_out():
    X, y = wine()
    weights = np.where(y == 0, 1e-6, 1.0)
    weights[0] = 1.0
    closed, scatter = (
        DRMClassifier(kernel="linear", solver=solver, probability=True).fit(X, y, weights)
        for solver in ("closed", "scatter")
    )
    np.testing.assert_allclose(
        scatter.held_out_decision_function_,
        closed.held_out_decision_function_,
        rtol=1e-6,
        atol=1e-9,
    )


def test_probabilities_asked_for_after_fit():
    X, y = wine()
    model = DRMClassifier(probability=False).fit(X, y).set_params(probability=True)
    with pytest.raises(NotFittedError, match="Fit it with probability=True"):
        model.predict_proba(X)


def test_probabilities_of_huge_kernel_values_are_finite():
    X, y = load_wine(return_X_y=True)
    model = DRMClassifier(kernel="poly", gamma=1.0, degree=10, beta=1e3)
    model.fit(1e12 * X[::3], y[::3])
    assert np.isfinite(model.predict_proba(1e12 * X[::3])).all()
