"""Decision values of the models: one column per class, or one column for two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from discreg.auto import AutoClassifier
from discreg.base.calibration import Temperature
from discreg.linalg.kernel_approximation import NystroemMap, RandomFeatures
from discreg.linalg.types import Array
from discreg.representation import DRMClassifier

from ._graph import Graph
from ._kernels import dense, kernel_diagonal, kernel_rows

__all__ = ["class_scores", "decide", "fitted_model", "probabilities"]

SMALLEST, LARGEST = 1e-300, 1e150  # spreads of scores; squares of larger ones overflow


def fitted_model(model: Any) -> Any:
    """Return the best model of a search, or the model itself."""
    return getattr(model, "best_estimator_", model)


def decide(graph: Graph, model: Any, x: str) -> tuple[str, str | None]:
    """Compute the scores of new rows, and which of them are rejected, if the model rejects."""
    if isinstance(model, AutoClassifier):
        return _average(graph, model, x), None
    if isinstance(model, DRMClassifier):
        return _residual_scores(graph, model, x)
    return _regression_scores(graph, model, x), None


def class_scores(graph: Graph, scores: str, n_classes: int, *, first: float = 0.0) -> str:
    """Return one column per class; for two classes, the first one is a multiple of the score."""
    return scores if n_classes > 2 else graph.product(scores, np.array([[first, 1.0]]))


def probabilities(graph: Graph, scores: str, temperature: Temperature) -> str:
    """Compute the softmax of damped scores: see `discreg.base.calibration.Temperature`."""
    factor: Any = temperature.inverse
    if np.isfinite(temperature.spread):
        largest, smallest = (graph.reduce(kind, scores) for kind in ("ReduceMax", "ReduceMin"))
        spread = graph("Div", graph("Sub", largest, smallest), temperature.spread)
        spread = graph("Min", graph("Max", spread, SMALLEST), LARGEST)
        root = graph("Sqrt", graph("Add", graph("Mul", spread, spread), 1.0))
        arsinh = graph("Log", graph("Add", spread, root))
        factor = graph("Mul", graph("Div", arsinh, spread), temperature.inverse)
    return graph("Softmax", graph("Mul", scores, factor), axis=1)


# Regression onto targets, low-rank regression, and margins


def _regression_scores(graph: Graph, model: Any, x: str) -> str:
    """Compute scores that are linear in features, components or a kernel."""
    kernel, features, offset = model._kernel, model._features, _double(model.intercept_)
    if features is not None:
        return _component_scores(graph, features, x, _double(model.coef_), offset)
    if kernel is None:
        return graph.product(x, _double(model.coef_).T, offset)
    coef = _double(model.dual_coef_)
    if kernel.kernel == "precomputed":
        of_all = np.zeros((len(coef), model.n_features_in_))
        of_all[:, getattr(model, "support_", slice(None))] = coef
        return graph.product(x, of_all.T, offset)
    rows = model.X_fit_ if hasattr(model, "X_fit_") else model.support_vectors_
    return graph.product(kernel_rows(graph, kernel, x, rows), coef.T, offset)


def _component_scores(
    graph: Graph, features: NystroemMap | RandomFeatures, x: str, coef: Array, offset: Array
) -> str:
    """Compute scores that are linear in the components of an approximated kernel."""
    if isinstance(features, NystroemMap):
        values = kernel_rows(graph, features.kernel, x, features.basis)
        return graph.product(values, features.whitening @ coef.T, offset)
    return graph.product(_components(graph, features, x), coef.T, offset)


def _components(graph: Graph, features: NystroemMap | RandomFeatures, x: str) -> str:
    """Compute the components of an approximated kernel."""
    if isinstance(features, NystroemMap):
        values = kernel_rows(graph, features.kernel, x, features.basis)
        return graph.product(values, features.whitening)
    n_angles = features.directions.shape[1]
    phases = np.repeat([np.pi / 2, 0.0], n_angles)  # the first half are cosines
    waves = graph("Sin", graph.product(x, np.tile(features.directions, 2), phases))
    return graph("Div", waves, float(np.sqrt(n_angles)))


# Representation by the training samples


def _residual_scores(graph: Graph, model: Any, x: str) -> tuple[str, str | None]:
    """Compute −δ of DRM, for two classes the difference, and which rows are rejected."""
    points, training = x, model._solver.training
    if training.features is not None:
        points = _components(graph, training.features, x)
    elif training.is_precomputed:
        points = graph("Gather", x, training.groups.order, axis=1)
    if model.solver_ == "scatter":
        residuals = _scatter_residuals(graph, model._solver.form, points)
    elif model.solver_ == "closed":
        residuals = _closed_residuals(graph, model._solver, points)
    else:
        raise NotImplementedError(
            f"DRMClassifier with solver={model.solver_!r} and penalty={model.penalty!r} iterates "
            "for each new row, which has no conversion to ONNX. Fit with penalty='ridge' and "
            "solver='auto', which has a closed form."
        )
    rejected = None
    if model.reject_above is not None:
        norms = kernel_diagonal(graph, training.source_kernel, x)
        smallest = graph("Add", graph.reduce("ReduceMin", residuals), norms)
        rejected = graph("Greater", smallest, graph("Mul", norms, float(model.reject_above)))
    if len(model.classes_) > 2:
        return graph("Neg", residuals), rejected
    return graph.product(residuals, np.array([[1.0], [-1.0]])), rejected


def _scatter_residuals(graph: Graph, form: Any, points: str) -> str:
    """Compute δ as one quadratic form per class."""
    n_features = len(form.resolvent)
    images = graph.product(points, np.hstack(form.forms))
    by_class = graph("Reshape", images, np.array([-1, len(form.forms), n_features]))
    terms = graph("Mul", by_class, graph("Reshape", points, np.array([-1, 1, n_features])))
    return graph.reduce("ReduceSum", terms, axis=2, keepdims=False)


def _closed_residuals(graph: Graph, solver: Any, points: str) -> str:
    """Compute δ as `class_residuals` of the closed form does, with the inverse of the system."""
    form, training = solver.form, solver.training
    K = points if training.is_precomputed else kernel_rows(graph, training.kernel, points,
                                                           training.X)  # fmt: skip
    # The inverse times a column is faster in onnxruntime than a row times the inverse.
    inverse = dense(form.represent(np.eye(len(form.scale))))
    V = graph("Transpose", graph.product(inverse, graph("Transpose", K)))
    indicators = np.zeros((len(form.scale), len(form.blocks)))
    for k, rows in enumerate(form.groups.slices):
        indicators[rows, k] = 1.0
    parts = graph.split(V, [len(block) for block in form.blocks])
    squares = [
        graph.reduce("ReduceSum", graph("Mul", graph.product(part, block), part))
        for part, block in zip(parts, form.blocks, strict=True)
    ]
    within = graph("Concat", *squares, axis=1)
    along = graph.product(graph("Mul", V, K), indicators)
    shrunk = graph.product(graph("Mul", V, V), form.shrinkage[:, None] * indicators)
    ratios = form.alpha / form.groups.totals
    images = graph("Add", graph("Sub", along, shrunk), graph("Mul", within, ratios))
    own = graph("Mul", graph("Sub", within, graph("Add", images, along)), 2.0)
    return graph("Add", own, graph.reduce("ReduceSum", images))


# The average of AutoClassifier


def _average(graph: Graph, model: AutoClassifier, x: str) -> str:
    """Compute the logarithm of the weighted mean of the members' probabilities."""
    n_classes, total = len(model.classes_), None
    members = zip(model.estimators_, model._temperatures, model.weights_.tolist(), strict=True)
    for member, temperature, weight in members:
        if isinstance(member, DummyClassifier):
            nothing = graph("Mul", graph.reduce("ReduceSum", x), 0.0)
            shares = graph("Add", nothing, np.asarray(member.class_prior_))
        else:
            scaler, classifier = (step for _, step in member.steps)
            scores, _ = decide(graph, classifier, _scaled(graph, scaler, x))
            shares = probabilities(graph, class_scores(graph, scores, n_classes), temperature)
        weighted = graph("Mul", shares, weight)
        total = weighted if total is None else graph("Add", total, weighted)
    assert total is not None
    logs = graph("Log", graph("Max", total, float(np.finfo(np.float64).tiny)))
    return logs if n_classes > 2 else graph.product(logs, np.array([[-1.0], [1.0]]))


def _scaled(graph: Graph, scaler: Any, x: str) -> str:
    """Apply a scaler of AutoClassifier: standard scores, ranks, or the largest absolute value."""
    if hasattr(scaler, "ranks_"):
        return _ranks(graph, scaler, x)
    centred = graph("Sub", x, scaler.mean_) if hasattr(scaler, "mean_") else x
    return graph("Div", centred, scaler.scale_)


def _ranks(graph: Graph, scaler: Any, x: str) -> str:
    """Interpolate between the values of each feature, which a binary search finds."""
    n_steps = max(len(values) for values in scaler.values_).bit_length()
    width = (1 << n_steps) - 1
    knots = np.full((len(scaler.values_), width), np.inf)
    ranks, slopes = np.zeros_like(knots), np.zeros_like(knots)
    for j, (values, of_values) in enumerate(zip(scaler.values_, scaler.ranks_, strict=True)):
        knots[j, : len(values)] = values
        ranks[j, : len(values)] = of_values
        slopes[j, : len(values) - 1] = np.diff(of_values) / np.diff(values)
    highest = np.array([values[-1] for values in scaler.values_])
    x = graph("Min", graph("Max", x, knots[:, 0]), highest)
    # The place before the first value of each feature; the search adds the number of values <= x.
    places: Any = width * np.arange(len(knots))[None, :] - 1
    flat = graph.constant(knots.ravel())
    for step in (1 << power for power in reversed(range(n_steps))):
        tried = graph("Add", places, np.array(step))
        is_reached = graph("GreaterOrEqual", x, graph("Gather", flat, tried))
        places = graph("Where", is_reached, tried, places)
    slope, rank, knot = (
        graph("Gather", table, places) for table in (slopes.ravel(), ranks.ravel(), flat)
    )
    return graph("Add", graph("Mul", slope, graph("Sub", x, knot)), rank)


def _double(numbers: Any) -> Array:
    return np.asarray(numbers, dtype=np.float64)
