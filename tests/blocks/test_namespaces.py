"""Arrays of other libraries under array_api_dispatch: answers are of the kind of the samples.

The libraries are those that are installed.
"""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
import sklearn
from every_classifier import every_estimator, make
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from discreg import DRMClassifier, LRRRClassifier, LSRClassifier, ReducedRankRegression

LIBRARIES = list(filter(find_spec, ["array_api_strict", "torch"]))
ANSWERS = ["predict", "decision_function", "predict_proba", "predict_log_proba", "predict_set"]


@pytest.fixture(params=LIBRARIES)
def library(request):
    found = import_module(request.param)
    with sklearn.config_context(array_api_dispatch=True):
        yield found


def data(n_classes=3):
    X, y = load_iris(return_X_y=True)
    kept = np.flatnonzero(y < n_classes)[::2]
    return X[kept], y[kept], np.random.default_rng(0).integers(1, 4, len(kept)).astype(float)


def kind(library):
    return library.Tensor if hasattr(library, "Tensor") else type(library.asarray([1.0]))


def assert_same(library, found, expected):
    assert isinstance(found, kind(library))
    assert_array_equal(np.asarray(found), expected)
    assert np.asarray(found).dtype == expected.dtype


@every_estimator
def test_every_estimator_fits_and_answers_in_the_library_of_the_samples(library, name):
    X, y, weights = data()
    plain = make(name).fit(X, y, weights)
    model = make(name).fit(*map(library.asarray, (X, y, weights)))
    assert_same(library, model.predict(library.asarray(X)), plain.predict(X))
    assert_same(library, model.decision_function(library.asarray(X)), plain.decision_function(X))
    # scikit-learn averages in float32 in some libraries.
    found = model.score(library.asarray(X), library.asarray(y))
    assert found == pytest.approx(plain.score(X, y), rel=1e-6)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_answers_of_both_precisions(library, answer, dtype, n_classes):
    X, y, _ = data(n_classes)
    X = X.astype(dtype)
    for plain in (LSRClassifier(), DRMClassifier(kernel="linear", solver="scatter")):
        plain.fit(X, y)
        model = type(plain)(**plain.get_params()).fit(library.asarray(X), library.asarray(y))
        found = getattr(model, answer)(library.asarray(X))
        assert_same(library, found, getattr(plain, answer)(X))


def test_projections_and_continuous_targets(library):
    X, y, _ = data()
    rows, targets = library.asarray(X[:, :2]), library.asarray(X[:, 2:])
    model = ReducedRankRegression(rank=1).fit(rows, targets)
    plain = ReducedRankRegression(rank=1).fit(X[:, :2], X[:, 2:])
    assert_same(library, model.predict(rows), plain.predict(X[:, :2]))
    assert_same(library, model.transform(rows), plain.transform(X[:, :2]))
    projected = LRRRClassifier().fit(library.asarray(X), library.asarray(y))
    expected = LRRRClassifier().fit(X, y).transform(X)
    assert_same(library, projected.transform(library.asarray(X)), expected)


def test_partial_fit(library):
    X, y, weights = data()
    plain = LSRClassifier().partial_fit(X, y, classes=[0, 1, 2], sample_weight=weights)
    parts = LSRClassifier()
    rows, labels, sample_weight = map(library.asarray, (X, y, weights))
    parts.partial_fit(rows, labels, classes=[0, 1, 2], sample_weight=sample_weight)
    assert_same(library, parts.decision_function(rows), plain.decision_function(X))


def test_groups(library):
    X, y, _ = data()
    groups = np.arange(len(y)) // 3
    plain = make("LSRClassifierCV").fit(X, y, groups=groups)
    rows, labels, numbers = map(library.asarray, (X, y, groups))
    model = make("LSRClassifierCV").fit(rows, labels, groups=numbers)
    assert model.cv_results_["held_out"] == plain.cv_results_["held_out"]
    assert_same(library, model.predict_proba(rows), plain.predict_proba(X))


def test_labels_of_text_are_numpy_arrays(library):
    X, y, _ = data()
    names = np.array(["a", "b", "c"])[y]
    found = LSRClassifier().fit(library.asarray(X), names).predict(library.asarray(X))
    assert_array_equal(found, LSRClassifier().fit(X, names).predict(X))


def test_what_cannot_be_copied_is_refused_with_advice():
    torch = pytest.importorskip("torch")
    X, y, _ = data()
    with (
        sklearn.config_context(array_api_dispatch=True),
        pytest.raises(ValueError, match=r"torch\.Tensor cannot be copied .* numpy\.asarray first"),
    ):
        LSRClassifier().fit(torch.asarray(X).to_sparse(), y)
