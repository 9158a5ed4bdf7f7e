"""Kernels approximated by components: what `n_components` and `approximation` mean everywhere."""

import pickle
import warnings

import numpy as np
import pytest
from products import every_value
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    DRMClassifierCV,
    GReLSRClassifier,
    LDMClassifier,
    LRLRClassifier,
    LRRRClassifier,
    LRRRClassifierCV,
    LSRClassifier,
    LSRClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
    load_model,
    save_model,
)
from discreg.base import validation
from discreg.blocks import mapped
from discreg.inspection import CoefficientDisplay
from discreg.linalg import resources

IN_BLOCKS = {
    "LSR": LSRClassifier(),
    "DLSR": DLSRClassifier(tol=1e-10, probability=False),
    "ReLSR": ReLSRClassifier(tol=1e-10, probability=False),
    "GReLSR": GReLSRClassifier(tol=1e-10, probability=False),
    "LRLR": LRLRClassifier(),
    "LRRR": LRRRClassifier(beta=0.1),
    "DRM": DRMClassifier(),
    "ODM": ODMClassifier(C1=10.0, tol=1e-10, probability=False),
}
MODELS = IN_BLOCKS | {"LDM": LDMClassifier(C=10.0, tol=1e-9, probability=False)}
INCREMENTAL = ("LSR", "LRLR", "LRRR", "DRM")


def samples():
    X, y = load_wine(return_X_y=True)
    return np.ascontiguousarray(scale(X)[::2]), y[::2]


def with_components(model, n_components=30, **params):
    given = {"kernel": "rbf", "n_components": n_components, "random_state": 0} | params
    return clone(model).set_params(**given)


def same_scores(one, other, X, atol=1e-6):
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=0, atol=atol
    )


@every_value(name=MODELS, kernel=["rbf", "laplacian", "poly", "rbf"])
def test_with_all_samples_in_the_basis_the_kernel_is_exact(name, kernel):
    X, y = samples()
    exact = with_components(MODELS[name], None, kernel=kernel).fit(X, y)
    model = with_components(MODELS[name], len(X), kernel=kernel).fit(X, y)
    assert not hasattr(exact, "n_components_")
    assert model.n_components_ <= len(X)
    same_scores(model, exact, samples()[0] + 0.1, atol=1e-4 if name == "LRLR" else 1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_more_random_features_are_nearer_to_the_exact_kernel(name):
    X, y = samples()
    exact = with_components(MODELS[name], None, gamma=0.02).fit(X, y).decision_function(X)
    apart = []
    for n_components in (4, 4000):
        params = {"approximation": "random_features", "gamma": 0.02}
        model = with_components(MODELS[name], n_components, **params).fit(X, y)
        assert model.n_components_ == n_components
        apart.append(np.abs(model.decision_function(X) - exact).max() / np.abs(exact).max())
    assert apart[1] < 0.5 * apart[0]


@every_value(name=MODELS, approximation=["nystroem", "random_features"])
def test_weights_are_copies(name, approximation):
    """Copies do not change the gamma, the basis or the model."""
    X, y = samples()
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    model = with_components(MODELS[name], approximation=approximation)
    weighted = clone(model).fit(X, y, weights)
    copied = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    same_scores(weighted, copied, X, atol=1e-5)


@every_value(name=MODELS, approximation=["random_features", "nystroem"])
def test_sparse_rows_pickles_and_files_have_the_same_scores(name, approximation, tmp_path):
    X, y = samples()
    X = np.where(X > 0, X, 0)
    model = with_components(MODELS[name], approximation=approximation).fit(X, y)
    of_sparse = clone(model).fit(sparse.csr_array(X), y)
    same_scores(model, of_sparse, X)
    same_scores(model, of_sparse, sparse.csr_array(X))
    save_model(model, tmp_path / "model.skops")
    for copy in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model.skops")):
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("name", MODELS)
def test_single_precision_is_near_double(name):
    X, y = samples()
    model = with_components(MODELS[name])
    if "tol" in model.get_params():
        model.set_params(tol=1e-5)
    double = clone(model).fit(X.astype(np.float32).astype(np.float64), y)
    single = model.fit(X.astype(np.float32), y)
    scores = single.decision_function(X.astype(np.float32))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, double.decision_function(X), rtol=0, atol=1e-3)


# Rows in blocks ----------------------------------------------------------------------------------


def as_memmap(X, folder):
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


def wide_samples():
    """Rows of four blocks of a tenth of a megabyte."""
    return make_classification(
        800, 60, n_informative=10, n_classes=3, n_clusters_per_class=1, random_state=0
    )


@every_value(name=IN_BLOCKS, approximation=["nystroem", "random_features"])
def test_a_memory_map_gives_the_model_of_the_array(name, approximation, tmp_path):
    X, y = wide_samples()
    model = with_components(IN_BLOCKS[name], approximation=approximation)
    if name != "LRLR":
        model.set_params(class_weight="balanced")
    array = clone(model).fit(X, y)
    with config_context(working_memory=0.1):
        of_map = model.fit(as_memmap(X, tmp_path), y)
    same_scores(of_map, array, X[:200])
    assert of_map.n_components_ == array.n_components_ == 30


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_components_that_do_not_fit_are_computed_block_by_block(name, monkeypatch):
    X, y = samples()
    array = with_components(IN_BLOCKS[name]).fit(X, y)
    monkeypatch.setattr(validation, "LARGEST_FEATURES", 1000)
    monkeypatch.setattr(mapped, "FEATURE_BYTES", 1000)  # batches of 64 rows
    same_scores(with_components(IN_BLOCKS[name]).fit(X, y), array, X)


@every_value(
    name=IN_BLOCKS, approximation=["random_features", "nystroem"], is_kept=[True, True, False]
)
def test_dask_gives_the_model_of_the_array(name, approximation, is_kept, monkeypatch):
    """Whether the components are kept in memory or computed in every pass."""
    dask_array = pytest.importorskip("dask.array")
    if not is_kept:
        monkeypatch.setattr(validation, "LARGEST_FEATURES", 1000)
    X, y = samples()
    model = with_components(IN_BLOCKS[name], 20, approximation=approximation)
    chunks = dask_array.from_array(X, chunks=(25, -1)), dask_array.from_array(y, chunks=25)
    lazy = clone(model).fit(*chunks)
    same_scores(lazy, model.fit(X, y), X)
    np.testing.assert_array_equal(lazy.predict(chunks[0]).compute(), lazy.predict(X))


def test_a_model_that_needs_rows_in_memory_names_one_that_does_not():
    dask_array = pytest.importorskip("dask.array")
    X, y = samples()
    with pytest.raises(ValueError, match=r"ODMClassifier with kernel='linear' or n_components"):
        with_components(LDMClassifier()).fit(dask_array.from_array(X), y)


@pytest.mark.parametrize("name", INCREMENTAL)
@pytest.mark.parametrize("approximation", ["nystroem", "random_features"])
def test_partial_fit_uses_the_components_of_its_first_rows(name, approximation):
    """With a basis of the first rows, the model equals that of all rows in any further order."""
    X, y = samples()
    first = np.r_[0:20, 40:60, 70:89]
    rest = np.setdiff1d(np.arange(len(y)), first)
    model = with_components(MODELS[name], approximation=approximation, gamma=0.05)
    one = clone(model).partial_fit(X[first], y[first], classes=[0, 1, 2])
    one.partial_fit(X[rest], y[rest])
    other = clone(model).partial_fit(X[first], y[first], classes=[0, 1, 2])
    for row in rest[::-1]:
        other.partial_fit(X[[row]], y[[row]])
    same_scores(one, other, X, atol=1e-4 if name == "LRLR" else 1e-6)
    if approximation == "random_features":
        same_scores(one, clone(model).fit(X, y), X, atol=1e-4 if name == "LRLR" else 1e-6)


@pytest.mark.parametrize("name", INCREMENTAL)
def test_models_with_the_same_random_features_merge(name):
    X, y = samples()
    params = {"approximation": "random_features", "gamma": 0.05}
    model = with_components(MODELS[name], **params)
    parts = [
        clone(model).partial_fit(X[start::2], y[start::2], classes=[0, 1, 2]) for start in (0, 1)
    ]
    atol = 1e-4 if name == "LRLR" else 1e-6
    same_scores(parts[0].merge(parts[1]), clone(model).fit(X, y), X, atol=atol)


def test_models_with_different_components_do_not_merge():
    X, y = samples()
    model = with_components(LSRClassifier())
    parts = [
        clone(model).partial_fit(X[start::2], y[start::2], classes=[0, 1, 2]) for start in (0, 1)
    ]
    with pytest.raises(ValueError, match=r"different components\. Use approximation='random_f"):
        parts[0].merge(parts[1])


def test_a_small_first_part_is_reported():
    X, y = samples()
    model = with_components(LSRClassifier())
    with pytest.warns(UserWarning, match=r"has 5 distinct rows, fewer than n_components=30"):
        model.partial_fit(X[:5], y[:5], classes=[0, 1, 2])
    assert model.partial_fit(X, y).n_components_ == 5
    with pytest.raises(ValueError, match="needs a row of positive weight"):
        clone(model).partial_fit(X, y, classes=[0, 1, 2], sample_weight=0.0)


@pytest.mark.parametrize("name", ["ODM", "LDM", "ReLSR"])
def test_a_second_fit_starts_from_the_first(name):
    X, y = samples()
    model = with_components(MODELS[name], warm_start=True, tol=1e-5).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first


def test_a_changed_gamma_is_refused_between_parts():
    X, y = samples()
    model = with_components(LSRClassifier(), gamma=0.1).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"gamma was 0\.1 for some rows and is 0\.2 for others"):
        model.set_params(gamma=0.2).partial_fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("approximation", ["nystroem", "random_features"])
def test_bad_numbers_in_blocks_are_refused(value, approximation):
    dask_array = pytest.importorskip("dask.array")
    X, y = samples()
    X[50, 3] = value
    model = with_components(LSRClassifier(), approximation=approximation, gamma=0.1)
    with pytest.raises(ValueError, match="Chunk 2: Input X contains"):
        model.fit(dask_array.from_array(X, chunks=(25, -1)), y)


@every_value(name=MODELS, approximation=["nystroem", "random_features"])
def test_the_error_of_the_kernel_is_reported(name, approximation):
    X, y = wide_samples()
    X, y = X[:700, :5], y[:700]
    model = with_components(MODELS[name], 100, approximation=approximation, gamma=0.1).fit(X, y)
    features = (model._solver.training if name == "DRM" else model).__dict__
    features = features["features" if name == "DRM" else "_features"]
    mapped_rows, exact = features(X), rbf_kernel(X, gamma=0.1)
    error = np.linalg.norm(mapped_rows @ mapped_rows.T - exact) / np.linalg.norm(exact)
    assert model.kernel_error_ == pytest.approx(error, rel=0.25)
    assert error > 1e-3


def test_the_error_of_the_kernel_is_that_of_rows_outside_the_basis():
    X, y = samples()
    model = with_components(LSRClassifier(), 60, gamma=0.1).fit(X, y)
    features = model._features
    others = X[~(X[:, None] == features.basis).all(axis=2).any(axis=1)]
    assert len(others) == len(X) - 60
    mapped_rows, exact = features(others), rbf_kernel(others, gamma=0.1)
    error = np.linalg.norm(mapped_rows @ mapped_rows.T - exact) / np.linalg.norm(exact)
    assert model.kernel_error_ == pytest.approx(error, rel=1e-6)


# The number of components ------------------------------------------------------------------------


@pytest.fixture
def few_exact_rows(monkeypatch):
    """Approximate kernels of more than 80 rows by default, by 20 components."""
    monkeypatch.setattr(validation, "EXACT_ROWS", 80)
    monkeypatch.setattr(validation, "AUTO_COMPONENTS", 20)


@pytest.mark.parametrize("name", MODELS)
def test_auto_is_exact_up_to_a_number_of_rows_and_warns_above(name, few_exact_rows):
    X, y = samples()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = with_components(MODELS[name], "auto").fit(X[:80], y[:80])
    assert not hasattr(few, "n_components_")
    with pytest.warns(UserWarning, match="by 20 components, because there are 89 rows") as caught:
        many = with_components(MODELS[name], "auto").fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert many.n_components_ == 20
    same_scores(many, with_components(MODELS[name], 20).fit(X, y), X)


def test_auto_approximates_rows_in_blocks():
    dask_array = pytest.importorskip("dask.array")
    X, y = samples()
    with pytest.warns(UserWarning, match=r"by 1,000 components, because X is not in memory"):
        model = with_components(LSRClassifier(), "auto").fit(dask_array.from_array(X), y)
    same_scores(model, with_components(LSRClassifier(), None).fit(X, y), X)


def test_a_memory_map_of_few_rows_is_exact_by_default(tmp_path):
    X, y = wide_samples()
    model = with_components(LSRClassifier(), "auto")
    with config_context(working_memory=0.1), warnings.catch_warnings():
        warnings.simplefilter("error")
        of_map = clone(model).fit(as_memmap(X, tmp_path), y)
    same_scores(of_map, model.fit(X, y), X[:100])


@pytest.mark.parametrize(
    "search",
    [
        LSRClassifierCV(LSRClassifier(kernel="rbf", random_state=0)),
        LRRRClassifierCV(LRRRClassifier(kernel="rbf", random_state=0), cv=3),
        ReLSRClassifierCV(ReLSRClassifier(kernel="rbf", random_state=0), cv=3, betas=[0.1, 0.01]),
        DRMClassifierCV(DRMClassifier(random_state=0), alphas=[0.1], betas=[0.01, 0.1]),
        ODMClassifierCV(ODMClassifier(random_state=0), cv=3, C1s=[10], C2s=[10], Ds=[0.2]),
    ],
    ids=lambda search: type(search).__name__,
)
def test_a_search_approximates_its_folds_as_the_fit_of_all_rows(search, few_exact_rows):
    """The folds have fewer rows than the limit, all rows together more; one warning."""
    X, y = samples()
    with pytest.warns(UserWarning, match="by 20 components") as caught:
        auto = clone(search).set_params(gammas=[0.05]).fit(X, y)
    assert [w for w in caught if not issubclass(w.category, ConvergenceWarning)] == caught.list[:1]
    given = clone(search).set_params(gammas=[0.05], estimator__n_components=20).fit(X, y)
    assert auto.best_estimator_.n_components_ == 20
    np.testing.assert_allclose(
        auto.cv_results_["mean_test_score"], given.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_linear_kernel_ignores_components(name):
    X, y = samples()
    model = clone(MODELS[name]).set_params(kernel="linear")
    ignored = clone(model).set_params(n_components=2, approximation="random_features").fit(X, y)
    assert not hasattr(ignored, "n_components_")
    same_scores(ignored, model.fit(X, y), X, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_combinations_that_do_not_work_are_refused(name):
    X, y = samples()
    model = clone(MODELS[name])
    with pytest.raises(ValueError, match=r"cannot approximate a precomputed kernel.*None"):
        with_components(model, 5, kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(
        ValueError, match=r"supports kernel='laplacian' or 'rbf', not the kernel 'poly'"
    ):
        with_components(model, 5, kernel="poly", approximation="random_features").fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' parameter of .* must be 'auto', None or"):
        with_components(model, 0).fit(X, y)
    with_components(model, "auto", kernel="precomputed").fit(X @ X.T, y)


@pytest.mark.filterwarnings("ignore:ReLSRClassifier approximates")
@pytest.mark.parametrize("n_components", [20, "auto"])
def test_descent_for_exact_kernels_is_refused(n_components, few_exact_rows):
    model = with_components(ReLSRClassifier(solver="dcd"), n_components)
    with pytest.raises(ValueError, match=r"for exact kernels.*n_components=None, or"):
        model.fit(*samples())


def test_solvers_of_linear_models_need_a_number_of_components():
    X, y = samples()
    exact = with_components(ODMClassifier(solver="newton"), "auto")
    with pytest.raises(ValueError, match=r"needs kernel='linear' or a number of n_components"):
        exact.fit(X, y)
    assert with_components(ODMClassifier(solver="newton")).fit(X, y).solver_ == "newton"


def test_a_relative_penalty_has_the_units_of_the_kernel():
    """With more components than samples, beta means what it means for the exact kernel."""
    X, y = samples()
    exact = with_components(LSRClassifier(beta=3.0), None, gamma=0.01).fit(X, y)
    params = {"approximation": "random_features", "gamma": 0.01}
    model = with_components(LSRClassifier(beta=3.0), 20_000, **params).fit(X, y)
    same_scores(model, exact, X, atol=0.01)


@pytest.mark.parametrize("name", ["LDM", "ODM", "DRM"])
def test_components_that_exceed_the_memory_are_refused(name, monkeypatch):
    X, y = samples()
    monkeypatch.setattr(resources, "available_bytes", lambda: 10_000)
    monkeypatch.setattr(resources, "NEGLIGIBLE_BYTES", 0)
    with pytest.raises(MemoryError, match=r"30 components of 89 samples.*Use fewer n_components"):
        with_components(MODELS[name]).fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_too_many_components_are_the_samples_or_refused(name):
    X, y = samples()
    exact = with_components(MODELS[name], None).fit(X, y)
    same_scores(with_components(MODELS[name], 10**12).fit(X, y), exact, X, atol=1e-4)
    with pytest.raises(MemoryError, match=r"100,000,000,000 components of.*Use fewer n_comp"):
        with_components(MODELS[name], 10**11, approximation="random_features").fit(X, y)


def test_coefficients_of_components_are_not_drawn_as_features():
    pytest.importorskip("matplotlib")
    X, y = samples()
    model = with_components(LSRClassifier(), X.shape[1]).fit(X, y)
    with pytest.raises(ValueError, match=r"13 components that.*Pass a linear classifier"):
        CoefficientDisplay.from_estimator(model)


def test_a_fit_without_components_forgets_those_of_another():
    X, y = samples()
    model = with_components(ODMClassifier()).fit(X, y)
    model.set_params(n_components=None).fit(X, y)
    assert not hasattr(model, "n_components_")
    same_scores(model, with_components(ODMClassifier(), None).fit(X, y), X, atol=1e-12)
