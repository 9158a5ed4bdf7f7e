"""The models that a comparison judges, each ready to tune itself on the rows it is given.

What a model needs is imported when it is made: a comparison begins before all of it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import discreg
from discreg.base.errors import InputError
from discreg.tables.formats import nearest

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.model_selection import GridSearchCV

__all__ = ["CANDIDATES", "SLOWEST", "WITH_KERNEL", "Candidate", "Shape", "chosen"]

MANY_ROWS = 10_000  # above, an n × n kernel matrix takes too long to tune
WITH_KERNEL = frozenset({"DRM", "ODM", "LDM"})  # it depends on the number of rows
POWERS_OF_TEN = tuple(10.0**power for power in range(-3, 4))


@dataclass(frozen=True)
class Shape:
    """What a candidate may depend on: numbers, never labels."""

    n_rows: int  # of the whole table, so that folds and the final model are of one kind
    n_classes: int
    is_sparse: bool

    @property
    def kernel(self) -> str:
        """The kernel of models that hold an n × n matrix for any but the linear one."""
        return "rbf" if self.n_rows <= MANY_ROWS else "linear"


@dataclass(frozen=True)
class Candidate:
    """A model of a comparison.

    Attributes
    ----------
    name : str
        What the tables call it.
    make : function of a Shape and a splitter
        The unfitted classifier, which tunes itself by the splitter, or by exact leave-one-out.
    left_out : function of a Shape, optional
        Why it cannot be had for data of this shape; None where it can.
    """

    name: str
    make: Callable[[Shape, Any], BaseEstimator]
    left_out: Callable[[Shape], str | None] = lambda shape: None


def _grid(model: BaseEstimator, grid: Mapping[str, Iterable[Any]], folds: Any) -> GridSearchCV:
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(model, {name: list(values) for name, values in grid.items()}, cv=folds)


def _lrlr(shape: Shape, folds: Any) -> BaseEstimator:
    ranks = sorted({1, (shape.n_classes + 1) // 2, shape.n_classes - 1} - {0})
    model = discreg.LRLRClassifier()
    return _grid(model, {"rank": ranks}, folds) if len(ranks) > 1 else model


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
    grid = {"C": (10.0, 100.0, 1e3, 1e4), "lambda1": (0.0, 10.0, 1e3)}
    return _grid(discreg.LDMClassifier(kernel=shape.kernel, random_state=0), grid, folds)


def _ridge(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.linear_model import RidgeClassifierCV

    return RidgeClassifierCV(POWERS_OF_TEN)


def _linear_svc(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.svm import LinearSVC

    return _grid(LinearSVC(random_state=0), {"C": (0.001, 0.01, 0.1, 1.0, 10.0)}, folds)


def _svc(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.svm import SVC

    grid = {"C": (0.1, 1.0, 10.0, 100.0), "gamma": ("scale", 0.01, 0.1)}
    return _grid(SVC(), grid, folds)


def _logistic(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.linear_model import LogisticRegression

    return _grid(LogisticRegression(max_iter=1000), {"C": (0.01, 0.1, 1.0, 10.0, 100.0)}, folds)


def _neighbors(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.neighbors import KNeighborsClassifier

    return _grid(KNeighborsClassifier(), {"n_neighbors": (1, 3, 5, 9, 15)}, folds)


def _forest(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(100, random_state=0)
    return _grid(model, {"max_features": ("sqrt", 0.3)}, folds)


def _boosting(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0, early_stopping=False, max_iter=50)
    return _grid(model, {"learning_rate": (0.05, 0.2)}, folds)


def _lda(shape: Shape, folds: Any) -> BaseEstimator:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis(solver="lsqr")
    return _grid(model, {"shrinkage": (None, 0.1, 0.5, 0.9)}, folds)


def _dense_only(shape: Shape) -> str | None:
    return "it takes no sparse data" if shape.is_sparse else None


def _few_rows(shape: Shape) -> str | None:
    if shape.n_rows > MANY_ROWS:
        return f"its kernel matrix takes too long for more than {MANY_ROWS:,} rows"
    return None


# discreg's own first, then those that people use today.
CANDIDATES = (
    Candidate("LSR", lambda shape, folds: discreg.LSRClassifierCV()),
    Candidate("DLSR", lambda shape, folds: discreg.DLSRClassifierCV(cv=folds)),
    Candidate("ReLSR", lambda shape, folds: discreg.ReLSRClassifierCV(cv=folds)),
    Candidate("GReLSR", lambda shape, folds: discreg.GReLSRClassifierCV(cv=folds)),
    Candidate("LRLR", _lrlr),
    Candidate("LRRR", lambda shape, folds: discreg.LRRRClassifierCV()),
    Candidate("SLRR", lambda shape, folds: discreg.SLRRClassifierCV(cv=folds), _dense_only),
    Candidate("DRM", _drm),
    Candidate("ODM", _odm),
    Candidate("LDM", _ldm),
    Candidate("RidgeCV", _ridge),
    Candidate("LinearSVC", _linear_svc),
    Candidate("SVC", _svc, _few_rows),
    Candidate("Logistic", _logistic),
    Candidate("KNN", _neighbors),
    Candidate("RandomForest", _forest),
    Candidate("HistGB", _boosting, _dense_only),
    Candidate("LDA", _lda, _dense_only),
)


SLOWEST = frozenset({"DRM", "ODM", "LDM", "RandomForest", "HistGB", "GReLSR"})  # to tune


def chosen(names: Iterable[str] | None) -> tuple[Candidate, ...]:
    """The candidates of these names, in the order of `CANDIDATES`, or all."""
    if names is None:
        return CANDIDATES
    known = [candidate.name for candidate in CANDIDATES]
    wanted = {name.lower(): name for name in names}
    found = tuple(candidate for candidate in CANDIDATES if candidate.name.lower() in wanted)
    unknown = [wanted[name] for name in wanted if name not in map(str.lower, known)]
    if unknown:
        hint = nearest(unknown[0], known)
        meant = f" Did you mean {hint}?" if hint else ""
        raise InputError(f"There is no model '{unknown[0]}'.{meant} There are {', '.join(known)}.")
    return found
