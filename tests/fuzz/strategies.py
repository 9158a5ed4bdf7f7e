"""Hypothesis strategies of fuzz cases; those of parameters come from the declared constraints."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import discreg
from discreg.base.search import SEARCH_CONSTRAINTS
from discreg.base.validation import Boolean, Choice, Number

from .cases import DEFECTS, DENSE, FAULTY_SPARSE, LABELS, SPARSE, Case, Data
from .changes import CHANGES
from .tables import CELLS, FORMS, PARAMS, POLARS
from .whole import AUTO_PARAMS, CANDIDATES, FOR_ONNX
from .whole import MODELS as CONVERTED

ESTIMATORS = {
    name: getattr(discreg, name)
    for name in sorted(discreg.__all__)
    if name.endswith(("Classifier", "ClassifierCV", "Regression"))
    and name != "AutoClassifier"  # one fit of it is hundreds of fits of the others
}
MODELS = [name for name in ESTIMATORS if not name.endswith("CV")]
MODERATE = (1.0, 0.1, 10.0, 0.0, 0.5, 2, 3, 2.5, 1e-3, 1e3, -1.0)
EXTREME = (1e-8, 1e8, 1e-12, 1e12, 1e-100, 1e100, 1e-300, 1e300, -1e300, float("inf"))
INVALID = (float("nan"), float("inf"), "wrong", None, True, -1, 1.5, -1e300, 1e300, [], {}, "0", 0)
# What a constraint with a test of its own accepts, and values that would take long or print.
MORE = {
    "kernel": ["callable"],
    "class_weight": [{"0": 2.0}, {"0": 1e-6, "1": 1e6}],
    "kernel_params": [{}],
    "penalty": [[q, r, rho] for q in (1, 2) for r in (1, 2) for rho in ("identity", "half_square")],
    "unknown_label": [-1, 7, "a", "new", 0.5],
    "scoring": ["accuracy", "g_mean", "balanced_accuracy", "roc_auc", "neg_log_loss"],
}
INSTEAD = {"verbose": [0], "n_jobs": [None, 1]}


def constraints_of(name: str) -> dict[str, Any]:
    """The declared constraints of an estimator's parameters; lists of candidates are apart."""
    estimator = ESTIMATORS[name]
    if not hasattr(estimator, "_classifier"):
        return dict(estimator._constraints)
    known = estimator._classifier._constraints | SEARCH_CONSTRAINTS
    return {key: known[key] for key in parameters_of(name) if key in known}


def parameters_of(name: str) -> list[str]:
    return list(inspect.signature(ESTIMATORS[name]).parameters)


def candidates_of(name: str) -> dict[str, Any]:
    """The constraints on one candidate of a search's lists, such as "beta" for "betas"."""
    classifier = getattr(ESTIMATORS[name], "_classifier", None)
    if classifier is None:
        return {}
    singular = {
        key: key[:-3] + "y" if key.endswith("ies") else key[:-1] for key in parameters_of(name)
    }
    known = classifier._constraints
    return {key: known[one] for key, one in singular.items() if one in known and key not in known}


def valid(name: str, constraint: Any) -> st.SearchStrategy[Any]:
    """Values that a parameter accepts."""
    if name in INSTEAD:
        return st.sampled_from(INSTEAD[name])
    if isinstance(constraint, Boolean):
        return st.booleans()
    if isinstance(constraint, Choice):
        named = st.sampled_from([*constraint.values, *MORE.get(name, [])])
        return st.one_of(named, *(valid(name, other) for other in constraint.others))
    assert isinstance(constraint, Number)
    if constraint.integer:
        least = int(max(constraint.low, -2))
        return st.integers(least, int(min(constraint.high, least + 30)))
    moderate = st.sampled_from([v for v in MODERATE if constraint.accepts(v)])
    extreme = st.sampled_from([v for v in EXTREME if constraint.accepts(v)] or [constraint.low])
    return st.one_of(moderate, moderate, moderate, extreme)


def invalid(constraint: Any) -> st.SearchStrategy[Any]:
    """Values that a parameter refuses."""
    return st.sampled_from([v for v in INVALID if not constraint.accepts(v)])


@st.composite
def parameters(draw: Any, name: str, most: int = 4, fixed: Sequence[str] = ()) -> dict[str, Any]:
    """A few parameters that are not the defaults; searches try at most two candidates each."""
    constraints = {k: v for k, v in constraints_of(name).items() if k not in fixed}
    chosen = draw(st.lists(st.sampled_from(sorted(constraints)), unique=True, max_size=most))
    params = {key: draw(valid(key, constraints[key])) for key in chosen}
    defaults = inspect.signature(ESTIMATORS[name]).parameters
    for key, constraint in candidates_of(name).items():
        if defaults[key].default is None and draw(st.booleans()):
            continue
        params[key] = draw(st.lists(valid(key, constraint), min_size=1, max_size=2))
        params[key] = [v for v in params[key] if v is not None] or [1]
    if name.endswith("CV"):
        params["cv"] = draw(st.sampled_from([None, 2, 3]))
    return params


@st.composite
def recipes(draw: Any, *, kind: str) -> Data:
    """Recipes of data: "any", those with a "defect", or "plain" ones whose conditioning is fair."""

    def choose(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    n_classes = choose(2, 2, 3, 4)
    sizes = draw(st.lists(st.integers(1, 12), min_size=n_classes, max_size=n_classes))
    fields: dict[str, Any] = {
        "seed": draw(st.integers(0, 999)),
        "sizes": tuple(sizes),
        "n_features": choose(2, 1, 3, 5, 40),
        "apart": choose(1.0, 0.0, 5.0),
    }
    if kind == "defect":
        return Data(**fields, defect=draw(st.sampled_from(sorted(DEFECTS))))
    fields["columns"] = tuple(
        draw(st.lists(st.sampled_from(("constant", "duplicate")), max_size=2))
    )
    fields["twins"] = draw(st.booleans())
    if kind == "plain":
        return Data(
            **fields,
            exponent=choose(0, -2, 2),
            offset=choose(0.0, 3.0),
            dtype=choose("float64", "float64", "float32"),
            weights=choose("none", "whole", "uniform"),
        )
    special = ("constant", "zero", "duplicate", "small", "large", "spike")
    fields["columns"] = tuple(draw(st.lists(st.sampled_from(special), max_size=2)))
    dtypes = ("float64", "float32", "float64", "float32", "float16", "int64", "uint8", "bool")
    weights = ("none", "none", "scalar", "ones", "whole", "zeros", "uniform", "wide", "small")
    return Data(
        **fields,
        exponent=choose(0, 0, -3, 3, -8, 8, -30, 30, -100, 100, -150, 150, -160, 160, -300, 300),
        offset=choose(0.0, 0.0, 3.0, 100.0, 1e6),
        dtype=choose(*dtypes),
        form=choose("array", *DENSE, *SPARSE, *FAULTY_SPARSE),
        labels=choose("int", *LABELS, "bool"),
        weights=choose(*weights, "large", "one_large"),
    )


@st.composite
def table_cases(draw: Any, check: str) -> Case:
    """Hostile tables for what is fitted to a table."""
    known = sorted(FOR_ONNX if check == "converts_tables" else CELLS)
    steps = ("frame", *draw(st.lists(st.sampled_from(known), min_size=1, max_size=4)))
    data = Data(draw(st.integers(0, 999)), (draw(st.integers(4, 60)),))
    if check == "compares_tables":
        some = st.lists(st.sampled_from(CANDIDATES), min_size=1, max_size=2, unique=True)
        return Case(check, "", {"candidates": draw(some)}, data, steps)
    if check == "converts_tables":
        params = {"max_categories": draw(st.sampled_from([2, 3, 50])), "scale": draw(st.booleans())}
        return Case(check, draw(st.sampled_from(CONVERTED)), params, data, steps)
    params = {"families": draw(st.sampled_from(AUTO_PARAMS["families"]))}
    return Case(check, "AutoClassifier", params, data, steps)


STEPS = ("fit", "fit_half", "pickled", "copied", "cloned", "threads")


@st.composite
def cases(draw: Any, check: str) -> Case:
    """Cases of one of the properties."""
    if check == "handles_tables":
        kinds = sorted(draw(st.sampled_from([CELLS, CELLS, POLARS])))
        steps = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
        form = draw(st.sampled_from(["frame", "frame", *FORMS]))
        chosen = draw(st.lists(st.sampled_from(sorted(PARAMS)), unique=True, max_size=2))
        params = {name: draw(st.sampled_from(PARAMS[name])) for name in chosen}
        data = Data(draw(st.integers(0, 999)), (draw(st.integers(1, 30)),))
        return Case(check, "TablePreprocessor", params, data, (form, *steps))
    if check in ("chooses_on_tables", "converts_tables", "compares_tables"):
        return draw(table_cases(check))
    if check == "chooses_models":
        params = {key: draw(st.sampled_from(values)) for key, values in AUTO_PARAMS.items()}
        return Case(check, "AutoClassifier", params, draw(recipes(kind="any")))
    if check == "refuses_parameter":
        name = draw(st.sampled_from(list(ESTIMATORS)))
        singles, lists = constraints_of(name), candidates_of(name)
        key = draw(st.sampled_from(sorted(singles | lists)))
        value = draw(invalid((singles | lists)[key]))
        if key in lists:  # candidates are converted to numbers
            value = [] if value is None or value in (True, "0") else [value]
        params = {"kernel": "poly"} if key in ("gammas", "degrees") else {}
        return Case(check, name, params | {key: value}, steps=(key,))
    if check == "refuses_data":
        classifiers = [name for name in ESTIMATORS if "Classifier" in name]
        name = draw(st.sampled_from(classifiers))
        return Case(check, name, {}, draw(recipes(kind="defect")))
    if check == "gives_finite_output":
        name = draw(st.sampled_from([*ESTIMATORS, *MODELS]))
        return Case(check, name, draw(parameters(name)), draw(recipes(kind="any")))
    name = draw(st.sampled_from(MODELS))
    params = draw(parameters(name, fixed=("warm_start", "max_iter", "tol", "rank")))
    data = draw(recipes(kind="plain"))
    if check == "keeps_its_answer":
        steps = (draw(st.sampled_from(list(CHANGES))),)
    elif check == "follows_its_calls":
        steps = tuple(draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4)))
    else:
        more = ("max_iter", "tol", "rank")
        known = {k: v for k, v in constraints_of(name).items() if k in more}
        params |= {k: draw(valid(k, known[k])) for k in known if draw(st.booleans())}
        steps = ()
    return Case(check, name, params, data, steps)
