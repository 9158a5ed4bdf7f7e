"""BLAS is held to one thread while it should be, and has its threads back afterwards."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

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
