"""GReLSR with other penalties of the translations, equation (16) of its paper."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import convex_optimum
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

from discreg import (
    GReLSRClassifier,
    GReLSRClassifierCV,
    LSRClassifier,
    ReLSRClassifier,
    load_model,
    save_model,
)
from discreg.retargeted._translations import PenalisedTranslations

KINDS = ["l1", "l2"]
WEIGHTS = np.tile([1.0, 2.0, 0.4, 0.0, 1.7], 40)


def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X)[::2], y[::2]


def wide():
    rng = np.random.default_rng(0)
    y = np.arange(25) % 3
    return rng.normal(size=(25, 60)) + rng.normal(size=(3, 60))[y], y


def classifier(kind, **params):
    return GReLSRClassifier(translation_penalty=kind, **params)


@pytest.mark.parametrize("kind", KINDS)
def test_targets_are_the_best_for_the_scores(kind):
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 6):
        scores, y = rng.normal(size=(200, n_classes)), rng.integers(0, n_classes, 200)
        at = PenalisedTranslations(0.7, kind).evaluate(scores, y, np.ones(200))
        value = 0.0
        for row, true in zip(scores, y, strict=True):
            others = np.delete(row, true)

            def cost(a, own=row[true], others=others):
                size = abs(a) if kind == "l1" else a * a
                return (own - 1 - a) ** 2 + np.sum(np.maximum(others - a, 0) ** 2) + 0.7 * size

            best = minimize_scalar(cost, bounds=(-10, 10), options={"xatol": 1e-10}).fun
            value += min(best, cost(0.0))
        assert at.value == pytest.approx(value, rel=1e-9)
        assert_allclose(at.targets + at.residuals, scores)


@pytest.mark.parametrize("kind", KINDS)
def test_the_product_with_the_hessian_is_a_derivative(kind):
    rng = np.random.default_rng(0)
    scores, direction = rng.normal(size=(2, 300, 4))
    y, weights, loss = np.arange(300) % 4, rng.random(300), PenalisedTranslations(0.7, kind)

    def gradient(r):
        return weights[:, None] * loss.evaluate(r, y, weights).residuals

    step = 1e-7
    expected = (gradient(scores + step * direction) - gradient(scores - step * direction)) / (
        2 * step
    )
    at = loss.evaluate(scores, y, weights)
    hessians = loss.row_derivatives(at, y)[1] * weights[:, None, None]
    assert_allclose(np.einsum("ijk,ik->ij", hessians, direction), expected, atol=1e-6)
    found = loss.score_hessp(at.residuals, direction.copy(), y, weights)
    assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_balanced_residuals_are_feasible_in_the_dual_and_cost_what_they_say(kind, shift, weight):
    rng = np.random.default_rng(0)
    scores, y = shift + rng.normal(size=(60, 3)), np.arange(60) % 3
    weights, loss = rng.uniform(0.2, 3, size=60), PenalisedTranslations(weight, kind)
    at = loss.evaluate(scores, y, weights)
    plan = loss.balance_plan(loss.balance_sums(at, y, weights))
    change, cost = loss.balance(at, plan, y, weights)
    z, own = at.residuals + change, (np.arange(60), y)
    sums, moves = z.sum(axis=1), at.targets[own] - 1
    assert_allclose(weights @ z, 0, atol=1e-10)
    assert np.all(z[np.eye(3)[y] == 0] >= 0)
    if kind == "l1":
        assert np.all(np.abs(sums) <= weight / 2 * (1 + 1e-12))
        penalty, conjugate = weight * np.abs(moves), 2 * z[own]
    else:
        penalty, conjugate = weight * moves**2, 2 * z[own] + sums**2 / weight
    excess = penalty + conjugate - 2 * np.sum(z * at.targets, axis=1)
    assert excess.min() > -1e-9
    assert cost == pytest.approx(weights @ (np.sum(change**2, axis=1) + excess), rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("group_penalty", [0.05, 0.7, 20.0])
@pytest.mark.parametrize("data", [wine, wide])
@pytest.mark.parametrize("kind", KINDS)
def test_optimum_equals_convex_programming(kind, data, group_penalty, fit_intercept):
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y))
    params = {"group_penalty": group_penalty, "fit_intercept": fit_intercept}
    params |= {"within_class": 0.3, "translation_penalty": kind}
    fitted = GReLSRClassifier(beta=2.0, scale_beta=False, **params).fit(X, y, sample_weight=weights)
    optimum = convex_optimum("grelsr", X, y, 2.0, weights=weights, **params)
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    assert_allclose(fitted.coef_, optimum.coef.T, atol=1e-5)
    assert_allclose(fitted.targets_, optimum.targets, atol=1e-4)
    assert_allclose(fitted.translations_, fitted.targets_[np.arange(len(y)), y] - 1)
    assert 0 <= fitted.gap_ < 1e-12
    assert not hasattr(fitted, "centres_")


@pytest.mark.parametrize("n_iter", [2, 5, 30])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_gap_bounds_the_distance_from_the_optimum(kind, fit_intercept, n_iter):
    X, y = wine()
    for group_penalty in (0.01, 1.0, 100.0):
        best = classifier(kind, group_penalty=group_penalty, fit_intercept=fit_intercept)
        minimum = best.fit(X, y).objective_history_[-1]
        few = clone(best).set_params(solver="alternating", max_iter=n_iter, tol=0).fit(X, y)
        excess = 1 - minimum / few.objective_history_[-1]
        assert 0 < excess <= few.gap_ <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_small_weights_lead_to_relsr(kind):
    X, y = wine()
    relsr = ReLSRClassifier().fit(X, y)
    none = classifier(kind, group_penalty=0.0).fit(X, y)
    assert_allclose(none.coef_, relsr.coef_, atol=1e-12)
    assert_allclose(none.intercept_, relsr.intercept_, atol=1e-12)
    small = classifier(kind, group_penalty=1e-7).fit(X, y)
    assert_allclose(small.coef_, relsr.coef_, atol=1e-5)
    assert small.objective_history_[-1] == pytest.approx(relsr.objective_history_[-1], rel=1e-5)


def test_large_weights_leave_no_translation():
    """Then the target of the true class is 1 and those of the others are at most 0."""
    X, y = wine()
    absolute, square = (
        classifier(kind, group_penalty=weight).fit(X, y)
        for kind, weight in (("l1", 100.0), ("l2", 1e6))
    )
    assert_array_equal(absolute.translations_, 0)
    assert_allclose(square.translations_, 0, atol=1e-5)
    assert_allclose(square.coef_, absolute.coef_, atol=1e-5)
    assert absolute.objective_history_[-1] < LSRClassifier().fit(X, y).objective_history_[-1]


def test_the_penalty_of_absolute_values_sets_translations_to_zero():
    X, y = wine()
    shares = [
        np.mean(classifier("l1", group_penalty=weight).fit(X, y).translations_ == 0)
        for weight in (0.01, 0.3, 3.0)
    ]
    assert shares[0] < 0.5 < shares[1] < shares[2] == 1


@pytest.mark.parametrize("params", [{}, {"kernel": "rbf"}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_copies(kind, params):
    X, y = wine()
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = classifier(kind, **params).fit(X, y, sample_weight=copies)
    copied = clone(weighted).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert_allclose(weighted.decision_function(X), copied.decision_function(X), atol=1e-7)
    assert weighted.inverse_temperature_ == pytest.approx(copied.inverse_temperature_, rel=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["newton", "alternating"])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_rows_and_rows_in_blocks_give_the_model_of_rows_in_memory(
    kind, solver, fit_intercept
):
    X, y = wine()
    X = X * (np.random.default_rng(1).random(X.shape) < 0.7)
    fixed = classifier(kind, solver=solver, fit_intercept=fit_intercept, beta=1.0)
    fixed = fixed.set_params(tol=1e-12, max_iter=10_000)
    expected = clone(fixed).fit(X, y)
    blocks = [da.from_array(each, chunks=40) for each in (X, y)]
    for rows in ((sparse.csr_array(X), y), blocks):
        found = clone(fixed).fit(*rows)
        assert_allclose(found.coef_, expected.coef_, atol=1e-5)
        assert_allclose(found.intercept_, expected.intercept_, atol=1e-5)
        assert found.objective_history_[-1] == pytest.approx(expected.objective_history_[-1])
        assert found.gap_ <= 1e-11
    assert not hasattr(found, "translations_")


@pytest.mark.parametrize("params", [{}, {"kernel": "rbf", "gamma": 0.1}], ids=str)
@pytest.mark.parametrize("group_penalty", [0.05, 1.0])
@pytest.mark.parametrize("data", [wine, wide])
@pytest.mark.parametrize("kind", KINDS)
def test_held_out_scores_equal_refits(kind, data, group_penalty, params):
    X, y = data()
    weights = WEIGHTS[: len(y)]
    fixed = classifier(kind, group_penalty=group_penalty, beta=1.0, scale_beta=False, **params)
    found = clone(fixed).fit(X, y, sample_weight=weights)
    errors = []
    for i in np.flatnonzero(weights)[::4]:
        others = weights.copy()
        others[i] -= min(weights[i], 1.0)
        refit = clone(fixed).set_params(probability=False).fit(X, y, sample_weight=others)
        expected = refit.decision_function(X[i : i + 1])[0]
        errors.append(np.abs(found.loo_decision_function_[i] - expected).max())
    assert np.median(errors) < 1e-8
    assert max(errors) < 1e-8 or not found.loo_is_exact_
    assert found.loo_is_exact_ or (kind == "l1" and group_penalty < 1)


@pytest.mark.parametrize("kind", KINDS)
def test_rank_kernels_and_warm_starts(kind):
    X, y = wine()
    full = classifier(kind, beta=1.0).fit(X, y)
    limited = classifier(kind, beta=1.0, rank=3, tol=1e-12, max_iter=10_000).fit(X, y)
    assert_allclose(limited.coef_, full.coef_, atol=1e-5)
    kernel = classifier(kind, beta=1.0, kernel="precomputed", scale_beta=False).fit(X @ X.T, y)
    linear = classifier(kind, beta=1.0, scale_beta=False).fit(X, y)
    assert_allclose(kernel.decision_function(X @ X.T), linear.decision_function(X), atol=1e-7)
    again = clone(full).set_params(warm_start=True).fit(X, y).fit(X, y)
    assert again.n_iter_ == 1
    assert_array_equal(again.set_params(translation_penalty="centred").fit(X, y).centres_.shape, 3)


def test_every_start_leads_to_the_optimum():
    """Also one at which all rows have a translation, so that the loss is linear in a shift."""
    X, y = wine()
    warm = classifier("l1", warm_start=True, probability=False)
    for group_penalty, beta in ((10, 0.001), (1e-4, 10.0), (0.1, 0.1), (0.01, 0.1)):
        params = {"group_penalty": group_penalty, "beta": beta}
        cold = classifier("l1", probability=False, **params).fit(X, y)
        assert warm.set_params(**params).fit(X, y).gap_ <= 1e-9
        assert_allclose(warm.coef_, cold.coef_, atol=1e-8)


@pytest.mark.parametrize("data", [load_iris, load_wine])
def test_every_fit_of_a_search_converges(data):
    X, y = data(return_X_y=True)
    GReLSRClassifierCV(
        translation_penalty="l1", group_penalties=[1.0, 0.1, 0.01], probability=False
    ).fit(scale(X)[::3], y[::3])  # a warning would fail


@pytest.mark.parametrize("kind", KINDS)
def test_searches(kind):
    X, y = wine()
    search = GReLSRClassifierCV(
        translation_penalty=kind, group_penalties=[1.0, 0.0], betas=[1.0, 0.1]
    ).fit(X, y)
    assert search.best_estimator_.translation_penalty == kind
    assert search.best_score_ > 0.95


def test_centred_translations_are_those_of_the_targets():
    X, y = wine()
    fitted = GReLSRClassifier().fit(X, y)
    assert_allclose(fitted.translations_, fitted.targets_[np.arange(len(y)), y] - 1)
    means = np.bincount(y, fitted.translations_) / np.bincount(y)
    assert_allclose(fitted.centres_, means)


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_cannot_be_combined_with(kind):
    X, y = wine()
    with pytest.raises(ValueError, match="penalty='l21' needs translation_penalty='centred'"):
        classifier(kind, penalty="l21").fit(X, y)
    with pytest.raises(ValueError, match="solver='dcd' needs a target rule"):
        classifier(kind, kernel="rbf", solver="dcd").fit(X, y)
    with pytest.raises(ValueError, match="translation_penalty"):
        classifier("l3").fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_model_files(kind, tmp_path):
    X, y = wine()
    fitted = classifier(kind).fit(X, y)
    save_model(fitted, tmp_path / "model.discreg")
    loaded = load_model(tmp_path / "model.discreg")
    assert_array_equal(loaded.translations_, fitted.translations_)
    assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
