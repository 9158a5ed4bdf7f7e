"""Decision values of the models: kernels, scores and residuals, and the pool of AutoClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from discreg.auto import AutoClassifier
from discreg.base.calibration import TIE, Temperature
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import NystroemMap, RandomFeatures
from discreg.linalg.types import Array
from discreg.representation import DRMClassifier

from ._graph import Graph

MOST_BYTES = 1 << 31  # of an ONNX file
OF_PRODUCTS = {"poly", "polynomial", "sigmoid"}
CONVERTIBLE = OF_PRODUCTS | {"additive_chi2", "chi2", "cosine", "laplacian", "linear", "rbf"}
SMALLEST_SPREAD, LARGEST_SPREAD = 1e-300, 1e150  # squares of larger ones overflow


def kernel_rows(graph: Graph, kernel: FittedKernel, x: str, rows: Any) -> str:
    """Compute the kernel between new rows and stored rows, one column per stored row."""
    _require_convertible(kernel)
    rows = dense(rows)
    match kernel.kernel:
        case "rbf":
            return _rbf(graph, kernel, x, rows)
        case "laplacian" | "chi2" | "additive_chi2":
            return _of_differences(graph, kernel, x, rows)
        case "cosine":
            norms = graph("Sqrt", graph.reduce("ReduceSumSquare", x))
            nonzero = graph("Where", graph("Equal", norms, 0.0), 1.0, norms)
            return graph.product(graph("Div", x, nonzero), normalize(rows).T)
        case "linear":
            return graph.product(x, rows.T)
        case _:
            shifted = graph.product(x, _gamma(kernel) * rows.T, np.array([float(kernel.coef0)]))
            return _of_shifted(graph, kernel, shifted)


def kernel_diagonal(graph: Graph, kernel: FittedKernel, x: str) -> str:
    """Compute k(x, x) of new rows, as one column."""
    _require_convertible(kernel)
    squares = graph.reduce("ReduceSumSquare", x)
    if kernel.facts.diagonal is not None:
        return graph("Add", graph("Mul", squares, 0.0), kernel.facts.diagonal)
    if kernel.kernel == "cosine":
        return graph("Sign", squares)
    if kernel.kernel == "linear":
        return squares
    shifted = graph("Add", graph("Mul", squares, _gamma(kernel)), float(kernel.coef0))
    return _of_shifted(graph, kernel, shifted)


def dense(rows: Any) -> Array:
    """Convert stored rows to an array; raise ValueError if they do not fit into an ONNX file."""
    if 8 * rows.shape[0] * rows.shape[1] >= MOST_BYTES:
        raise ValueError(
            f"The model stores {rows.shape[0]:,} rows of {rows.shape[1]:,} features, which are "
            "more than 2 GB in an ONNX file. Fit a linear model, or approximate the kernel with "
            "fewer n_components."
        )
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _rbf(graph: Graph, kernel: FittedKernel, x: str, rows: Array) -> str:
    """Compute exp(−γ ‖x − y‖²) from one product of centred rows, with ‖x‖² as another column."""
    gamma, origin = _gamma(kernel), np.median(rows, axis=0)
    rows = rows - origin  # far from the origin, rounding errors of the norms would be large
    x = graph("Sub", x, origin)
    with_square = graph("Concat", x, graph.reduce("ReduceSumSquare", x), axis=1)
    factors = np.vstack([2 * gamma * rows.T, np.full(len(rows), -gamma)])
    exponents = graph.product(with_square, factors, -gamma * np.einsum("ij,ij->i", rows, rows))
    return graph("Exp", graph("Min", exponents, 0.0))


def _of_shifted(graph: Graph, kernel: FittedKernel, shifted: str) -> str:
    """Compute a kernel from γ x·y + coef0."""
    if kernel.kernel == "sigmoid":
        return graph("Tanh", shifted)
    return graph("Pow", shifted, float(kernel.degree))


def _of_differences(graph: Graph, kernel: FittedKernel, x: str, rows: Array) -> str:
    """Compute a kernel that is a function of a sum over the features.

    A graph of its own is applied to one row at a time. It needs memory for the differences of this
    row from the stored rows only.
    """
    from onnx import TensorProto, helper

    stored, axis = graph.constant(rows), graph.constant(np.array([1]))
    nodes = [helper.make_node("Sub", [stored, "row"], ["differences"])]
    if kernel.kernel == "laplacian":
        nodes.append(helper.make_node("Abs", ["differences"], ["terms"]))
    else:  # (x − y)² / (x + y), where 0 / 0 is 0
        positive = graph.constant(np.finfo(np.float64).tiny)
        nodes += [
            helper.make_node("Mul", ["differences", "differences"], ["squares"]),
            helper.make_node("Add", [stored, "row"], ["totals"]),
            helper.make_node("Max", ["totals", positive], ["divisors"]),
            helper.make_node("Div", ["squares", "divisors"], ["terms"]),
        ]
    nodes.append(helper.make_node("ReduceSum", ["terms", axis], ["sums"], keepdims=0))
    row = helper.make_tensor_value_info("row", TensorProto.DOUBLE, [rows.shape[1]])
    result = helper.make_tensor_value_info("sums", TensorProto.DOUBLE, [len(rows)])
    body = helper.make_graph(nodes, "sums", [row], [result])
    sums = graph("Scan", x, body=body, num_scan_inputs=1)
    if kernel.kernel == "additive_chi2":
        return graph("Neg", sums)
    return graph("Exp", graph("Mul", sums, -_gamma(kernel)))


def _gamma(kernel: FittedKernel) -> float:
    assert kernel.gamma is not None
    return float(kernel.gamma)


def _require_convertible(kernel: FittedKernel) -> None:
    if not isinstance(kernel.kernel, str):
        raise NotImplementedError(
            f"The {kernel.description} is a Python function, which ONNX cannot contain. Fit with "
            "the name of a kernel, or with kernel='precomputed': the input of the ONNX model is "
            "then the matrix of your kernel between new rows and training rows."
        )
    if kernel.kernel not in CONVERTIBLE:
        raise NotImplementedError(
            f"The {kernel.description} cannot be converted to ONNX; these can be: "
            f"{', '.join(sorted(CONVERTIBLE))}."
        )


def fitted_model(model: Any) -> Any:
    """Return the best model of a search, or the model itself."""
    return getattr(model, "best_estimator_", model)


def decide(graph: Graph, model: Any, x: str) -> tuple[str, str | None]:
    """Compute the scores of new rows, and which of them are rejected, if the model rejects."""
    if isinstance(model, AutoClassifier):
        return _pool(graph, model, x), None
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
        spread = graph("Min", graph("Max", spread, SMALLEST_SPREAD), LARGEST_SPREAD)
        root = graph("Sqrt", graph("Add", graph("Mul", spread, spread), 1.0))
        arsinh = graph("Log", graph("Add", spread, root))
        factor = graph("Mul", graph("Div", arsinh, spread), temperature.inverse)
    logits = graph("Mul", scores, factor)
    if temperature.offsets is not None:
        logits = graph("Add", logits, temperature.offsets[None])
    if temperature.is_capped and temperature.offsets is not None:
        prior = np.zeros(1) if temperature.prior is None else temperature.prior
        logits = graph("Sub", logits, prior[None])
        places = np.arange(len(temperature.offsets))[None]
        wins = graph("Equal", graph("ArgMax", scores, axis=1, keepdims=1), places)
        largest = graph.reduce("ReduceMax", graph("Where", wins, logits, -LARGEST_SPREAD))
        capped = graph(
            "Where", graph("Greater", logits, largest), graph("Sub", largest, TIE), logits
        )
        logits = graph("Add", capped, prior[None])
    return graph("Softmax", logits, axis=1)


def _regression_scores(graph: Graph, model: Any, x: str) -> str:
    """Compute scores that are linear in features, components or a kernel."""
    kernel, features, offset = model._kernel, model._features, _double(model.intercept_)
    if features is not None:
        return graph.product(_components(graph, features, x), _double(model.coef_).T, offset)
    if kernel is None:
        return graph.product(x, _double(model.coef_).T, offset)
    coef = _double(model.dual_coef_)
    if kernel.kernel == "precomputed":
        of_all = np.zeros((len(coef), model.n_features_in_))
        of_all[:, getattr(model, "support_", slice(None))] = coef
        return graph.product(x, of_all.T, offset)
    rows = model.X_fit_ if hasattr(model, "X_fit_") else model.support_vectors_
    return graph.product(kernel_rows(graph, kernel, x, rows), coef.T, offset)


def _components(graph: Graph, features: NystroemMap | RandomFeatures, x: str) -> str:
    """Compute the components of an approximated kernel."""
    if isinstance(features, NystroemMap):
        values = kernel_rows(graph, features.kernel, x, features.basis)
        return graph.product(values, features.whitening)
    n_angles = features.directions.shape[1]
    phases = np.repeat([np.pi / 2, 0.0], n_angles)  # the first half are cosines
    waves = graph("Sin", graph.product(x, np.tile(features.directions, 2), phases))
    return graph("Div", waves, float(np.sqrt(n_angles)))


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
    products = [graph("Mul", graph.product(points, each), points) for each in form.forms]
    return graph("Concat", *[graph.reduce("ReduceSum", each) for each in products], axis=1)


def _closed_residuals(graph: Graph, solver: Any, points: str) -> str:
    """Compute δ as `class_residuals` of the closed form does, with the inverse of the system."""
    form, training = solver.form, solver.training
    K = points
    if not training.is_precomputed:
        K = kernel_rows(graph, training.kernel, points, training.X)
    # The inverse times a column is faster in onnxruntime than a row times the inverse.
    inverse = dense(form.represent(np.eye(len(form.scale))))
    V = graph("Transpose", graph.product(inverse, graph("Transpose", K)))
    indicators, squares = np.zeros((len(form.scale), len(form.blocks))), []
    for k, (rows, block) in enumerate(zip(form.groups.slices, form.blocks, strict=True)):
        indicators[rows, k] = 1.0
        part = graph("Gather", V, np.arange(rows.start, rows.stop), axis=1)
        squares.append(graph.reduce("ReduceSum", graph("Mul", graph.product(part, block), part)))
    within = graph("Concat", *squares, axis=1)
    along = graph.product(graph("Mul", V, K), indicators)
    shrunk = graph.product(graph("Mul", V, V), form.shrinkage[:, None] * indicators)
    ratios = form.alpha / form.groups.totals
    images = graph("Add", graph("Sub", along, shrunk), graph("Mul", within, ratios))
    own = graph("Mul", graph("Sub", within, graph("Add", images, along)), 2.0)
    return graph("Add", own, graph.reduce("ReduceSum", images))


def _pool(graph: Graph, model: AutoClassifier, x: str) -> str:
    """Compute the logarithms of class weights times probabilities of a pool."""
    n_classes, total = len(model.classes_), None
    if model._columns is not None:
        x = graph("Gather", x, np.asarray(model._columns), axis=1)
    for member, weight in zip(model.estimators_, model.weights_.tolist(), strict=True):
        scaled = _scaled(graph, member.scaling, x)
        calibrator = member.calibrator
        shares = probabilities(
            graph, _member_scores(graph, member, scaled, n_classes), calibrator.temperature
        )
        logs = graph("Log", graph("Max", shares, float(np.exp(model._log_floor))))
        logs = graph("Sub", logs, graph.reduce("ReduceMean", logs))
        logs = graph.product(logs, calibrator.matrix, calibrator.offset)
        logs = graph("LogSoftmax", logs, axis=1)
        weighted = graph("Mul", logs, weight)
        total = weighted if total is None else graph("Add", total, weighted)
    if total is None:
        nothing = graph("Mul", graph.reduce("ReduceSum", x), 0.0)
        total = graph("Add", nothing, np.log(np.asarray(model._shares)))
    logs = graph("Add", graph("LogSoftmax", total, axis=1), np.log(model._factors))
    return logs if n_classes > 2 else graph.product(logs, np.array([[-1.0], [1.0]]))


def _member_scores(graph: Graph, member: Any, x: str, n_classes: int) -> str:
    """Compute the scores of a member; trees have no conversion in double precision."""
    if hasattr(member.model, "coef"):  # linear, or a kernel
        if member.model.rows is not None:
            x = kernel_rows(graph, member.model.kernel, x, member.model.rows)
        return graph.product(x, member.model.coef.T, member.model.intercept)
    classifier = member.model.classifier
    if not type(classifier).__module__.startswith("discreg."):
        raise NotImplementedError(
            f"AutoClassifier has a member of the family {member.family!r}, which has no conversion "
            "to ONNX in double precision. Fit with families=['kernels', 'logistic']."
        )
    return class_scores(graph, decide(graph, classifier, x)[0], n_classes)


def _scaled(graph: Graph, scaling: Any, x: str) -> str:
    """Apply a scaling of AutoClassifier."""
    if hasattr(scaling, "ranks"):
        return _ranks(graph, scaling, x)
    return graph("Div", graph("Sub", x, scaling.mean), scaling.scale)


def _ranks(graph: Graph, scaler: Any, x: str) -> str:
    """Interpolate between the values of each feature, which a binary search finds."""
    n_steps = max(len(values) for values in scaler.values).bit_length()
    width = (1 << n_steps) - 1
    knots = np.full((len(scaler.values), width), np.inf)
    ranks, slopes = np.zeros_like(knots), np.zeros_like(knots)
    for j, (values, of_values) in enumerate(zip(scaler.values, scaler.ranks, strict=True)):
        knots[j, : len(values)] = values
        ranks[j, : len(values)] = of_values
        slopes[j, : len(values) - 1] = np.diff(of_values) / np.diff(values)
    highest = np.array([values[-1] for values in scaler.values])
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
