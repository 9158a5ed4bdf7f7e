"""An object with the method `open_blocks` is fitted block by block, as the array of its rows."""

import numpy as np
import pytest
from sklearn.base import clone
from stream_problems import largest_difference, rows, weights

from discreg import DRMClassifier, LSRClassifier, ReLSRClassifier, ReLSRClassifierCV, SLRRClassifier
from discreg.blocks.source import SequentialBlocks

SIZES = (100, 0, 1, 139)


class ListBlocks(SequentialBlocks):
    def __init__(self, parts, y, sample_weight, class_weight):
        super().__init__(parts[0].shape[1], parts[0].dtype, class_weight)
        self.parts, self.y, self.sample_weight = parts, y, sample_weight

    def blocks(self):
        ends = np.cumsum([len(part) for part in self.parts])
        for part, end in zip(self.parts, ends, strict=True):
            own = slice(end - len(part), end)
            given = self.sample_weight
            yield part, self.y[own], None if given is None else given[own]


class RowsInParts:
    def __init__(self, X):
        self.parts = np.split(X, np.cumsum(SIZES)[:-1])

    def open_blocks(self, y, sample_weight, class_weight):
        return ListBlocks(self.parts, y, sample_weight, class_weight)


@pytest.mark.parametrize(
    "model",
    [
        LSRClassifier(class_weight="balanced"),
        ReLSRClassifier(tol=1e-12),
        SLRRClassifier(beta=0.3, tol=1e-12),
        DRMClassifier(kernel="linear"),
        DRMClassifier(n_components=15, random_state=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("sample_weight", [None, weights()], ids=["plain", "weighted"])
def test_the_model_is_that_of_the_array(model, sample_weight):
    X, y = rows()
    in_parts = clone(model).fit(RowsInParts(X), y, sample_weight=sample_weight)
    assert in_parts.n_features_in_ == X.shape[1]
    whole = clone(model).fit(X, y, sample_weight=sample_weight)
    assert largest_difference(in_parts, whole, X) < 1e-8


def test_what_needs_rows_in_memory_refuses_it():
    X, y = rows()
    with pytest.raises(ValueError, match="kernel='rbf' needs the rows in memory"):
        ReLSRClassifier(kernel="rbf", n_components=None).fit(RowsInParts(X), y)
    with pytest.raises(ValueError, match="holds rows out and needs them in memory"):
        ReLSRClassifierCV().fit(RowsInParts(X), y)


def test_an_error_names_the_block():
    X, y = rows()
    with pytest.raises(ValueError, match="Chunk 3: X has 139 rows, but y has 138 labels"):
        LSRClassifier().fit(RowsInParts(X), y[:-1])
