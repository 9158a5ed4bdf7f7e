"""Registration of the converters with skl2onnx."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin

import discreg
from discreg.tables.preprocessor import TablePreprocessor

__all__ = ["NumberColumns", "register", "require_skl2onnx"]

INSTALL = 'pip install "discreg[onnx]"'


def require_skl2onnx() -> Any:
    """Import skl2onnx, or raise ModuleNotFoundError that says how to install it."""
    try:
        return import_module("skl2onnx")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"The conversion to ONNX needs {error.name}: {INSTALL}.", name=error.name
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
    from ._outputs import (
        CLASSIFIER_OPTIONS,
        classifier_shapes,
        columns_shapes,
        convert_classifier,
        convert_columns,
        convert_preprocessor,
        convert_regressor,
        preprocessor_shapes,
        regressor_shapes,
    )

    for name in dir(discreg):
        if name.endswith(("Classifier", "ClassifierCV")):
            converter = classifier_shapes, convert_classifier
            add(getattr(discreg, name), _alias(name), *converter, options=CLASSIFIER_OPTIONS)
        elif name.startswith("ReducedRankRegression"):
            add(getattr(discreg, name), _alias(name), regressor_shapes, convert_regressor)
    for transformer, *functions in (
        (TablePreprocessor, preprocessor_shapes, convert_preprocessor),
        (NumberColumns, columns_shapes, convert_columns),
    ):
        add(transformer, _alias(transformer.__name__), *functions, parser=_parse_in_double)


class NumberColumns(TransformerMixin, BaseEstimator):
    """The step that joins inputs of numbers to one array, which scikit-learn does by itself."""


def _alias(name: str) -> str:
    return f"Discreg{name}"


def _parse_in_double(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> list[Any]:
    """Declare the output of a transformer that is in double precision for any input."""
    from skl2onnx.common.data_types import DoubleTensorType

    operator = scope.declare_local_operator(_alias(type(model).__name__), model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("features", DoubleTensorType()))
    return list(operator.outputs)
