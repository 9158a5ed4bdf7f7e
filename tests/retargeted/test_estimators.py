"""What a user of scikit-learn relies on: inputs, weights, forms, scales, warm starts, shapes."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.preprocessing import StandardScaler

from discreg import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier

MODELS = [LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier]
ITERATIVE = MODELS[1:]


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def wide(n_samples=40, n_features=70, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


# Forms of the same problem -----------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("data", [wine, wide])
def test_linear_kernel_equals_precomputed_kernel(model, data):
    X, y = data()
    linear = model(probability=False, beta=0.7, scale_beta=False).fit(X, y)
    kernel = model(probability=False, beta=0.7, scale_beta=False, kernel="precomputed").fit(
        X @ X.T, y
    )
    expected = linear.decision_function(X)
    np.testing.assert_allclose(kernel.decision_function(X @ X.T), expected, atol=1e-8)
    np.testing.assert_allclose(kernel.dual_coef_ @ X, linear.coef_, atol=1e-8)
    np.testing.assert_allclose(kernel.intercept_, linear.intercept_, atol=1e-8)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("data", "container"), [(wine, sparse.csr_array), (wide, sparse.csc_matrix)]
)
def test_sparse_equals_dense(model, data, container):
    X, y = data()
    X = np.where(X > 0.5, X, 0)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(y))
    dense = model(probability=False).fit(X, y, sample_weight=weights)
    fitted = model(probability=False).fit(container(X), y, sample_weight=weights)
    np.testing.assert_allclose(fitted.coef_, dense.coef_, atol=1e-8)
    np.testing.assert_allclose(fitted.intercept_, dense.intercept_, atol=1e-8)
    np.testing.assert_allclose(
        fitted.decision_function(container(X)), dense.decision_function(X), atol=1e-8
    )


def test_sparse_data_is_never_densified():
    """A matrix whose dense form would take 40 GB is fitted."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((1000, 5_000_000), density=1e-6, format="csr", rng=rng)
    y = np.arange(1000) % 3
    fitted = ReLSRClassifier(probability=False).fit(X, y)
    assert fitted.coef_.shape == (3, 5_000_000)


@pytest.mark.parametrize("model", MODELS)
def test_wide_form_equals_tall_form(model):
    """Columns of zeros change neither the centred Gram matrix's trace nor the solution."""
    X, y = wine()
    penalty = 0.1 * np.sum((X - X.mean(axis=0)) ** 2) / X.shape[1]
    padded = np.hstack([X, np.zeros((len(y), 200))])
    tall = model(probability=False, beta=penalty, scale_beta=False).fit(X, y)
    wide_form = model(probability=False, beta=penalty, scale_beta=False).fit(padded, y)
    np.testing.assert_allclose(wide_form.coef_[:, :13], tall.coef_, atol=1e-9)
    np.testing.assert_allclose(wide_form.coef_[:, 13:], 0, atol=1e-9)
    np.testing.assert_allclose(wide_form.intercept_, tall.intercept_, atol=1e-9)
    np.testing.assert_allclose(
        model(probability=False, beta=0.1).fit(X, y).coef_, tall.coef_, atol=1e-9
    )


@pytest.mark.parametrize("kernel", sorted(set(PAIRWISE_KERNEL_FUNCTIONS) - {"linear", "sigmoid"}))
def test_every_kernel_equals_its_precomputed_matrix(kernel):
    X, y = load_iris(return_X_y=True)
    params = {} if kernel in ("cosine", "additive_chi2") else {"gamma": 0.1}
    if kernel in ("poly", "polynomial"):
        params["degree"] = 2
    matrix = pairwise_kernels(X, metric=kernel, coef0=1, filter_params=True, **params)
    named = ReLSRClassifier(probability=False, beta=0.1, kernel=kernel, **params).fit(X, y)
    precomputed = ReLSRClassifier(probability=False, beta=0.1, kernel="precomputed").fit(matrix, y)
    np.testing.assert_allclose(
        named.decision_function(X), precomputed.decision_function(matrix), atol=1e-6
    )


def test_callable_kernel_with_parameters():
    X, y = load_iris(return_X_y=True)

    def bump(a, b, width=1.0):
        return np.exp(-np.sum((a - b) ** 2) / width)

    called = ReLSRClassifier(probability=False, kernel=bump, kernel_params={"width": 4.0}).fit(X, y)
    named = ReLSRClassifier(probability=False, kernel="rbf", gamma=0.25).fit(X, y)
    np.testing.assert_allclose(called.decision_function(X), named.decision_function(X), atol=1e-8)


def test_gamma_scale_is_that_of_svc():
    X, y = load_iris(return_X_y=True)
    scaled = ReLSRClassifier(probability=False, kernel="rbf").fit(X, y)
    number = ReLSRClassifier(probability=False, kernel="rbf", gamma=1 / (4 * X.var())).fit(X, y)
    np.testing.assert_allclose(scaled.decision_function(X), number.decision_function(X), atol=1e-9)


# Weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("data", "kernel", "solver"),
    [(wine, "linear", "newton"), (wide, "rbf", "newton"), (wide, "linear", "alternating")],
)
def test_weight_k_equals_k_copies_at_default_settings(model, data, kernel, solver):
    X, y = data()
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    params = {"kernel": kernel}
    if model is not LSRClassifier:
        params |= {"solver": solver, "beta": 0.5 if solver == "alternating" else 0.05}
    weighted = model(probability=False, **params).fit(X, y, sample_weight=copies)
    copied = model(probability=False, **params).fit(
        np.repeat(X, copies, axis=0), np.repeat(y, copies)
    )
    np.testing.assert_allclose(
        weighted.decision_function(X), copied.decision_function(X), rtol=1e-7, atol=1e-7
    )


def test_weight_k_equals_k_copies_where_the_solver_stops_at_tol():
    X, y = make_classification(
        12_000, 60, n_informative=20, n_classes=8, random_state=0, class_sep=1.5
    )
    copies = np.random.default_rng(0).integers(1, 3, size=len(y))
    weighted = ReLSRClassifier(probability=False).fit(X, y, sample_weight=copies)
    copied = ReLSRClassifier(probability=False).fit(
        np.repeat(X, copies, axis=0), np.repeat(y, copies)
    )
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_weight_k_equals_k_copies_that_outnumber_the_features(model):
    X, y = make_classification(90, 100, n_informative=20, n_classes=5, random_state=0)
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = model(probability=False).fit(X, y, sample_weight=copies)
    copied = model(probability=False).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_balanced_class_weight_counts_weighted_samples(model):
    X, y = wine()
    copies = np.random.default_rng(1).integers(1, 5, size=len(y))
    balanced = model(probability=False, class_weight="balanced").fit(X, y, sample_weight=copies)
    counts = np.bincount(y, weights=copies)
    by_hand = model(
        probability=False, class_weight=dict(enumerate(counts.sum() / (3 * counts)))
    ).fit(X, y, sample_weight=copies)
    copied = model(probability=False, class_weight="balanced").fit(
        np.repeat(X, copies, axis=0), np.repeat(y, copies)
    )
    np.testing.assert_allclose(balanced.coef_, by_hand.coef_, atol=1e-9)
    np.testing.assert_allclose(balanced.coef_, copied.coef_, atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_scaling_all_weights_changes_nothing(model):
    X, y = wine()
    weights = np.random.default_rng(2).uniform(0.5, 2, size=len(y))
    one = model(probability=False).fit(X, y, sample_weight=weights)
    for factor in (1e-12, 1e12):
        scaled = model(probability=False).fit(X, y, sample_weight=factor * weights)
        np.testing.assert_allclose(scaled.coef_, one.coef_, rtol=1e-7, atol=1e-9)
    same = model(probability=False).fit(X, y, sample_weight=3.0)
    np.testing.assert_allclose(same.coef_, model(probability=False).fit(X, y).coef_, atol=1e-9)


def test_targets_of_rows_without_weight_exist():
    X, y = wide()
    weights = np.ones(len(y))
    weights[:5] = 0
    for kernel in ("linear", "rbf"):
        fitted = ReLSRClassifier(probability=False, kernel=kernel).fit(X, y, sample_weight=weights)
        without = ReLSRClassifier(
            probability=False, kernel=kernel, gamma="auto" if kernel == "linear" else "scale"
        )
        without.fit(X[5:], y[5:])
        assert fitted.targets_.shape == (40, 3)
        np.testing.assert_allclose(fitted.targets_[5:], without.targets_, atol=1e-7)
        own = fitted.targets_[np.arange(40), y]
        false = np.eye(3)[y] == 0
        assert np.all((own[:, None] - fitted.targets_)[false] >= 1 - 1e-9)


# Symmetries --------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-12, 1e12])
@pytest.mark.parametrize("model", MODELS)
def test_scale_of_the_features_does_not_matter(model, factor):
    X, y = wine()
    one = model(probability=False).fit(X, y)
    scaled = model(probability=False).fit(factor * X, y)
    np.testing.assert_allclose(
        scaled.decision_function(factor * X), one.decision_function(X), atol=1e-8
    )


@pytest.mark.parametrize("model", MODELS)
def test_shift_of_the_features_does_not_matter(model):
    X, y = wine()
    expected = model(probability=False).fit(X, y).decision_function(X)
    scores = model(probability=False).fit(X + 1e6, y).decision_function(X + 1e6)
    if model in (ReLSRClassifier, GReLSRClassifier):  # differences between classes alone count
        scores, expected = scores - scores[:, :1], expected - expected[:, :1]
    # At a distance of 1e6 the shifted features themselves keep ten digits.
    np.testing.assert_allclose(scores, expected, atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_order_of_samples_features_and_classes_does_not_matter(model):
    X, y = wine()
    rng = np.random.default_rng(0)
    rows, columns, labels = rng.permutation(len(y)), rng.permutation(13), np.array([2, 0, 1])
    one = model(probability=False).fit(X, y)
    other = model(probability=False).fit(X[rows][:, columns], labels[y[rows]])
    np.testing.assert_allclose(other.coef_[labels][:, np.argsort(columns)], one.coef_, atol=1e-9)
    np.testing.assert_allclose(other.intercept_[labels], one.intercept_, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_rotation_of_the_features_rotates_the_coefficients(model):
    X, y = wine()
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(13, 13)))
    np.testing.assert_allclose(
        model(probability=False).fit(X @ rotation, y).coef_,
        model(probability=False).fit(X, y).coef_ @ rotation,
        atol=1e-9,
    )


@pytest.mark.parametrize("model", MODELS)
def test_duplicated_rows_and_columns(model):
    X, y = wine()
    twice = model(probability=False).fit(np.vstack([X, X]), np.hstack([y, y]))
    np.testing.assert_allclose(twice.coef_, model(probability=False).fit(X, y).coef_, atol=1e-9)
    doubled = model(probability=False, beta=0.1).fit(np.hstack([X, X]), y)
    np.testing.assert_allclose(doubled.coef_[:, :13], doubled.coef_[:, 13:], atol=1e-9)


@pytest.mark.parametrize("model", [ReLSRClassifier, GReLSRClassifier])
def test_mean_training_scores_sum_to_one(model):
    X, y = wine()
    means = model(probability=False).fit(X + 5, y).decision_function(X + 5).mean(axis=0)
    assert means.sum() == pytest.approx(1, abs=1e-12)


def test_intercepts_of_relsr_sum_to_one():
    X, y = wine()
    assert ReLSRClassifier(probability=False).fit(X + 5, y).intercept_.sum() == pytest.approx(
        1, abs=1e-12
    )


# LSR -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [wine, wide])
def test_lsr_is_ridge_regression_onto_zero_one_targets(data):
    X, y = data()
    weights = np.random.default_rng(3).uniform(0.5, 2, size=len(y))
    fitted = LSRClassifier(probability=False, beta=2.0, scale_beta=False).fit(
        X, y, sample_weight=weights
    )
    ridge = Ridge(alpha=2.0).fit(X, np.eye(3)[y], sample_weight=weights)
    np.testing.assert_allclose(fitted.coef_, ridge.coef_, atol=1e-9)
    np.testing.assert_allclose(fitted.intercept_, ridge.intercept_, atol=1e-9)


@pytest.mark.parametrize("data", [wine, wide])
def test_lsr_without_penalty_is_the_least_norm_solution(data):
    X, y = data()
    X = np.hstack([X, X[:, :3], np.full((len(y), 1), 0.1)])
    fitted = LSRClassifier(beta=0, probability=False).fit(X, y)
    centred = X - X.mean(axis=0)
    expected = np.linalg.pinv(centred, rcond=1e-10) @ (np.eye(3)[y] - np.eye(3)[y].mean(axis=0))
    np.testing.assert_allclose(fitted.coef_, expected.T, atol=1e-9)


def test_lsr_without_penalty_on_features_of_very_different_scales():
    X, y = wine()
    scales = np.logspace(-6, 6, 13)
    fitted = LSRClassifier(probability=False, beta=0).fit(X * scales, y)
    exact = LinearRegression().fit(X, np.eye(3)[y])
    np.testing.assert_allclose(fitted.coef_ * scales, exact.coef_, atol=1e-9)


@pytest.mark.parametrize("model", ITERATIVE)
def test_coefficients_without_penalty_lie_in_the_row_space(model):
    X, y = wide(30, 50)
    fitted = model(beta=0, probability=False).fit(X, y)
    centred = X - X.mean(axis=0)
    projector = np.linalg.pinv(centred) @ centred
    np.testing.assert_allclose(fitted.coef_ @ projector, fitted.coef_, atol=1e-8)
    assert fitted.gap_ <= 1e-6


# scikit-learn's habits -------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("model", MODELS)
def test_float32_stays_float32(model, kernel):
    X, y = wine()
    double = model(probability=False, kernel=kernel).fit(X, y)
    single = model(probability=False, kernel=kernel).fit(X.astype(np.float32), y)
    for name in ("coef_" if kernel == "linear" else "dual_coef_", "intercept_", "targets_"):
        assert getattr(single, name).dtype == np.float32
    scores = single.decision_function(X.astype(np.float32))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, double.decision_function(X), atol=1e-4)


def test_string_labels_in_any_order_and_pandas():
    import pandas as pd

    X, y = wine()
    names = np.array(["zinfandel", "airen", "merlot"])
    frame = pd.DataFrame(X, columns=[f"feature {i}" for i in range(13)])
    fitted = ReLSRClassifier(probability=False).fit(frame, pd.Series(names[y]))
    assert list(fitted.classes_) == sorted(names)
    assert list(fitted.feature_names_in_) == list(frame.columns)
    numbers = ReLSRClassifier(probability=False).fit(X, y)
    assert np.all(fitted.predict(frame) == names[numbers.predict(X)])
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[frame.columns[::-1]])


def test_hundreds_of_classes():
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 300
    X = rng.normal(size=(300, 40))[y] + rng.normal(size=(1500, 40))
    fitted = ReLSRClassifier(probability=False, tol=1e-4).fit(X, y)
    assert fitted.coef_.shape == (300, 40)
    assert fitted.gap_ <= 1e-4
    assert fitted.score(X, y) > LSRClassifier(probability=False).fit(X, y).score(X, y)


@pytest.mark.parametrize("model", ITERATIVE)
@pytest.mark.parametrize(("solver", "kernel"), [("newton", "rbf"), ("alternating", "linear")])
def test_warm_start_continues_where_it_stopped(model, solver, kernel):
    X, y = wine()
    params = {"solver": solver, "kernel": kernel, "tol": 0, "beta": 0.01}
    warm = model(probability=False, warm_start=True, max_iter=4, **params).fit(X, y)
    stopped = warm.objective_history_[-1]
    warm.fit(X, y)
    assert warm.objective_history_[0] <= stopped * (1 + 1e-9)
    if model is not GReLSRClassifier:  # its alternation lags behind with the centres
        assert warm.objective_history_[0] == pytest.approx(stopped, rel=1e-9)
    cold = model(probability=False, max_iter=7, **params).fit(X, y)
    if solver == "alternating" and model is not GReLSRClassifier:
        # Four regressions and then three: the seven of the uninterrupted run.
        assert warm.objective_history_[-1] == pytest.approx(cold.objective_history_[-1], rel=1e-9)
    warm.fit(X[::3, :5], y[::3] % 2)  # another shape: a fresh start, no error
    assert warm.n_features_in_ == 5


@pytest.mark.parametrize("model", MODELS)
def test_clone_and_pickle_predict_the_same(model):
    X, y = wine()
    fitted = model(probability=False, kernel="rbf").fit(X, y)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.decision_function(X), fitted.decision_function(X))
    assert clone(fitted).get_params() == fitted.get_params()


def test_refit_with_another_kernel_leaves_nothing_behind():
    X, y = wine()
    model = ReLSRClassifier(probability=False, kernel="rbf").fit(X, y)
    linear = ReLSRClassifier(probability=False).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(
        model.set_params(kernel="linear").fit(X, y).decision_function(X), linear
    )
    assert not hasattr(model, "dual_coef_")
    assert not hasattr(model, "X_fit_")
    assert not hasattr(model.set_params(kernel="rbf").fit(X, y), "coef_")


def test_warm_start_after_dropping_the_intercept():
    X, y = wine()
    warm = ReLSRClassifier(probability=False, warm_start=True).fit(X + 1, y)
    warm.set_params(fit_intercept=False).fit(X + 1, y)
    cold = ReLSRClassifier(probability=False, fit_intercept=False).fit(X + 1, y)
    np.testing.assert_array_equal(warm.intercept_, 0)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-8)


def test_sparse_precomputed_kernel():
    X, y = wine()
    dense = ReLSRClassifier(probability=False, kernel="precomputed").fit(X @ X.T, y)
    fitted = ReLSRClassifier(probability=False, kernel="precomputed").fit(
        sparse.csr_matrix(X @ X.T), y
    )
    np.testing.assert_array_equal(fitted.dual_coef_, dense.dual_coef_)


def test_relsr_is_better_than_lsr_on_digits():
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    train, test = slice(0, 1797, 2), slice(1, 1797, 2)
    scores = {
        model: model(probability=False).fit(X[train], y[train]).score(X[test], y[test])
        for model in MODELS
    }
    assert scores[ReLSRClassifier] > scores[LSRClassifier] + 0.01
