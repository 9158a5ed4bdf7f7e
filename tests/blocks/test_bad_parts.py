"""Parts that cannot be fitted are refused, and leave the model as it was."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from stream_problems import BY_PARTS, MODELS, rows

from discreg import DRMClassifier, LRRRClassifier, LSRClassifier, ODMClassifier, ReLSRClassifier


@pytest.mark.parametrize("name", BY_PARTS)
def test_parts_that_do_not_fit(name):
    X, y = rows()
    model = clone(MODELS[name])
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    model.partial_fit(X[:10], np.zeros(10, dtype=int), classes=[0, 1, 2])
    with pytest.raises(NotFittedError, match="partial_fit with samples of class 1, 2 first"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"classes is \[0, 1\], but in the first call it was"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="label 7, which is not one of the classes"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :4], y)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full_like(X, np.nan), y)
    model.partial_fit(X[10:], y[10:])
    expected = clone(model).fit(X, np.r_[np.zeros(10, dtype=int), y[10:]])
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-9)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 1, 2, None], "classes has missing labels"),
        ([0.0, 1.0, np.nan], "classes has missing"),
        ([0.5, 1.25], "Unknown label type"),
        ([1000, 2000], "label 0, which is not one of the classes|label 1, which|label 2, which"),
    ],
)
def test_classes_that_cannot_be(classes, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        LSRClassifier().partial_fit(X, y.astype(np.int8), classes=classes)


def test_labels_that_fit_refuses_are_refused_by_parts():
    X, y = rows()
    with pytest.raises(ValueError, match="Unknown label type"):
        LSRClassifier().partial_fit(X, y + 0.5, classes=[0.5, 1.5, 2.5])


@pytest.mark.parametrize("name", BY_PARTS)
def test_a_part_that_fails_leaves_a_fitted_model_as_it_was(name):
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = clone(MODELS[name]).fit(frame, y)
    before = model.decision_function(frame)
    with (
        pytest.warns(UserWarning, match="partial_fit starts a new model"),
        pytest.raises(ValueError, match="label 9, which is not one of the classes"),
    ):
        model.partial_fit(X[:, :3], np.full(len(y), 9))
    np.testing.assert_array_equal(model.decision_function(frame), before)
    assert list(model.feature_names_in_) == list("abcdef")


def test_a_fit_to_sums_that_fails_leaves_the_model_as_it_was():
    X, y = rows()
    model = DRMClassifier(kernel="linear").partial_fit(X, y, classes=[0, 1, 2])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="unknown_label"):
        model.set_params(reject_above=0.5, unknown_label=1).partial_fit(X, y)
    model.set_params(reject_above=None, unknown_label=None)
    np.testing.assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("name", BY_PARTS)
def test_a_new_beginning_without_all_classes_is_no_model(name):
    X, y = rows()
    model = clone(MODELS[name]).fit(X, y)
    with pytest.warns(UserWarning, match="partial_fit starts a new model"):
        model.partial_fit(X[y == 0], y[y == 0])
    for method in ("predict", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)


def test_rows_that_could_not_be_fitted_are_not_kept():
    X, y = rows()
    model = LRRRClassifier(rank=9)
    with pytest.raises(ValueError, match="rank=9 is too large"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    model.set_params(rank=2).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="squares of the features overflow"):
        model.partial_fit(1e200 * X, y)
    expected = LRRRClassifier(rank=2).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)


def test_sums_that_depend_on_parameters_cannot_be_continued_with_others():
    X, y = rows()
    model = DRMClassifier(kernel="linear").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"alpha was 0.1 for some rows and is 0.5 for others"):
        model.set_params(alpha=0.5).partial_fit(X, y)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (DRMClassifier(kernel="linear"), {"beta": 2.0}),
        (LSRClassifier(), {"class_weight": {0: 1, 1: 10, 2: 0.1}}),
    ],
)
def test_sums_of_other_parameters_are_not_merged(model, change):
    X, y = rows()
    one, other = (clone(model).partial_fit(X, y, classes=[0, 1, 2]) for _ in range(2))
    (name,) = change
    for changed, untouched in ((one, other), (other, one)):
        changed.set_params(**change)
        for first, second in ((changed, untouched), (untouched, changed)):
            with pytest.raises(ValueError, match=f"{name} was .* for some rows and is"):
                first.merge(second)
        changed.set_params(**{name: getattr(model, name)})


def test_models_that_cannot_be_merged():
    X, y = rows()
    model = LSRClassifier().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="The other model was not fitted by partial_fit"):
        model.merge(LSRClassifier().fit(X, y))
    with pytest.raises(ValueError, match="This model was not fitted by partial_fit"):
        LSRClassifier().fit(X, y).merge(model)
    with pytest.raises(TypeError, match="cannot be merged with a LRRRClassifier"):
        model.merge(LRRRClassifier().partial_fit(X, y, classes=[0, 1, 2]))
    with pytest.raises(ValueError, match=r"classes differ: \[0, 1, 2\] and \[0, 1, 2, 3\]"):
        model.merge(LSRClassifier().partial_fit(X, y, classes=[0, 1, 2, 3]))
    with pytest.raises(ValueError, match="numbers of features differ: 6 and 4"):
        model.merge(LSRClassifier().partial_fit(X[:, :4], y, classes=[0, 1, 2]))


def test_a_fit_begins_anew():
    X, y = rows()
    model = LSRClassifier().partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    model.fit(X[100:], y[100:])
    with pytest.warns(UserWarning, match="partial_fit starts a new model"):
        model.partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, LSRClassifier().fit(X, y).coef_, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        LSRClassifier(kernel="rbf", n_components=None),
        LRRRClassifier(kernel="precomputed"),
        DRMClassifier(n_components=None),
        DRMClassifier(),
        DRMClassifier(kernel="linear", solver="closed"),
        ReLSRClassifier(),
        ODMClassifier(kernel="linear"),
    ],
)
def test_models_without_sums_have_no_partial_fit(model):
    assert not hasattr(model, "partial_fit")
    assert not hasattr(model, "merge")
