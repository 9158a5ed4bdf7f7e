"""`partial_fit` and `merge`: additive statistics of the rows seen so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import hash as hash_of
from numpy.typing import ArrayLike

from discreg.blocks.kept_rows import KeptRows, kept_of_block
from discreg.blocks.mapped import map_block
from discreg.blocks.source import Block, BlockLayout, require_labels
from discreg.linalg.kernel_approximation import FeatureMap, NystroemMap, mapped_rows
from discreg.linalg.rows import (
    checked_weights,
    class_sums,
    class_weights,
    require_sum_of_weights,
    require_two_classes,
    require_weight_in_each_class,
)
from discreg.linalg.types import Array

from .caller import warn_user
from .validation import (
    COMPONENT_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    components_of,
    dispatched,
    fit_map,
    require_components_memory,
    training_rows,
)


@dataclass(frozen=True)
class PartialFitState:
    """Statistics of the rows seen so far; class weights are applied when the model is fitted."""

    layout: BlockLayout
    sizes: Array  # sum of the sample weights in each class
    statistics: Any
    params: dict[str, Any]  # parameters that the statistics depend on
    features: FeatureMap | None = None  # components that approximate a kernel
    kept: KeptRows | None = None  # sample of the rows; a saved model has none

    def class_factors(self, class_weight: Any) -> Array:
        """Compute the class weights for the rows seen so far."""
        factors = class_weights(class_weight, self.layout.classes, self.sizes)
        require_weight_in_each_class(self.sizes * factors, self.layout.classes, "class_weight")
        return factors


def update_partial_fit(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    classes: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> None:
    """Add rows to the statistics of an estimator, and fit it once every class has rows."""
    estimator._check_params()
    sample_weight = dispatched(sample_weight)
    before: PartialFitState | None = vars(estimator).get("_partial_fit_state")
    if before is None and hasattr(estimator, "classes_"):
        classes = estimator.classes_ if classes is None else classes
        warn_user(
            f"partial_fit starts a new model, because {type(estimator).__name__}.fit keeps no "
            "statistics of its rows. Pass all rows to partial_fit instead."
        )
    if before is None and classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    rows, labels = training_rows(estimator, X, y, reset=before is None)
    require_labels(labels)
    layout = _layout(rows, classes, before)
    block = layout.block(rows, labels, sample_weight)
    copies = checked_weights(sample_weight, len(block.y), in_part=True)
    features = _components(estimator, block) if before is None else before.features
    kept = kept_of_block(block, layout.factors) if estimator.probability else None
    if features is not None:
        block = map_block(block, features)
        if kept is not None:
            kept = replace(kept, X=mapped_rows(features, kept.X))
    state = PartialFitState(
        layout,
        class_sums(block.y, copies, len(layout.classes)),
        estimator._statistics(block, len(layout.classes)),
        _params_of_statistics(estimator),
        features,
        kept,
    )
    _fit_and_keep(estimator, state if before is None else _together(before, state))


def merge_partial_fits(estimator: Any, other: Any) -> None:
    """Add the statistics of another estimator to those of this one, and fit again."""
    for model, which in ((estimator, "This model"), (other, "The other model")):
        if not hasattr(model, "_partial_fit_state"):
            raise ValueError(f"{which} was not fitted by partial_fit and cannot be merged.")
    if type(other) is not type(estimator):
        raise TypeError(
            f"A {type(estimator).__name__} cannot be merged with a {type(other).__name__}."
        )
    mine, its = (list(getattr(model, "feature_names_in_", [])) for model in (estimator, other))
    if mine != its:
        raise ValueError("The two models were fitted to features with different names.")
    for model in (estimator, other):
        _require_same_params(model._partial_fit_state.params, _params_of_statistics(model))
    _fit_and_keep(estimator, _together(estimator._partial_fit_state, other._partial_fit_state))


def _fit_and_keep(estimator: Any, state: PartialFitState) -> None:
    """Fit once every class has rows, and keep the statistics if the fit succeeds.

    A model that was saved has lost its sample of rows. Its calibration stays until there are as
    many rows again.
    """
    require_sum_of_weights(float(state.sizes.sum()))
    if estimator.probability and state.kept is None:
        raise ValueError(
            "Probabilities cannot be calibrated: pickles and model files contain no sample of the "
            "rows. Set probability=False before the models are fitted by partial_fit and saved, or "
            "merge them in the process that has fitted one of them."
        )
    if np.all(state.sizes > 0):
        continued = "_partial_fit_state" in vars(estimator)
        before = vars(estimator).get("_calibrated") if continued else None
        estimator._fit_state(state)
        after = vars(estimator).get("_calibrated")
        if before is not None and after is not None and len(after.y) < len(before.y):
            estimator._calibrated = before
            estimator.inverse_temperature_ = before.temperature.inverse
    else:
        estimator._forget_fit()
    estimator._partial_fit_state = state


def _components(estimator: Any, block: Block) -> FeatureMap | None:
    """Create the components that approximate the kernel from the first rows, if they do."""
    n_components = components_of(estimator, None)
    if n_components is None:
        return None
    if not np.any(block.weights):
        raise ValueError(
            "The first call of partial_fit with n_components needs a row of positive weight, "
            "because it determines the components."
        )
    features = fit_map(estimator, block.X, block.weights, n_components)
    require_components_memory(features)
    n_rows = features.basis.shape[0] if isinstance(features, NystroemMap) else n_components
    if n_rows < n_components:
        warn_user(
            f"The first call of partial_fit has {n_rows} distinct rows, fewer than "
            f"n_components={n_components}. The model will not have more components; pass more rows "
            "in the first call."
        )
    return features


def _params_of_statistics(estimator: Any) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    names = [*estimator._statistics_depend_on, "kernel"]
    if estimator.kernel != "linear":
        names += [*KERNEL_CONSTRAINTS, *COMPONENT_CONSTRAINTS]
    return {name: params[name] for name in names if name in params}


def _layout(rows: Any, classes: ArrayLike | None, before: PartialFitState | None) -> BlockLayout:
    """Determine classes and dtype of new rows, and check that they agree with earlier calls."""
    if classes is None:
        assert before is not None
        found = before.layout.classes
    else:
        if np.ndim(classes) != 1:
            raise ValueError(f"classes must be a list of labels, got {classes!r}.")
        require_labels(np.asarray(classes), "classes")
        found = np.unique(np.asarray(classes))
        require_two_classes(found)
        if before is not None and not np.array_equal(found, before.layout.classes):
            raise ValueError(
                f"classes is {found.tolist()}, but in the first call it was "
                f"{before.layout.classes.tolist()}."
            )
    dtype = rows.dtype if before is None else np.promote_types(rows.dtype, before.layout.dtype)
    return BlockLayout(rows.shape[1], dtype, found, np.ones(len(found)))


def _together(one: PartialFitState, other: PartialFitState) -> PartialFitState:
    """Add two states of the same features, classes and parameters."""
    if one.layout.n_features != other.layout.n_features:
        raise ValueError(
            f"The numbers of features differ: {one.layout.n_features} and "
            f"{other.layout.n_features}."
        )
    if not np.array_equal(one.layout.classes, other.layout.classes):
        raise ValueError(
            f"The classes differ: {one.layout.classes.tolist()} and "
            f"{other.layout.classes.tolist()}."
        )
    _require_same_params(one.params, other.params)
    if not _are_same(one.features, other.features):
        raise ValueError(
            "The two models approximate the kernel by different components. Use "
            "approximation='random_features', numbers for gamma and n_components, and the same "
            "integer random_state."
        )
    dtype = np.promote_types(one.layout.dtype, other.layout.dtype)
    layout = BlockLayout(one.layout.n_features, dtype, one.layout.classes, one.layout.factors)
    return PartialFitState(
        layout,
        one.sizes + other.sizes,
        one.statistics + other.statistics,
        one.params,
        one.features,
        _kept_of_both(one.kept, other.kept),
    )


def _kept_of_both(one: KeptRows | None, other: KeptRows | None) -> KeptRows | None:
    """Add two samples of rows; a model that was saved has none."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _are_same(one: FeatureMap | None, other: FeatureMap | None) -> bool:
    """Return whether two maps compute the same components; their measured errors may differ."""
    if one is other or one is None or other is None:
        return one is other
    return bool(hash_of(replace(one, error=0.0)) == hash_of(replace(other, error=0.0)))


def _require_same_params(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, value in before.items():
        if after[name] != value:
            raise ValueError(
                f"{name} was {value!r} for some rows and is {after[name]!r} for others, but it "
                "must be the same for all rows. Start again with fit or a new estimator."
            )
