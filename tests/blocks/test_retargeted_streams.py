"""What the retargeted models report on rows in blocks is what they report on rows in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from stream_problems import CHUNKS, chunked, rows, weights

from discreg import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier


@pytest.mark.parametrize("solver", ["newton", "alternating"])
@pytest.mark.parametrize(
    "model", [DLSRClassifier, ReLSRClassifier, GReLSRClassifier], ids=lambda model: model.__name__
)
def test_every_iteration_has_the_objective_of_rows_in_memory(model, solver):
    X, y = rows()
    few = {"solver": solver, "tol": 0, "max_iter": 4}
    expected = model(**few).fit(X, y, weights())
    found = model(**few).fit(chunked(X, CHUNKS["uneven"]), y, weights())
    assert len(expected.objective_history_) == 4
    assert_allclose(found.objective_history_, expected.objective_history_, rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_closed_form_has_the_objective_of_rows_in_memory(fit_intercept):
    X, y = rows()
    model = LSRClassifier(fit_intercept=fit_intercept)
    expected = model.fit(X, y, weights()).objective_history_[-1]
    found = model.fit(chunked(X, CHUNKS["uneven"]), y, weights()).objective_history_[-1]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_centres_are_those_of_rows_in_memory(fit_intercept):
    X, y = rows()
    model = GReLSRClassifier(fit_intercept=fit_intercept, tol=1e-12)
    expected = model.fit(X, y, weights()).centres_
    found = model.fit(chunked(X, CHUNKS["uneven"]), y, weights()).centres_
    assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize(
    "model", [DLSRClassifier, ReLSRClassifier, GReLSRClassifier], ids=lambda model: model.__name__
)
def test_no_more_rows_than_features_give_the_model_of_rows_in_memory(model, sparse_rows):
    X, y = rows()
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 60)) * (random.random((60, 60)) < 0.5) + X[:60, :1], y[:60]
    chunks = chunked(sparse.csr_array(X) if sparse_rows else X, (25, 30, 5))
    expected = model(beta=1e-4).fit(X, y, weights()[:60])
    found = model(beta=1e-4).fit(chunks, y, weights()[:60])
    assert_allclose(found.coef_, expected.coef_, atol=1e-8)
    assert_allclose(found.intercept_, expected.intercept_, atol=1e-8)
    assert found.gap_ <= 1e-6
    assert not hasattr(found, "targets_")
