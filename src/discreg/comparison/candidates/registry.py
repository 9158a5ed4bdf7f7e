"""The candidate models of a comparison, each with its parameter search and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

import discreg
from discreg.base.errors import InputError
from discreg.tables.formats import nearest

from .tuning import Shape, Tuned, TuningPlan

__all__ = ["CANDIDATES", "FAST", "Candidate", "Variant", "majority", "named"]

FAST = ("Auto", "LSR", "ReLSR", "Logistic", "RandomForest")
SMALL = 5_000  # rows that each tree of a limited forest draws
PENALTIES = (1.0, 0.1, 0.01, 0.001)  # betas of the slower retargeted models


@dataclass(frozen=True)
class Variant:
    """One form of a model: the full search, or a limited one for larger tables.

    Attributes
    ----------
    make : function of a TuningPlan
        Creates the unfitted model.
    seconds : function of a Shape
        Estimated time of one tuned fit on one core.
    note : str
        What is limited, for a sentence that begins with the name of the model.
    """

    make: Callable[[TuningPlan], BaseEstimator]
    seconds: Callable[[Shape], float]
    note: str = ""


@dataclass(frozen=True)
class Candidate:
    """A model of a comparison; `CANDIDATES` lists them in the order of simplicity.

    Attributes
    ----------
    name : str
        Name in the report.
    variants : tuple of Variant
        From the full search to the most limited one; the first that is affordable is used.
    origin : {"discreg", "scikit-learn"}
    keeps_rows : bool
        Whether a fitted model contains training rows.
    is_dense : bool
        Whether the model does not support sparse data.
    has_probabilities : bool
        Whether it has probabilities.
    has_weights : bool
        Whether its fit takes sample weights.
    share : float
        Multiple of the time of other models that it may take.
    """

    name: str
    variants: tuple[Variant, ...]
    origin: str = "scikit-learn"
    keeps_rows: bool = False
    is_dense: bool = False
    has_probabilities: bool = True
    has_weights: bool = True
    share: float = 1.0

    def affordable(self, shape: Shape, seconds: float) -> Variant | None:
        """Return the first variant whose fit is estimated to take its share; None if none is."""
        limit = self.share * seconds
        return next((each for each in self.variants if each.seconds(shape) <= limit), None)


def _twice(shape: Shape, seconds: float) -> float:
    return shape.n_weights * seconds


def _drm(search: TuningPlan, **options: Any) -> Tuned:
    model = discreg.DRMClassifierCV(random_state=search.seed, **options)
    return search.own(model, leave_one_out=True)


def _few_drm(search: TuningPlan, **options: Any) -> Tuned:
    return _drm(search, alphas=(0.01, 1.0, 10.0), betas=(0.001, 0.1), gammas=["scale"], **options)


def _odm(search: TuningPlan, kernel: str) -> Tuned:
    model = discreg.ODMClassifierCV(
        C1s=(10.0, 100.0, 1e3),
        C2s=(1.0, 100.0),
        Ds=(0.0, 0.3),
        kernel=kernel,
        gammas=["scale"],
        random_state=search.seed,
    )
    return search.own(model)


def _ldm(search: TuningPlan, kernel: str) -> Tuned:
    model = discreg.LDMClassifierCV(
        Cs=(10.0, 100.0, 1e3),
        lambda1s=(0.0, 10.0, 1e3),
        kernel=kernel,
        gammas=["scale"],
        random_state=search.seed,
    )
    return search.own(model)


def _lrlr(search: TuningPlan) -> Tuned:
    n_classes = search.shape.n_classes
    ranks = sorted({1, (n_classes + 1) // 2, n_classes - 1})
    return search.own(discreg.LRLRClassifierCV(ranks=ranks), leave_one_out=True)


def _auto(search: TuningPlan) -> BaseEstimator:
    scoring = None if search.is_default else search.scoring
    return discreg.AutoClassifier(scoring=scoring, random_state=search.seed)


def _quick_auto(search: TuningPlan) -> BaseEstimator:
    return _auto(search).set_params(families=["LSR"], ensemble=False)


def _forest(search: TuningPlan) -> Tuned:
    return search.grid(RandomForestClassifier(random_state=search.seed))


def _small_forest(search: TuningPlan) -> Tuned:
    n_drawn = min(SMALL, search.shape.n_rows // 2)
    forest = RandomForestClassifier(max_samples=n_drawn, random_state=search.seed)
    tuned = search.grid(forest)
    tuned.set_params(most_rows=2 * n_drawn)
    return tuned


def _fits(shape: Shape, n_settings: int) -> int:
    """Return the number of fits of a grid in three folds; one setting needs no folds."""
    n_settings *= shape.n_weights
    return 1 if n_settings == 1 else 3 * n_settings + 1


def _boosting(search: TuningPlan) -> Tuned:
    model = HistGradientBoostingClassifier(
        random_state=search.seed, early_stopping=False, max_iter=50
    )
    return search.grid(model)


def _boosting_seconds(shape: Shape) -> float:
    """Return the time of one fit: of the splits of 50 trees per class, and of the histograms."""
    n_trees = 50 * (1 if shape.n_classes == 2 else shape.n_classes)
    n_splits = min(31, shape.n_rows / 25)
    return n_trees * (n_splits * (4e-4 + 2.4e-6 * shape.n_columns) + 0.002 * shape.cells)


def _auto_seconds(shape: Shape, exact: float) -> float:
    """Return the time of `AutoClassifier`, whose kernels are exact up to 2,000 rows."""
    if shape.n_rows <= 2_000:
        return _twice(shape, 1 + exact * (shape.n_rows / 1000) ** 2)
    return _twice(shape, 3.5 + 0.15 * shape.n_rows / 1000)


def _lda(search: TuningPlan) -> Tuned:
    model = LinearDiscriminantAnalysis(solver="lsqr")
    return search.grid(model, "priors", shrinkage=[None, 0.1, 0.5, 0.9])


# From the simplest model to the most complex one: linear models with one penalty, linear models
# with a structure, kernel models and neighbours, ensembles, and the choice among many models.
CANDIDATES = (
    Candidate(
        "LSR",
        (
            Variant(
                lambda search: search.own(discreg.LSRClassifierCV(), leave_one_out=True),
                lambda shape: _twice(shape, 0.1 + 3 * shape.solve + 1.2 * shape.cells),
            ),
        ),
        "discreg",
    ),
    Candidate(
        "Ridge",
        (
            Variant(
                lambda search: search.grid(RidgeClassifier(), alpha=[0.01, 0.1, 1, 10, 100, 1e3]),
                lambda shape: _twice(shape, 0.1 + 5 * shape.solve),
            ),
        ),
        has_probabilities=False,
    ),
    Candidate(
        "Logistic",
        (
            Variant(
                lambda search: search.grid(
                    LogisticRegression(max_iter=1000), C=[0.01, 0.1, 1.0, 10.0, 100.0]
                ),
                lambda shape: _twice(shape, 0.2 + 2 * shape.cells),
            ),
        ),
    ),
    Candidate(
        "LinearSVC",
        (
            Variant(
                lambda search: search.grid(
                    LinearSVC(random_state=search.seed), C=[0.001, 0.01, 0.1, 1.0, 10.0]
                ),
                lambda shape: _twice(shape, 0.1 + 4 * shape.cells),
            ),
        ),
        has_probabilities=False,
    ),
    Candidate(
        "LDA",
        (Variant(_lda, lambda shape: 0.1 + shape.n_columns**3 / 3e8 + 2 * shape.cells),),
        is_dense=True,
        has_weights=False,
    ),
    Candidate(
        "LRRR",
        (
            Variant(
                lambda search: search.own(discreg.LRRRClassifierCV(), leave_one_out=True),
                lambda shape: _twice(shape, 0.1 + 5 * shape.solve + 1.2 * shape.cells),
            ),
        ),
        "discreg",
    ),
    Candidate(
        "LRLR",
        (Variant(_lrlr, lambda shape: _twice(shape, 0.1 + 5 * shape.solve + 1.2 * shape.cells)),),
        "discreg",
    ),
    Candidate(
        "DLSR",
        (
            Variant(
                lambda search: search.own(discreg.DLSRClassifierCV(), leave_one_out=True),
                lambda shape: _twice(shape, 0.3 + 5 * shape.cells),
            ),
        ),
        "discreg",
    ),
    Candidate(
        "ReLSR",
        (
            Variant(
                lambda search: search.own(discreg.ReLSRClassifierCV(), leave_one_out=True),
                lambda shape: _twice(shape, 0.3 + 5 * shape.cells),
            ),
        ),
        "discreg",
    ),
    Candidate(
        "SLRR",
        (
            Variant(
                lambda search: search.own(discreg.SLRRClassifierCV()),
                lambda shape: _twice(shape, 0.5 + 5 * shape.cells),
            ),
        ),
        "discreg",
        is_dense=True,
    ),
    Candidate(
        "GReLSR",
        (
            Variant(
                lambda search: search.own(
                    discreg.GReLSRClassifierCV(betas=PENALTIES), leave_one_out=True
                ),
                lambda shape: _twice(shape, 0.5 + 5 * shape.cells),
            ),
        ),
        "discreg",
    ),
    Candidate(
        "KNN",
        (
            Variant(
                lambda search: search.grid(
                    KNeighborsClassifier(), None, n_neighbors=[1, 3, 5, 9, 15]
                ),
                lambda shape: 0.1 + shape.n_rows**2 * shape.n_columns / 3e9,
            ),
        ),
        keeps_rows=True,
        has_weights=False,
    ),
    Candidate(
        "ODM",
        (
            Variant(
                lambda search: _odm(search, "rbf"),
                lambda shape: _twice(shape, 0.4 + 1.1 * (shape.n_rows / 1000) ** 2),
            ),
            Variant(
                lambda search: _odm(search, "linear"),
                lambda shape: _twice(shape, 1 + 4 * shape.cells),
                "has a linear kernel",
            ),
        ),
        "discreg",
        keeps_rows=True,
    ),
    Candidate(
        "LDM",
        (
            Variant(
                lambda search: _ldm(search, "rbf"),
                lambda shape: _twice(shape, 0.2 + 0.5 * (shape.n_rows / 1000) ** 2),
            ),
            Variant(
                lambda search: _ldm(search, "linear"),
                lambda shape: _twice(shape, 1 + 4 * shape.cells),
                "has a linear kernel",
            ),
        ),
        "discreg",
        keeps_rows=True,
    ),
    Candidate(
        "SVC",
        (
            Variant(
                lambda search: search.grid(SVC(), C=[0.1, 1.0, 10.0, 100.0]),
                lambda shape: _twice(
                    shape,
                    0.2 + 0.4 * (shape.n_rows / 1000) ** 2 * (1 + shape.n_columns / 100),
                ),
            ),
        ),
        keeps_rows=True,
        has_probabilities=False,
    ),
    Candidate(
        "DRM",
        (
            Variant(
                _few_drm,
                lambda shape: _twice(shape, 0.2 + 1.8 * (shape.n_rows / 1000) ** 3),
            ),
            Variant(
                lambda search: _few_drm(search, n_components=200),
                lambda shape: _twice(shape, 0.2 + 0.25 * shape.n_rows / 1000),
                "approximates its kernel by 200 components",
            ),
            Variant(
                lambda search: _drm(search, kernel="linear"),
                lambda shape: _twice(shape, 0.2 + 2 * shape.cells),
                "has a linear kernel",
            ),
        ),
        "discreg",
        keeps_rows=True,
    ),
    Candidate(
        "RandomForest",
        (
            Variant(_forest, lambda shape: _fits(shape, 1) * (0.1 + 0.35 * shape.n_rows / 1000)),
            Variant(
                _small_forest,
                lambda shape: 5.0 + (_fits(shape, 1) > 1) * 5.0,
                f"draws {SMALL:,} rows for each tree",
            ),
        ),
    ),
    Candidate(
        "HistGB",
        (Variant(_boosting, lambda shape: _fits(shape, 1) * _boosting_seconds(shape)),),
        is_dense=True,
    ),
    Candidate(
        "Auto",
        (
            Variant(_auto, lambda shape: _auto_seconds(shape, 2.5)),
            Variant(
                _quick_auto,
                lambda shape: _auto_seconds(shape, 0.7),
                "tries least squares regression only",
            ),
        ),
        "discreg",
        keeps_rows=True,
        share=2.0,
    ),
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
