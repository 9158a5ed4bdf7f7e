"""The iterations of the retargeted models on rows in blocks are those on rows in memory."""

import pytest
from numpy.testing import assert_allclose
from stream_problems import CHUNKS, chunked, rows, weights

from discreg import DLSRClassifier, GReLSRClassifier, ReLSRClassifier


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
