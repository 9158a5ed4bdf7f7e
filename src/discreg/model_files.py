"""A fitted model on disk and back, without pickle: skops files whose types are all known."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from discreg.base.errors import InputError
from discreg.tables.columns import ExpectedColumns, check_columns

__all__ = ["TableClassifier", "load_model", "save_model"]

# All that models of a comparison are made of beyond what skops trusts by itself. Names, not
# packages: a package has functions, too, and some of them execute what they are given.
TRUSTED = frozenset(
    {
        "discreg.linalg.fitted_kernel.FittedKernel",
        "discreg.lowrank._lrlr.LRLRClassifier",
        "discreg.lowrank._lrrr.LRRRClassifier",
        "discreg.lowrank._slrr.SLRRClassifier",
        "discreg.margin._base.MarginStatistics",
        "discreg.margin._ldm.LDMClassifier",
        "discreg.margin._odm.ODMClassifier",
        "discreg.representation._closed.ClosedForm",
        "discreg.representation._drm.DRMClassifier",
        "discreg.representation._forms.ClosedSolver",
        "discreg.representation._forms.ScatterSolver",
        "discreg.representation._problem.Groups",
        "discreg.representation._scatter.ScatterForm",
        "discreg.representation._training.Training",
        "discreg.retargeted._dlsr.DLSRClassifier",
        "discreg.retargeted._grelsr.GReLSRClassifier",
        "discreg.retargeted._lsr.LSRClassifier",
        "discreg.retargeted._relsr.ReLSRClassifier",
        "discreg.model_files.TableClassifier",
        "numpy.dtype",
        "scipy.sparse._csr.csr_array",
        "scipy.sparse._csr.csr_matrix",
        "sklearn.compose._column_transformer._RemainderColsList",  # of scikit-learn 1.6
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.tree._tree.Tree",
    }
)


def _has_probabilities(model: TableClassifier) -> bool:
    return hasattr(model.pipeline, "predict_proba")


class TableClassifier(ClassifierMixin, BaseEstimator):
    """A fitted pipeline that takes tables like the one it was fitted to.

    Columns are found by name, in any order; those it does not know are ignored, and those that are
    missing or of another kind are refused by name.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted, from the columns to labels.
    columns : dict
        The columns that it expects: `ExpectedColumns` as plain values.
    """

    def __init__(self, pipeline: Pipeline, columns: dict[str, Any]) -> None:
        self.pipeline = pipeline
        self.columns = columns

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return self.pipeline.classes_

    @property
    def expected(self) -> ExpectedColumns:
        """The columns that it expects."""
        return ExpectedColumns(**self.columns)

    @property
    def categories(self) -> dict[str, NDArray[Any]]:
        """The categories that it was fitted to, by column."""
        if "categorical" not in self.expected.kinds.values():
            return {}
        parts = self.pipeline[0]
        (names,) = (each for kind, _, each in parts.transformers_ if kind == "categorical")
        encoder = parts.named_transformers_["categorical"][-1]
        return dict(zip(names, encoder.categories_, strict=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of the rows of a data frame (of a sparse array, if it was fitted to one)."""
        return self.pipeline.predict(self._checked(X))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, in the order of `classes_`."""
        return self.pipeline.predict_proba(self._checked(X))

    def _checked(self, X: Any) -> Any:
        if isinstance(X, pd.DataFrame):
            return check_columns(X, self.expected)
        if sparse.issparse(X) and not self.expected.kinds:
            return X
        kind = "a pandas data frame" if self.expected.kinds else "a sparse array"
        raise InputError(f"The model takes {kind}, not {type(X).__name__}.")

    def __sklearn_is_fitted__(self) -> bool:
        return True


def save_model(path: Path, pipeline: Pipeline, expected: ExpectedColumns) -> list[str]:
    """Write a fitted pipeline; returns the types in it that a reader has to trust."""
    from skops import io

    model = TableClassifier(pipeline, asdict(expected))
    draft = path.with_name(f".{path.name}.draft")
    try:
        io.dump(model, draft)
        types = _types_to_trust(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return types


def load_model(path: str | os.PathLike[str]) -> TableClassifier:
    """Read a model that `discreg compare` has written.

    Nothing in the file is executed: it may hold data and instances of the types in `TRUSTED` and
    of those that skops trusts, and a file with any other type or function is refused.
    """
    try:
        from skops import io
    except ImportError as error:
        raise InputError(
            "Reading a model file needs skops: pip install 'discreg[deploy]'."
        ) from error
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        model = io.load(path, trusted=_types_to_trust(path))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} is not a model that discreg has written ({error}).") from error
    if not isinstance(model, TableClassifier):
        raise InputError(
            f"{path} holds a {type(model).__name__}, not a model that `discreg compare` has "
            "written; load it with skops.io.load."
        )
    return model


def _types_to_trust(path: Path) -> list[str]:
    from skops import io

    types = io.get_untrusted_types(file=path)
    strange = sorted(set(types) - TRUSTED)
    if strange:
        raise InputError(f"{path} holds types that are not trusted: {', '.join(strange)}.")
    return types
