"""The models of one comparison: candidates of the registry and the user's own estimators."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pickle import PicklingError
from typing import Any

import cloudpickle
import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from discreg.base.errors import InputError
from discreg.comparison.running.folds import RowFacts

from .registry import (
    AUTO,
    CANDIDATES,
    MAJORITY,
    is_installed,
    majority,
    named,
)
from .tuning import Calibrated, TuningPlan

BY_NAME = {candidate.name: candidate for candidate in CANDIDATES}
STEP = "model"  # name of the last step of the pipelines
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")  # package.module:name


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """A model of a comparison.

    Attributes
    ----------
    name : str
        Name in the report.
    key : str
        Name in the store: another form of the model has another one.
    origin : str
        "discreg", "scikit-learn", another package, or "own".
    is_limited : bool
        Whether it is the form of a candidate for larger tables.
    estimator : estimator or None
        The user's own estimator.
    keeps_rows : bool
        Whether a fitted model may contain training rows.
    """

    name: str
    key: str
    origin: str = "scikit-learn"
    is_limited: bool = False
    estimator: Any = None
    keeps_rows: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the estimator is a pipeline that takes the table itself."""
        return isinstance(self.estimator, Pipeline)

    @property
    def scales(self) -> bool:
        """Whether the columns are scaled before they come to the model."""
        return self.name not in (AUTO, MAJORITY)

    def make(self, plan: TuningPlan) -> Any:
        """Create the unfitted model."""
        if self.estimator is not None:
            own = clone(self.estimator)
            has_probabilities = hasattr(own, "predict_proba") or self.is_whole
            return own if has_probabilities else Calibrated(own, random_state=plan.seed)
        if self.name == MAJORITY:
            return majority()
        candidate = BY_NAME[self.name]
        make = candidate.limited if self.is_limited else candidate.make
        assert make is not None
        return make(plan)

    def fit_arguments(
        self, model: Any, facts: RowFacts, weights: NDArray[np.float64] | None
    ) -> dict[str, Any]:
        """Return the arguments of `fit` besides X and y: weights, groups and times."""
        given = {"sample_weight": weights, "groups": facts.groups, "time": facts.time}
        return {
            name: value
            for name, value in given.items()
            if value is not None and _takes(model, name)
        }


@dataclass(frozen=True, eq=False)
class Models:
    """The models that are compared, those that are left out, and sentences on limited ones."""

    compared: tuple[ComparedModel, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    are_named: bool = False  # whether the user named the candidates

    def named(self, name: str) -> ComparedModel:
        """Return the model of this name."""
        return next(model for model in self.compared if model.name == name)


def _takes(model: Any, argument: str) -> bool:
    """Return whether the estimator's fit takes an argument; searches pass weights on."""
    if has_fit_parameter(model, argument):
        return True
    inner = getattr(model, "estimator", None)
    is_search = inner is not None and hasattr(model, "cv")
    return is_search and (argument == "groups" or _takes(inner, argument))


def plan_models(
    n_rows: int,
    *,
    candidates: Any = None,
    exclude: str | Iterable[str] | None = None,
    is_sparse: bool = False,
    has_weights: bool = False,
) -> Models:
    """Select the models, and the form of each for this number of training rows.

    Parameters
    ----------
    n_rows : int
        Training rows of a fold.
    candidates : list of names and estimators, dict of estimators, or None
        The models; None means the default ones of the registry.
    exclude : str or iterable of str, optional
        Names that are left out.
    is_sparse, has_weights : bool
        Whether the data are sparse, and whether rows have weights.
    """
    wanted, own = own_models(candidates)
    excluded = [exclude] if isinstance(exclude, str) else list(exclude or ())
    if excluded:
        excluded = named(excluded, others=[*own, MAJORITY])
    compared: list[ComparedModel] = []
    left_out: dict[str, str] = {}
    notes: list[str] = []
    for name, candidate in BY_NAME.items():
        if name not in wanted or name in excluded or name in own:
            continue
        is_limited = candidate.most_rows is not None and n_rows > candidate.most_rows
        if is_sparse and candidate.is_dense:
            left_out[name] = "it does not support sparse data"
        elif has_weights and not candidate.has_weights:
            left_out[name] = "it does not support sample weights"
        elif not is_installed(candidate):
            left_out[name] = f"{candidate.origin} is not installed"
        elif is_limited and candidate.limited is None:
            left_out[name] = f"it needs too much memory or time above {candidate.most_rows:,} rows"
        else:
            key = f"{name} (limited)" if is_limited else name
            compared.append(
                ComparedModel(
                    name, key, candidate.origin, is_limited, keeps_rows=candidate.keeps_rows
                )
            )
            if is_limited:
                notes.append(f"{name} {candidate.note}, because the table is large.")
    for name, estimator in own.items():
        if name in excluded:
            continue
        if has_weights and not _takes(_last(estimator), "sample_weight"):
            left_out[name] = "its fit takes no sample_weight"
            continue
        key = f"{name} #{_hash(estimator)}"
        compared.append(ComparedModel(name, key, "own", estimator=estimator, keeps_rows=True))
    if not compared:
        reasons = " ".join(f"{name} is left out: {why}." for name, why in left_out.items())
        raise InputError(f"There is nothing to compare. {reasons}".strip())
    base = ComparedModel(MAJORITY, MAJORITY)
    return Models((*compared, base), left_out, tuple(notes), candidates is not None)


def own_models(candidates: Any) -> tuple[list[str], dict[str, Any]]:
    """Split a list of candidates into names of the registry and own estimators by name."""
    if candidates is None:
        usual = (each for each in CANDIDATES if each.is_default and is_installed(each))
        return [candidate.name for candidate in usual], {}
    if isinstance(candidates, str):
        candidates = [name.strip() for name in candidates.split(",")]
    if isinstance(candidates, Mapping):
        if MAJORITY in candidates:
            raise InputError(
                f"'{MAJORITY}' is the name of the baseline. Give the model another name."
            )
        return [], {str(name): _checked(str(name), each) for name, each in candidates.items()}
    if hasattr(candidates, "fit"):  # the steps of a pipeline are no candidates
        candidates = [candidates]
    candidates = list(candidates)
    names = named(each for each in candidates if isinstance(each, str) and ":" not in each)
    own: dict[str, Any] = {}
    for each in candidates:
        if not isinstance(each, str):
            estimator = _checked(type(each).__name__, each)
            own[_free_name(_name_of(estimator), [*own, *BY_NAME, MAJORITY])] = estimator
        elif ":" in each:
            own[_free_name(each.partition(":")[2], [*own, *names, MAJORITY])] = _imported(each)
    return names, own


def _checked(name: str, estimator: Any) -> Any:
    if isinstance(estimator, type):
        own = estimator.__name__
        raise InputError(f"{own} is a class. Give an estimator: {own}().")
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise InputError(f"{name} is not an estimator: {estimator!r} has no fit and get_params.")
    if is_regressor(estimator):
        raise InputError(f"{name} is a regressor. Give a classifier.")
    if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function"):
        raise InputError(
            f"{name} has neither predict_proba nor decision_function, so that it has no "
            "probabilities to compare."
        )
    return estimator


def _imported(text: str) -> Any:
    """Import an estimator that is written as package.module:name.

    Importing runs the module. Only estimator classes, and functions that the module itself defines,
    are called.
    """
    if not DOTTED.fullmatch(text):
        raise InputError(f"The model {text} is not written as package.module:name.")
    module, _, name = text.partition(":")
    try:
        found = getattr(import_module(module), name)
        is_class = isinstance(found, type) and issubclass(found, BaseEstimator)
        is_function = getattr(found, "__module__", None) == module and hasattr(found, "__code__")
        if is_class or is_function:
            found = found()
    except Exception as error:  # of any type: the module is not ours
        raise InputError(f"The model {text} cannot be imported: {error}.") from error
    return _checked(text, found)


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def _name_of(estimator: BaseEstimator) -> str:
    return type(_last(estimator)).__name__


def _free_name(name: str, taken: Sequence[str]) -> str:
    names = [name, *(f"{name} {number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def _hash(estimator: Any) -> str:
    """Hash an estimator with its parameters; eight hexadecimal digits."""
    try:
        return str(joblib.hash(estimator))[:8]
    except PicklingError:  # parameters that are functions without a name
        return hashlib.sha256(cloudpickle.dumps(estimator)).hexdigest()[:8]
