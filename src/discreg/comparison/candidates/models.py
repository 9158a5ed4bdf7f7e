"""The models of one comparison: candidates of the registry and the user's own estimators."""

from __future__ import annotations

import hashlib
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
from discreg.comparison.protocol.folds import RowFacts
from discreg.comparison.protocol.scoring import Scoring

from .contender import MAJORITY, Contender
from .registry import CANDIDATES, majority, named
from .tuning import Shape, TuningPlan

__all__ = ["AFFORDABLE", "ComparedModel", "Models", "own_models", "plan_models"]

AFFORDABLE = 60.0  # seconds that all fits of a model may take on one core, as estimated
BY_NAME = {candidate.name: candidate for candidate in CANDIDATES}
STEP = "model"  # name of the last step of the pipelines


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """A model of a comparison.

    Attributes
    ----------
    contender : Contender
        Name, origin and place in the order of simplicity.
    key : str
        Name in the store: another form of the model has another one.
    variant : int
        Number of the variant of a candidate of the registry.
    estimator : estimator or None
        The user's own estimator.
    seconds : float
        Estimated time of one fit.
    """

    contender: Contender
    key: str
    variant: int = 0
    estimator: Any = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Name in the report."""
        return self.contender.name

    @property
    def is_whole(self) -> bool:
        """Whether the estimator is a pipeline that takes the table itself."""
        return isinstance(self.estimator, Pipeline)

    @property
    def scales(self) -> bool:
        """Whether the columns are scaled before they come to the model."""
        return self.name not in ("Auto", MAJORITY)

    def make(self, search: TuningPlan) -> Any:
        """Create the unfitted model."""
        if self.estimator is not None:
            return clone(self.estimator)
        if self.name == MAJORITY:
            return majority()
        return BY_NAME[self.name].variants[self.variant].make(search)

    def fit_arguments(
        self, model: Any, facts: RowFacts, weights: NDArray[np.float64] | None
    ) -> dict[str, Any]:
        """Return the arguments of `fit` besides X and y: weights, groups and times."""
        found: dict[str, Any] = {}
        if weights is not None:
            found["sample_weight"] = weights
        if facts.groups is not None and _takes(model, "groups"):
            found["groups"] = facts.groups
        if facts.time is not None and _takes(model, "time"):
            found["time"] = facts.time
        return found


@dataclass(frozen=True, eq=False)
class Models:
    """The models that are compared, those that are left out, and sentences on limited ones."""

    compared: tuple[ComparedModel, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]

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
    shape: Shape,
    scoring: Scoring,
    *,
    candidates: Any = None,
    exclude: str | Iterable[str] | None = None,
    n_fits: int,
    has_weights: bool = False,
) -> Models:
    """Select the models, and the variant of each that can be fitted `n_fits` times.

    Parameters
    ----------
    shape : Shape
        Size of the training rows of a fold.
    scoring : Scoring
        The metric that decides.
    candidates : list of names and estimators, dict of estimators, or None
        The models; None means all of the registry.
    exclude : str or iterable of str, optional
        Names that are left out.
    n_fits : int
        Number of folds of all repeats.
    has_weights : bool
        Whether rows have weights.
    """
    wanted, own = own_models(candidates)
    excluded = [exclude] if isinstance(exclude, str) else list(exclude or ())
    if excluded:
        excluded = named(excluded, others=[*own, MAJORITY])
    compared: list[ComparedModel] = []
    left_out: dict[str, str] = {}
    notes: list[str] = []
    for place, candidate in enumerate(CANDIDATES):
        name = candidate.name
        if name not in wanted or name in excluded or name in own:
            continue
        reason = _unusable(name, shape, scoring, has_weights=has_weights)
        variant = candidate.affordable(shape, AFFORDABLE / n_fits)
        if reason is None and variant is None:
            last = candidate.variants[-1]
            reason = (
                f"one fit of {shape.n_rows:,} rows, {shape.n_columns:,} features and "
                f"{shape.n_classes} classes would take about {_about(last.seconds(shape))}"
            )
        if reason is not None or variant is None:
            left_out[name] = reason or ""
            continue
        contender = Contender(
            name=name, origin=candidate.origin, place=place, keeps_rows=candidate.keeps_rows
        )
        number = candidate.variants.index(variant)
        key = name if not number else f"{name} ({variant.note})"
        compared.append(ComparedModel(contender, key, number, seconds=variant.seconds(shape)))
        if variant.note:
            notes.append(f"{name} {variant.note}, because the table is large.")
    for place, (name, estimator) in enumerate(own.items(), start=len(CANDIDATES)):
        if name in excluded:
            continue
        if has_weights and not _takes(_last(estimator), "sample_weight"):
            left_out[name] = "its fit takes no sample_weight"
            continue
        contender = Contender(name=name, origin="own", place=place, keeps_rows=True)
        compared.append(
            ComparedModel(contender, f"{name} #{_hash(estimator)}", estimator=estimator)
        )
    if not compared:
        reasons = " ".join(f"{name} is left out: {why}." for name, why in left_out.items())
        raise InputError(f"There is nothing to compare. {reasons}".strip())
    base = Contender(name=MAJORITY, origin="scikit-learn", place=-1)
    return Models((*compared, ComparedModel(base, MAJORITY)), left_out, tuple(notes))


def _unusable(name: str, shape: Shape, scoring: Scoring, *, has_weights: bool) -> str | None:
    """Explain why a candidate cannot be used for these data; None if it can."""
    candidate = BY_NAME[name]
    if candidate.is_dense and shape.is_sparse:
        return "it does not support sparse data"
    if has_weights and not candidate.has_weights:
        return "it does not support sample weights"
    if scoring.needs_probabilities and not candidate.has_probabilities:
        return f"it has no probabilities, which {scoring.name} needs"
    return None


def own_models(candidates: Any) -> tuple[list[str], dict[str, Any]]:
    """Split a list of candidates into names of the registry and own estimators by name."""
    if candidates is None:
        return list(BY_NAME), {}
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
    return estimator


def _imported(text: str) -> Any:
    """Import an estimator that is written as package.module:name."""
    module, _, name = text.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"The model {text} cannot be imported: {error}.") from error
    made = found() if isinstance(found, type) or _is_factory(found) else found
    return _checked(text, made)


def _is_factory(found: Any) -> bool:
    return callable(found) and not hasattr(found, "fit")


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


def _about(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
