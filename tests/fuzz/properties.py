"""What must hold in every case. Each property takes a case and raises AssertionError."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, NotFittedError

from .answers import Answer, answers
from .cases import Case
from .changes import CHANGES, applies
from .tables import handles_tables
from .whole import chooses_on_tables, compares_tables, converts_tables

# Messages of NumPy and SciPy, which do not say what the user can change.
UNCLEAR = (
    "infs or NaNs",
    "did not converge",
    "broadcast",
    "ingular matrix",
    "cannot convert",
    "ambiguous",
    "promoted",
    "division by zero",
    "Input contains NaN",  # of X or of y?
    "label type: unknown",
    "at least one array",
)


@contextmanager
def strictly() -> Iterator[None]:
    """Warnings of NumPy and deprecations are errors; those for users pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FitFailedWarning)
        yield


def fit(case: Case, X: Any, y: Any, weights: Any, *, model: Any = None, **changes: Any) -> Any:
    """The fitted model, or the error that refuses the data; other errors are not caught."""
    model = case.model(**changes) if model is None else model
    memory = 0.0001 if isinstance(X, np.memmap) else None
    try:
        with strictly(), config_context(working_memory=memory):
            return model.fit(X, case.targets(y), sample_weight=weights)
    except (ValueError, TypeError) as error:
        require_clear(error)
        return error


def require_clear(error: Exception) -> None:
    message = str(error)
    assert len(message) > 15, f"the message is only {message!r}"
    assert not isinstance(error, np.linalg.LinAlgError), repr(error)
    assert not any(words in message for words in UNCLEAR), f"unclear: {error!r}"


def contents(*arrays: Any) -> list[Any]:
    """Copies of all numbers of the caller's arrays."""
    return [
        [np.array(v) for v in vars(array).values() if isinstance(v, np.ndarray)]
        if sparse.issparse(array)
        else np.array(array)
        for array in arrays
    ]


def assert_unchanged(before: list[Any], *arrays: Any) -> None:
    for old, new in zip(before, contents(*arrays), strict=True):
        np.testing.assert_equal(new, old, err_msg="the caller's data were changed")


def assert_usable(model: Any, X: Any) -> None:
    """Finite scores, and labels that belong to the largest."""
    with strictly():
        try:
            scores = scores_of(model, X)
        except ValueError as error:  # the scores overflow
            return require_clear(error)
        assert np.all(np.isfinite(scores)), "scores are not finite"
        if hasattr(model, "classes_"):
            assert_labels(model, X, scores)
        if hasattr(model, "transform"):
            assert np.all(np.isfinite(model.transform(X))), "transform is not finite"
        for name in ("gap_", "n_iter_"):
            assert not np.any(np.isnan(getattr(model, name, 0.0))), f"{name} is nan"


def scores_of(model: Any, X: Any) -> Any:
    """Decision values, or the predictions of a regression."""
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


def assert_labels(model: Any, X: Any, scores: Any) -> None:
    """Labels belong to the largest scores, and probabilities are shares."""
    labels = model.predict(X)
    places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    expected = model.classes_[places]
    if getattr(model, "reject_above", None) is None:
        np.testing.assert_array_equal(labels, expected)
    else:
        known = np.isin(labels, model.classes_)
        np.testing.assert_array_equal(labels[known], expected[known])
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        assert np.all(shares >= 0), "negative probabilities"
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)


def refuses_parameter(case: Case) -> None:
    """A value outside the constraint raises an error that names the parameter."""
    X, y, _ = case.data.arrays()
    try:
        with strictly():
            case.model().fit(X, y)
    except (ValueError, TypeError) as error:
        message = str(error)
    else:
        raise AssertionError(f"{case.params} was accepted")
    assert case.steps[0] in message, f"{case.steps[0]} is not named: {message}"


def refuses_data(case: Case) -> None:
    """Data that no model can be fitted to raise an error."""
    found = fit(case, *case.data.arrays())
    assert isinstance(found, Exception), f"{case.data.defect} was accepted"


def gives_finite_output(case: Case) -> None:
    """A clear error, or a model with finite output; the caller's arrays are unchanged."""
    X, y, weights = case.data.arrays()
    X = case.rows(X)
    before = contents(X, y, weights)
    model = fit(case, X, y, weights)
    assert_unchanged(before, X, y, weights)
    if not isinstance(model, Exception):
        assert_usable(model, X)
        assert_unchanged(before, X, y, weights)


def chooses_models(case: Case) -> None:
    """AutoClassifier does as every other estimator with the same data."""
    gives_finite_output(case)


def is_certified(case: Case) -> None:
    """No other point is better than the model by more than `gap_` says, up to rounding."""
    X, y, weights = case.rows(case.data.dense()), case.data.classes(), case.data.sample_weight()
    model = fit(case, X, y, weights)
    if isinstance(model, Exception):
        return
    assert_usable(model, X)
    for answer in answers(case, model, X, y, weights):
        for rival in answer.rivals():
            excess = answer.objective - rival
            assert excess <= answer.certified + answer.rounding, (
                f"the objective is {excess:.3g} above that of another point, {rival:.6g}; "
                f"certified are {answer.certified:.3g}, rounding is {answer.rounding:.3g}"
            )


def keeps_its_answer(case: Case) -> None:
    """The minimum stays the same if rows are permuted, repeated, rotated, and so on."""
    change = case.steps[0]
    if not applies(change, case):
        return
    X, y, weights = case.data.dense(), case.data.classes(), case.data.sample_weight()
    random = np.random.default_rng(case.data.seed)
    one, two = CHANGES[change](X, y, weights, random)
    one, two = ((case.rows(rows), *others) for rows, *others in (one, two))
    models = [fit(case, *one), None]
    if change in ("parts", "merged"):
        models[1] = fit_in_parts(case, *two, merged=change == "merged")
    else:
        models[1] = fit(case, *two)
    refused = [isinstance(model, Exception) for model in models]
    if refused[0] != refused[1]:
        # At the limit of double precision, one form of the data may exceed it and the other not.
        reason = str(models[refused.index(True)])
        causes = ("rounding", "overflow", "positive semi-definite")
        assert any(cause in reason for cause in causes), f"only one is refused: {models!r}"
        return
    if not any(refused):
        if change in ("sparse", "memmap"):
            two = one
        found = [
            answers(case, model, *data) for model, data in zip(models, (one, two), strict=True)
        ]
        in_order = (sorted(each, key=lambda answer: answer.objective) for each in found)
        for mine, its in zip(*in_order, strict=all(found)):
            assert_same_minimum(mine, its)


def assert_same_minimum(one: Answer, two: Answer) -> None:
    """Both objectives are between the minimum and their certificates."""
    allowed = max(one.certified, two.certified) + one.rounding + two.rounding
    difference = abs(one.objective - two.objective)
    assert difference <= allowed, (
        f"the objectives are {one.objective:.9g} and {two.objective:.9g}; certified are "
        f"{one.certified:.3g} and {two.certified:.3g}, with rounding {allowed:.3g}"
    )


def fit_in_parts(case: Case, X: Any, y: Any, weights: Any, *, merged: bool) -> Any:
    """The model of two parts of the rows, one after the other or merged."""
    parts = [slice(None, None, 2), slice(1, None, 2)]
    models = [case.model(), case.model()] if merged else [case.model()] * 2
    try:
        with strictly():
            for model, part in zip(models, parts, strict=True):
                if len(y[part]):
                    w = None if weights is None else weights[part]
                    given = {} if case.is_regression else {"classes": np.unique(y)}
                    model.partial_fit(X[part], case.targets(y[part]), sample_weight=w, **given)
            return models[0].merge(models[1]) if merged and len(y) > 1 else models[0]
    except (ValueError, TypeError) as error:
        require_clear(error)
        return error


def follows_its_calls(case: Case) -> None:
    """After any sequence of calls the model is that of a new fit to the rows it saw last."""
    X, y, weights = case.rows(case.data.dense()), case.data.classes(), case.data.sample_weight()
    half = np.union1d(np.unique(y, return_index=True)[1], np.arange(0, len(y), 2))
    columns = half if case.params.get("kernel") == "precomputed" else slice(None)
    smaller = (X[half][:, columns], y[half], None if weights is None else weights[half])
    model, rows = case.model(), None
    for step in case.steps:
        if step in ("fit", "fit_half"):
            rows = (X, y, weights) if step == "fit" else smaller
            if isinstance(fit(case, *rows, model=model), Exception):
                return
        elif step == "cloned":
            model, rows = clone(model), None
        elif step in ("pickled", "copied"):
            before, model = model, COPIES[step](model)
            for name in (name for name in vars(before) if name.endswith("_")):
                one, two = contents(getattr(before, name), getattr(model, name))
                np.testing.assert_equal(two, one, err_msg=name)
        elif rows is not None:
            assert_same_in_threads(case, model, rows)
    if rows is None:
        try:
            model.predict(X)
        except NotFittedError:
            return
        raise AssertionError("an unfitted model predicts")
    for mine, its in zip(
        *(answers(case, each, *rows) for each in (model, fit(case, *rows))), strict=True
    ):
        assert_same_minimum(mine, its)


COPIES = {"pickled": lambda model: pickle.loads(pickle.dumps(model)), "copied": copy.deepcopy}


def assert_same_in_threads(case: Case, model: Any, rows: tuple[Any, Any, Any]) -> None:
    with strictly(), ThreadPoolExecutor(4) as pool:
        X, y, weights = rows
        scores = [pool.submit(scores_of, model, X) for _ in range(2)]
        fits = [pool.submit(clone(model).fit, X, case.targets(y), weights) for _ in range(2)]
        expected = scores_of(model, X)
        for job in scores:
            size = np.abs(expected).max()
            np.testing.assert_allclose(job.result(), expected, rtol=0, atol=1e-6 * size)
        for job in fits:
            found = (answers(case, each, *rows) for each in (model, job.result()))
            for mine, its in zip(*found, strict=True):
                assert_same_minimum(mine, its)


# Examples of the properties that take long, in a round of `python -m tests.fuzz`.
FEW = {"chooses_models": 10, "chooses_on_tables": 10, "converts_tables": 10, "compares_tables": 2}
PROPERTIES = {
    check.__name__: check
    for check in (
        refuses_parameter,
        refuses_data,
        gives_finite_output,
        is_certified,
        keeps_its_answer,
        follows_its_calls,
        handles_tables,
        chooses_models,
        chooses_on_tables,
        converts_tables,
        compares_tables,
    )
}


def check(case: Case) -> None:
    """Raise AssertionError if the property of the case does not hold."""
    PROPERTIES[case.check](case)
