"""Callbacks of scikit-learn 1.9 on classifiers: they see the iterations, and may stop them."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LDMClassifier,
    LRLRClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReducedRankRegression,
    ReLSRClassifier,
    SLRRClassifier,
)
from discreg.retargeted._solvers import SLOW

pytest.importorskip("sklearn.callback")

ITERATIVE = [
    LSRClassifier(),
    ReLSRClassifier(),
    ReLSRClassifier(beta=1e-9),
    ReLSRClassifier(solver="alternating"),
    ReLSRClassifier(kernel="rbf", solver="dcd"),
    ReLSRClassifier(penalty="l21"),
    ReLSRClassifier(rank=1),
    DLSRClassifier(solver="alternating"),
    GReLSRClassifier(kernel="rbf"),
    SLRRClassifier(),
    SLRRClassifier(rank=1, tol=1e-7),
    SLRRClassifier(beta=0.0),
    SLRRClassifier(solver="reweighted"),
    ReducedRankRegression(),
    ReducedRankRegression(penalty="l21", beta=1.0),
    DRMClassifier(),
    DRMClassifier(solver="ppa", tol=0.01),
    DRMClassifier(penalty="lasso", max_iter=2000),
    ODMClassifier(),
    ODMClassifier(kernel="linear"),
    ODMClassifier(kernel="linear", solver="svrg", random_state=0),
    ODMClassifier(kernel="linear", solver="dcd", random_state=0),
    ODMClassifier(kernel="rbf", solver="dcd", random_state=0),
    ODMClassifier(kernel="rbf", fit_intercept=False, n_jobs=2),
    LDMClassifier(),
    LDMClassifier(kernel="rbf", solver="dcd", random_state=0),
]
names = [str(model).replace("Classifier", "") for model in ITERATIVE]
each_model = pytest.mark.parametrize("model", ITERATIVE, ids=names)


class Watcher:
    """A callback that counts the iterations, and stops them after some."""

    def __init__(self, stop_after=np.inf):
        self.stop_after = stop_after
        self.ended = {}  # number of iterations of each task above them
        self.open = 0

    def setup(self, estimator, context):
        self.open += 1

    def teardown(self, estimator, context):
        self.open -= 1

    def on_fit_task_begin(self, estimator, context):
        self.open += 1

    def on_fit_task_end(self, estimator, context):
        self.open -= 1
        if context.task_name != "iteration":
            return False
        above = context.parent.task_name
        self.ended[above] = self.ended.get(above, 0) + 1
        return self.ended[above] >= self.stop_after

    @property
    def n_iter(self):
        return max(self.ended.values(), default=0)


class Propagated(Watcher):
    max_propagation_depth = None


def data():
    X, y = load_iris(return_X_y=True)
    return scale(X)[::2], y[::2]


def targets_of(model, y):
    return y.astype(float) if isinstance(model, ReducedRankRegression) else y


@each_model
def test_a_callback_sees_each_iteration(model):
    X, y = data()
    watcher = Watcher()
    fitted = clone(model).set_callbacks(watcher).fit(X, targets_of(model, y))
    assert watcher.n_iter == fitted.n_iter_
    assert watcher.open == 0


@each_model
def test_callbacks_change_no_result(model):
    X, y = data()
    y = targets_of(model, y)
    plain = clone(model).fit(X, y)
    watched = clone(model).set_callbacks(Watcher()).fit(X, y)
    assert vars(watched).keys() - vars(plain).keys() == {"_skl_callbacks"}
    assert plain.n_iter_ == watched.n_iter_
    for method in ("decision_function", "predict"):
        if hasattr(plain, method):
            np.testing.assert_array_equal(getattr(plain, method)(X), getattr(watched, method)(X))


def test_large_and_separable_problems_have_solvers_of_their_own():
    X, y = make_blobs(n_samples=1200, centers=2, cluster_std=3.0, random_state=0)
    apart = 100 * y[:, None] + X
    for model, rows in [
        (ODMClassifier(solver="dcd", tol=1e-3, random_state=0), X),
        (LDMClassifier(solver="dcd", random_state=0), X),
        (LDMClassifier(C=np.inf, kernel="linear", random_state=0), scale(apart)),
    ]:
        watcher = Watcher()
        assert model.set_callbacks(watcher).fit(rows, y).n_iter_ == watcher.n_iter


def test_each_class_against_the_others_has_its_own_iterations():
    X, y = data()
    watcher = Watcher()
    ODMClassifier(kernel="linear", solver="newton").set_callbacks(watcher).fit(X, y)
    assert watcher.ended.keys() == {"class 0", "class 1", "class 2"}
    watcher = Watcher()
    ODMClassifier(kernel="linear", solver="newton").set_callbacks(watcher).fit(X[y < 2], y[y < 2])
    assert watcher.ended.keys() == {"class 1"}


@pytest.mark.parametrize(
    "model", [ReLSRClassifier(beta=1e-6), ODMClassifier(kernel="linear")], ids=str
)
def test_a_fit_on_blocks_reports_its_iterations(model, tmp_path):
    X, y = data()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    watcher = Watcher()
    fitted = clone(model).set_callbacks(watcher).fit(mapped, y)
    assert watcher.n_iter == fitted.n_iter_ > 1


STOPPED = [
    ReLSRClassifier(beta=1e-3, solver="newton"),
    ReLSRClassifier(solver="alternating"),
    ReLSRClassifier(kernel="rbf", solver="dcd"),
    ReLSRClassifier(penalty="l21", beta=0.001),
    SLRRClassifier(beta=0.1, tol=1e-12),
    SLRRClassifier(solver="reweighted", tol=1e-12),
    ODMClassifier(kernel="linear", solver="newton", C1=1e4, C2=1e4),
    ODMClassifier(kernel="linear", solver="svrg", tol=1e-9, random_state=0),
    LDMClassifier(kernel="linear", solver="svrg", tol=1e-9, random_state=0),
]


@pytest.mark.parametrize("model", STOPPED, ids=str)
def test_a_callback_can_stop_the_iterations(model):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    watcher = Watcher(2)
    stopped = clone(model).set_callbacks(watcher).fit(X, y)  # without a warning
    assert stopped.n_iter_ == watcher.n_iter == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        longer = clone(model).fit(X, y)
        limited = clone(model).set_params(max_iter=2).fit(X, y)
    assert longer.n_iter_ > 2
    np.testing.assert_array_equal(stopped.decision_function(X), limited.decision_function(X))
    assert stopped.gap_ == limited.gap_ > longer.gap_


def test_a_stop_while_solvers_prepare_a_start():
    X, y = data()
    watcher = Watcher(1)
    model = SLRRClassifier(rank=1, beta=0.1, tol=1e-9).set_callbacks(watcher).fit(X, y)
    longer = SLRRClassifier(rank=1, beta=0.1, tol=1e-9).fit(X, y)
    assert 1 <= model.n_iter_ == watcher.n_iter < longer.n_iter_


def test_a_stop_with_a_larger_penalty_returns_the_model_of_the_own_penalty():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[::4], y[::4]
    model = ReLSRClassifier(beta=1e-9, solver="newton")
    longer = clone(model).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = clone(model).set_params(max_iter=SLOW).fit(X, y)
    assert first.gap_ > longer.gap_  # so that larger penalties come next
    stopped = clone(model).set_callbacks(Watcher(SLOW + 3)).fit(X, y)
    assert stopped.n_iter_ == SLOW + 3
    assert stopped.gap_ == first.gap_
    for answer in ("decision_function", "predict_proba"):
        np.testing.assert_array_equal(getattr(stopped, answer)(X), getattr(first, answer)(X))


def test_a_stop_ends_the_iterations_of_one_class_only():
    X, y = data()

    class OneClass(Watcher):
        def on_fit_task_end(self, estimator, context):
            super().on_fit_task_end(estimator, context)
            return context.task_name == "iteration" and context.parent.task_name == "class 1"

    watcher = OneClass()
    model = ODMClassifier(kernel="linear", solver="newton").set_callbacks(watcher).fit(X, y)
    assert watcher.ended["class 1"] == 1
    assert watcher.ended["class 0"] > 1
    assert model.n_iter_ == watcher.n_iter


def test_clones_and_pickles_keep_callbacks():
    X, y = data()
    watcher = Watcher()
    model = ReLSRClassifier().set_callbacks(watcher).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    clone(model).fit(X, y)
    assert watcher.n_iter == 2 * model.n_iter_
    model.set_callbacks().fit(X, y)
    assert watcher.n_iter == 2 * model.n_iter_


def test_a_failed_fit_ends_the_callbacks():
    X, y = data()
    watcher = Watcher()
    with pytest.raises(ValueError, match="NaN"):
        ReLSRClassifier().set_callbacks(watcher).fit(np.where(X > 0, np.nan, X), y)
    assert watcher.open == 1  # the task "fit", which did not end


@pytest.mark.parametrize(
    "model", [ReLSRClassifier(), ODMClassifier(), LRLRClassifier(), LRRRClassifier()], ids=str
)
def test_a_callback_of_a_grid_search_reaches_the_classifiers(model):
    X, y = data()
    watcher = Propagated()
    grid = GridSearchCV(model, {"class_weight": [None, "balanced"]}, cv=2)
    grid.set_callbacks(watcher).fit(X, y)  # a warning would be an error
    assert watcher.open == 0
    assert hasattr(model, "max_iter") == (watcher.n_iter > 0)


def test_searches_report_no_iterations_of_their_fits():
    from discreg import ReLSRClassifierCV

    X, y = data()
    watcher = Propagated()
    ReLSRClassifierCV(betas=[0.1, 1.0], cv=3).set_callbacks(watcher).fit(X, y)
    assert watcher.n_iter == 0


def test_the_progress_bar_of_scikit_learn_shows_a_fit(capsys):
    from sklearn.callback import ProgressBar

    pytest.importorskip("rich")
    X, y = data()
    ReLSRClassifier().set_callbacks(ProgressBar()).fit(X, y)
    assert "ReLSRClassifier - fit" in capsys.readouterr().out
