"""Predictions read the samples once, and their memory does not grow with the number of samples."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import discreg
from discreg import DRMClassifier, LSRClassifier, ODMClassifier


class CountedRows:
    """Samples that count how often they are converted to an array."""

    def __init__(self, rows):
        self.rows, self.shape, self.count = rows, rows.shape, 0

    def __array__(self, dtype=None, copy=None):
        self.count += 1
        return np.array(self.rows, dtype=dtype)


@pytest.mark.parametrize("name", sorted(name for name in dir(discreg) if "Classifier" in name))
def test_samples_are_read_once(name):
    X, y = (each[::5] for each in load_iris(return_X_y=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = getattr(discreg, name)().fit(scale(X), y)
    for method in (model.predict, model.decision_function):
        rows = CountedRows(scale(X))
        method(rows)
        assert rows.count == 1


@pytest.mark.parametrize(
    "model",
    [
        LSRClassifier(kernel="rbf"),
        LSRClassifier(kernel="rbf", n_components=40, random_state=0),
        ODMClassifier(kernel="laplacian"),
        ODMClassifier(n_components=40, approximation="random_features", random_state=0),
        ODMClassifier(kernel="chi2"),
        DRMClassifier(n_components=40, random_state=0),
        DRMClassifier(n_components=40, approximation="random_features", random_state=0),
        DRMClassifier(solver="apg", tol=0.1),
    ],
    ids=str,
)
def test_memory_does_not_grow_with_the_number_of_samples(model, monkeypatch):
    for name in ("fitted_kernel", "kernel_approximation"):
        monkeypatch.setattr(f"discreg.linalg.{name}.BATCH_BYTES", 1 << 16)
    for name in ("_problem", "_closed"):
        monkeypatch.setattr(f"discreg.representation.{name}.BATCH_BYTES", 1 << 16)
    random = np.random.default_rng(0)
    X = random.random((60, 30))
    model.fit(X, X[:, 0] > X[:, 1])
    model.predict(X)

    def peak(n_samples):
        rows = random.random((n_samples, 30))
        tracemalloc.start()
        model.predict(rows)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    labels_and_scores = 2 * 8 * 3
    assert peak(8000) - peak(2000) < 6000 * (labels_and_scores + 30)  # a copy has 240 bytes a row
