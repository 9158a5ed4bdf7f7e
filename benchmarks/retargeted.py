"""Speed of the retargeted family: its solvers against each other and against scikit-learn's.

Run ``python benchmarks/retargeted.py``. Real data come from the folder named by ``DISCREG_DATA``,
or from ``../shared/data`` beside the repository; what is missing is left out, saying so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from _timing import Table, ratio_to_peer, side_by_side, write_page
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from discreg import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier
from discreg.retargeted import retarget

MODELS = [LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier]
DATA = Path(os.environ.get("DISCREG_DATA", Path(__file__).parents[2] / "shared" / "data"))


def real(name: str):
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as arrays:
        return StandardScaler().fit_transform(arrays["X"].astype(float)), arrays["y"]


def solvers_to_the_same_gap():
    """Newton against the papers' alternation, both until the certified gap is 1e-6."""
    digits = load_digits(return_X_y=True)
    problems = {
        "digits": (StandardScaler().fit_transform(digits[0]), digits[1]),
        "USPS": real("usps_9298"),
        "pendigits": real("pendigits"),
        "synthetic, 26 classes": make_classification(
            20_000, 50, n_informative=30, n_classes=26, n_clusters_per_class=1, random_state=0
        ),
    }
    for name, data in problems.items():
        if data is None:
            print(f"{name}: not in {DATA}, left out")
            continue
        X, y = data
        for model in MODELS[1:] if name == "digits" else [ReLSRClassifier]:
            newton = model(probability=False, beta=0.1, tol=1e-6)
            alternating = model(
                probability=False, beta=0.1, tol=1e-6, solver="alternating", max_iter=100_000
            )
            seconds = side_by_side(
                {
                    "newton": lambda m=newton, X=X, y=y: m.fit(X, y),
                    "alternating": lambda m=alternating, X=X, y=y: m.fit(X, y),
                },
                repeats=9,
            )
            assert max(newton.gap_, alternating.gap_) <= 1e-6
            yield (
                name,
                "x".join(map(str, X.shape)),
                model.__name__,
                f"{seconds['newton']:.3f}",
                f"{seconds['alternating']:.3f}",
                newton.n_iter_,
                alternating.n_iter_,
                f"{seconds['alternating'] / seconds['newton']:.1f}",
            )


def default_fits():
    """Fits at default settings beside scikit-learn's linear classifiers."""
    problems = {
        "20,000 x 100, 10 classes": make_classification(
            20_000, 100, n_informative=30, n_classes=10, random_state=0
        ),
        "500 x 5,000, 5 classes": make_classification(
            500, 5_000, n_informative=60, n_classes=5, random_state=0
        ),
    }
    peers = [RidgeClassifier(), LinearSVC(), LogisticRegression()]
    for name, (X, y) in problems.items():
        models = [model(probability=False) for model in MODELS]
        slow = side_by_side({str(m): lambda m=m, X=X, y=y: m.fit(X, y) for m in peers[1:]}, 3)
        fast = side_by_side(
            {str(m): lambda m=m, X=X, y=y: m.fit(X, y) for m in [peers[0], *models]}, 15
        )
        for model in [*peers, *models]:
            seconds = (fast | slow)[str(model)]
            if model in models:
                what = f"{type(model).__name__}, {name}"
                ratio_to_peer("fit", what, seconds, fast[str(peers[0])], *slow.values())
            yield (
                name,
                type(model).__name__,
                f"{1e3 * seconds:.0f}",
                f"{seconds / fast[str(peers[0])]:.2f}",
                f"{slow[str(peers[1])] / seconds:.0f}",
                f"{slow[str(peers[2])] / seconds:.0f}",
                f"{model.gap_:.0e}" if hasattr(model, "gap_") else "",
                f"{model.score(X, y):.3f}",
            )


def target_rules():
    """Retargeting of a million rows of ten classes."""
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(1_000_000, 10)), rng.integers(10, size=1_000_000)
    rules = {
        "ReLSR": {},
        "GReLSR, centres given": {"group_penalty": 1.0, "centres": np.zeros(10)},
        "GReLSR, centres eliminated": {"group_penalty": 1.0},
        "DLSR": {"rule": "dlsr"},
    }
    seconds = side_by_side({n: lambda o=o: retarget(scores, y, **o) for n, o in rules.items()}, 5)
    return [(name, f"{value:.3f}") for name, value in seconds.items()]


def peak_memory():
    """Largest memory that a fit allocates, in units of X and of the arrays it may hold."""
    for n_samples, n_features, n_classes in ((100_000, 50, 5), (400, 20_000, 5), (20_000, 300, 50)):
        rng = np.random.default_rng(0)
        y = np.arange(n_samples) % n_classes
        X = rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y]
        for model in (LSRClassifier(probability=False), ReLSRClassifier(probability=False)):
            model.fit(X[: 2 * n_classes], y[: 2 * n_classes])
            tracemalloc.start()
            model.fit(X, y)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            yield (
                f"{n_samples} x {n_features}, {n_classes} classes",
                type(model).__name__,
                f"{X.nbytes / 1e6:.0f}",
                f"{peak / 1e6:.0f}",
                f"{8 * n_samples * n_classes / 1e6:.1f}",
                f"{8 * min(n_samples, n_features) ** 2 / 1e6:.1f}",
            )


def first_fits():
    """Seconds until the first fit is done in a fresh process, without and with compiled code."""
    code = (
        "from time import perf_counter as t; a = t(); import discreg; b = t();"
        "from discreg import ReLSRClassifier; c = t();"
        "ReLSRClassifier(probability=False).fit([[0., 1], [1, 0], [2, 1]], [0, 1, 2]); d = t();"
        "print(b - a, c - b, d - c)"
    )
    with tempfile.TemporaryDirectory() as cache:
        for which in ("first process (compiles)", "second process (cached)"):
            run = subprocess.run(
                [sys.executable, "-c", code],
                env=os.environ | {"NUMBA_CACHE_DIR": cache},
                capture_output=True,
                text=True,
                check=True,
            )
            yield (which, *(f"{float(value):.3f}" for value in run.stdout.split()))


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # of the peers, at their defaults
    begun = perf_counter()
    tables = [
        Table(
            "Fits at default settings",
            "Milliseconds, medians of runs that take turns (15; LinearSVC and LogisticRegression "
            "3); ratios to RidgeClassifier, LinearSVC and LogisticRegression in the same run.",
            (
                "data",
                "model",
                "ms",
                "times Ridge",
                "faster than LinearSVC",
                "faster than LogisticRegression",
                "gap",
                "training accuracy",
            ),
            default_fits(),
        ),
        Table(
            "Newton against alternation, to a certified gap of 1e-6",
            "Seconds, medians of 9 runs that take turns; standardised features, beta 0.1.",
            (
                "data",
                "shape",
                "model",
                "newton",
                "alternating",
                "iterations",
                "alternations",
                "ratio",
            ),
            solvers_to_the_same_gap(),
        ),
        Table(
            "Retargeting 1,000,000 rows of 10 classes",
            "Seconds, medians of 5 runs.",
            ("rule", "seconds"),
            target_rules(),
        ),
        Table(
            "Peak memory of a fit",
            "Megabytes: X, what the fit allocates beside it, one n x c array and one min(n, d)² "
            "array.",
            ("data", "model", "X", "peak", "n x c", "min(n, d)²"),
            peak_memory(),
        ),
        Table(
            "First fit in a fresh process",
            "Seconds.",
            ("process", "import discreg", "import the model", "fit"),
            first_fits(),
        ),
    ]
    print(write_page("retargeted", tables))
    print(f"{perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
