"""DRM beside its peers: large data in features, kernels, leave-one-out grids, gene data.

Run ``python benchmarks/drm.py``. The data are read from the folder named by ``DISCREG_DATA``, or
from ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import sys
import warnings
from time import perf_counter

import numpy as np
from _timing import Table, ratio_to_peer, side_by_side, write_page
from default_penalties import load
from scipy import linalg
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.svm import SVC, LinearSVC

from discreg import DRMClassifier, DRMClassifierCV

DECADES = np.logspace(-3, 3, 7)
LINEAR = {"kernel": "linear", "alpha": 1e-3, "beta": 1e-3}
NYSTROEM = {"alpha": 1e-3, "beta": 1e-3, "gamma": 100.0, "n_components": 600, "random_state": 0}


def shuttle():
    """The official split, each feature divided by its largest absolute value in training."""
    X, y = load("shuttle")
    X = X / np.abs(X[:43_500]).max(axis=0)
    return X[:43_500], y[:43_500], X[43_500:], y[43_500:]


def fit_predict(model, X, y, X_test):
    return lambda: model.fit(X, y).predict(X_test)


def features_beside_linear_models():
    """Fit and predict on shuttle: linear, and in 600 Nyström features."""
    X, y, X_test, _ = shuttle()
    linear = {
        "LinearDiscriminantAnalysis": fit_predict(LinearDiscriminantAnalysis(), X, y, X_test),
        "DRM, linear": fit_predict(DRMClassifier(probability=False, **LINEAR), X, y, X_test),
    }
    seconds = side_by_side(linear, 9)
    first = seconds["LinearDiscriminantAnalysis"]
    ratio_to_peer("fit", "DRM, linear, shuttle", seconds["DRM, linear"], first)
    for name, value in seconds.items():
        yield "shuttle, 9 features", name, f"{1e3 * value:.0f}", f"{value / first:.2f}"
    model = DRMClassifier(probability=False, **NYSTROEM).fit(X, y)
    features = model._solver.training.features
    Z, Z_test = features(X), features(X_test)
    linear = {
        "RidgeClassifier": fit_predict(RidgeClassifier(), Z, y, Z_test),
        "DRM, linear": fit_predict(
            DRMClassifier(probability=False, kernel="linear", alpha=1e-3, beta=1e-3), Z, y, Z_test
        ),
    }
    seconds = side_by_side(linear, 5)
    first = seconds["RidgeClassifier"]
    ratio_to_peer("fit", "DRM, 600 Nyström features, shuttle", seconds["DRM, linear"], first)
    for name, value in seconds.items():
        label = f"shuttle, {Z.shape[1]} Nyström features"
        yield label, name, f"{1e3 * value:.0f}", f"{value / first:.2f}"


def scatter_beside_iterations():
    """Seconds for one prediction of shuttle's test set, and how far the decisions agree."""
    X, y, X_test, _ = shuttle()
    some = X_test[::145]  # 100 samples for the iterations
    for beta in (1e4, 1e-3):
        params = {"kernel": "linear", "alpha": 1e-3, "beta": beta}
        exact = DRMClassifier(probability=False, **params).fit(X, y)
        expected = exact.decision_function(some)
        base = side_by_side({"": lambda exact=exact: exact.predict(X_test)})[""] / len(X_test)
        yield f"{beta:g}", "scatter", f"{1e6 * base:.2f}", "1", "1.000", "0"
        for solver in ("gd", "ppa", "apg"):
            model = DRMClassifier(probability=False, **params, solver=solver).fit(X, y)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                start = perf_counter()
                decisions = model.decision_function(some)
                each = (perf_counter() - start) / len(some)
            same = np.mean(decisions.argmax(axis=1) == expected.argmax(axis=1))
            apart = np.abs(decisions - expected).max() / np.abs(expected).max()
            cells = f"{1e6 * each:.0f}", f"{each / base:.0f}", f"{same:.3f}", f"{apart:.0e}"
            yield f"{beta:g}", solver, *cells


def prediction_does_not_grow():
    """Milliseconds to fit, and to predict 10,000 samples, for more and more training samples."""
    X, y = make_classification(
        1_010_000, 20, n_informative=10, n_classes=4, random_state=0, shuffle=True
    )
    X_test = X[-10_000:]
    for n_samples in (10_000, 100_000, 1_000_000):
        model = DRMClassifier(probability=False, kernel="linear")
        start = perf_counter()
        model.fit(X[:n_samples], y[:n_samples])
        fitted = perf_counter() - start
        predicted = side_by_side({"predict": lambda model=model: model.predict(X_test)}, 9)
        yield f"{n_samples:,}", f"{1e3 * fitted:.0f}", f"{1e3 * predicted['predict']:.1f}"


def kernel_beside_scipy():
    """Fit 5,000 samples and predict 1,000, beside the bare linear algebra."""
    X, y = make_classification(6_000, 20, n_informative=10, n_classes=5, random_state=0)
    X_test, X, y = X[5_000:], X[:5_000], y[:5_000]
    model = DRMClassifier(probability=False, gamma=0.02, alpha=0.1, beta=0.1)

    def bare():
        K = rbf_kernel(X, gamma=0.02)
        K[np.diag_indices_from(K)] += 0.1
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        return linalg.cho_solve(factor, rbf_kernel(X, X_test, gamma=0.02), check_finite=False)

    seconds = side_by_side({"scipy": bare, "DRM": fit_predict(model, X, y, X_test)}, 5)
    ratio_to_peer("fit", "DRM, kernel, beside scipy", seconds["DRM"], seconds["scipy"])
    for name, value in seconds.items():
        yield name, f"{value:.2f}", f"{value / seconds['scipy']:.2f}"


def leave_one_out_grid():
    """A 7 x 7 x 7 grid for 1,500 samples beside single fits and beside refits."""
    X, y = make_classification(1_500, 10, n_informative=8, n_classes=3, random_state=0)
    gammas = 1 / (2 * DECADES)
    single = side_by_side(
        {
            "fit": lambda: DRMClassifier(probability=False, alpha=1.0, beta=1.0, gamma=0.05).fit(
                X, y
            )
        },
        15,
    )["fit"]
    start = perf_counter()
    DRMClassifierCV(
        DRMClassifier(probability=False), alphas=DECADES, betas=DECADES, gammas=gammas
    ).fit(X, y)
    grid = perf_counter() - start
    # Ten refits of one setting stand for 1,500 refits of 343 settings.
    splits = list(LeaveOneOut().split(X))[:10]
    start = perf_counter()
    GridSearchCV(
        DRMClassifier(probability=False, gamma=0.05),
        {"alpha": [1.0], "beta": [1.0]},
        cv=splits,
        refit=False,
    ).fit(X, y)
    refits = (perf_counter() - start) / 10 * 1_500 * 343
    yield "one fit", f"{single:.3f}", "", ""
    yield "343 settings", f"{grid:.0f}", f"{grid / (343 * single):.1f}", ""
    yield "GridSearchCV, extrapolated", f"{refits:.0f}", "", f"{refits / grid:.0f}"


def gene_data():
    """181 samples of 12,533 features: 49 settings."""
    X, y = load("lung_gordon")
    seconds = side_by_side(
        {
            "DRM, leave-one-out": lambda: DRMClassifierCV(
                DRMClassifier(probability=False, kernel="linear"),
                alphas=DECADES,
                betas=DECADES * (X**2).sum(axis=1).mean(),
            ).fit(X, y),
            "SVC, 5 folds": lambda: GridSearchCV(
                SVC(kernel="linear"), {"C": np.logspace(-8, 8, 49)}, cv=5
            ).fit(X, y),
        },
        3,
    )
    ours, peer = seconds.values()
    ratio_to_peer("search", "DRM, linear, 49 settings, gene data", ours, peer)
    for name, value in seconds.items():
        yield name, f"{value:.2f}", f"{value / seconds['SVC, 5 folds']:.2f}"


def chosen_on_a_part(X, y):
    """Nyström features with width, alpha and beta by leave-one-out on 3,000 training samples."""
    part = np.random.default_rng(0).permutation(len(y))[:3_000]
    labels, counts = np.unique(y[part], return_counts=True)
    part = part[np.isin(y[part], labels[counts > 1])]
    gamma = 1 / (X.shape[1] * X[part].var())
    search = DRMClassifierCV(
        DRMClassifier(probability=False, n_components=600, random_state=0),
        alphas=(1e-3, 1e-2, 0.1),
        betas=(1e-3, 1e-2, 0.1),
        gammas=gamma * np.array([0.3, 1.0, 3.0, 10.0, 30.0]),
    ).fit(X[part], y[part])
    return DRMClassifier(probability=False, n_components=600, random_state=0, **search.best_params_)


def large_data():
    """What large data give: accuracy, balanced accuracy and the rate of the largest class."""
    for name, n_train in (("shuttle", 43_500), ("ijcnn1_train", 24_995), ("poker_train", 12_505)):
        X, y = load(name)
        if name != "shuttle":
            order = np.random.default_rng(0).permutation(len(y))
            X, y = X[order], y[order]
        X = X / np.maximum(np.abs(X[:n_train]).max(axis=0), np.finfo(float).tiny)
        X, y, X_test, y_test = X[:n_train], y[:n_train], X[n_train:], y[n_train:]
        majority = np.bincount(np.unique(y_test, return_inverse=True)[1]).max() / len(y_test)
        for label, model in (
            ("DRM, linear", DRMClassifier(probability=False, **LINEAR)),
            (
                "DRM, 600 Nyström features",
                DRMClassifier(probability=False, n_components=600, random_state=0),
            ),
            ("the same, parameters chosen", chosen_on_a_part(X, y)),
            ("LinearSVC", LinearSVC()),
        ):
            start = perf_counter()
            predicted = model.fit(X, y).predict(X_test)
            seconds = perf_counter() - start
            yield (
                name,
                label,
                f"{accuracy_score(y_test, predicted):.4f}",
                f"{balanced_accuracy_score(y_test, predicted):.3f}",
                f"{majority:.3f}",
                f"{seconds:.1f}",
            )


TABLES = {
    "features": lambda: Table(
        "In features",
        "Milliseconds to fit 43,500 samples and predict 14,500, medians of runs that take turns.",
        ["data", "model", "ms", "ratio to the first"],
        features_beside_linear_models(),
    ),
    "iterations": lambda: Table(
        "Prediction beside the paper's iterations",
        "Microseconds a sample on shuttle with all 43,500 training samples, alpha 1e-3, at tol "
        "1e-5 and at most 150 iterations; how often the class is the same, and the largest "
        "difference between decision values relative to the largest. At beta 1e4, as in Figure 3 "
        "of the paper, the iterations converge; at 1e-3, which is more accurate, they do not.",
        ["beta", "solver", "µs a sample", "times scatter", "same class", "difference"],
        scatter_beside_iterations(),
    ),
    "growth": lambda: Table(
        "Prediction does not depend on the number of training samples",
        "Milliseconds for 20 features and 4 classes; 10,000 samples are predicted.",
        ["training samples", "fit", "predict"],
        prediction_does_not_grow(),
    ),
    "kernel": lambda: Table(
        "Kernel form",
        "Seconds to fit 5,000 samples and predict 1,000 with the RBF kernel, beside kernel matrix, "
        "Cholesky factorisation and solve in scipy.",
        ["what", "seconds", "ratio"],
        kernel_beside_scipy(),
    ),
    "grid": lambda: Table(
        "Leave-one-out grid",
        "1,500 samples, 7 x 7 x 7 settings: seconds, how many single fits a setting takes, and how "
        "many times longer refits would.",
        ["what", "seconds", "fits a setting", "times slower"],
        leave_one_out_grid(),
    ),
    "genes": lambda: Table(
        "Gene data",
        "181 samples of 12,533 features: seconds for a search over 49 settings, and its fit.",
        ["what", "seconds", "ratio"],
        gene_data(),
    ),
    "large": lambda: Table(
        "Large data",
        "Accuracy, balanced accuracy and the rate of the largest class. Shuttle has its official "
        "split; of ijcnn1 and poker half of the training part is held out, because the test parts "
        "are not at hand. Features are divided by their largest absolute value. Parameters are "
        "chosen by leave-one-out on 3,000 training samples. Seconds are for fit and prediction.",
        ["data", "model", "accuracy", "balanced accuracy", "largest class", "seconds"],
        large_data(),
    ),
}


def main() -> None:
    chosen = sys.argv[1:]
    if chosen:  # some tables only, to look at
        for name in chosen:
            print(TABLES[name]())
    else:
        print(write_page("drm", [make() for make in TABLES.values()]))


if __name__ == "__main__":
    main()
