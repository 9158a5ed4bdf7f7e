"""Predictions a second and latency of one row, each model beside its peer of scikit-learn.

Run as ``python benchmarks/predictions.py``. It takes under three minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

from _timing import intel_peers, ratio_to_peer, side_by_side, write_table
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale
from sklearn.svm import SVC

import discreg

N_SAMPLES, N_FEATURES, N_CLASSES = 2_000, 20, 3
BATCH = 10_000
COMPONENTS = 300
REPEATS = 3
LINEAR = ("LSR", "DLSR", "ReLSR", "GReLSR", "LRLR", "LRRR", "SLRR", "ODM", "LDM")
KERNEL = ("LSR", "DLSR", "ReLSR", "GReLSR", "LRRR", "ODM", "LDM")

TEXT = (
    f"Models of {N_SAMPLES:,} x {N_FEATURES} standardised samples of {N_CLASSES} classes, at their "
    f"defaults; kernels are RBF. Thousands of rows a second in one batch of {BATCH:,}, the median "
    f"of at least {REPEATS} batches that take turns, and the median microseconds of `predict` on "
    "one row. Ratios are times relative to the peer in the same run: RidgeClassifier "
    "for linear models, an SVC that stores about as many samples for kernel models, "
    "KNeighborsClassifier for DRM. A kernel model stores the samples in the column. Prediction of "
    "DRM with an exact kernel takes n² multiplications a row, in which KNeighborsClassifier takes "
    "n d; with `n_components` it does not depend on n."
)


def data() -> tuple[Any, Any, Any]:
    """Training samples, their labels and a batch to predict."""
    X, y = make_classification(
        N_SAMPLES + BATCH, N_FEATURES, n_informative=10, n_classes=N_CLASSES, random_state=0
    )
    X = scale(X)
    return X[:N_SAMPLES], y[:N_SAMPLES], X[N_SAMPLES:]


def pairs(X: Any, y: Any) -> Iterator[tuple[str, Any, Any]]:
    """Names of our models, the models and their peers, fitted."""
    ridge = RidgeClassifier().fit(X, y)
    for name in LINEAR:
        model = getattr(discreg, f"{name}Classifier")()
        linear = {"kernel": "linear"} if "kernel" in model.get_params() else {}
        yield f"{name}, linear", model.set_params(**linear).fit(X, y), ridge
    yield "LSR search, linear", discreg.LSRClassifierCV().fit(X, y), ridge
    for name in KERNEL:
        model = getattr(discreg, f"{name}Classifier")(kernel="rbf").fit(X, y)
        # With so small a C, all samples are support vectors.
        n_stored = stored(model)
        yield f"{name}, kernel", model, SVC(C=1e-4).fit(X[:n_stored], y[:n_stored])
    svc = SVC(C=1e-4).fit(X[:COMPONENTS], y[:COMPONENTS])
    for name in ("LSR", "ODM"):
        model = getattr(discreg, f"{name}Classifier")(kernel="rbf", n_components=COMPONENTS)
        yield f"{name}, {COMPONENTS} components", model.fit(X, y), svc
    knn = KNeighborsClassifier().fit(X, y)
    yield "DRM, linear", discreg.DRMClassifier(kernel="linear").fit(X, y), knn
    model = discreg.DRMClassifier(n_components=COMPONENTS)
    yield f"DRM, {COMPONENTS} components", model.fit(X, y), knn
    yield "DRM, kernel", discreg.DRMClassifier().fit(X, y), knn


def stored(model: Any) -> int:
    """Number of training samples that a model stores; 0 if it has coefficients of features."""
    if hasattr(model, "coef_"):
        return 0
    names = ("support_", "X_fit_", "_fit_X")
    return next((len(getattr(model, name)) for name in names if hasattr(model, name)), 0)


def latencies(models: dict[str, Any], row: Any, n_calls: int = 40) -> dict[str, float]:
    """Median seconds of `predict` on one row; the models take turns."""
    spent: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(REPEATS):
        for name, model in models.items():
            model.predict(row)
            for _ in range(n_calls):
                start = perf_counter()
                model.predict(row)
                spent[name].append(perf_counter() - start)
    return {name: median(times) for name, times in spent.items()}


def measure() -> Iterator[tuple[object, ...]]:
    X, y, batch = data()
    for title, ours, peer in pairs(X, y):
        models = {title: ours, type(peer).__name__: peer}
        rows = slice(None, stored(peer) or None)
        for name, intel in intel_peers(peer).items():
            models[name] = intel.fit(X[rows], y[rows])
        batches = side_by_side(
            {name: lambda m=model: m.predict(batch) for name, model in models.items()},
            REPEATS if stored(peer) else 3 * REPEATS,  # those of linear models are short
        )
        rows_alone = latencies(models, batch[:1])
        _, *peers = models
        ratio_to_peer("predict", f"{title}, batch", batches[title], *map(batches.get, peers))
        ratio_to_peer(
            "predict", f"{title}, one row", rows_alone[title], *map(rows_alone.get, peers)
        )
        for name, model in models.items():
            yield (
                name,
                stored(model) or "",
                f"{BATCH / batches[name] / 1e3:,.0f}",
                f"{batches[name] / batches[type(peer).__name__]:.2f}",
                f"{1e6 * rows_alone[name]:,.0f}",
                f"{rows_alone[name] / rows_alone[type(peer).__name__]:.2f}",
            )


def main() -> None:
    header = ["model", "stored", "1,000 rows/s", "batch, ratio", "one row, µs", "one row, ratio"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        print(write_table("predictions", "Predictions", TEXT, header, measure()))


if __name__ == "__main__":
    main()
