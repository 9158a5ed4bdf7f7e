"""Singular values and absolute values of the coefficients, figure 1 of the low-rank paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from discreg.linalg.types import Array, RealArray

from ._drawing import estimators_inside, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


N_TICKS = 30  # most tick labels of an axis
ROOM = 30  # characters of tick labels that fit horizontally below the map


class CoefficientDisplay:
    """Singular values of a linear classifier's coefficients, and a map of their absolute values.

    The left axes show the singular values of the coefficient matrix in decreasing order; the number
    of nonzero values is its rank. The right axes show the absolute values of the coefficients, one
    row per feature and one column per class. The row of an unused feature is zero.

    Use `from_estimator` to create and draw a display.

    Parameters
    ----------
    coef : ndarray of shape (n_classes, n_features) or (1, n_features)
        Coefficients, one row per class; a single row for two classes.
    class_labels : sequence of length n_classes or 1
        Names of the rows of `coef`.
    feature_names : array-like of shape (n_features,), default=None
        Names of the features; None means their indices.

    Attributes
    ----------
    singular_values_ : ndarray of shape (min(coef.shape),)
        Singular values of `coef`, in decreasing order.
    line_ : matplotlib Line2D
        Line of the singular values.
    image_ : matplotlib AxesImage
        Image of the map.
    axes_ : ndarray of two matplotlib Axes
        Axes of the singular values and of the map.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    Notes
    -----
    Coefficients depend on the units of the features. Compare them only for features on the same
    scale.

    References
    ----------
    X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
    Discriminant Analysis Based Regressions", KDD 2013, section 4.3 and figure 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import scale
    >>> from discreg import SLRRClassifier
    >>> from discreg.inspection import CoefficientDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SLRRClassifier(rank=6, beta=10.0).fit(scale(X[::2]), y[::2])
    >>> display = CoefficientDisplay.from_estimator(model)
    >>> int((display.singular_values_ > 1e-10).sum())
    6
    >>> shown = display.image_.get_array()
    >>> print(shown.shape, int(shown.any(axis=1).sum()), "features are used")
    (64, 10) 31 features are used
    """

    singular_values_: Array
    line_: Any
    image_: Any
    axes_: NDArray[Any]
    figure_: Any

    def __init__(
        self,
        *,
        coef: RealArray,
        class_labels: Sequence[object],
        feature_names: ArrayLike | None = None,
    ) -> None:
        self.coef = coef
        self.class_labels = class_labels
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        feature_names: ArrayLike | None = None,
        axes: Sequence[Axes] | None = None,
        **kwargs: Any,
    ) -> CoefficientDisplay:
        """Draw the coefficients of a fitted linear classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with `coef_` and `classes_`, or a pipeline or search that contains
            one.
        feature_names : array-like of shape (n_features,), default=None
            Names of the features of the classifier. None means the names of the training data,
            transformed by the steps of a pipeline, or indices if there are no names.
        axes : pair of matplotlib Axes, default=None
            Axes of the singular values and of the map; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `imshow`.

        Returns
        -------
        display : CoefficientDisplay
        """
        check_is_fitted(estimator)
        classifier, known_names = _classifier_and_names(estimator)
        display = cls(
            coef=_coefficients(classifier),
            class_labels=_row_labels(classifier),
            feature_names=known_names if feature_names is None else feature_names,
        )
        return display.plot(axes, **kwargs)

    def plot(
        self,
        axes: Sequence[Axes] | None = None,
        **kwargs: Any,
    ) -> CoefficientDisplay:
        """Draw the singular values and the map.

        Parameters
        ----------
        axes : pair of matplotlib Axes, default=None
            Axes of the singular values and of the map; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `imshow`.

        Returns
        -------
        self : CoefficientDisplay
        """
        names = self._names()
        if axes is None:
            axes = pyplot().subplots(1, 2, figsize=(10, 4.8), layout="constrained")[1]
        self.axes_ = _pair(axes)
        self.figure_ = self.axes_[0].figure
        # Values only: the singular vectors of the features would be a d × d matrix.
        self.singular_values_ = linalg.svdvals(self.coef)
        self._draw_singular_values(self.axes_[0])
        self._draw_map(self.axes_[1], names, kwargs)
        return self

    def _names(self) -> NDArray[Any]:
        """Return one name per feature."""
        n_features = self.coef.shape[1]
        if self.feature_names is None:
            return np.arange(n_features)
        names = np.asarray(self.feature_names)
        if names.shape != (n_features,):
            raise ValueError(
                f"feature_names must contain one name per feature of the classifier "
                f"({n_features}), got an array of shape {names.shape}."
            )
        return names

    def _draw_singular_values(self, axes: Any) -> None:
        places = np.arange(1, len(self.singular_values_) + 1)
        (self.line_,) = axes.plot(places, self.singular_values_, marker="o")
        axes.set(xlabel="Index", ylabel="Singular value")
        axes.axhline(0, color="black", linewidth=0.5)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)

    def _draw_map(self, axes: Any, names: NDArray[Any], style: dict[str, Any]) -> None:
        self.image_ = axes.imshow(np.abs(self.coef.T), **{"aspect": "auto", "vmin": 0, **style})
        rows = np.arange(0, len(names), -(-len(names) // N_TICKS))
        axes.set_yticks(rows, [str(name) for name in names[rows]])
        columns = np.arange(0, len(self.class_labels), -(-len(self.class_labels) // N_TICKS))
        labels = [str(self.class_labels[column]) for column in columns.tolist()]
        upright = sum(map(len, labels)) > ROOM
        axes.set_xticks(columns, labels, rotation=90 if upright else 0)
        axes.set(xlabel="Class", ylabel="Feature")
        self.figure_.colorbar(self.image_, ax=axes, label="Absolute coefficient")


def _pair(axes: Any) -> NDArray[Any]:
    pair = np.ravel(np.asarray(axes, dtype=object))
    if len(pair) != 2:
        raise ValueError(
            f"axes must be two Axes, for the singular values and for the map, got {len(pair)}. "
            "Create them with plt.subplots(1, 2)."
        )
    return pair


def _classifier_and_names(estimator: BaseEstimator) -> tuple[Any, NDArray[Any] | None]:
    """Find the classifier inside pipelines and searches, and the names of its features."""
    *outer, classifier = estimators_inside(estimator)
    names = getattr(classifier, "feature_names_in_", None)
    for each in reversed(outer):
        if names is None and isinstance(each, Pipeline):
            names = _names_after_steps(each)
    return classifier, names


def _names_after_steps(pipeline: Any) -> NDArray[Any] | None:
    """Transform the feature names by all steps but the last; None if a step has no names."""
    if not hasattr(pipeline, "feature_names_in_"):
        return None
    try:
        return np.asarray(pipeline[:-1].get_feature_names_out())
    except AttributeError:
        return None


def _coefficients(classifier: Any) -> NDArray[Any]:
    """Return the coefficients of a fitted linear classifier, one row per class."""
    kind = type(classifier).__name__
    for attribute in ("coef_", "classes_"):
        if not hasattr(classifier, attribute):
            raise ValueError(
                f"{kind} has no {attribute}: the map shows the feature coefficients of a linear "
                "classifier. Pass a linear classifier; models with a kernel need kernel='linear'."
            )
    coef = classifier.coef_
    coef = check_array(coef.toarray() if sparse.issparse(coef) else coef, input_name="coef_")
    if hasattr(classifier, "kernel_error_"):
        raise ValueError(
            f"The coefficients of {kind} are those of {coef.shape[1]} components that approximate "
            "its kernel, not of features. Pass a linear classifier."
        )
    n_classes = len(classifier.classes_)
    pairwise = hasattr(classifier, "decision_function_shape") and n_classes > 2
    if pairwise or len(coef) not in ({1, 2} if n_classes == 2 else {n_classes}):
        raise ValueError(
            f"The {len(coef)} rows of coef_ of {kind} do not correspond to its {n_classes} "
            "classes. Pass a classifier with one row of coefficients per class, or a single row "
            "for two classes: sklearn.svm.LinearSVC instead of SVC, which has one row per pair of "
            "classes."
        )
    return np.asarray(coef)


def _row_labels(classifier: Any) -> list[Any]:
    """Return the labels of the rows of the coefficients."""
    classes = classifier.classes_
    if classifier.coef_.shape[0] == 1:
        return [f"{classes[1]} against {classes[0]}"]
    return list(classes)
