"""BLAS is held to one thread while it should be, and has its threads back afterwards."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from threadpoolctl import ThreadpoolController

from discreg.core.threads import one_blas_thread, run_in_threads


def blas_threads():
    return {info["num_threads"] for info in ThreadpoolController().info() if is_blas(info)}


def is_blas(info):
    return info["user_api"] == "blas"


@pytest.fixture
def before():
    threads = blas_threads()
    if threads == {1}:
        pytest.skip("BLAS has one thread only")
    return threads


def test_blas_has_one_thread_within_and_those_of_before_afterwards(before):
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_blas_has_its_threads_back_after_an_error(before):
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == before


def test_limits_that_overlap_end_with_the_last_of_them(before):
    both_in, first_out = Barrier(2), Barrier(2)

    def leaves_first():
        with one_blas_thread():
            both_in.wait()
        first_out.wait()

    def leaves_last():
        with one_blas_thread():
            both_in.wait()
            first_out.wait()
            assert blas_threads() == {1}

    with ThreadPoolExecutor(2) as pool:
        for task in [pool.submit(leaves_first), pool.submit(leaves_last)]:
            task.result()
    assert blas_threads() == before


def test_tasks_run_once_each_while_blas_has_one_thread(before):
    seen = []
    run_in_threads(lambda task: seen.append((task, *blas_threads())), range(20))
    assert sorted(seen) == [(task, 1) for task in range(20)]
    assert blas_threads() == before
