"""Kernel matrices whose rounding errors make eigenvalues negative give the models of exact ones."""

import numpy as np
import pytest
from products import every_pair, every_value
from searches import make_search
from sklearn.metrics.pairwise import rbf_kernel

import discreg

SMALL_GRIDS = {
    "DRMClassifierCV": {"alphas": [0.1], "betas": [0.1, 1.0]},
    "ODMClassifierCV": {"C1s": [1.0, 10.0], "C2s": [1.0], "Ds": [0.2], "cv": 3},
    "LDMClassifierCV": {"lambda1s": [1.0], "Cs": [1.0, 10.0], "cv": 3},
    "LSRClassifierCV": {"betas": [0.01, 0.1]},
    "LRRRClassifierCV": {"betas": [0.1, 1.0]},
    "LRLRClassifierCV": {"cv": 3},
}
NAMES = ["LSR", "DLSR", "ReLSR", "GReLSR", "LRLR", "LRRR", "DRM", "ODM", "LDM"]
CLASSIFIERS = [f"{name}Classifier" for name in NAMES]
SEARCHES = [f"{name}CV" for name in CLASSIFIERS]
# LRLR has no penalty: each direction of the kernel's rounding error counts as much as the data.
PENALISED = [name for name in CLASSIFIERS if name != "LRLRClassifier"]


def classifier(name):
    options = SMALL_GRIDS.get(name, {"betas": [0.01, 0.1], "cv": 3})
    if name in SEARCHES:
        return make_search(getattr(discreg, name), kernel="precomputed", **options)
    return getattr(discreg, name)(kernel="precomputed")


def rows(kind="smooth"):
    random = np.random.RandomState(0)
    X = random.randn(60, 5)
    if kind == "low-rank":
        X = X[:, :2] @ random.randn(2, 5)
    elif kind == "duplicated":
        X[30:] = X[:30]
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.5])
    return X, y


def fitted_scores(name, kernel, y):
    model = classifier(name).fit(kernel, y)
    final = getattr(model, "best_estimator_", model)
    if hasattr(final, "gap_") and hasattr(final, "tol"):
        assert np.max(final.gap_) <= final.tol
    return model.decision_function(kernel)


@every_value(name=CLASSIFIERS + SEARCHES, kind=["smooth", "low-rank", "duplicated", "low-rank"])
def test_linear_kernels_of_features_far_from_zero_are_accepted(name, kind):
    X, y = rows(kind)
    far = X + 50.0
    scores = fitted_scores(name, far @ far.T, y)
    if not name.startswith("DRM"):  # has no intercept, so that an offset is another model
        np.testing.assert_allclose(scores, fitted_scores(name, X @ X.T, y), atol=1e-5)


@every_pair(
    name=PENALISED,
    rounded=[lambda K: K.round(6), lambda K: K.astype(np.float32)],
    gamma=[0.006, 0.2],
    kind=["smooth", "low-rank", "duplicated"],
)
def test_rounded_kernels_give_the_model_of_the_exact_kernel(name, rounded, gamma, kind):
    X, y = rows(kind)
    kernel = rbf_kernel(X, gamma=gamma)
    scores = fitted_scores(name, rounded(kernel), y)
    expected = fitted_scores(name, kernel, y)
    np.testing.assert_allclose(scores, expected, atol=1e-2 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["LRLRClassifier", *SEARCHES])
def test_rounded_kernels_of_duplicated_rows_are_accepted(name):
    X, y = rows("duplicated")
    kernel = rbf_kernel(X, gamma=0.2).round(6)
    fitted_scores(name, kernel, y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_asymmetry_of_rounding_size_is_averaged(name):
    X, y = rows()
    kernel = rbf_kernel(X, gamma=0.2)
    crooked = kernel + 1e-7 * np.triu(np.random.RandomState(1).randn(60, 60), 1)
    average = (crooked + crooked.T) / 2
    expected = classifier(name).fit(average, y).decision_function(kernel)
    scores = classifier(name).fit(crooked, y).decision_function(kernel)
    np.testing.assert_array_equal(scores, expected)


def indefinite(smallest):
    """Kernel matrix with a given smallest eigenvalue, relative to the largest."""
    values, vectors = np.linalg.eigh(rbf_kernel(rows()[0], gamma=0.2))
    values[0] = smallest * values[-1]
    return (vectors * values) @ vectors.T


@pytest.mark.parametrize("name", CLASSIFIERS + SEARCHES)
def test_indefinite_kernels_are_refused(name):
    with pytest.raises(ValueError, match=r"not positive semi-definite.*such as 'rbf'"):
        classifier(name).fit(indefinite(-1e-3), rows()[1])


def test_a_refused_function_is_named():
    def minus_product(x, y):
        return -float(x @ y)

    with pytest.raises(ValueError, match=r"^The kernel minus_product is not positive"):
        classifier("LSRClassifier").set_params(kernel=minus_product).fit(*rows())


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name != "DRMClassifier"])
def test_a_constant_does_not_hide_an_indefinite_kernel_from_models_with_intercept(name):
    with pytest.raises(ValueError, match=r"not positive semi-definite.*such as 'rbf'"):
        classifier(name).fit(indefinite(-0.1) + 1e6, rows()[1])
