"""The candidate models of a comparison, each with its parameter search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

import discreg
from discreg.base.errors import InputError
from discreg.tables.formats import nearest

__all__ = ["CANDIDATES", "MANY_ROWS", "Candidate", "Shape", "chosen"]

MANY_ROWS = 10_000  # with more rows, a search with an n × n kernel matrix takes too long


@dataclass(frozen=True)
class Shape:
    """Shape of a table, which candidates may depend on."""

    n_rows: int  # of the whole table, so that folds and the final model use the same kernel
    n_classes: int
    is_sparse: bool

    @property
    def kernel(self) -> str:
        """Kernel of models that need an n × n matrix unless the kernel is linear."""
        return "rbf" if self.n_rows <= MANY_ROWS else "linear"


@dataclass(frozen=True)
class Candidate:
    """A model of a comparison.

    Attributes
    ----------
    name : str
        Name in the report.
    make : function of a Shape and a splitter
        Creates the unfitted classifier, which selects its parameters by the splitter or by exact
        leave-one-out.
    is_slow : bool
        Whether its fits run first, so that workers are not idle at the end.
    has_kernel : bool
        Whether the model has a kernel, which is linear for many rows.
    is_dense : bool
        Whether the model does not support sparse data.
    is_small : bool
        Whether the model is left out for many rows.
    """

    name: str
    make: Callable[[Shape, Any], BaseEstimator]
    is_slow: bool = False
    has_kernel: bool = False
    is_dense: bool = False
    is_small: bool = False

    def left_out(self, shape: Shape) -> str | None:
        """Explain why the model is left out for data of this shape; None if it is not."""
        if self.is_dense and shape.is_sparse:
            return "it does not support sparse data"
        if self.is_small and shape.n_rows > MANY_ROWS:
            return f"its kernel matrix takes too long for more than {MANY_ROWS:,} rows"
        return None


def _grid(model: BaseEstimator, **grid: Sequence[Any]) -> Callable[[Shape, Any], BaseEstimator]:
    return lambda shape, folds: GridSearchCV(model, grid, cv=folds)


def _lrlr(shape: Shape, folds: Any) -> BaseEstimator:
    ranks = sorted({1, (shape.n_classes + 1) // 2, shape.n_classes - 1})
    return discreg.LRLRClassifierCV(ranks=ranks, cv=folds)


def _drm(shape: Shape, folds: Any) -> BaseEstimator:
    penalties = (0.01, 0.1, 1.0, 10.0)
    return discreg.DRMClassifierCV(
        alphas=penalties, betas=penalties, kernel=shape.kernel, random_state=0
    )


def _odm(shape: Shape, folds: Any) -> BaseEstimator:
    return discreg.ODMClassifierCV(
        C1s=(10.0, 100.0, 1e3, 1e4),
        C2s=(1.0, 100.0, 1e4),
        Ds=(0.0, 0.3),
        kernel=shape.kernel,
        cv=folds,
        random_state=0,
    )


def _ldm(shape: Shape, folds: Any) -> BaseEstimator:
    return discreg.LDMClassifierCV(
        Cs=(10.0, 100.0, 1e3, 1e4),
        lambda1s=(0.0, 10.0, 1e3),
        kernel=shape.kernel,
        gammas=["scale"],
        cv=folds,
        random_state=0,
    )


# First the models of discreg, then those of scikit-learn.
CANDIDATES = (
    Candidate("LSR", lambda shape, folds: discreg.LSRClassifierCV()),
    Candidate("DLSR", lambda shape, folds: discreg.DLSRClassifierCV(cv=folds)),
    Candidate("ReLSR", lambda shape, folds: discreg.ReLSRClassifierCV(cv=folds)),
    Candidate("GReLSR", lambda shape, folds: discreg.GReLSRClassifierCV(cv=folds), is_slow=True),
    Candidate("LRLR", _lrlr),
    Candidate("LRRR", lambda shape, folds: discreg.LRRRClassifierCV()),
    Candidate("SLRR", lambda shape, folds: discreg.SLRRClassifierCV(cv=folds), is_dense=True),
    Candidate("DRM", _drm, is_slow=True, has_kernel=True),
    Candidate("ODM", _odm, is_slow=True, has_kernel=True),
    Candidate("LDM", _ldm, is_slow=True, has_kernel=True),
    Candidate("RidgeCV", lambda shape, folds: RidgeClassifierCV([10.0**k for k in range(-3, 4)])),
    Candidate("LinearSVC", _grid(LinearSVC(random_state=0), C=(0.001, 0.01, 0.1, 1.0, 10.0))),
    Candidate(
        "SVC",
        _grid(SVC(), C=(0.1, 1.0, 10.0, 100.0), gamma=("scale", 0.01, 0.1)),
        is_small=True,
    ),
    Candidate(
        "Logistic", _grid(LogisticRegression(max_iter=1000), C=(0.01, 0.1, 1.0, 10.0, 100.0))
    ),
    Candidate("KNN", _grid(KNeighborsClassifier(), n_neighbors=(1, 3, 5, 9, 15))),
    Candidate(
        "RandomForest",
        _grid(RandomForestClassifier(100, random_state=0), max_features=("sqrt", 0.3)),
        is_slow=True,
    ),
    Candidate(
        "HistGB",
        _grid(
            HistGradientBoostingClassifier(random_state=0, early_stopping=False, max_iter=50),
            learning_rate=(0.05, 0.2),
        ),
        is_slow=True,
        is_dense=True,
    ),
    Candidate(
        "LDA",
        _grid(LinearDiscriminantAnalysis(solver="lsqr"), shrinkage=(None, 0.1, 0.5, 0.9)),
        is_dense=True,
    ),
)


def chosen(names: Iterable[str] | None) -> tuple[Candidate, ...]:
    """Select candidates by name, in the order of `CANDIDATES`; None selects all."""
    if names is None:
        return CANDIDATES
    by_name = {candidate.name.lower(): candidate for candidate in CANDIDATES}
    names = list(names)
    for name in names:
        if name.lower() not in by_name:
            known = [candidate.name for candidate in CANDIDATES]
            hint = nearest(name, known)
            meant = f" Did you mean {hint}?" if hint else ""
            raise InputError(
                f"There is no model '{name}'.{meant} The models are {', '.join(known)}."
            )
    wanted = {name.lower() for name in names}
    return tuple(candidate for name, candidate in by_name.items() if name in wanted)
