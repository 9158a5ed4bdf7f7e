"""Fit by parts: statistics of the rows seen so far, which add up, and the model they give."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from discreg.blocks.labels import (
    class_weights,
    require_sum_of_weights,
    require_two_classes,
    require_weight_in_each_class,
    sample_weights,
)
from discreg.blocks.source import Block, BlockLayout, require_labels
from discreg.linalg.rows import class_sums

from .params import check_params

__all__ = ["PartialFitMixin", "PartialFitState", "reset_partial_fit"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PartialFitState:
    """What is known of the rows so far; the weights of the classes are left to the end."""

    layout: BlockLayout
    sizes: Array  # copies in each class
    statistics: Any
    params: dict[str, Any]  # those that the statistics depend on

    def class_factors(self, class_weight: Any) -> Array:
        """The weights of the classes, for as many copies of each as there are so far."""
        factors = class_weights(class_weight, self.layout.classes, self.sizes)
        require_weight_in_each_class(self.sizes * factors, self.layout.classes, "class_weight")
        return factors


def reset_partial_fit(estimator: Any) -> None:
    """Forget the rows that were fitted by parts: a new fit begins."""
    estimator.__dict__.pop("_seen", None)


def _can_be_fitted_by_parts(estimator: Any) -> bool:
    reason = estimator._why_not_by_parts()
    if reason is not None:
        raise AttributeError(f"partial_fit and merge are there for linear models only: {reason}")
    return True


class PartialFitMixin:
    """`partial_fit` and `merge` for models that are known by sums over their rows."""

    _constraints: dict[str, Any]
    _statistics_depend_on: tuple[str, ...] = ("class_weight",)
    class_weight: Any
    classes_: NDArray[Any]

    @abstractmethod
    def _why_not_by_parts(self) -> str | None:
        """What stands in the way of fitting by parts, if anything."""

    @abstractmethod
    def _statistics(self, block: Block, n_classes: int) -> Any:
        """What the model has to know of a block of rows; it adds up."""

    @abstractmethod
    def _fit_state(self, seen: PartialFitState) -> None:
        """Fit the model to what is known of its rows."""

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model: after parts, once every class has been seen."""
        return hasattr(self, "classes_")

    @available_if(_can_be_fitted_by_parts)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit to some more rows.

        The model is that of `fit` on all rows passed so far, whatever their order, to rounding. It
        can predict once every class has been seen. `fit` begins anew, and keeps no sums of its rows
        that a later `partial_fit` could add to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Some rows of the training data.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels there will be; needed in the first call, unless `fit` has told them.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Weights; a sample of weight k counts exactly as k copies of it.

        Returns
        -------
        self : object
            The classifier, fitted to all rows so far.
        """
        check_params(self, self._constraints)
        before: PartialFitState | None = getattr(self, "_seen", None)
        if before is None and hasattr(self, "classes_"):
            classes = self.classes_ if classes is None else classes
            warnings.warn(
                f"partial_fit begins anew: {type(self).__name__}.fit keeps no sums of its rows. "
                "Pass all rows to partial_fit instead.",
                UserWarning,
                stacklevel=2,
            )
        if before is None and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        with _features_restored(self):
            rows, labels = validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                reset=before is None,
            )
            require_labels(labels)
            layout = self._layout(rows, classes, before)
            block = layout.block(rows, labels, sample_weight)
            copies = sample_weights(sample_weight, len(block.y), in_part=True)
            seen = PartialFitState(
                layout,
                class_sums(block.y, copies, len(layout.classes)),
                self._statistics(block, len(layout.classes)),
                self._params_of_statistics(),
            )
            self._see(seen if before is None else _together(before, seen))
        return self

    @available_if(_can_be_fitted_by_parts)
    def merge(self, other: Self) -> Self:
        """Join a model that was fitted by parts to other rows to this one.

        Parameters
        ----------
        other : object
            A classifier of the same kind and parameters, with the same classes and features, to
            which `partial_fit` has passed other rows. It is not changed.

        Returns
        -------
        self : object
            This classifier, fitted to the rows of both.
        """
        for model, which in ((self, "This model"), (other, "The other model")):
            if not hasattr(model, "_seen"):
                raise ValueError(f"{which} has not been fitted by partial_fit, so there is no sum.")
        if type(other) is not type(self):
            raise TypeError(
                f"A {type(self).__name__} cannot be merged with a {type(other).__name__}."
            )
        mine, its = (list(getattr(model, "feature_names_in_", [])) for model in (self, other))
        if mine != its:
            raise ValueError("The two models were fitted to features of different names.")
        for model in (self, other):
            _require_same_params(model._seen.params, model._params_of_statistics())
        self._see(_together(self._seen, other._seen))
        return self

    def _see(self, seen: PartialFitState) -> None:
        """Fit once every class has rows, and keep what is known of them if that went well."""
        require_sum_of_weights(float(seen.sizes.sum()))
        if np.all(seen.sizes > 0):
            self._fit_state(seen)
        else:
            self._forget_fit()
        self._seen = seen

    def _forget_fit(self) -> None:
        """Drop what an earlier fit has found; what is known of the features stays."""
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_") and not name.endswith("_in_"):
                delattr(self, name)

    def _params_of_statistics(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._statistics_depend_on}

    def _layout(
        self, rows: Any, classes: ArrayLike | None, before: PartialFitState | None
    ) -> BlockLayout:
        """What the rows have in common with those before."""
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


@contextmanager
def _features_restored(estimator: Any) -> Iterator[None]:
    """Leave what is known of the features as it was if something goes wrong."""
    names = ("n_features_in_", "feature_names_in_")
    before = {name: value for name, value in vars(estimator).items() if name in names}
    try:
        yield
    except BaseException:
        for name in names:
            estimator.__dict__.pop(name, None)
        vars(estimator).update(before)
        raise


def _together(one: PartialFitState, other: PartialFitState) -> PartialFitState:
    """The sum, for rows of the same features, classes and parameters."""
    if one.layout.n_features != other.layout.n_features:
        raise ValueError(
            f"The rows of one have {one.layout.n_features} features, those of the other "
            f"{other.layout.n_features}."
        )
    if not np.array_equal(one.layout.classes, other.layout.classes):
        raise ValueError(
            f"The classes differ: {one.layout.classes.tolist()} and "
            f"{other.layout.classes.tolist()}."
        )
    _require_same_params(one.params, other.params)
    dtype = np.promote_types(one.layout.dtype, other.layout.dtype)
    layout = BlockLayout(one.layout.n_features, dtype, one.layout.classes, one.layout.factors)
    return PartialFitState(
        layout, one.sizes + other.sizes, one.statistics + other.statistics, one.params
    )


def _require_same_params(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, value in before.items():
        if after[name] != value:
            raise ValueError(
                f"{name} was {value!r} for some rows and is {after[name]!r} for others, but their "
                "sums depend on it. Begin anew with fit or a new estimator."
            )
