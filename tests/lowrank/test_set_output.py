"""Projections are data frames if `set_output` asks for them."""

import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from discreg import (
    LRLRClassifier,
    LRRRClassifier,
    ReducedRankRegression,
    SLRRClassifier,
    SLRRClassifierCV,
)

MODELS = [
    LRLRClassifier(),
    LRRRClassifier(),
    SLRRClassifier(beta=1.0),
    SLRRClassifierCV(betas=[1.0], cv=2),
    ReducedRankRegression(),
]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_projections_are_data_frames(model, library):
    frames = pytest.importorskip(library)
    X, y = load_iris(return_X_y=True)
    plain = model.set_output(transform="default").fit(X, y).transform(X)
    frame = model.set_output(transform=library).transform(X)
    assert isinstance(frame, frames.DataFrame)
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert_array_equal(frame.to_numpy(), plain)
