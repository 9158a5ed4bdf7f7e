"""Where solvers, starts and certificates meet: degenerate problems, warm starts, odd data."""

import warnings

import numpy as np
import pytest
from margin_oracles import ldm_objective
from margin_problems import close, make, three_classes, two_classes
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from discreg import LDMClassifier, ODMClassifier, ODMClassifierCV
from discreg.margin._losses import MarginLoss


def tied(seed, n=20):
    """Samples on a coarse grid: many are equal, many margins are exactly 1."""
    random = np.random.RandomState(seed)
    X = np.round(2 * random.randn(n, 2)) / 2
    y = np.where(random.rand(n) < 0.4, 1, -1)
    y[:2] = 1, -1
    return X, y


@pytest.mark.parametrize(
    ("seed", "kernel", "C"),
    [
        (0, "linear", 0.01),
        (6, "rbf", 0.1),
        (6, "linear", 10.0),
        (40, "linear", 1.0),
        (108, "rbf", 10.0),
        (126, "rbf", 0.01),
        (126, "linear", 100.0),
    ],
)
def test_the_support_vector_machine_on_tied_samples(seed, kernel, C):
    """Often no multiplier is free, and an intercept is optimal in a whole interval."""
    X, y = tied(seed)
    m = len(y)
    model = LDMClassifier(
        probability=False, C=C, lambda1=0, lambda2=0, kernel=kernel, gamma=0.5
    ).fit(X, y)
    svm = SVC(C=C / m, kernel=kernel, gamma=0.5, tol=1e-10).fit(X, y)
    norm = svm.dual_coef_ @ (svm.decision_function(svm.support_vectors_) - svm.intercept_)
    best = norm[0] / 2 + C / m * np.maximum(0, 1 - y * svm.decision_function(X)).sum()
    assert model.objective_ <= best * (1 + 1e-7)
    assert model.gap_ <= 1e-7
    close(model.dual_coef_.sum(), 0, 1e-9)


@pytest.mark.parametrize("solver", ["newton", "dcd", "svrg"])
@pytest.mark.parametrize("shape", [(1100, 20), (60, 5), (10, 1100)])
def test_a_warm_start_ends_at_the_cold_fit_for_every_solver(solver, shape):
    random = np.random.RandomState(0)
    X = random.randn(*shape)
    y = (X[:, 0] + 0.3 * random.randn(shape[0]) > 0).astype(int)
    X /= np.sqrt(shape[1] / 5)  # svrg is slow for rows of large norm
    params = {"kernel": "linear", "solver": solver, "random_state": 0, "C1": 30, "C2": 10}
    params |= {"tol": {"newton": 1e-3, "dcd": 1e-15, "svrg": 1e-16}[solver], "max_iter": 20_000}
    model = ODMClassifier(probability=False, **params, warm_start=True).fit(X, y)
    for change in ({"C1": 50}, {"D": 0.6}, {"fit_intercept": False}, {"fit_intercept": True}):
        params |= change
        model.set_params(**change).fit(X, y)
        cold = ODMClassifier(probability=False, **params).fit(X, y)
        close(model.decision_function(X), cold.decision_function(X), 1e-6)


def test_warm_starts_across_classes_and_data():
    X, y = three_classes()
    model = make("odm", warm_start=True).fit(X, y)
    X2, y2 = two_classes()
    close(model.fit(X2, y2).decision_function(X2), make("odm").fit(X2, y2).decision_function(X2))
    close(model.fit(X, y).decision_function(X), make("odm").fit(X, y).decision_function(X))


def test_all_margins_may_be_in_the_free_band():
    X, y = load_iris(return_X_y=True)
    search = ODMClassifierCV(
        ODMClassifier(kernel="linear"), C1s=[1e4], C2s=[1e4], Ds=[0, 0.9], cv=3
    )
    assert search.fit(scale(X), y).best_score_ > 0.8
    wide = np.random.RandomState(0).randn(100, 1200)
    model = ODMClassifier(probability=False, kernel="linear", solver="newton", C1=1e4, C2=1e4)
    assert model.fit(wide, wide[:, 0] > 0).gap_ < 1e-9


def test_a_large_constant_feature_does_not_make_samples_equal():
    X, y = two_classes()
    shifted = np.column_stack([np.full(len(y), 1e17), X])
    plain = LDMClassifier(probability=False, gamma=0.5).fit(X, y)
    model = LDMClassifier(probability=False, gamma=0.5).fit(shifted, y)
    close(model.decision_function(shifted), plain.decision_function(X), 1e-6)


@pytest.mark.parametrize("lambda1", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_objective_and_gap_of_ldm_are_those_of_the_stored_model(kernel, lambda1):
    X, y = two_classes(n=40, p=50)
    params = {"C": 10.0, "lambda1": lambda1, "lambda2": 0.3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LDMClassifier(probability=False, **params, kernel=kernel, gamma=0.02).fit(X, y)
    scores = model.decision_function(X)
    theta = np.zeros(len(y))
    theta[model.support_] = model.dual_coef_[0]
    features = X if kernel == "linear" else None
    if features is None:
        K = np.exp(-0.02 * ((X[:, None] - X) ** 2).sum(axis=2))
        square = theta @ K @ theta
    else:
        square = model.coef_[0] @ model.coef_[0]
    margins = y * scores
    stored = square / 2 + lambda1 * margins.var() - 0.3 * margins.mean()
    stored += 10.0 * np.maximum(0, 1 - margins).mean()
    assert model.objective_ == pytest.approx(stored, rel=1e-6)
    if features is not None:
        direct = ldm_objective(X, y, model.coef_[0], model.intercept_[0], **params)
        assert stored == pytest.approx(direct, rel=1e-9)


def test_bound_of_theorem_2_counts_samples_at_their_limit_whatever_their_weight():
    X, y = two_classes()
    for seed in range(20):
        weights = np.random.RandomState(seed).rand(len(y)) * 3
        model = LDMClassifier(probability=False, C=0.01, lambda1=0, lambda2=0, fit_intercept=False)
        assert model.fit(X, y, weights).loo_error_bound_ == pytest.approx(1.0)


def test_values_beyond_rounding_are_refused_in_words():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match="Lower lambda1"):
        LDMClassifier(probability=False, lambda1=1e300).fit(scale(X), y)


def test_rows_far_from_the_origin_take_no_more_passes():
    """Coordinate descent on dense rows does not depend on their mean."""
    random = np.random.RandomState(0)
    X = random.randn(80, 90)
    y = np.where(X[:, :3].sum(axis=1) > 0, 1.0, -1.0)
    model = ODMClassifier(kernel="linear", probability=False, tol=1e-6, random_state=0)
    near, far = (clone(model).fit(rows, y) for rows in (X, X + 1e4))
    assert near.solver_ == far.solver_ == "dcd"
    assert far.n_iter_ <= 2 * near.n_iter_
    close(far.decision_function(X + 1e4), near.decision_function(X), 1e-5)


def test_two_threads_share_the_kernel_and_give_the_same():
    X, y = three_classes()
    for name in ("odm", "ldm"):
        one, two = (make(name, random_state=0, n_jobs=n).fit(X, y) for n in (None, 2))
        np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((1.0, 3.0, 0.0, 0.5, np.inf), "squared on both sides"),
        ((1.0, np.inf, 0.5, 0.0, np.inf), "squared on both sides"),
        ((1.0, np.inf, 0.5, 0.5, 1.0), "squared on both sides"),
        ((2.0, 1.0, 0.5, 0.5, np.inf), "low=2.0 must not exceed high=1.0"),
        ((0.9, 1.1, 0.5, 0.5, np.inf, 1.0), "belong to the hinge"),
    ],
)
def test_losses_that_no_solver_minimises_are_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        MarginLoss(*numbers)


def test_the_theorem_of_leave_one_out_is_for_a_band_around_one():

    class OneSided(ODMClassifier):
        def _loss(self):
            return MarginLoss(0.2, 1.2, 0.05, 0.05, np.inf)

    X, y = load_iris(return_X_y=True)
    model = OneSided(fit_intercept=False).fit(X[50:], y[50:])
    assert not hasattr(model, "loo_error_bound_")
