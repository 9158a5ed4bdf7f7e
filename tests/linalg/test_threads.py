"""BLAS is held to one thread while it should be, and has its threads back afterwards."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_limits

import discreg
from discreg.linalg import resources
from discreg.linalg.resources import (
    blas_threads,
    one_blas_thread,
    run_in_threads,
)


@pytest.fixture
def before():
    """The threads of BLAS before a test: two, also where the environment allows one only."""
    with threadpool_limits(2, user_api="blas"):
        yield blas_threads()


def test_blas_has_one_thread_within_and_those_of_before_afterwards(before):
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_blas_has_its_threads_back_after_an_error(before):
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == before


@pytest.mark.parametrize("leaves_first", [0, 1])
def test_blas_has_its_threads_back_after_calls_that_overlap(before, leaves_first):
    both_in, one_out = Barrier(2), Barrier(2)

    def limit(number):
        with one_blas_thread():
            both_in.wait()
            if number != leaves_first:
                one_out.wait()
        if number == leaves_first:
            one_out.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(limit, range(2)))
    assert blas_threads() == before
    with one_blas_thread():
        assert blas_threads() == {1}


def test_tasks_within_a_limit_run_in_their_thread(before):
    seen = []
    with one_blas_thread():
        run_in_threads(seen.append, range(5))
    assert seen == list(range(5))


def test_tasks_run_once_each_while_blas_has_one_thread(before):
    seen = []
    run_in_threads(lambda task: seen.append((task, *blas_threads())), range(20))
    assert sorted(seen) == [(task, 1) for task in range(20)]
    assert blas_threads() == before


def test_threads_treat_floating_point_errors_as_the_caller_does(before):
    zeros = np.zeros(3)
    caught = []

    def divide(number):
        assert threading.current_thread() is not threading.main_thread()
        return 1.0 / zeros

    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        run_in_threads(divide, range(4))
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        run_in_threads(divide, range(4))
    with np.errstate(divide="call", call=lambda *error: caught.append(error)):
        run_in_threads(divide, range(4))
    assert len(caught) == 4


class ObservedKernel:
    """Linear kernel that records the numbers of BLAS threads while it is computed."""

    def __init__(self, fails=False):
        self.seen, self.fails = set(), fails

    def __call__(self, x, z):
        self.seen |= blas_threads()
        if self.fails:
            raise KeyError
        return x @ z

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in dir(discreg)
        if "Classifier" in name and "kernel" in getattr(discreg, name)().get_params()
    ),
)
def test_a_small_fit_uses_one_thread(before, name):
    X, y = (each[::10] for each in load_iris(return_X_y=True))
    kernel = ObservedKernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few samples
        getattr(discreg, name)(kernel=kernel).fit(X, y)
    assert kernel.seen == {1}
    assert blas_threads() == before


def test_a_large_fit_uses_the_threads_of_the_caller(before, monkeypatch):
    monkeypatch.setattr(resources, "FEW_MULTIPLICATIONS", 100)
    X, y = (each[::10] for each in load_iris(return_X_y=True))
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            kernel = ObservedKernel()
            discreg.DRMClassifier(kernel=kernel).fit(X, y)
            assert kernel.seen == blas_threads() == {n_threads}


def test_a_small_fit_that_fails_leaves_the_threads_of_the_caller(before):
    X, y = (each[::10] for each in load_iris(return_X_y=True))
    with pytest.raises(KeyError):
        discreg.LSRClassifier(kernel=ObservedKernel(fails=True)).fit(X, y)
    assert blas_threads() == before


def test_a_limit_of_the_caller_is_kept(before):
    X, y = load_iris(return_X_y=True)
    with threadpool_limits(1, user_api="blas"):
        discreg.ReLSRClassifier(kernel="rbf").fit(X, y)
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_tasks_of_a_thread_that_a_limited_call_waits_for_run_in_that_thread(before):
    """Dask and joblib run parts of a fit in threads; the fit holds the limit and waits for them."""
    done = []
    with one_blas_thread(), ThreadPoolExecutor(1) as pool:
        pool.submit(run_in_threads, done.append, range(3)).result(timeout=60)
    assert done == [0, 1, 2]


@pytest.mark.parametrize("name", ["LSRClassifier", "LRRRClassifier", "DRMClassifier"])
def test_partial_fit_on_few_rows_uses_one_thread(before, name, monkeypatch):
    X, y = load_iris(return_X_y=True)
    model = getattr(discreg, name)(kernel="linear")
    seen = set()
    fit_state = model._fit_state
    monkeypatch.setattr(model, "_fit_state", lambda s: (seen.update(blas_threads()), fit_state(s)))
    model.partial_fit(X, y, classes=[0, 1, 2])
    assert seen == {1}
    assert blas_threads() == before
