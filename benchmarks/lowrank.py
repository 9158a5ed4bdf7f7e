"""Speed of low-rank regression beside scikit-learn's LDA and ridge and the paper's iteration.

Run ``python benchmarks/lowrank.py``. Real data come from the folder named by ``DISCREG_DATA``, or
from ``../shared/data`` beside the repository; what is missing is left out, saying so.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

import numpy as np
from _timing import Table, ratio_to_peer, side_by_side, write_page
from scipy import linalg
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier

from discreg import LRLRClassifier, LRRRClassifier, LRRRClassifierCV, SLRRClassifier

DATA = Path(os.environ.get("DISCREG_DATA", Path(__file__).parents[2] / "shared" / "data"))
SHRINKAGE = 0.1
RULE = 1e-5  # the paper's stopping rule


def groups(n_samples: int, n_features: int, n_classes: int):
    """Noisy classes that differ in a twentieth of the features."""
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % n_classes
    X = rng.normal(size=(n_samples, n_features))
    X[:, : n_features // 20] += rng.normal(size=(n_classes, n_features // 20))[y]
    return X, y


def equivalent_beta(X, y) -> float:
    """The penalty at which S_w + βI is what scikit-learn's shrinkage makes of S_w."""
    means = np.array([X[y == label].mean(axis=0) for label in np.unique(y)])
    return SHRINKAGE / (1 - SHRINKAGE) * float(np.sum((X - means[y]) ** 2)) / X.shape[1]


def against_lda():
    """Fits with more features than samples."""
    for n_samples, n_features in ((350, 5_000), (60, 100_000)):
        X, y = groups(n_samples, n_features, 5)
        beta = equivalent_beta(X, y)
        lrrr, ridge = LRRRClassifier(probability=False, beta=beta), RidgeClassifier(alpha=beta)
        fast = side_by_side(
            {
                "RidgeClassifier": lambda m=ridge, X=X, y=y: m.fit(X, y),
                "LRRRClassifier": lambda m=lrrr, X=X, y=y: m.fit(X, y),
                "LRLRClassifier": lambda X=X, y=y: LRLRClassifier(probability=False).fit(X, y),
            },
            repeats=7,
        )
        peer, *ours = fast
        for name in ours:
            what = f"{name}, {n_samples:,} x {n_features:,}"
            ratio_to_peer("fit", what, fast[name], fast[peer])
        rows = [(name, seconds, "") for name, seconds in fast.items()]
        for solver in ("lsqr", "eigen") if n_features <= 5_000 else ():
            lda = LinearDiscriminantAnalysis(solver=solver, shrinkage=SHRINKAGE)
            start = perf_counter()
            lda.fit(X, y)
            spent = perf_counter() - start
            theirs = (lda.coef_[1:] - lda.coef_[0]).T
            angle = linalg.subspace_angles(lrrr.scalings_, theirs).max()
            rows.append((f"LDA, shrinkage, {solver}", spent, f"{angle:.0e}"))
        for name, seconds, angle in rows:
            yield (
                f"{n_samples:,} x {n_features:,}",
                name,
                f"{seconds:.3f}",
                f"{seconds / fast['RidgeClassifier']:.2f}",
                f"{seconds / fast['LRRRClassifier']:.1f}",
                angle,
            )


def selection():
    """Choice among all ranks and 11 penalties, in units of one fit."""
    path = DATA / "umist_32x32.npz"
    if not path.exists():
        print(f"umist_32x32: not in {DATA}, left out")
        return
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(float), arrays["y"]
    searches = {
        "5 folds": LRRRClassifierCV(LRRRClassifier(probability=False), cv=5),
        "leave-one-out": LRRRClassifierCV(LRRRClassifier(probability=False)),
    }
    single = LRRRClassifier(probability=False, beta=1.0)
    seconds = side_by_side(
        {
            "single": lambda: single.fit(X, y),
            **{name: lambda s=search: s.fit(X, y) for name, search in searches.items()},
        },
        repeats=5,
    )
    for name, search in searches.items():
        yield (
            f"Umist, {X.shape[0]} x {X.shape[1]:,}, {len(np.unique(y))} classes",
            name,
            len(search.cv_results_["params"]),
            f"{seconds[name]:.2f}",
            f"{1e3 * seconds['single']:.0f}",
            f"{seconds[name] / seconds['single']:.1f}",
        )


def wide_images():
    """575 samples of 20 classes with as many features as the paper's images."""
    X, y = groups(575, 10_304, 20)
    return X / np.sqrt(len(X)), y


def papers_iteration(X, y, beta: float) -> float:
    """Seconds of one iteration of Algorithm 3 with d × d matrices.

    Counted in its favour: S_t is formed once and for all, and instead of generalised eigenvectors
    of d × d matrices one system is solved and the directions come from a k × k matrix.
    """
    Y = np.eye(y.max() + 1)[y] / np.sqrt(np.bincount(y))
    centred = X - X.mean(axis=0)
    total = centred.T @ centred
    moments = centred.T @ Y
    start = perf_counter()
    total[np.diag_indices_from(total)] += beta
    W = linalg.solve(total, moments, assume_a="pos", overwrite_a=True, check_finite=False)
    linalg.eigh(moments.T @ W)
    return perf_counter() - start


def sparse_regression():
    """SLRR with 10,304 features: both solvers, and the paper's matrices."""
    X, y = wide_images()
    once = papers_iteration(X, y, largest_beta(X, y))
    for rank in (None, 12):
        for fraction in (0.3, 0.1):
            beta = fraction * largest_beta(X, y)
            paper = SLRRClassifier(
                probability=False,
                rank=rank,
                beta=beta,
                solver="reweighted",
                stopping="change",
                tol=RULE,
            )
            exact = SLRRClassifier(probability=False, rank=rank, beta=beta)
            seconds = side_by_side({"alternating": lambda m=exact: m.fit(X, y)}, repeats=3)
            start = perf_counter()
            paper.fit(X, y)
            seconds["reweighted"] = perf_counter() - start
            papers = once * paper.n_iter_
            for name, spent, model in (
                ("the paper's, d x d (one iteration measured)", papers, paper),
                ("reweighted", seconds["reweighted"], paper),
                ("alternating", seconds["alternating"], exact),
            ):
                yield (
                    rank or "full",
                    f"{fraction:g}",
                    name,
                    f"{spent:.2f}",
                    f"{papers / spent:.0f}",
                    model.n_iter_,
                    f"{model.objective_history_[-1]:.5f}",
                    f"{model.gap_:.0e}",
                    len(model.selected_features_),
                )


def largest_beta(X, y) -> float:
    """The penalty above which no feature is left."""
    Y = np.eye(y.max() + 1)[y] / np.sqrt(np.bincount(y))
    return 2 * float(np.linalg.norm((X - X.mean(axis=0)).T @ Y, axis=1).max())


def main() -> None:
    tables = [
        Table(
            "More features than samples, 5 classes",
            "Seconds to fit, medians of 7 runs that take turns (LDA: one run). `beta` and "
            "shrinkage are such that both regularise alike; the angle is between the subspaces of "
            "LRRR and of LDA.",
            ["data", "model", "seconds", "times Ridge", "times LRRR", "angle"],
            against_lda(),
        ),
        Table(
            "Choice of rank and penalty",
            "Seconds for all ranks and 11 penalties, medians of 5 runs that take turns with single "
            "fits.",
            ["data", "held out by", "settings", "seconds", "single fit, ms", "single fits"],
            selection(),
        ),
        Table(
            "SLRR, 575 x 10,304, 20 classes",
            "Seconds to fit (alternating: median of 3). The paper's iteration with d x d matrices "
            "is measured once and counted as often as the same iteration by n x n needs until the "
            "paper's rule stops it. `beta` is relative to the penalty above which no "
            "feature is left; the gap is relative.",
            [
                "rank",
                "beta",
                "solver",
                "seconds",
                "faster than the paper's",
                "iterations",
                "objective",
                "gap",
                "features",
            ],
            sparse_regression(),
        ),
    ]
    print(write_page("lowrank", tables))


if __name__ == "__main__":
    main()
