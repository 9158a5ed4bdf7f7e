"""Kernel matrices equal scikit-learn's for all kinds of data and any number of threads."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from products import every_value
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    euclidean_distances,
    pairwise_kernels,
)
from threadpoolctl import threadpool_info, threadpool_limits

from discreg.base.search import kernel_settings
from discreg.linalg import resources
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernels import KERNELS, KernelFacts, require_kernel_memory, resolve_gamma
from discreg.linalg.resources import run_in_threads

NAMES = sorted(PAIRWISE_KERNEL_FUNCTIONS)
ON_TILES = [name for name, facts in KERNELS.items() if facts.on_tiles]
DENSE_ONLY = {"chi2", "additive_chi2"}
PARAMS = {"gamma": 0.3, "degree": 3, "coef0": 0.5}
# A sum of products in another order, and then a function with a slope of at most about ten.
CLOSE = {"rtol": 1e-14, "atol": 1e-14}

FORMATS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "CSR array": sparse.csr_array,
    "CSR matrix": sparse.csr_matrix,
}

# scikit-learn has no sparse form of some kernels.
CASES = [
    (kernel, layout)
    for kernel in NAMES
    for layout in FORMATS
    if not (kernel in DENSE_ONLY and layout.startswith("CSR"))
]


def table(n_rows, n_features=7, seed=0):
    """Entries in [0, 1), half of them zero: data that every kernel accepts."""
    random = np.random.default_rng(seed)
    values = random.random((n_rows, n_features))
    return np.where(random.random(values.shape) < 0.5, values, 0.0)


def expected(X, Y, kernel, **params):
    return pairwise_kernels(X, Y, metric=kernel, filter_params=True, **params)


def kernel_of(kernel="linear", gamma=None, degree=3, coef0=1.0, kernel_params=None):
    return FittedKernel(kernel, gamma, degree, coef0, kernel_params)


def kernel_matrix(X, Y=None, **params):
    return kernel_of(**params)(X, Y)


def kernel_product(X, Y, coef, **params):
    return kernel_of(**params).product(X, Y, coef)


def kernel_diagonal(X, **params):
    return kernel_of(**params).diagonal(X)


def longdouble_rbf(X, Y, gamma):
    differences = X[:, None].astype(np.longdouble) - Y[None].astype(np.longdouble)
    return np.exp(-np.longdouble(gamma) * (differences**2).sum(axis=2))


class TestEqualToScikitLearn:
    @every_value(case=CASES, n_rows=[600, 1, 600, 5, 600])  # 600 rows make several tiles
    def test_with_itself(self, case, n_rows):
        kernel, layout = case
        X = table(n_rows)
        K = kernel_matrix(FORMATS[layout](X), kernel=kernel, **PARAMS)
        assert K.dtype == np.float64
        assert_allclose(K, expected(X, None, kernel, **PARAMS), **CLOSE)
        assert_array_equal(K, K.T)

    @every_value(case=CASES, shape=[(400, 1000), (4, 9), (400, 1000), (1, 700), (1, 1)])
    def test_with_other_rows(self, case, shape):
        (kernel, layout), (n_rows, n_cols) = case, shape
        X, Y = table(n_rows), table(n_cols, seed=1)
        K = kernel_matrix(FORMATS[layout](X), FORMATS[layout](Y), kernel=kernel, **PARAMS)
        assert_allclose(K, expected(X, Y, kernel, **PARAMS), **CLOSE)

    @pytest.mark.parametrize("kernel", NAMES)
    def test_default_parameters(self, kernel):
        X = table(20)
        defaults = {"degree": 3, "coef0": 1.0}
        assert_allclose(kernel_matrix(X, kernel=kernel), expected(X, None, kernel, **defaults))

    @pytest.mark.parametrize("degree", [0, 1, 2, 3, 8, 1.5])
    def test_any_degree(self, degree):
        X = table(30)
        K = kernel_matrix(X, kernel="poly", degree=degree)
        assert_allclose(K, expected(X, None, "poly", degree=degree), rtol=1e-14)

    @pytest.mark.parametrize("kernel", NAMES)
    def test_float32_is_computed_in_float64(self, kernel):
        X = table(30).astype(np.float32)
        K = kernel_matrix(X, kernel=kernel, **PARAMS)
        assert_array_equal(K, kernel_matrix(X.astype(np.float64), kernel=kernel, **PARAMS))

    @pytest.mark.parametrize("layout", FORMATS)
    def test_read_only_data(self, layout):
        X = FORMATS[layout](table(30))
        for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
            array.setflags(write=False)
        assert_allclose(kernel_matrix(X, kernel="rbf"), kernel_matrix(table(30), kernel="rbf"))

    @pytest.mark.parametrize("kernel", sorted(set(NAMES) - DENSE_ONLY))
    def test_sparse_with_dense(self, kernel):
        X, Y = table(4), table(9, seed=1)
        K = expected(X, Y, kernel, **PARAMS)
        assert_allclose(kernel_matrix(sparse.csr_array(X), Y, kernel=kernel, **PARAMS), K, **CLOSE)
        assert_allclose(kernel_matrix(X, sparse.csr_matrix(Y), kernel=kernel, **PARAMS), K, **CLOSE)

    def test_sparse_rows_with_unsorted_entries(self):
        X = sparse.csr_array(table(600))
        for row in range(600):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            X.indices[entries], X.data[entries] = X.indices[entries][::-1], X.data[entries][::-1]
        X.has_sorted_indices = False
        assert_allclose(kernel_matrix(X), table(600) @ table(600).T, rtol=1e-14)

    def test_a_callable_means_what_it_means_in_kernel_ridge(self):
        def shifted(x, y, shift):
            return float(np.dot(x, y)) + shift

        X, y = table(20), np.arange(20.0)
        ridge = KernelRidge(kernel=shifted, kernel_params={"shift": 2.0}).fit(X, y)
        K = kernel_matrix(table(5, seed=1), X, kernel=shifted, kernel_params={"shift": 2.0})
        assert_array_equal(K @ ridge.dual_coef_, ridge.predict(table(5, seed=1)))

    def test_precomputed_is_returned_as_it_is(self):
        K = np.eye(3)
        assert kernel_matrix(K, kernel="precomputed") is K


class TestDiagonal:
    @pytest.mark.parametrize(("kernel", "layout"), CASES)
    def test_equals_that_of_the_matrix(self, kernel, layout):
        X = FORMATS[layout](np.vstack([table(40), np.zeros(7)]))
        K = kernel_matrix(X, kernel=kernel, **PARAMS)
        assert_allclose(kernel_diagonal(X, kernel=kernel, **PARAMS), K.diagonal(), **CLOSE)

    def test_of_a_power_that_is_not_an_integer(self):
        X = table(40)
        K = kernel_matrix(X, kernel="poly", degree=2.5)
        assert_allclose(kernel_diagonal(X, kernel="poly", degree=2.5), K.diagonal(), **CLOSE)

    @pytest.mark.parametrize("layout", FORMATS)
    def test_of_a_callable(self, layout):
        def product(x, y, factor):
            return factor * float((x.multiply(y) if sparse.issparse(x) else x * y).sum())

        X = FORMATS[layout](table(40))
        diagonal = kernel_diagonal(X, kernel=product, kernel_params={"factor": 2.0})
        assert_allclose(diagonal, 2 * (table(40) ** 2).sum(axis=1), rtol=1e-14)

    def test_of_a_precomputed_matrix(self):
        assert_array_equal(kernel_diagonal(np.diag([1.0, 2.0]), kernel="precomputed"), [1.0, 2.0])


class TestAccuracy:
    @pytest.mark.parametrize("centre", [0.0, 1e6])
    def test_rbf_near_and_far_from_the_origin(self, centre):
        random = np.random.default_rng(0)
        X, Y = centre + random.standard_normal((60, 5)), centre + random.standard_normal((40, 5))
        assert_allclose(
            kernel_matrix(X, kernel="rbf", gamma=0.2), longdouble_rbf(X, X, 0.2), rtol=2e-14
        )
        assert_allclose(
            kernel_matrix(X, Y, kernel="rbf", gamma=0.2), longdouble_rbf(X, Y, 0.2), rtol=2e-14
        )

    @pytest.mark.parametrize("offset", [1e8, -1e8])
    def test_laplacian_of_sparse_rows_far_from_the_origin(self, offset):
        X, Y = table(60), table(40, seed=1)
        X[:, :4] += offset
        Y[:, :4] += offset
        K = kernel_matrix(X, Y, kernel="laplacian", gamma=0.2)
        found = kernel_matrix(sparse.csr_array(X), Y, kernel="laplacian", gamma=0.2)
        assert_allclose(found, K, rtol=1e-13)
        K = kernel_matrix(X, kernel="laplacian", gamma=0.2)
        found = kernel_matrix(sparse.csr_array(X), kernel="laplacian", gamma=0.2)
        assert_allclose(found, K, rtol=1e-13)

    def test_laplacian_of_wide_rows(self):
        """Sums of 783 numbers: the errors are some 15 units in the last place, the bound is 200."""
        random = np.random.default_rng(0)
        X, Y = random.standard_normal((600, 783)), random.standard_normal((500, 783))
        for other in (None, Y):
            K = kernel_matrix(X, other, kernel="laplacian")[:, ::20]
            distances = [np.abs(X - y).sum(axis=1) for y in (X if other is None else Y)[::20]]
            assert_allclose(K, np.exp(-np.transpose(distances) / 783), rtol=4e-15)

    def test_an_outlier_does_not_blur_the_rest(self):
        X = np.random.default_rng(0).standard_normal((60, 5))
        X[7] = 1e12
        assert_allclose(
            kernel_matrix(X, kernel="rbf", gamma=0.2), longdouble_rbf(X, X, 0.2), rtol=2e-14
        )

    def test_rbf_of_equal_rows_of_integers_is_one(self):
        X = np.random.default_rng(0).integers(-1000, 1000, size=(600, 5)) * 1.0
        assert_array_equal(kernel_matrix(X, X, kernel="rbf", gamma=1.0).diagonal(), 1.0)

    @pytest.mark.parametrize("layout", FORMATS)
    def test_rbf_of_a_row_with_itself_is_one(self, layout):
        X = FORMATS[layout](table(600) * 1e3)
        assert_array_equal(kernel_matrix(X, kernel="rbf", gamma=10.0).diagonal(), 1.0)

    def test_huge_distances_give_zero(self):
        X = np.array([[0.0], [1e3], [1e50], [-1e150]])
        assert_array_equal(kernel_matrix(X, kernel="rbf", gamma=1.0), np.eye(4))


class TestProduct:
    @pytest.mark.parametrize("kernel", ON_TILES)
    @pytest.mark.parametrize("shape", [(1, 1), (384, 385), (1_700, 800)])
    def test_is_the_matrix_times_the_coefficients(self, kernel, shape):
        X, Y = table(shape[0]), table(shape[1], seed=1)
        coef = np.random.default_rng(2).normal(size=(len(Y), 3))
        params = PARAMS if kernel != "poly" else PARAMS | {"degree": 2.5}
        matrix = kernel_matrix(X, Y, kernel=kernel, **params)
        product = kernel_product(X, Y, coef, kernel=kernel, **params)
        assert_allclose(product, matrix @ coef, rtol=0, atol=1e-14 * np.abs(coef).sum())

    def test_nothing_times_nothing(self):
        none = np.empty((0, 7))
        assert kernel_product(none, table(3), np.ones((3, 2)), kernel="rbf").shape == (0, 2)
        assert_array_equal(kernel_product(table(3), none, np.ones((0, 2)), kernel="rbf"), 0)


class TestThreads:
    @pytest.mark.parametrize("layout", FORMATS)
    def test_their_number_changes_the_result_by_rounding_at_most(self, layout):
        X = FORMATS[layout](table(1100, n_features=60))
        with threadpool_limits(1):
            alone = kernel_matrix(X, kernel="rbf")
        with threadpool_limits(3):
            together = kernel_matrix(X, kernel="rbf")
        assert_allclose(alone, together, rtol=1e-15)

    def test_calls_at_the_same_time_give_the_same_result(self):
        X = table(1100, n_features=60)
        alone = kernel_matrix(X, kernel="rbf")
        before = [library["num_threads"] for library in threadpool_info()]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda _: kernel_matrix(X, kernel="rbf"), range(8)))
        for K in together:
            assert_allclose(K, alone, rtol=1e-15)
        assert [library["num_threads"] for library in threadpool_info()] == before

    @pytest.mark.full
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    def test_a_forked_child_can_compute(self):
        program = (
            "import os, warnings, numpy as np\n"
            "from discreg.linalg.fitted_kernel import FittedKernel\n"
            "warnings.simplefilter('ignore')\n"
            "X = np.random.default_rng(0).random((1100, 10))\n"
            "K = FittedKernel('rbf')(X)\n"
            "if child := os.fork():\n"
            "    raise SystemExit(os.waitpid(child, 0)[1])\n"
            "os._exit(not np.array_equal(K, FittedKernel('rbf')(X)))\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)

    def test_every_task_runs_once(self):
        done = []
        run_in_threads(done.append, range(50))
        assert sorted(done) == list(range(50))

    def test_tasks_may_start_tasks(self):
        done = []
        run_in_threads(lambda _: run_in_threads(done.append, range(5)), range(5))
        assert sorted(done) == sorted(5 * list(range(5)))

    def test_what_a_task_raises_is_raised(self):
        with pytest.raises(ZeroDivisionError):
            run_in_threads(lambda number: 1 / number, [1, 0, 2])


class TestGamma:
    def test_names_and_numbers(self):
        X = table(50)
        assert resolve_gamma(None, X) == resolve_gamma("auto", X) == 1 / 7
        assert resolve_gamma(0.25, X) == 0.25
        assert_allclose(resolve_gamma("scale", X), 1 / (7 * X.var()), rtol=1e-14)

    @pytest.mark.parametrize("layout", FORMATS)
    @pytest.mark.parametrize("centre", [0.0, 1e6])
    def test_a_weight_of_k_is_k_copies(self, layout, centre):
        X = centre + table(50)
        copies = np.random.default_rng(0).integers(0, 4, size=50)
        weighted = resolve_gamma("scale", FORMATS[layout](X), copies)
        assert_allclose(weighted, resolve_gamma("scale", np.repeat(X, copies, axis=0)), rtol=1e-13)
        assert_allclose(weighted, 1 / (7 * np.repeat(X, copies, axis=0).var()), rtol=1e-13)

    @pytest.mark.parametrize("layout", FORMATS)
    def test_float32(self, layout):
        X = table(50).astype(np.float32)
        gamma = resolve_gamma("scale", FORMATS[layout](X))
        assert_allclose(gamma, 1 / (7 * X.astype(np.float64).var()), rtol=1e-14)

    @pytest.mark.parametrize("layout", FORMATS)
    @pytest.mark.parametrize("value", [0.0, 2.0])
    def test_equal_entries_have_no_scale(self, layout, value):
        assert resolve_gamma("scale", FORMATS[layout](np.full((4, 3), value))) == 1.0


class TestMemory:
    @pytest.fixture(autouse=True)
    def one_gigabyte(self, monkeypatch):
        monkeypatch.setattr(resources, "available_bytes", lambda: 10**9)

    def test_what_fits_is_not_refused(self):
        require_kernel_memory(11_000)

    def test_training_matrix_is_refused_with_what_would_fit(self):
        with pytest.raises(MemoryError) as refusal:
            require_kernel_memory(100_000, copies=3)
        assert str(refusal.value) == (
            "A kernel matrix of 100,000 x 100,000, held 3 times, would take 240.0 GB of memory, "
            "but 1.0 GB are free. Fit on at most 6,454 samples, or approximate the kernel: set "
            "n_components=625."
        )
        require_kernel_memory(6_454, copies=3)


def test_the_registry_has_the_kernels_of_scikit_learn():
    assert set(NAMES) <= KERNELS.keys()


@pytest.mark.parametrize("name", KERNELS)
def test_the_registry_tells_the_truth(name):
    X = np.random.default_rng(0).uniform(0.1, 2.0, size=(30, 4))
    facts = KERNELS[name]
    K = kernel_matrix(X, kernel=name, gamma=0.3 if "gamma" in facts.params else None)
    if facts.bounded:
        assert K.max() <= 1 + 1e-12
    if facts.diagonal is not None:
        np.testing.assert_allclose(K.diagonal(), facts.diagonal, atol=1e-12)
    if facts.is_psd(3, 1.0):
        assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()
    function = facts.matrix or PAIRWISE_KERNEL_FUNCTIONS[name]
    taken = signature(function).parameters.keys()
    assert set(facts.params) == {"gamma", "degree", "coef0"} & taken


@pytest.mark.parametrize("constant", [1.0, None], ids=["known diagonal", "unknown diagonal"])
def test_an_entry_is_all_that_a_kernel_needs(monkeypatch, constant):
    def cauchy(X, Y, gamma):
        return 1 / (1 + gamma * euclidean_distances(X, Y, squared=True))

    facts = KernelFacts(
        ("gamma",),
        diagonal=constant,
        bounded=True,
        is_psd=lambda degree, coef0: True,
        matrix=cauchy,
        default_gammas=(0.5, 2.0),
    )
    monkeypatch.setitem(KERNELS, "cauchy", facts)
    X = table(40)
    K = cauchy(X, X, 0.7)
    assert_allclose(kernel_matrix(X, kernel="cauchy", gamma=0.7), K, **CLOSE)
    assert_allclose(kernel_diagonal(X, kernel="cauchy", gamma=0.7), K.diagonal(), **CLOSE)
    search = SimpleNamespace(gammas=None, degrees=None, _most_gammas=None)
    model = SimpleNamespace(kernel="cauchy")
    scale = resolve_gamma("scale", X)
    tried = kernel_settings(search, model, X, np.ones(len(X)))
    assert tried == [{"gamma": 2.0 * scale}, {"gamma": 0.5 * scale}]
