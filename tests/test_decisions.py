"""`predict` is the label of the largest decision value, on data that make ties in float32 too."""

import warnings

import dask.array as da
import numpy as np
from products import every_value
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import discreg

SMALL_GRID = {
    "betas": (1.0, 0.1),
    "group_penalties": (1.0, 0.0),
    "alphas": (0.1,),
    "gammas": ("scale",),
    "C1s": (10.0,),
    "C2s": (10.0,),
    "Ds": (0.1,),
    "Cs": (1.0,),
    "lambda1s": (0.1,),
    "lambda2s": (0.1,),
    "cv": 2,
}
KINDS = ["symmetric", "constant", "duplicate columns", "contradicting labels", "far apart"]
CASES = [
    (name, kind)
    for name in sorted(
        name for name in dir(discreg) if "Classifier" in name and name != "AutoClassifier"
    )
    for kind in (KINDS[:2] if name.endswith("CV") else KINDS)
]


def tied_rows(kind, n_classes):
    """Training rows in float32 for which scores of classes are equal, and labels."""
    random = np.random.default_rng(0)
    y = np.arange(8 * n_classes) % n_classes
    if kind == "symmetric":
        angles = 2 * np.pi * y / n_classes
        X = np.column_stack([np.cos(angles), np.sin(angles)])
        X = X * (1 + y.size - np.arange(y.size))[:, None]
    elif kind == "duplicate columns":
        X = np.repeat(random.integers(-2, 3, (y.size, 2)), 3, axis=1)
    elif kind == "contradicting labels":
        X = np.repeat(random.standard_normal((8, 3)), n_classes, axis=0)
    elif kind == "far apart":
        X = random.standard_normal((y.size, 3)) * 1e-3 + 1e4
    else:
        X = np.ones((y.size, 3))
    return X.astype(np.float32), y


def points(X):
    """Rows at which scores are tied or almost tied: zeros, means, rows, middles, tiny numbers."""
    random = np.random.default_rng(1)
    middles = (X + X[random.permutation(len(X))]) / 2
    tiny = np.float32(1e-40) * np.sign(X)
    return np.vstack(
        [np.zeros_like(X[:3]), X.mean(axis=0, keepdims=True), X, -X, middles, X * 1e-20, tiny]
    ).astype(np.float32)


def largest(scores, classes):
    chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return classes[chosen]


@every_value(case=CASES, n_classes=[2, 3, 3])
def test_predictions_are_the_largest_decision_values(case, n_classes):
    name, kind = case
    X, y = tied_rows(kind, n_classes)
    model = getattr(discreg, name)()
    if "estimator" in model.get_params():
        model.set_params(estimator=model._classifier())
    known = model.get_params()
    model.set_params(**{k: v for k, v in SMALL_GRID.items() if k in known})
    parameter = "estimator__kernel" if "estimator" in known else "kernel"
    kernels = ["linear", "rbf"] if parameter in known else [None]
    for kernel in kernels:
        if kernel is not None:
            model.set_params(**{parameter: kernel})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", ".*only one distinct row")
            warnings.filterwarnings("ignore", "All coefficients are zero")
            model.fit(X, y)
        Z = points(X)
        for rows in (Z, Z.astype(np.float64), np.asfortranarray(Z), Z[::-1], sparse.csr_array(Z)):
            labels = model.predict(rows)
            assert (labels == largest(model.decision_function(rows), model.classes_)).all()
        for start in range(0, len(Z), 7):
            row = Z[start : start + 1]
            assert model.predict(row) == largest(model.decision_function(row), model.classes_)
        lazy = da.from_array(Z, chunks=(11, -1))
        values = model.decision_function(lazy).compute()
        assert (model.predict(lazy).compute() == largest(values, model.classes_)).all()
