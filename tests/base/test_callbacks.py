"""Callbacks of scikit-learn 1.9: what they see of a search, and that they change nothing."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from discreg import (
    AutoClassifier,
    LSRClassifier,
    LSRClassifierCV,
    ReLSRClassifierCV,
)

SEARCHES = [
    LSRClassifierCV(LSRClassifier(kernel="rbf"), gammas=[0.1, 1.0]),
    ReLSRClassifierCV(betas=[0.1, 1.0], cv=3),
    AutoClassifier(families=["kernels"]),
]
names = [f"{type(search).__name__}-{k}" for k, search in enumerate(SEARCHES)]
each_search = pytest.mark.parametrize("search", SEARCHES, ids=names)


class Recorder:
    """A callback that writes down the begun and the ended tasks."""

    def __init__(self):
        self.events = []
        self.lifetimes = 0

    def setup(self, estimator, context):
        self.lifetimes += 1

    def teardown(self, estimator, context):
        self.lifetimes -= 1

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", *where(context)))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", *where(context)))

    def tasks(self, event):
        return [task for kind, *task in self.events if kind == event]


def where(context):
    """The names of a task and of those above it, and the number of its parts."""
    above = context.parent
    return context.task_name, context.task_id, above and above.task_name, context.max_subtasks


def data():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2]


@each_search
def test_a_callback_sees_the_rounds_of_a_search(search):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    clone(search).set_callbacks(recorder).fit(*data())
    begun, ended = recorder.tasks("begin"), recorder.tasks("end")
    assert recorder.lifetimes == 0
    assert begun[0][0] == ended[-1][0] == "fit"
    assert sorted(map(str, begun)) == sorted(map(str, ended))
    rounds = [task for task in begun if task[2] == "fit" and task[3]]
    assert rounds
    for name, _, _, n_steps in rounds:
        assert sum(task[2] == name for task in ended) >= n_steps
    assert begun[-1][2] in ("fit", "estimates")  # the last fit, or those for estimates
    assert not begun[-1][3]


def test_the_steps_of_a_round_are_its_kernels_and_folds():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    search = LSRClassifierCV(
        LSRClassifier(kernel="rbf"), gammas=[0.1, 1.0, 3.0], betas=[0.1, 1.0], cv=4
    )
    search.set_callbacks(recorder).fit(*data())
    assert [task[3] for task in recorder.tasks("begin") if task[0] == "round 1"] == [3 * 4]


@each_search
def test_callbacks_change_no_result(search):
    pytest.importorskip("sklearn.callback")
    X, y = data()
    plain = clone(search).fit(X, y)
    watched = clone(search).set_callbacks(Recorder()).fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), watched.predict(X))
    assert vars(watched).keys() - vars(plain).keys() == {"_skl_callbacks"}


def test_tasks_end_where_there_is_no_time_for_the_others():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    AutoClassifier(time_budget=1e-6).set_callbacks(recorder).fit(*data())
    begun, ended = (sorted(map(str, recorder.tasks(event))) for event in ("begin", "end"))
    assert begun == ended


def test_clones_and_pickles_keep_callbacks():
    pytest.importorskip("sklearn.callback")
    X, y = data()
    recorder = Recorder()
    search = LSRClassifierCV().set_callbacks(recorder).fit(X, y)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    seen = len(recorder.events)
    clone(search).fit(X, y)
    assert len(recorder.events) == 2 * seen
    search.set_callbacks().fit(X, y)
    assert len(recorder.events) == 2 * seen


def test_callbacks_are_torn_down_if_a_fit_fails():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()

    def broken(estimator, X, y):
        raise RuntimeError("no score")

    search = ReLSRClassifierCV(scoring=broken, cv=3).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="no score"):
        search.fit(*data())
    assert recorder.lifetimes == 0
    assert ["fit", 0, None, None] not in recorder.tasks("end")


def test_a_callback_of_a_grid_search_reaches_our_searches():
    pytest.importorskip("sklearn.callback")
    from sklearn.model_selection import GridSearchCV

    class Propagated(Recorder):
        max_propagation_depth = None

    recorder = Propagated()
    grid = GridSearchCV(LSRClassifierCV(), {"betas": [(1.0,), (0.1, 1.0)]}, cv=2)
    grid.set_callbacks(recorder).fit(*data())
    fits = 2 * 2 + 1
    assert sum(task[0] == "round 1" for task in recorder.tasks("end")) == fits


def test_the_progress_bar_of_scikit_learn_shows_a_search(capsys):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    LSRClassifierCV().set_callbacks(callback.ProgressBar()).fit(*data())
    assert "LSRClassifierCV" in capsys.readouterr().out


def test_without_callbacks_a_scikit_learn_of_any_release_fits():
    X, y = data()
    for search in SEARCHES:
        assert not [name for name in vars(clone(search).fit(X, y)) if "callback" in name]
