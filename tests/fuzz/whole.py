"""AutoClassifier, comparisons and ONNX models of hostile tables."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
from onnx_runs import feeds_of, session_of
from sklearn import config_context
from sklearn.pipeline import make_pipeline

import discreg
from discreg import AutoClassifier, TablePreprocessor

from .cases import Case
from .tables import made_table

FAMILIES = ("kernels", "trees", "boosting", "logistic", "DRM", "ODM", "LRRR")
AUTO_PARAMS = {
    "families": [[name] for name in FAMILIES] + [["trees", "logistic"], ["kernels", "boosting"]],
    "class_weight": [None, "balanced", {"0": 2.0}, {"0": 1e-6, "1": 1e6}],
    "time_budget": [None, 1e-9, 1.0],
}
# Columns that tests/onnx_runs.py knows how to pass to a graph.
FOR_ONNX = ("numbers", "gaps", "counter", "one", "yes", "constant", "spellings", "category", "zone")
MODELS = ("LSRClassifier", "DRMClassifier", "ODMClassifier", "LRRRClassifier", "AutoClassifier")
CANDIDATES = ("LDA", "LSR", "Logistic", "KNN")
VERDICTS = ("clear winner", "equally good", "nothing is better", "not enough evidence", "red flag")


def made_labels(case: Case) -> np.ndarray:
    """Labels of the rows of a case's table, two of each of two or three classes if it can be."""
    n = sum(case.data.sizes)
    y = np.arange(n) % (2 + case.data.seed % 2)
    return np.random.default_rng([case.data.seed, 5]).permutation(np.array([*"abc"])[y])


def as_inputs(session: Any, table: pd.DataFrame) -> pd.DataFrame:
    """Convert strings to numbers where the graph takes numbers."""
    numeric = [each.name for each in session.get_inputs() if each.type != "tensor(string)"]
    texts = [name for name in numeric if table[name].dtype.kind == "O"]
    return table.assign(**{name: pd.to_numeric(table[name], errors="coerce") for name in texts})


def require_message(error: Exception) -> None:
    assert 15 < len(str(error)) < 3000, f"the message has {len(str(error))} characters"


def fitted(model: Any, X: Any, y: Any) -> Any:
    """The model, or None if the data are refused by a message of ours."""
    try:
        return model.fit(X, y)
    except ValueError as error:
        require_message(error)
        assert not any(name.endswith("_") for name in vars(model)), "a failed fit left a part"
        return None


def chooses_on_tables(case: Case) -> None:
    """Probabilities of every table are shares, and the same after pickling and in any order."""
    table, y = made_table(case), made_labels(case)
    with warnings.catch_warnings(), config_context(transform_output="pandas"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        model = fitted(AutoClassifier(**case.params), table, y)
        if model is None:
            return
        shares = model.predict_proba(table)
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-9)
        assert np.isin(model.predict(table), np.unique(y)).all()
        assert np.isfinite(model.held_out_log_loss_)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(table), shares)
        turned = table[list(table.columns)[::-1]][::-1]
        np.testing.assert_allclose(model.predict_proba(turned)[::-1], shares, atol=1e-9)


def converts_tables(case: Case) -> None:
    """The graph of a model of a table gives the probabilities of the model, or is refused."""
    from discreg.onnx import to_onnx

    table, y = made_table(case), made_labels(case)
    if case.estimator == "AutoClassifier":
        model = AutoClassifier(families=["kernels"])
    else:
        classifier = getattr(discreg, case.estimator)()
        model = make_pipeline(TablePreprocessor(**case.params), classifier)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        try:
            shares = model.fit(table, y).predict_proba(table)
            converted = to_onnx(model, table)
        except ValueError as error:
            return require_message(error)
    session = session_of(converted)
    label, found = session.run(None, feeds_of(session, as_inputs(session, table)))
    np.testing.assert_allclose(found, shares, atol=1e-6)
    clear = np.sort(shares, axis=1)[:, -2] < shares.max(axis=1) - 1e-6
    np.testing.assert_array_equal(label[clear], model.predict(table)[clear])


def compares_tables(case: Case) -> None:
    """A clear error, or a verdict, and probabilities that are shares."""
    table, y = made_table(case), made_labels(case)
    if not isinstance(table, pd.DataFrame):
        return
    try:
        found = discreg.compare(table, y, **case.params, cv=2, n_jobs=1)
    except ValueError as error:
        return require_message(error)
    assert found.verdict.kind.startswith(VERDICTS)
    assert len(str(found)) > 50
    for name in found.evidence.held_out:
        shares = found.probabilities(name)[list(np.unique(y))].to_numpy()
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    if found.model is not None:
        assert np.isin(found.model.predict(table), np.unique(y)).all()
