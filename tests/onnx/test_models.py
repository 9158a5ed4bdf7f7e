"""A converted model predicts what the model predicts."""

import numpy as np
import pytest
from every_classifier import every_classifier, make
from onnx_runs import assert_same_predictions, run, session_of
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.preprocessing import minmax_scale, scale

from discreg import (
    AutoClassifier,
    DRMClassifier,
    LDMClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReducedRankRegression,
)
from discreg.linalg.kernels import KERNELS
from discreg.onnx import to_onnx

X, Y = load_wine(return_X_y=True)
X = scale(X)
TRAIN = np.random.default_rng(0).permutation(len(X))[:90]  # the other rows are new
BINARY_X, BINARY_Y = load_breast_cancer(return_X_y=True)
BINARY_X, BINARY_Y = scale(BINARY_X)[:150], np.array(["malignant", "benign"])[BINARY_Y[:150]]


@every_classifier
def test_three_classes(name):
    assert_same_predictions(make(name).fit(X[TRAIN], Y[TRAIN]), X)


@every_classifier
def test_two_classes_of_strings(name):
    model = make(name, class_weight="balanced").fit(BINARY_X[:100], BINARY_Y[:100])
    assert_same_predictions(model, BINARY_X)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", [LRRRClassifier(), ODMClassifier(), DRMClassifier()])
def test_kernels(model, kernel):
    rows = minmax_scale(X)
    params = {"gamma": 0.05, "coef0": 1.0} if kernel != "sigmoid" else {"gamma": 1e-3, "coef0": 0.0}
    model = model.set_params(kernel=kernel, **params)
    try:
        model.fit(rows[TRAIN], Y[TRAIN])
    except ValueError as error:
        assert "not positive semi-definite" in str(error)  # noqa: PT017
        return
    assert_same_predictions(model, rows)


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 2.5])
def test_degrees_of_polynomials(degree):
    model = LSRClassifier(kernel="poly", degree=degree, gamma=0.1).fit(minmax_scale(X), Y)
    assert_same_predictions(model, minmax_scale(X))


@pytest.mark.parametrize("approximation", ["nystroem", "random_features"])
@pytest.mark.parametrize("model", [LSRClassifier(), LDMClassifier(), DRMClassifier()])
def test_approximated_kernels(model, approximation):
    params = {"n_components": 30, "approximation": approximation, "random_state": 0}
    assert_same_predictions(model.set_params(kernel="rbf", **params).fit(X[TRAIN], Y[TRAIN]), X)


@pytest.mark.parametrize("model", [LSRClassifier(), ODMClassifier(), DRMClassifier()])
def test_a_precomputed_kernel_takes_rows_of_the_matrix(model):
    weights = np.ones(len(TRAIN))
    weights[::5] = 0
    K = np.exp(-0.05 * ((X[:, None] - X[TRAIN]) ** 2).sum(axis=2))
    model.set_params(kernel="precomputed").fit(K[TRAIN], Y[TRAIN], weights)
    assert_same_predictions(model, K)


def test_far_from_the_origin():
    model = LSRClassifier(kernel="rbf").fit(X[TRAIN] + 1e4, Y[TRAIN])
    label, scores = run(model, X + 1e4, raw_scores=True)
    np.testing.assert_array_equal(label, model.predict(X + 1e4))
    np.testing.assert_allclose(scores, model.decision_function(X + 1e4), atol=1e-10)


def test_closed_and_scatter_forms_of_linear_drm():
    for solver in ("closed", "scatter"):
        model = DRMClassifier(kernel="linear", solver=solver).fit(X[TRAIN], Y[TRAIN])
        assert_same_predictions(model, X)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine"])
def test_rejected_rows(kernel):
    labels = np.array(["a", "b", "c"])[Y]
    model = DRMClassifier(kernel=kernel, gamma=0.1, reject_above=0.6).fit(X[TRAIN], labels[TRAIN])
    rows = np.vstack([X, 20 * X[:5], np.zeros((1, X.shape[1]))])
    assert "unknown" in model.predict(rows)
    assert_same_predictions(model, rows)
    numbers = DRMClassifier(reject_above=0.6).fit(X[TRAIN], Y[TRAIN])
    assert -1 in run(numbers, rows)[0]
    assert_same_predictions(numbers, rows)


@pytest.mark.parametrize(
    "labels",
    [Y - 5, Y.astype(np.uint8), Y.astype(float), Y > 1, np.array(["ä", "b c", ""], object)[Y]],
    ids=["negative", "uint8", "float", "bool", "object"],
)
def test_types_of_labels(labels):
    model = LSRClassifier().fit(X, labels)
    found = run(model, X)[0]
    np.testing.assert_array_equal(found, model.predict(X))
    assert found.dtype == (object if labels.dtype == object else np.int64)


def test_large_scores_are_damped_and_equal_scores_have_equal_probabilities():
    model = LSRClassifier().fit(X, Y)
    rows = np.vstack([1e6 * X[:5], 1e-9 * X[:5]])
    np.testing.assert_allclose(run(model, rows)[1], model.predict_proba(rows), atol=1e-10)
    model.coef_[:], model.intercept_[:] = 0.0, 0.0
    np.testing.assert_allclose(run(model, rows)[1], model.predict_proba(rows), atol=1e-10)


@pytest.mark.parametrize(
    ("n_classes", "others", "class_weight"), [(2, "DRM", None), (3, "logistic", "balanced")]
)
def test_auto_classifier(n_classes, others, class_weight):
    rows, labels = make_classification(
        300, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, random_state=1
    )
    rows = np.exp(rows).round(2)  # ranks differ from standard scores, and values repeat
    families = ["kernels", others]
    model = AutoClassifier(families=families, class_weight=class_weight, random_state=0)
    assert_same_predictions(model.fit(rows[:250], labels[:250]), rows)
    assert len({type(member.scaling) for member in model.estimators_}) == 2


def test_auto_classifier_that_predicts_the_class_frequencies():
    random = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="class frequencies"):
        model = AutoClassifier().fit(random.normal(size=(40, 3)), random.integers(3, size=40))
    assert_same_predictions(model, random.normal(size=(20, 3)))


def test_regression():
    for model, targets in (
        (ReducedRankRegression(rank=1), X[:, 5:8]),
        (ReducedRankRegression(), X[:, 5]),
    ):
        found = run(model.fit(X[:, :5], targets), X[:, :5])[0]
        expected = model.predict(X[:, :5]).reshape(len(X), -1)
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_sparse_rows_are_dense_inputs():
    from scipy import sparse

    rows = sparse.csr_array(np.where(X > 0.5, X, 0.0))
    model = LSRClassifier(kernel="rbf").fit(rows, Y)
    session = session_of(to_onnx(model, rows))
    np.testing.assert_array_equal(session.run(None, {"X": rows.toarray()})[0], model.predict(rows))


def test_older_operators():
    converted = to_onnx(DRMClassifier().fit(X, Y), X, target_opset=20)
    assert {each.domain: each.version for each in converted.opset_import}[""] <= 20
