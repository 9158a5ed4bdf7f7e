"""Parameters of the estimator: what they may be, and the training data and solver they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.params import CLASS_WEIGHT, KERNEL_CONSTRAINTS, Boolean, Choice, Number
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import feature_map
from discreg.linalg.memory import require_memory
from discreg.linalg.rows import row_norms

from ._penalties import NAMES, Penalty
from ._problem import Groups
from ._training import Training

__all__ = [
    "CONSTRAINTS",
    "LINEAR",
    "choose_solver",
    "make_training",
    "require_squares",
    "unknown_label",
]

CONSTRAINTS: dict[str, Any] = {
    "alpha": Number(0, closed="left"),
    "beta": Number(0, closed="neither"),
    **KERNEL_CONSTRAINTS,
    "penalty": Choice(
        tuple(NAMES), test=lambda value: isinstance(value, tuple | list), described="a triple"
    ),
    "solver": Choice(("auto", "closed", "scatter", "gd", "ppa", "apg")),
    "n_components": Choice((None,), others=(Number(1, closed="left", integer=True),)),
    "approximation": Choice(("nystroem", "fourier")),
    "backtracking": Boolean(),
    "class_weight": CLASS_WEIGHT,
    "probability": Boolean(),
    "reject_above": Choice((None,), others=(Number(0, closed="left"),)),
    "unknown_label": Choice(
        (None,),
        test=lambda value: isinstance(value, str | int | float | np.generic),
        described="a label",
    ),
    "tol": Number(0, closed="left"),
    "max_iter": Number(1, closed="left", integer=True),
}

LINEAR = FittedKernel("linear", None, 1, 0.0, None)


def make_training(
    estimator: Any,
    X: Any,
    groups: Groups,
    weights: NDArray[np.float64],
    random: np.random.RandomState,
) -> Training:
    """Training rows in order of their class, in features where they approximate a kernel."""
    kernel = FittedKernel.of(estimator, X, weights)
    precomputed = isinstance(kernel.kernel, str) and kernel.kernel == "precomputed"
    require_squares(X, kernel)
    rows = X if precomputed else X[groups.order]
    if estimator.n_components is None:
        return Training(rows, None if precomputed else rows, groups, kernel, None, kernel)
    if precomputed:
        raise ValueError(
            "n_components approximates a kernel between rows; a precomputed kernel has none. Set "
            "n_components=None, or pass the features and the name of the kernel."
        )
    features = feature_map(estimator.approximation, kernel, rows, estimator.n_components, random)
    return Training(features(rows), rows, groups, LINEAR, features, kernel)


def require_squares(X: Any, kernel: FittedKernel) -> None:
    """Refuse rows whose squared norms overflow, for kernels that depend on inner products."""
    if not kernel.has_product:
        return
    with np.errstate(over="ignore"):
        finite = np.all(np.isfinite(row_norms(X)))
    if not finite:
        raise ValueError(
            "The squares of the features overflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def choose_solver(estimator: Any, training: Training, penalty: Penalty) -> str:
    """The solver that "auto" means for these data, or the one that was asked for if it can be."""
    asked = estimator.solver
    if not penalty.is_ridge:
        if asked not in ("auto", "apg"):
            raise ValueError(
                f"solver={asked!r} is for penalty='ridge'; other penalties are solved by "
                "accelerated proximal gradient. Use solver='auto' or 'apg'."
            )
        return "apg"
    if asked == "scatter" and not training.is_linear:
        raise ValueError(
            "solver='scatter' is for inner products of features. Use kernel='linear', or set "
            "n_components to approximate the kernel by features."
        )
    if asked == "auto":
        asked = "scatter" if training.has_few_features else "closed"
    if asked == "scatter":
        n_classes, n_features = training.groups.n_classes, training.X.shape[1]
        require_memory(
            8 * (3 * n_classes + 3) * n_features**2,
            f"Scatter matrices of {n_classes} classes in {n_features:,} features",
            "Use solver='closed' or reduce the features.",
        )
    return str(asked)


def unknown_label(estimator: Any, classes: NDArray[Any]) -> Any:
    """The label of rejected samples, which must be of the others' kind and not one of them."""
    if estimator.reject_above is None:
        return None
    if estimator.kernel == "precomputed":
        raise ValueError(
            "reject_above needs k(x, x) of new samples, which a precomputed kernel between them "
            "and the training samples does not hold. Use reject_above=None or another kernel."
        )
    strings = classes.dtype.kind in "OUS"
    label = estimator.unknown_label
    if label is None:
        label = "unknown" if strings else -1
    if isinstance(label, str) != strings or label in classes.tolist():
        raise ValueError(
            f"unknown_label must be {'a string' if strings else 'a number'} as the labels in y "
            f"are, and none of them; got {label!r}."
        )
    return label
