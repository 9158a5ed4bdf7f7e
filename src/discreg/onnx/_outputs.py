"""Converters of skl2onnx: from an operator of a model to nodes, and the types of its outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ._columns import cells_of, table_features
from ._graph import Graph
from ._scores import class_scores, decide, fitted_model, probabilities

__all__ = [
    "CLASSIFIER_OPTIONS",
    "classifier_shapes",
    "columns_shapes",
    "convert_classifier",
    "convert_columns",
    "convert_preprocessor",
    "convert_regressor",
    "has_probabilities",
    "preprocessor_shapes",
    "regressor_shapes",
]

# The options of the classifiers of skl2onnx.
CLASSIFIER_OPTIONS: dict[str, list[Any]] = {
    "zipmap": [True, False, "columns"],
    "raw_scores": [True, False],
    "nocl": [True, False],
    "output_class_labels": [False, True],
}


def has_probabilities(model: Any) -> bool:
    """Return whether a fitted classifier has probabilities."""
    return hasattr(fitted_model(model), "_calibrated")


# Classifiers


def convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a classifier: label, and probabilities or scores."""
    graph, model = Graph(scope, container), fitted_model(operator.raw_operator)
    label, second = operator.outputs[:2]
    scores, rejected = decide(graph, model, _rows(graph, operator, model))
    classes = _labels(scope, operator.raw_operator)
    places = _winners(graph, scores, len(model.classes_))
    if rejected is not None:
        places = graph("Where", graph("Squeeze", rejected, np.array([1])), len(classes), places)
        classes = np.append(classes, _unknown(model, classes))
    graph.output(graph("Gather", classes, places), label)
    options = container.get_options(operator.raw_operator, {"raw_scores": False})
    n_classes = len(model.classes_)
    if options["raw_scores"] or not has_probabilities(model):
        found = class_scores(graph, scores, n_classes, first=-1.0)
    else:
        columns = class_scores(graph, scores, n_classes)
        found = probabilities(graph, columns, model._calibrated.temperature)
    graph.output(found, second)


def classifier_shapes(operator: Any) -> None:
    """Set the types and shapes of the label and of the probabilities or scores."""
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    model, n_rows = fitted_model(operator.raw_operator), operator.inputs[0].get_first_dimension()
    classes = _labels(operator.scope_inst, operator.raw_operator)
    kind = StringTensorType if classes.dtype.kind in "OU" else Int64TensorType
    operator.outputs[0].set_type(kind([n_rows]))
    if getattr(model, "preprocessor_", None) is not None:
        operator.outputs[1].set_type(DoubleTensorType())
    operator.outputs[1].type.shape = [n_rows, len(model.classes_)]


def _winners(graph: Graph, scores: str, n_classes: int) -> str:
    """Return the places of the predicted classes."""
    if n_classes > 2:
        return graph("ArgMax", scores, axis=1, keepdims=0)
    return graph.integer(graph("Squeeze", graph("Greater", scores, 0.0), np.array([1])))


def _labels(scope: Any, model: Any) -> NDArray[Any]:
    """Return the class labels as ONNX can contain them: strings or integers."""
    from skl2onnx.common.utils_classifier import get_label_classes

    check_is_fitted(model)
    classes = np.asarray(get_label_classes(scope, model))
    if classes.dtype.kind in "mM":
        raise NotImplementedError(
            f"The labels are of type {classes.dtype}, which ONNX cannot contain. Fit with labels "
            "that are strings or integers, for example y.astype(str)."
        )
    if classes.dtype.kind in "OU":
        return classes.astype(str)
    return _integers(classes, classes)


def _integers(values: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    found = np.asarray(values)
    with np.errstate(invalid="ignore"):
        whole = found.astype(np.int64)
    if not np.array_equal(whole, found):
        raise NotImplementedError(
            f"The labels are of type {classes.dtype}, and ONNX cannot contain {found.tolist()!r} "
            "among them. Fit with labels that are strings or integers, for example y.astype(str)."
        )
    return whole


def _unknown(model: Any, classes: NDArray[Any]) -> Any:
    """Return the label of rejected rows in the type of the other labels."""
    label = model._label_of_rejected()
    return str(label) if classes.dtype.kind in "OU" else _integers(label, model.classes_)


# Regression and the preprocessing of tables


def convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a linear regression."""
    graph, model = Graph(scope, container), fitted_model(operator.raw_operator)
    x = _rows(graph, operator, model)
    coef, offset = (np.asarray(each, dtype=np.float64) for each in (model.coef_, model.intercept_))
    graph.output(graph.product(x, coef.T, offset), operator.outputs[0])


def regressor_shapes(operator: Any) -> None:
    """Set the shape of the predicted targets."""
    check_is_fitted(operator.raw_operator)
    model, n_rows = fitted_model(operator.raw_operator), operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = [n_rows, len(model.coef_)]


def convert_preprocessor(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a TablePreprocessor."""
    graph, preprocessor = Graph(scope, container), operator.raw_operator
    cells = cells_of(graph, preprocessor, operator.inputs)
    graph.output(table_features(graph, preprocessor, cells), operator.outputs[0])


def preprocessor_shapes(operator: Any) -> None:
    """Set the type of the features, which are in double precision as in Python."""
    from skl2onnx.common.data_types import DoubleTensorType

    n_features = len(operator.raw_operator.get_feature_names_out())
    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].set_type(DoubleTensorType([n_rows, n_features]))


def convert_columns(scope: Any, operator: Any, container: Any) -> None:
    """Join inputs of numbers."""
    graph = Graph(scope, container)
    graph.output(_rows(graph, operator, operator.raw_operator), operator.outputs[0])


def columns_shapes(operator: Any) -> None:
    """Set the type of joined inputs."""
    from skl2onnx.common.data_types import DoubleTensorType

    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].set_type(DoubleTensorType([n_rows, len(operator.inputs)]))


def _rows(graph: Graph, operator: Any, model: Any) -> str:
    """Return the features of new rows in double precision."""
    from skl2onnx.common.data_types import StringTensorType

    preprocessor = getattr(model, "preprocessor_", None)
    if preprocessor is not None:
        cells = cells_of(graph, preprocessor, operator.inputs)
        return table_features(graph, preprocessor, cells)
    texts = [each.raw_name for each in operator.inputs if isinstance(each.type, StringTensorType)]
    if texts:
        raise TypeError(
            f"{type(model).__name__} takes numbers, but the input {texts[0]!r} is of strings. "
            "Put a TablePreprocessor or a OneHotEncoder before the model."
        )
    parts = [graph.double(each.full_name) for each in operator.inputs]
    return parts[0] if len(parts) == 1 else graph("Concat", *parts, axis=1)
