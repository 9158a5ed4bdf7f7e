"""ODM and LDM beside scikit-learn's SVC and LinearSVC: kernels, large linear data, growth in n.

Run ``python benchmarks/margin.py``, or name some of its tables to look at them only. Real data come
from the folder named by ``DISCREG_DATA``, or from ``../shared/data`` beside the repository; what is
missing is left out, saying so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from time import perf_counter

import numpy as np
from _timing import Table, ratio_to_peer, side_by_side, write_page
from default_penalties import DATA, load
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from discreg import LDMClassifier, ODMClassifier

REPEATS = 3
TOL = 1e-3
REFERENCE_TOL = 1e-7  # of the least value that LinearSVC is compared with
SECONDS = 20.0  # about so long the solvers that are not the default may run
KERNEL_SIZES = (3_000, 5_000, 10_000)
GROWTH = (125_000, 250_000, 500_000, 1_000_000)
N_FEATURES = 50
CS = (1.0, 0.01)


def large(name: str):
    """Sparse rows and labels of one of the large sets."""
    path = DATA / "large" / f"{name}.npz"
    if not path.exists():
        print(f"{name}: not in {DATA}, left out")
        return None
    with np.load(path) as arrays:
        parts = arrays["data"].astype(float), arrays["indices"], arrays["indptr"]
        return sparse.csr_array(parts, shape=tuple(arrays["shape"])), arrays["y"]


def two_classes(name: str):
    """One of the real sets as two classes: digits as even and odd."""
    data = large(name) if name == "a9a" else load(name)
    if data is None:
        return None
    X, y = data
    if sparse.issparse(X):
        X = X.toarray()
    labels = np.unique(y)
    return X, np.isin(y, labels[::2])


def kernel_problems():
    """Training and held-out parts, standardised."""
    sets = {name: two_classes(name) for name in ("pendigits", "usps_9298", "ijcnn1_train", "a9a")}
    sets["synthetic"] = make_classification(
        15_000, 20, n_informative=10, flip_y=0.05, random_state=0
    )
    for name, data in sets.items():
        if data is None:
            continue
        X, y = data
        for n_samples in KERNEL_SIZES:
            if len(y) < n_samples + 900:
                continue
            X_train, X_test, y_train, y_test = train_test_split(
                X, y, train_size=n_samples, random_state=0, stratify=y
            )
            scaler = StandardScaler().fit(X_train)
            parts = scaler.transform(X_train), scaler.transform(X_test[:5_000])
            yield name, *parts, y_train, y_test[:5_000]


def svc_gap(model: SVC, X, y) -> float:
    """Relative duality gap of a fitted SVC of two classes."""
    scores = model.decision_function(X)
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    theta = model.dual_coef_.ravel()
    half = 0.5 * float(theta @ (scores[model.support_] - model.intercept_[0]))
    primal = half + model.C * float(np.maximum(0.0, 1.0 - signs * scores).sum())
    dual = float(np.abs(theta).sum()) - half
    return (primal - dual) / primal


def kernel_fits():
    """Seconds to fit with the RBF kernel, its evaluation included."""
    for name, X, X_test, y, y_test in kernel_problems():
        n_samples = len(y)
        ratio = ODMClassifier().C2 / ODMClassifier().C1
        pairs = {
            "defaults": {
                "SVC": SVC(),
                "ODM": ODMClassifier(probability=False, tol=TOL, random_state=0),
                "LDM": LDMClassifier(probability=False, tol=TOL, random_state=0),
            },
            "C = 1": {
                "SVC": SVC(C=1.0, cache_size=1000),
                "ODM": ODMClassifier(
                    probability=False, C1=n_samples, C2=ratio * n_samples, tol=TOL, random_state=0
                ),
            },
        }
        for setting, models in pairs.items():
            seconds = side_by_side(
                {label: fit(model, X, y) for label, model in models.items()}, REPEATS
            )
            for label, model in models.items():
                gap = svc_gap(model, X, y) if label == "SVC" else model.gap_
                if label != "SVC":
                    what = f"{label}, kernel, {name}, {n_samples:,} samples, {setting}"
                    ratio_to_peer("fit", what, seconds[label], seconds["SVC"])
                yield (
                    name,
                    f"{n_samples:,} x {X.shape[1]}",
                    setting,
                    label,
                    f"{seconds[label]:.2f}",
                    f"{seconds[label] / seconds['SVC']:.2f}",
                    f"{gap:.0e}",
                    f"{100 * len(model.support_) / n_samples:.0f} %",
                    f"{100 * model.score(X_test, y_test):.2f}",
                )


def fit(model, X, y):
    return lambda: model.fit(X, y)


def linear_problems():
    """Training and held-out parts of large data: sparse ones as they are, and dense."""
    sets = {name: large(name) for name in ("a9a", "w8a", "farm-ads")}
    sets["synthetic"] = make_classification(
        125_000, N_FEATURES, n_informative=20, flip_y=0.05, random_state=0
    )
    for name, data in sets.items():
        if data is not None:
            X, y = data
            yield name, *train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)


def svc_objective(coef, intercept: float, X, signs, C: float) -> float:
    """LinearSVC's own objective, which penalises the intercept."""
    margins = signs * (X @ coef + intercept)
    losses = float((np.maximum(0.0, 1.0 - margins) ** 2).sum())
    return 0.5 * float(coef @ coef) + 0.5 * intercept**2 + C * losses


def svc_excess(model: LinearSVC, X, y) -> float:
    """How far a fitted LinearSVC is above the least value of its objective, relatively.

    The least value is that of ODM without its second loss, with the intercept as a feature.
    """
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    ones = np.ones((X.shape[0], 1))
    rows = sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])
    C1 = len(y) * model.C
    optimum = ODMClassifier(
        probability=False,
        C1=C1,
        C2=1e-12 * C1,
        D=0.0,
        kernel="linear",
        fit_intercept=False,
        tol=REFERENCE_TOL,
    ).fit(rows, signs)
    *coef, intercept = optimum.coef_[0]
    least = svc_objective(np.array(coef), intercept, X, signs, model.C)
    reached = svc_objective(model.coef_[0], float(model.intercept_[0]), X, signs, model.C)
    return max(reached / least - 1.0, REFERENCE_TOL)


def within_seconds(model, X, y) -> float:
    """Fit with as many iterations as the time allows; seconds of the fit."""
    spent = []
    for n_iter in (1, 1, 4):  # the first one compiles
        start = perf_counter()
        model.set_params(max_iter=n_iter).fit(X, y)
        spent.append(perf_counter() - start)
    each = max((spent[2] - spent[1]) / 3, 1e-5)
    most = int(np.clip((SECONDS - spent[1]) / each, 1, 1_000))
    start = perf_counter()
    model.set_params(max_iter=most).fit(X, y)
    return perf_counter() - start


def linear_fits():
    """Seconds to fit without a kernel."""
    for name, X, X_test, y, y_test in linear_problems():
        shape = f"{X.shape[0]:,} x {X.shape[1]:,}"
        for label, C in {"defaults": None, **{f"C = {C:g}": C for C in CS}}.items():
            peer = None
            for what, model, seconds, reached in linear_models(X, y, C):
                peer = peer or seconds  # LinearSVC is the first
                if "auto" in what:
                    ratio_to_peer("fit", f"ODM, linear, {name}, {label}", seconds, peer)
                yield (
                    name,
                    shape,
                    label,
                    what,
                    f"{seconds:.3f}",
                    f"{seconds / peer:.2f}",
                    reached,
                    np.max(model.n_iter_),
                    f"{100 * model.score(X_test, y_test):.2f}",
                )


def linear_models(X, y, C: float | None):
    """LinearSVC and ODM by all its solvers, fitted: name, model, seconds and the gap reached."""
    default = ODMClassifier(probability=False)
    C1 = default.C1 if C is None else C * len(y)
    ours = {"C1": C1, "C2": default.C2 / default.C1 * C1, "kernel": "linear", "tol": TOL}
    svc = LinearSVC(C=1.0 if C is None else C, dual="auto", random_state=0)
    odm = ODMClassifier(probability=False, **ours, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        svc.fit(X, y)
    ended = ", not converged" if caught else ""
    seconds = side_by_side({"LinearSVC": fit(svc, X, y), "ODM": fit(odm, X, y)}, REPEATS)
    yield "LinearSVC", svc, seconds["LinearSVC"], f"{svc_excess(svc, X, y):.0e}{ended}"
    yield f"ODM, auto ({odm.solver_})", odm, seconds["ODM"], f"{odm.gap_:.0e}"
    for solver in ("dcd", "svrg"):
        if solver != odm.solver_:
            model = ODMClassifier(probability=False, **ours, solver=solver, random_state=0)
            spent = within_seconds(model, X, y)
            yield f"ODM, {solver}", model, spent, f"{model.gap_:.0e}"


def growth():
    """Seconds of linear ODM for more and more samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(GROWTH[-1], N_FEATURES))
    y = X @ rng.normal(size=N_FEATURES) + 3.0 * rng.normal(size=len(X)) > 0
    for n_samples in GROWTH:
        rows = X[:n_samples], y[:n_samples]
        model = ODMClassifier(probability=False, kernel="linear", tol=TOL)
        seconds = side_by_side({"ODM": fit(model, *rows)}, REPEATS)["ODM"]
        yield (
            f"{n_samples:,}",
            f"{seconds:.2f}",
            f"{1e6 * seconds / n_samples:.2f}",
            model.n_iter_,
            f"{model.gap_:.0e}",
        )


def first_fits():
    """Seconds until the first fit is done in a fresh process, without and with compiled code."""
    code = (
        "from time import perf_counter as t; import sys; a = t(); import discreg; b = t();"
        "from discreg import ODMClassifier, LDMClassifier; import numpy as np; c = t();"
        "X = np.random.default_rng(0).normal(size=(200, 10)); y = X[:, 0] > 0;"
        "model = getattr(discreg, sys.argv[1] + 'Classifier')(kernel=sys.argv[2]); d = t();"
        "model.fit(X, y); e = t(); model.fit(X, y); f = t();"
        "print(b - a, c - b, e - d, f - e, e - a)"
    )
    for model in ("ODM", "LDM"):
        for kernel in ("rbf", "linear"):
            with tempfile.TemporaryDirectory() as cache:
                for which in ("first (compiles)", "second (cached)"):
                    run = subprocess.run(
                        [sys.executable, "-W", "ignore", "-c", code, model, kernel],
                        env=os.environ | {"NUMBA_CACHE_DIR": cache},
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    cells = [f"{float(value):.3f}" for value in run.stdout.split()]
                    yield model, kernel, which, *cells


TABLES = {
    "kernel": lambda: Table(
        "RBF kernel, to a gap of 1e-3",
        f"Seconds to fit, kernel evaluation included, medians of {REPEATS} runs that take turns; "
        "two classes (digits: even and odd), standardised features. The gap is relative; SVC's is "
        "computed from its solution. C = 1 is SVC's, with C1 = n for ODM, and both may keep "
        "1,000 MB of the kernel; LDM stores all of it. Last, the share of support vectors and the "
        "accuracy on held-out rows.",
        ["data", "shape", "setting", "model", "seconds", "ratio", "gap", "support", "accuracy"],
        kernel_fits(),
    ),
    "linear": lambda: Table(
        "Linear, large data",
        f"Seconds to fit 80 % of the rows, medians of {REPEATS} runs that take turns (dcd and svrg "
        f"where they are not the default: one run of at most about {SECONDS:.0f} s), and accuracy "
        "on the others. C is LinearSVC's, with C1 = n C for ODM. The gap is ODM's relative duality "
        "gap; for LinearSVC it is how far its objective is above the least value, relatively; "
        "1e-07 means at most that. Iterations are passes, steps or epochs.",
        ["data", "shape", "setting", "model", "seconds", "ratio", "gap", "iterations", "accuracy"],
        linear_fits(),
    ),
    "growth": lambda: Table(
        "Linear ODM as the number of samples grows",
        f"Dense rows of {N_FEATURES} features, defaults; medians of {REPEATS} runs.",
        ["samples", "seconds", "µs a sample", "iterations", "gap"],
        growth(),
    ),
    "first": lambda: Table(
        "First fit in a fresh process",
        "Seconds for 200 x 10 samples; the last column is from the start, before any import, to "
        "the end of the first fit.",
        [
            "model",
            "kernel",
            "process",
            "import discreg",
            "import the models",
            "first fit",
            "second fit",
            "all",
        ],
        first_fits(),
    ),
}


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = sys.argv[1:]
    if chosen:  # some tables only, to look at
        for name in chosen:
            print(TABLES[name]())
    else:
        print(write_page("margin", [make() for make in TABLES.values()]))


if __name__ == "__main__":
    main()
