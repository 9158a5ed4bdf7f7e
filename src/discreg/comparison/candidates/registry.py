"""The candidate models of a comparison, each with its parameter search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

import discreg
from discreg.base.errors import InputError
from discreg.tables.frames import nearest

from .tuning import Tuned, TuningPlan

AUTO = "Auto"  # preferred among equally good models
MAJORITY = "majority"  # name of the model that always predicts the class frequencies
FAST = (AUTO, "ReLSR", "Logistic", "RandomForest")
# Training rows above which an n x n kernel matrix is too large, and a tree is grown on a part.
KERNEL_ROWS, FOREST_ROWS = 8_000, 30_000
PART = 5_000  # rows that each tree of a limited forest draws
TREES = 300  # of CatBoost, whose learning rate follows; 1,000 have no lower log-loss
LEAVES = (1, 5)  # smallest leaves of a forest: with 1, probabilities of 0 and 1 are frequent
PENALTIES = (1.0, 0.1, 0.01, 0.001)  # betas of the slower retargeted models


@dataclass(frozen=True)
class Candidate:
    """A model of a comparison.

    Attributes
    ----------
    name : str
        Name in the report.
    make : function of a TuningPlan
        Creates the unfitted model.
    origin : str
        "discreg", "scikit-learn" or the name of the package that it needs.
    is_default : bool
        Whether it is compared if no candidates are named.
    keeps_rows, is_dense, has_weights : bool
        Whether a fitted model contains training rows, does not support sparse data, and takes
        sample weights.
    most_rows : int or None
        Training rows above which `limited` replaces `make`, or the model is left out.
    limited : function of a TuningPlan, or None
        Creates the form for larger tables.
    note : str
        What the form for larger tables is, for a sentence that begins with the name.
    """

    name: str
    make: Callable[[TuningPlan], BaseEstimator]
    origin: str = "scikit-learn"
    is_default: bool = True
    keeps_rows: bool = False
    is_dense: bool = False
    has_weights: bool = True
    most_rows: int | None = None
    limited: Callable[[TuningPlan], BaseEstimator] | None = None
    note: str = ""


def _drm(plan: TuningPlan, **params: Any) -> Tuned:
    grids: dict[str, Any] = {}
    if params.get("kernel") != "linear":
        grids = {"alphas": (0.01, 1.0, 10.0), "betas": (0.001, 0.1), "gammas": ["scale"]}
    model = discreg.DRMClassifierCV(
        discreg.DRMClassifier(random_state=plan.seed, **params), **grids
    )
    return plan.own(model, leave_one_out=True)


def _odm(plan: TuningPlan, kernel: str = "rbf") -> Tuned:
    model = discreg.ODMClassifierCV(
        discreg.ODMClassifier(kernel=kernel, random_state=plan.seed),
        C1s=(10.0, 100.0, 1e3),
        C2s=(1.0, 100.0),
        Ds=(0.0, 0.3),
        gammas=["scale"],
    )
    return plan.own(model)


def _ldm(plan: TuningPlan, kernel: str = "rbf") -> Tuned:
    model = discreg.LDMClassifierCV(
        discreg.LDMClassifier(kernel=kernel, random_state=plan.seed),
        Cs=(10.0, 100.0, 1e3),
        lambda1s=(0.0, 10.0, 1e3),
        gammas=["scale"],
    )
    return plan.own(model)


def _lrlr(plan: TuningPlan) -> Tuned:
    ranks = sorted({1, (plan.n_classes + 1) // 2, plan.n_classes - 1})
    return plan.own(discreg.LRLRClassifierCV(ranks=ranks), leave_one_out=True)


def _retargeted(search: Any) -> Callable[[TuningPlan], Tuned]:
    return lambda plan: plan.own(search(), leave_one_out=True)


def _forest(kind: Any, **options: Any) -> Callable[[TuningPlan], Tuned]:
    return lambda plan: plan.grid(
        kind(random_state=plan.seed, **options), min_samples_leaf=list(LEAVES)
    )


def _small_forest(kind: Any) -> Callable[[TuningPlan], Tuned]:
    return _forest(kind, max_samples=PART, bootstrap=True)


def _boosting(plan: TuningPlan) -> Tuned:
    model = HistGradientBoostingClassifier(
        random_state=plan.seed, early_stopping=False, max_iter=50
    )
    return plan.grid(model, learning_rate=[0.03, 0.1])


def _installed(package: str, name: str, **options: Any) -> Callable[[TuningPlan], Tuned]:
    """Create a model of another package, with its default parameters besides these."""

    def make(plan: TuningPlan) -> Tuned:
        kind = getattr(import_module(package), name)
        return plan.grid(kind(random_state=plan.seed, **options))

    return make


# In the order in which they are fitted: what may take longest comes first.
CANDIDATES = (
    Candidate(
        AUTO,
        lambda plan: discreg.AutoClassifier(random_state=plan.seed),
        "discreg",
        keeps_rows=True,
    ),
    Candidate(
        "DRM",
        _drm,
        "discreg",
        keeps_rows=True,
        most_rows=KERNEL_ROWS // 8,
        limited=lambda plan: (
            _drm(plan, n_components=200)
            if plan.n_rows <= 5 * KERNEL_ROWS
            else _drm(plan, kernel="linear")
        ),
        note="approximates its kernel, or has a linear one",
    ),
    Candidate(
        "ODM",
        _odm,
        "discreg",
        keeps_rows=True,
        most_rows=KERNEL_ROWS,
        limited=lambda plan: _odm(plan, "linear"),
        note="has a linear kernel",
    ),
    Candidate("ReLSR", _retargeted(discreg.ReLSRClassifierCV), "discreg"),
    Candidate("LRRR", _retargeted(discreg.LRRRClassifierCV), "discreg"),
    Candidate(
        "SVC",
        lambda plan: plan.grid(SVC(), C=[0.1, 1.0, 10.0, 100.0]),
        keeps_rows=True,
        most_rows=KERNEL_ROWS,
    ),
    Candidate(
        "RandomForest",
        _forest(RandomForestClassifier),
        most_rows=FOREST_ROWS,
        limited=_small_forest(RandomForestClassifier),
        note=f"draws {PART:,} rows for each tree",
    ),
    Candidate(
        "ExtraTrees",
        _forest(ExtraTreesClassifier),
        most_rows=FOREST_ROWS,
        limited=_small_forest(ExtraTreesClassifier),
        note=f"draws {PART:,} rows for each tree",
    ),
    Candidate("HistGB", _boosting, is_dense=True),
    Candidate(
        "CatBoost",
        _installed(
            "catboost",
            "CatBoostClassifier",
            iterations=TREES,
            thread_count=1,
            verbose=0,
            allow_writing_files=False,
        ),
        "catboost",
    ),
    Candidate(
        "LightGBM", _installed("lightgbm", "LGBMClassifier", n_jobs=1, verbosity=-1), "lightgbm"
    ),
    Candidate(
        "KNN",
        lambda plan: plan.grid(KNeighborsClassifier(), n_neighbors=plan.neighbors),
        keeps_rows=True,
        has_weights=False,
        most_rows=5 * KERNEL_ROWS,
    ),
    Candidate(
        "Logistic",
        lambda plan: plan.grid(
            LogisticRegression(max_iter=1000), C=[0.001, 0.01, 0.1, 1.0, 10.0, 100.0]
        ),
    ),
    Candidate(
        "LDA",
        lambda plan: plan.grid(
            LinearDiscriminantAnalysis(solver="lsqr"), shrinkage=[None, 0.1, 0.5, 0.9]
        ),
        is_dense=True,
        has_weights=False,
    ),
    Candidate("LSR", _retargeted(discreg.LSRClassifierCV), "discreg", is_default=False),
    Candidate("DLSR", _retargeted(discreg.DLSRClassifierCV), "discreg", is_default=False),
    Candidate(
        "GReLSR",
        lambda plan: plan.own(discreg.GReLSRClassifierCV(betas=PENALTIES), leave_one_out=True),
        "discreg",
        is_default=False,
    ),
    Candidate("LRLR", _lrlr, "discreg", is_default=False),
    Candidate(
        "SLRR",
        lambda plan: plan.own(discreg.SLRRClassifierCV()),
        "discreg",
        is_default=False,
        is_dense=True,
    ),
    Candidate(
        "LDM",
        _ldm,
        "discreg",
        is_default=False,
        keeps_rows=True,
        most_rows=KERNEL_ROWS,
        limited=lambda plan: _ldm(plan, "linear"),
        note="has a linear kernel",
    ),
    Candidate(
        "LinearSVC",
        lambda plan: plan.grid(LinearSVC(random_state=plan.seed), C=[0.001, 0.01, 0.1, 1.0, 10.0]),
        is_default=False,
    ),
)


def is_installed(candidate: Candidate) -> bool:
    """Return whether the package of a candidate can be imported."""
    return (
        candidate.origin in ("discreg", "scikit-learn") or find_spec(candidate.origin) is not None
    )


def majority() -> DummyClassifier:
    """Create the model that predicts the class frequencies."""
    return DummyClassifier(strategy="prior")


def named(names: Iterable[str], *, others: Sequence[str] = ()) -> list[str]:
    """Return the names of candidates in their usual spelling.

    Parameters
    ----------
    names : iterable of str
        Names in any case.
    others : sequence of str
        Further names that exist.
    """
    known = [*(candidate.name for candidate in CANDIDATES), *others]
    by_name = {name.lower(): name for name in known}
    found = []
    for name in names:
        if name.lower() not in by_name:
            hint = nearest(name, known)
            meant = f" Did you mean {hint}?" if hint else ""
            raise InputError(
                f"There is no model '{name}'.{meant} The models are {', '.join(known)}."
            )
        found.append(by_name[name.lower()])
    return list(dict.fromkeys(found))
