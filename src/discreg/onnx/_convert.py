"""Conversion of a fitted model or pipeline to an ONNX model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from discreg.tables.frames import as_pandas, is_frame
from discreg.tables.preprocessor import TablePreprocessor

from ._columns import input_kinds
from ._outputs import has_probabilities
from ._registration import NumberColumns, register, require_skl2onnx
from ._scores import fitted_model

__all__ = ["to_onnx"]


def to_onnx(
    model: Any,
    X: Any,
    *,
    raw_scores: bool = False,
    target_opset: int | dict[str, int] | None = None,
) -> Any:
    """Convert a fitted model or pipeline to ONNX.

    The ONNX model has the outputs ``label`` and ``probabilities``, an array with one column per
    class. Models without probabilities, and all models with `raw_scores`, have ``scores`` instead.
    Regression models have one output, ``variable``.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of discreg, or a pipeline of such estimators and of estimators that
        skl2onnx converts. A model that ``discreg compare`` has written is one of them.
    X : array, sparse array or DataFrame of shape (n_samples, n_features)
        Some rows, of which only the columns and types matter. For an array, the ONNX model has one
        input, ``X``, of the same type: float32 or float64. For a data frame it has one input per
        column, with the name of the column.
    raw_scores : bool, default=False
        Whether the second output are the decision values instead of the probabilities. For two
        classes they have the columns −s and s, where s is the value of `decision_function`.
    target_opset : int or dict, default=None
        Version of the operators; None means the newest one that skl2onnx supports.

    Returns
    -------
    onnx.ModelProto
        The ONNX model.

    Raises
    ------
    NotImplementedError
        If a part of the model has no conversion; the message gives the reason.

    Notes
    -----
    Models compute in double precision; for inputs of float32 only the outputs are rounded. Steps of
    scikit-learn before them compute in the type of the input. The ONNX model does not check its
    inputs: where Python raises an error for missing or infinite numbers, its outputs are undefined.

    A `TablePreprocessor` has inputs of float64 for numbers and booleans, in which NaN is a missing
    value, of strings for categories, in which an empty string is a missing value, and of int64 for
    dates, in microseconds since 1970 in UTC. For a missing date it is that of NaT:
    ``frame["day"].to_numpy("datetime64[us]").astype("int64")``.

    Kernel models contain training rows, which everybody can read who has the ONNX model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from discreg import ReLSRClassifier
    >>> from discreg.onnx import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ReLSRClassifier().fit(X, y)
    >>> converted = to_onnx(model, X)
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(converted.SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X})
    >>> np.array_equal(label, model.predict(X))
    True
    >>> np.allclose(probabilities, model.predict_proba(X))
    True
    """
    skl2onnx = require_skl2onnx()
    register()
    model = getattr(model, "pipeline", model)  # of a TableClassifier, whose import needs pandas
    check_is_fitted(model)
    _refuse_projections(model)
    last = _last(model)
    options, outputs = None, None
    if is_classifier(last):
        given = {"zipmap": False, "raw_scores": raw_scores}
        options = {id(last): {name: given[name] for name in given if _has_option(last, name)}}
        is_ours = _is_ours(fitted_model(last))
        if raw_scores or (is_ours and not has_probabilities(last)):
            outputs = [("label", None), ("scores", None)]
    elif raw_scores:
        raise ValueError(f"{type(last).__name__} is not a classifier and has no decision values.")
    inputs = _input_types(model, X)
    converted = skl2onnx.to_onnx(
        _prepared(model, inputs),
        initial_types=inputs,
        options=options,
        final_types=outputs,
        target_opset=target_opset,
        name=type(last).__name__,
    )
    _rename_inputs(converted.graph, [name for name, _ in inputs])
    return converted


def _first(model: Any) -> Any:
    return _first(model[0]) if isinstance(model, Pipeline) else model


def _last(model: Any) -> Any:
    return _last(model[-1]) if isinstance(model, Pipeline) else model


def _refuse_projections(model: Any) -> None:
    """Raise NotImplementedError if a model of ours transforms rows inside a pipeline."""
    for step in model[:-1] if isinstance(model, Pipeline) else ():
        if _is_ours(step) and hasattr(step, "predict"):
            raise NotImplementedError(
                f"{type(step).__name__} is not the last step of the pipeline. Its predictions have "
                "a conversion to ONNX, its transform has none."
            )


def _prepared(model: Any, inputs: list[tuple[str, Any]]) -> Any:
    """Add steps around those that skl2onnx does not convert in double precision.

    Scalers of several columns would round to float32. Of models that follow a table, some have no
    conversion in double precision, and trees round to float32 in Python.
    """
    from skl2onnx.common.data_types import StringTensorType
    from skl2onnx.sklapi import CastTransformer

    if not isinstance(model, Pipeline):
        return model
    first = _first(model)
    if isinstance(first, TablePreprocessor):
        if first is not model[0] or len(model) == 1 or _is_ours(fitted_model(model[1])):
            return model
        cast = ("float32", CastTransformer(dtype=np.float32))
        return Pipeline([model.steps[0], cast, *model.steps[1:]])
    are_numbers = not any(isinstance(kind, StringTensorType) for _, kind in inputs)
    if len(inputs) > 1 and are_numbers and not isinstance(first, ColumnTransformer):
        return Pipeline([("columns", NumberColumns()), *model.steps])
    return model


def _rename_inputs(graph: Any, names: list[str]) -> None:
    """Give the inputs the names of the columns, of which skl2onnx keeps only some characters."""
    new = {each.name: name for each, name in zip(graph.input, names, strict=True)}
    if taken := {each.name for each in graph.output} & set(names):
        raise ValueError(f"The column {taken.pop()!r} has the name of an output. Rename it.")
    for each in graph.input:
        each.name = new[each.name]
    for node in graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]


def _is_ours(model: Any) -> bool:
    return type(model).__module__.startswith("discreg.")


def _has_option(model: Any, name: str) -> bool:
    """Return whether the converter of a model has an option."""
    from skl2onnx import get_model_alias
    from skl2onnx.common._registration import get_converter

    options = get_converter(get_model_alias(type(model))).get_allowed_options()
    return options == "passthrough" or name in (options or ())


def _input_types(model: Any, X: Any) -> list[tuple[str, Any]]:
    """Return names and types of the inputs."""
    first = _first(model)
    is_table = isinstance(first, TablePreprocessor)
    preprocessor = first if is_table else getattr(first, "preprocessor_", None)
    if not is_frame(X):
        X = X if hasattr(X, "dtype") else np.asarray(X)
        return [("X", _tensor_type(X.dtype, X.shape[1], "X"))]
    frame = as_pandas(X)
    if preprocessor is not None:
        kinds = input_kinds(preprocessor)
        dtypes = {
            name: np.dtype(object if kind == "string" else kind) for name, kind in kinds.items()
        }
    else:
        names = _used_columns(first, list(getattr(first, "feature_names_in_", frame.columns)))
        if missing := [name for name in names if name not in frame]:
            raise ValueError(f"X has no column {missing[0]!r}, to which the model was fitted.")
        dtypes = {name: frame[name].dtype for name in names}
        if isinstance(first, ColumnTransformer):
            dtypes = _of_one_type(dtypes)
    return [(name, _tensor_type(dtype, 1, name)) for name, dtype in dtypes.items()]


def _used_columns(first: Any, names: list[str]) -> list[str]:
    """Leave out columns that a ColumnTransformer drops, if it finds columns by name."""
    if not isinstance(first, ColumnTransformer):
        return names
    kept = [np.atleast_1d(each) for _, step, each in first.transformers_ if step != "drop"]
    used = np.concatenate(kept).tolist() if kept else []
    by_name = all(isinstance(each, str) for each in used)
    return [name for name in names if name in used] if by_name else names


def _of_one_type(dtypes: dict[str, Any]) -> dict[str, Any]:
    """Make numbers float32 unless all columns are of float64.

    The encoders of skl2onnx compute in float32, and only columns of one type can be joined.
    """
    if all(dtype == np.float64 for dtype in dtypes.values()):
        return dtypes
    single = np.dtype(np.float32)
    return {name: single if dtype.kind in "fiub" else dtype for name, dtype in dtypes.items()}


def _tensor_type(dtype: Any, width: int, name: str) -> Any:
    """Return the type of an input with this number of columns."""
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)  # of a categorical column
    real = FloatTensorType if dtype == np.float32 else DoubleTensorType
    types = {"f": real, "i": Int64TensorType, "u": Int64TensorType, "b": BooleanTensorType}
    types |= {"O": StringTensorType, "U": StringTensorType}
    if dtype.kind not in types:
        raise TypeError(
            f"The column {name!r} is of type {dtype}, which ONNX does not have. Put a "
            "TablePreprocessor before the model, or convert the column to numbers."
        )
    return types[dtype.kind]([None, width])
