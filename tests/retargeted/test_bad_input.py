"""Bad input is refused with its cause and a remedy, or answered correctly; nothing is NaN."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from discreg import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier
from discreg.linalg import resources

MODELS = [LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier]


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"beta": -1}, r"'beta' parameter of ReLSRClassifier must be a float in \[0, inf\)"),
        ({"beta": np.nan}, "'beta'"),
        ({"beta": "1"}, "'beta'"),
        ({"tol": -1e-3}, "'tol'"),
        ({"max_iter": 0}, "'max_iter'"),
        ({"max_iter": 2.5}, "'max_iter' parameter of ReLSRClassifier must be an int"),
        ({"solver": "sgd"}, "'auto', 'newton', 'dcd' or 'alternating'"),
        ({"kernel": "rbff"}, "'kernel'.*'rbf'"),
        ({"gamma": 0.0}, "'gamma'"),
        ({"gamma": "big"}, "'scale'"),
        ({"fit_intercept": 1}, "'fit_intercept' parameter of ReLSRClassifier must be a bool"),
        ({"class_weight": "even"}, "'balanced'"),
        ({"class_weight": {0: -1.0}}, "class_weight must be finite and non-negative"),
        ({"class_weight": {0: 0.0}}, "class 0 have zero total weight by class_weight"),
        ({"kernel_params": 3}, "'kernel_params'"),
    ],
)
def test_parameters_are_checked(params, message):
    X, y = wine()
    with pytest.raises(ValueError, match=message):
        ReLSRClassifier(probability=False, **params).fit(X, y)


def test_group_penalty_is_checked():
    with pytest.raises(ValueError, match="'group_penalty'"):
        GReLSRClassifier(probability=False, group_penalty=-0.1).fit(*wine())
    with pytest.raises(ValueError, match=r"'group_penalty'.*\[0, 1e\+06\]"):
        GReLSRClassifier(probability=False, group_penalty=1e300).fit(*wine())
    large = GReLSRClassifier(probability=False, group_penalty=1e6, tol=1e-4).fit(*wine())
    assert large.gap_ <= 1e-4


@pytest.mark.parametrize("model", MODELS)
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
        (lambda X, y: (1e-170 * X, y), r"overflow or underflow\. Scale the features"),
        (lambda X, y: (1e200 * X, y), r"overflow or underflow\. Scale the features"),
    ],
)
def test_data_are_checked(model, change, message):
    with pytest.raises(ValueError, match=message):
        model(probability=False).fit(*change(*wine()))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda y: -np.ones(len(y)), "non-negative"),
        (lambda y: np.full(len(y), np.nan), "NaN"),
        (lambda y: np.ones(len(y) - 1), "one number for each of the 178 samples"),
        (lambda y: np.ones((len(y), 1)), "one number for each"),
        (lambda y: (y != 1).astype(float), "class 1 have zero total weight by sample_weight"),
        (lambda y: np.full(len(y), 1e-300), "too large or too small to be squared"),
        (lambda y: np.full(len(y), 1e300), "too large or too small to be squared"),
        (lambda y: np.zeros(len(y)), "class 0, 1, 2 have zero total weight"),
    ],
)
def test_weights_are_checked(weights, message):
    X, y = wine()
    with pytest.raises(ValueError, match=message):
        ReLSRClassifier(probability=False).fit(X, y, sample_weight=weights(y))


def test_sparse_features_whose_mean_cannot_be_taken_out_are_refused():
    X, y = wine()
    with pytest.raises(ValueError, match="less than the rounding of its mean"):
        ReLSRClassifier(probability=False).fit(sparse.csr_array(X + 1e8), y)
    constant = sparse.csr_array(np.hstack([X, np.full((len(y), 1), 0.1)]))
    assert ReLSRClassifier(probability=False).fit(constant, y).score(constant, y) > 0.97


def test_labels_of_mixed_types_are_refused():
    X, y = wine()
    labels = np.array(["a", "b", 3], dtype=object)[y]
    with pytest.raises(ValueError, match="labels of different types"):
        ReLSRClassifier(probability=False).fit(X, labels)


def test_kernel_matrices_are_checked():
    X, y = wine()
    kernel = X @ X.T
    model = ReLSRClassifier(probability=False, kernel="precomputed")
    with pytest.raises(ValueError, match=r"square matrix.*\(178, 13\)"):
        model.fit(X, y)
    crooked = kernel.copy()
    crooked[0, 1] += 1
    with pytest.raises(ValueError, match=r"not symmetric.*up to 1"):
        model.fit(crooked, y)
    with pytest.raises(
        ValueError, match="not positive semi-definite: its smallest eigenvalue is -"
    ):
        model.fit(kernel - 5 * np.eye(178), y)
    with pytest.raises(ValueError, match=r"kernel 'sigmoid'.*smallest eigenvalue"):
        ReLSRClassifier(probability=False, kernel="sigmoid", gamma=1.0, coef0=-1).fit(X, y)
    with pytest.raises(ValueError, match="infinite or undefined values"):
        ReLSRClassifier(probability=False, kernel="poly", gamma=1.0, degree=200).fit(1e5 * X, y)
    with pytest.raises(ValueError, match="178 features"):
        model.fit(kernel, y).predict(kernel[:, :20])


def test_kernel_matrix_that_is_too_large_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(resources, "available_bytes", lambda: 100_000)
    monkeypatch.setattr(resources, "NEGLIGIBLE_BYTES", 0)
    X, y = wine()
    with pytest.raises(MemoryError, match="free"):
        ReLSRClassifier(probability=False, kernel="rbf").fit(X, y)
    rng = np.random.default_rng(0)
    with pytest.raises(MemoryError, match=r"178 samples with 5000 features.*TruncatedSVD"):
        ReLSRClassifier(probability=False).fit(rng.normal(size=(178, 5000)), y)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_constant_features_predict_the_largest_class(model, kernel, value):
    X, y = np.full((90, 5), value), np.repeat([0, 1, 1], 30)
    fitted = model(kernel=kernel, probability=False).fit(X, y)
    assert np.all(fitted.predict(X) == 1)
    coef = fitted.coef_ if kernel == "linear" else fitted.dual_coef_
    assert np.all(np.isfinite(coef))
    assert 0 <= fitted.gap_ <= 1e-6


@pytest.mark.parametrize("model", MODELS)
def test_constant_features_beside_others_get_no_coefficient(model):
    X, y = wine()
    fitted = model(probability=False).fit(np.hstack([X, np.full((len(y), 1), 0.1)]), y)
    np.testing.assert_allclose(fitted.coef_[:, -1], 0, atol=1e-10)
    assert np.all(np.isfinite(fitted.coef_))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("model", MODELS)
def test_extreme_scales_of_single_features(model, scale):
    X, y = wine()
    X = X * np.where(np.arange(13) % 2, scale, 1.0)
    for beta in (0.1, 0.0):
        fitted = model(probability=False, beta=beta).fit(X, y)
        assert np.all(np.isfinite(fitted.coef_))
        assert fitted.gap_ <= 1e-6
        assert fitted.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", MODELS)
def test_absolute_penalty_with_a_feature_of_extreme_scale(model):
    """The gradient of a feature of scale 1e12 is known to 1e-4 only: the gap says so."""
    X, y = wine()
    X = X * np.where(np.arange(13) == 0, 1e12, 1.0)
    fitted = model(probability=False, beta=1.0, scale_beta=False).fit(X, y)
    assert np.all(np.isfinite(fitted.coef_))
    assert 0 <= fitted.gap_ <= 1
    assert fitted.score(X, y) == 1


@pytest.mark.parametrize("model", MODELS)
def test_two_samples_and_one_feature(model):
    fitted = model(probability=False).fit([[0.0], [1.0]], ["a", "b"])
    assert list(fitted.predict([[-1.0], [2.0]])) == ["a", "b"]
    assert np.isfinite(fitted.gap_)


@pytest.mark.parametrize("model", MODELS)
def test_many_identical_rows_of_different_classes(model):
    """Rows that contradict each other: the majority of their labels wins."""
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 30, axis=0)
    y = np.r_[np.zeros(20), np.ones(10), np.ones(20), np.zeros(10)].astype(int)
    fitted = model(probability=False).fit(X, y)
    assert fitted.predict([[0.0, 1.0]]) == 0
    assert fitted.predict([[1.0, 0.0]]) == 1
