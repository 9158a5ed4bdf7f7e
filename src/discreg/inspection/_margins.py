"""The cumulative distribution of margins, section 6.4 of the ODM paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted

from discreg.blocks.validation import (
    Choice,
    sample_weights,
)
from discreg.linalg.types import Array, Indices, MatrixLike

from ._drawing import by_name, estimators_inside, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MarginDistributionDisplay"]

Curve = tuple[Array, Array]
NORMALIZE = Choice(("mean", None))
N_NAMED = 5  # most labels that an error message lists


class MarginDistributionDisplay:
    """Cumulative distribution of the margins of one or more classifiers.

    The height of a curve at x is the fraction of samples whose margin is at most x. The height at 0
    is the fraction of misclassified samples. A curve further to the right means larger margins. The
    margin of a sample is

    .. math::
        \\gamma_i = y_i f(x_i), \\quad y_i \\in \\{-1, +1\\}

    for two classes, where the second class is positive. For more classes it is the score of the
    true class minus the largest score of the other classes.

    Use `from_estimator`, `from_estimators` or `from_predictions` to create and draw a display.

    Parameters
    ----------
    curves : dict of str to (margins, frequencies)
        For each name in the legend, two arrays of equal length: margins in increasing order, and
        the fraction of samples with at most this margin.
    normalize : {"mean", None}, default=None
        Scaling of the margins in `curves`; used for the label of the x-axis only.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The curves, in the order of `curves`.
    ax_ : matplotlib Axes
        Axes with the curves.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    Notes
    -----
    Multiplying a decision function by a positive number does not change the predictions: a support
    vector machine with a larger ``C`` can have larger margins with the same decision boundary.
    Curves of several models are therefore comparable only on a common scale. With
    ``normalize="mean"``, the default of the three methods, each model's margins are divided by
    the weighted mean of their absolute values. This works for every decision function, is robust to
    a single outlier, and agrees with the scale of ODM, which sets the mean margin to 1. The better
    of two curves then rises later and more steeply around 1.

    With ``normalize=None`` margins are the values of the decision function, equation (1) of the
    paper. Use it for models whose loss gives the value 1 a meaning, such as the edge of the margin
    of a support vector machine.

    References
    ----------
    Zhang, T. and Zhou, Z.-H., Optimal Margin Distribution Machine, section 6.4 and figure 1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sklearn.svm import SVC
    >>> from discreg import LSRClassifier
    >>> from discreg.inspection import MarginDistributionDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> models = {"LSR": LSRClassifier().fit(X, y), "SVM": SVC(kernel="linear").fit(X, y)}
    >>> display = MarginDistributionDisplay.from_estimators(models, X, y)
    >>> for name, (margins, frequencies) in display.curves.items():
    ...     below_half = frequencies[margins <= 0.5].max()
    ...     print(f"{name}: {below_half:.0%} of the margins are below half the mean")
    LSR: 17% of the margins are below half the mean
    SVM: 21% of the margins are below half the mean
    """

    lines_: list[Any]
    ax_: Any
    figure_: Any

    def __init__(self, *, curves: Mapping[str, Curve], normalize: str | None = None) -> None:
        self.curves = curves
        self.normalize = normalize

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        normalize: str | None = "mean",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> MarginDistributionDisplay:
        """Draw the margins of one fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with `decision_function` and `classes_`, or a pipeline or search that
            contains one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the `decision_function` of the estimator.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights; weight k is equivalent to repeating the sample k times.
        name : str, default=None
            Name in the legend; None means the class name of the estimator.
        normalize : {"mean", None}, default="mean"
            "mean" divides the margins by the mean of their absolute values; None does not scale
            them. See the notes of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot`.

        Returns
        -------
        display : MarginDistributionDisplay
        """
        return cls.from_estimators(
            {type(estimator).__name__ if name is None else name: estimator},
            X,
            y,
            sample_weight=sample_weight,
            normalize=normalize,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, BaseEstimator] | Sequence[BaseEstimator],
        X: MatrixLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        normalize: str | None = "mean",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> MarginDistributionDisplay:
        """Draw the margins of several fitted classifiers on the same samples.

        Parameters
        ----------
        estimators : dict of str to classifier, or list of classifiers
            Fitted classifiers, as for `from_estimator`. The keys are the names in the legend; the
            items of a list are named after their classes.
        X, y, sample_weight, normalize, ax, **kwargs
            As for `from_estimator`; `kwargs` apply to every curve.

        Returns
        -------
        display : MarginDistributionDisplay
        """
        _check_normalize(normalize)
        named = by_name(
            estimators,
            "estimators",
            "classifier",
            single="from_estimator",
            name_of=lambda estimator: type(estimator).__name__,
        )
        if ax is None:
            pyplot()  # raise ImportError before the computation
        curves = {}
        for name, estimator in named.items():
            margins = _margins(y, *_scores(estimator, X, name), source="y")
            curves[name] = _curve(margins, sample_weight, normalize)
        return cls(curves=curves, normalize=normalize).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        decision_values: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        normalize: str | None = "mean",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> MarginDistributionDisplay:
        """Draw the margins of decision values.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels of the samples.
        decision_values : array-like of shape (n_samples,) or (n_samples, n_classes)
            For two classes one number per sample, positive for the second class; for any number of
            classes one column per class.
        classes : array-like of shape (n_classes,), default=None
            Labels in the order of the columns; for two classes, the negative class first. None
            means the sorted labels in `y_true`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        name : str, default=None
            Name in the legend; None means "Classifier".
        normalize, ax, **kwargs
            As for `from_estimator`.

        Returns
        -------
        display : MarginDistributionDisplay

        Examples
        --------
        >>> from discreg.inspection import MarginDistributionDisplay
        >>> display = MarginDistributionDisplay.from_predictions(
        ...     ["no", "no", "yes", "yes"], [-2.0, 0.5, 1.0, 2.0], normalize=None
        ... )
        >>> margins, frequencies = display.curves["Classifier"]
        >>> print(margins, frequencies)
        [-0.5  1.   2. ] [0.25 0.5  1.  ]
        """
        _check_normalize(normalize)
        margins = _margins(y_true, decision_values, classes, source="y_true")
        curve = _curve(margins, sample_weight, normalize)
        curves = {"Classifier" if name is None else name: curve}
        return cls(curves=curves, normalize=normalize).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> MarginDistributionDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot` for every curve.

        Returns
        -------
        self : MarginDistributionDisplay
        """
        self.ax_ = pyplot().subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.lines_ = []
        for name, (margins, frequencies) in self.curves.items():
            style = {"label": name, "drawstyle": "steps-post", **kwargs}
            # Begin with a vertical step from 0 at the smallest margin.
            x, height = np.r_[margins[0], margins], np.r_[0.0, frequencies]
            self.lines_ += self.ax_.plot(x, height, **style)
        scale = " / mean absolute margin" if self.normalize == "mean" else ""
        self.ax_.set(xlabel=f"Margin{scale}", ylabel="Cumulative frequency")
        self.ax_.legend(loc="lower right")
        return self


def _check_normalize(normalize: Any) -> None:
    if not NORMALIZE.accepts(normalize):
        raise ValueError(f"normalize must be {NORMALIZE}, got {normalize!r}.")


def _scores(estimator: BaseEstimator, X: MatrixLike, name: str) -> tuple[Any, NDArray[Any]]:
    """Compute the decision values of a fitted classifier, and return its classes."""
    check_is_fitted(estimator)
    for attribute in ("decision_function", "classes_"):
        if not hasattr(estimator, attribute):
            raise AttributeError(
                f"{name!r} ({type(estimator).__name__}) has no {attribute}: margins are computed "
                "from decision values. Pass another classifier, or pass decision values to "
                "from_predictions."
            )
    # "ovo" has one column per pair of classes; for three classes the shape does not reveal it.
    classifier = estimators_inside(estimator)[-1]
    pairwise = getattr(classifier, "decision_function_shape", "ovr") == "ovo"
    if pairwise and len(estimator.classes_) > 2:
        raise ValueError(
            f'{name!r} has decision_function_shape="ovo", which scores pairs of classes. Set it to '
            '"ovr"; the model need not be fitted again.'
        )
    return estimator.decision_function(X), estimator.classes_


def _margins(
    y: ArrayLike, decision_values: ArrayLike, classes: ArrayLike | None, *, source: str
) -> Array:
    """Compute the margins; ``source`` is the name of ``y`` in messages."""
    values = check_array(
        decision_values, ensure_2d=False, dtype=np.float64, input_name="decision_values"
    )
    labels = check_array(column_or_1d(y), ensure_2d=False, dtype=None, input_name=source)
    if len(labels) != len(values):
        raise ValueError(
            f"{source} contains {len(labels)} labels, but there are decision values of "
            f"{len(values)} samples. Both must be for the same samples."
        )
    known = _known_classes(labels, classes, source)
    n_columns = 1 if values.ndim == 1 else values.shape[1]
    if len(known) < 2 or n_columns not in ({1, 2} if len(known) == 2 else {len(known)}):
        raise ValueError(
            f"decision_values has {n_columns} column(s), and there are {len(known)} class(es): "
            f"{_list(known)}. Pass one column per class, or a single column for two classes. If a "
            "class has no sample, pass all labels as classes, in the order of the columns."
        )
    own = _indices(labels, known, source)
    if n_columns == 1:
        return np.asarray(np.where(own == 1, 1.0, -1.0) * values.ravel())
    rows = np.arange(len(own))
    others = values.copy()
    others[rows, own] = -np.inf
    return np.asarray(values[rows, own] - others.max(axis=1))


def _known_classes(labels: NDArray[Any], classes: ArrayLike | None, source: str) -> list[Any]:
    if classes is None:
        try:
            return list(np.unique(labels).tolist())
        except TypeError as error:
            raise ValueError(
                f"{source} contains labels of different types, which cannot be sorted. Pass "
                "classes."
            ) from error
    known = list(column_or_1d(classes).tolist())
    if len(set(known)) < len(known):
        raise ValueError(f"classes contains a class twice: {_list(known)}.")
    return known


def _indices(labels: NDArray[Any], known: list[Any], source: str) -> Indices:
    places = {label: place for place, label in enumerate(known)}
    unseen = sorted(set(labels.tolist()) - places.keys(), key=str)
    if unseen:
        raise ValueError(
            f"{source} contains labels that are not among the classes: {_list(unseen)}. The "
            f"classes are {_list(known)}. Remove these samples or correct their labels."
        )
    return np.array([places[label] for label in labels.tolist()], dtype=np.intp)


def _list(labels: list[Any]) -> str:
    shown = ", ".join(repr(label) for label in labels[:N_NAMED])
    return f"{shown}, ..." if len(labels) > N_NAMED else shown


def _curve(margins: Array, sample_weight: ArrayLike | None, normalize: str | None) -> Curve:
    """Compute the distinct margins and their weighted cumulative frequencies."""
    weights = sample_weights(sample_weight, len(margins))
    counted = weights > 0
    if not counted.any():
        raise ValueError("sample_weight is zero for every sample; some must be positive.")
    margins, weights = margins[counted], weights[counted]
    size = np.average(np.abs(margins), weights=weights)
    if normalize == "mean" and size > 0:
        margins = margins / size
    distinct, places = np.unique(margins, return_inverse=True)
    cumulated = np.cumsum(np.bincount(places, weights=weights))
    return distinct, cumulated / cumulated[-1]
