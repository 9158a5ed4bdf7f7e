"""Registration with skl2onnx, and the conversion of a fitted model or pipeline."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import discreg
from discreg.tables.frames import as_pandas, is_frame
from discreg.tables.preprocessor import TablePreprocessor

from ._converters import (
    CLASSIFIER_OPTIONS,
    classifier_shapes,
    convert_classifier,
    convert_features,
    convert_regressor,
    feature_shapes,
    has_probabilities,
    input_kinds,
    preprocessor_of,
    regressor_shapes,
)
from ._scores import fitted_model


def require_skl2onnx() -> Any:
    """Import skl2onnx, or raise ModuleNotFoundError that says how to install it."""
    try:
        return import_module("skl2onnx")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'The conversion to ONNX needs {error.name}: pip install "discreg[onnx]".',
            name=error.name,
        ) from error


def register() -> None:
    """Register the converters of all estimators of discreg with skl2onnx.

    ``skl2onnx.to_onnx`` then converts them, also inside pipelines, column transformers and
    searches of scikit-learn. :func:`discreg.onnx.to_onnx` calls this function.

    The classifiers have the options of those of skl2onnx: "zipmap", "raw_scores", "nocl" and
    "output_class_labels".

    Examples
    --------
    >>> import numpy as np
    >>> import skl2onnx
    >>> from sklearn.datasets import load_iris
    >>> from discreg import LSRClassifier
    >>> from discreg.onnx import register
    >>> register()
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSRClassifier().fit(X, y)
    >>> converted = skl2onnx.to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False})
    >>> [output.name for output in converted.graph.output]
    ['label', 'probabilities']
    """
    add = require_skl2onnx().update_registered_converter
    for name in dir(discreg):
        if name.endswith(("Classifier", "ClassifierCV")):
            converter = classifier_shapes, convert_classifier
            add(getattr(discreg, name), f"Discreg{name}", *converter, options=CLASSIFIER_OPTIONS)
        elif name.startswith("ReducedRankRegression"):
            add(getattr(discreg, name), f"Discreg{name}", regressor_shapes, convert_regressor)
    for step in (TablePreprocessor, NumberColumns):
        converter = feature_shapes, convert_features
        add(step, f"Discreg{step.__name__}", *converter, parser=_parse_in_double)


class NumberColumns(TransformerMixin, BaseEstimator):
    """The step that joins inputs of numbers to one array, which scikit-learn does by itself."""


def _parse_in_double(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> list[Any]:
    """Declare the output of a transformer that is in double precision for any input."""
    from skl2onnx.common.data_types import DoubleTensorType

    operator = scope.declare_local_operator(f"Discreg{type(model).__name__}", model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("features", DoubleTensorType()))
    return list(operator.outputs)


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
        Version of the operators, at least 20; None means the newest one that skl2onnx supports.

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
    """Return names and types of the inputs; raise ValueError if X lacks features of the model."""
    first = _first(model)
    preprocessor = preprocessor_of(first)
    if not is_frame(X):
        X = X if hasattr(X, "dtype") else np.asarray(X)
        _require_width(model, X.shape)
        return [("X", _tensor_type(X.dtype, X.shape[1], "X"))]
    frame = as_pandas(X)
    if not hasattr(first, "feature_names_in_"):
        _require_width(model, frame.shape)
    names = list(getattr(first, "feature_names_in_", frame.columns))
    if preprocessor is not None:
        kinds = input_kinds(preprocessor)
        dtypes = {
            name: np.dtype(object if kind == "string" else kind) for name, kind in kinds.items()
        }
        names = [name for name in names if name in kinds]
    else:
        names = _used_columns(first, names)
    if missing := [name for name in names if name not in frame]:
        raise ValueError(f"X has no column {missing[0]!r}, to which the model was fitted.")
    if preprocessor is None:
        dtypes = {name: frame[name].dtype for name in names}
        if isinstance(first, ColumnTransformer):
            dtypes = _of_one_type(dtypes)
    return [(name, _tensor_type(dtype, 1, name)) for name, dtype in dtypes.items()]


def _require_width(model: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError if X is no table with one column per feature of the model."""
    expected = getattr(model, "n_features_in_", None)
    if len(shape) != 2 or expected not in (None, shape[1]):
        raise ValueError(
            f"X has the shape {shape}, but the model was fitted to {expected} features. Pass rows "
            "like those of fit."
        )


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
    from skl2onnx.common import data_types

    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)  # of a categorical column
    types = {"i": "Int64", "u": "Int64", "b": "Boolean", "O": "String", "U": "String"}
    types["f"] = "Float" if dtype == np.float32 else "Double"
    if dtype.kind not in types:
        raise TypeError(
            f"The column {name!r} is of type {dtype}, which ONNX does not have. Put a "
            "TablePreprocessor before the model, or convert the column to numbers."
        )
    return getattr(data_types, f"{types[dtype.kind]}TensorType")([None, width])
