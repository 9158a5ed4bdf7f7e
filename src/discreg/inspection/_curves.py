"""Displays of curves on given samples: margins, accuracy by rank, coverage of prediction sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from discreg.base.validation import sample_weights
from discreg.linalg.types import Array, Indices, MatrixLike

from ._drawing import estimators_inside, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MarginDistributionDisplay:
    """Cumulative distribution of the margins of a classifier.

    The height of the curve at x is the fraction of samples whose margin is at most x. The height at
    0 is the fraction of misclassified samples. A curve further to the right means larger margins.
    The margin of a sample is

    .. math::
        \\gamma_i = y_i f(x_i), \\quad y_i \\in \\{-1, +1\\}

    for two classes, where the second class is positive. For more classes it is the score of the
    true class minus the largest score of the other classes.

    Use `from_estimator` to create and draw a display. Draw several classifiers on the same axes to
    compare them.

    Parameters
    ----------
    margins : ndarray of shape (n_margins,)
        Margins in increasing order, divided by the mean of their absolute values.
    frequencies : ndarray of shape (n_margins,)
        Fraction of samples with at most this margin.
    name : str, default="Classifier"
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    Notes
    -----
    Multiplying a decision function by a positive number does not change the predictions: a support
    vector machine with a larger ``C`` can have larger margins with the same decision boundary.
    Curves of several models are comparable only on a common scale. So each model's margins are
    divided by the weighted mean of their absolute values. This works for every decision function,
    is robust to a single outlier, and agrees with the scale of ODM, which sets the mean margin
    to 1. The better of two curves then rises later and more steeply around 1.

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
    >>> ax = None
    >>> for model in (LSRClassifier(), SVC(kernel="linear")):
    ...     display = MarginDistributionDisplay.from_estimator(model.fit(X, y), X, y, ax=ax)
    ...     ax = display.ax_
    ...     below_half = display.frequencies[display.margins <= 0.5].max()
    ...     print(f"{display.name}: {below_half:.0%} of the margins are below half the mean")
    LSRClassifier: 17% of the margins are below half the mean
    SVC: 21% of the margins are below half the mean
    """

    line_: Any
    ax_: Any
    figure_: Any

    def __init__(self, *, margins: Array, frequencies: Array, name: str = "Classifier") -> None:
        self.margins = margins
        self.frequencies = frequencies
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> MarginDistributionDisplay:
        """Draw the margins of a fitted classifier.

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
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot`.

        Returns
        -------
        display : MarginDistributionDisplay
        """
        margins = _margins(estimator, X, y)
        weights = sample_weights(sample_weight, len(margins))
        margins, weights = margins[weights > 0], weights[weights > 0]
        if not len(margins):
            raise ValueError("sample_weight is zero for every sample; some must be positive.")
        size = np.average(np.abs(margins), weights=weights)
        distinct, places = np.unique(margins / (size or 1.0), return_inverse=True)
        cumulated = np.cumsum(np.bincount(places, weights=weights))
        display = cls(
            margins=distinct,
            frequencies=cumulated / cumulated[-1],
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> MarginDistributionDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot`.

        Returns
        -------
        self : MarginDistributionDisplay
        """
        self.ax_ = pyplot().subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        style = {"label": self.name, "drawstyle": "steps-post", **kwargs}
        # Begin with a vertical step from 0 at the smallest margin.
        x, height = np.r_[self.margins[0], self.margins], np.r_[0.0, self.frequencies]
        (self.line_,) = self.ax_.plot(x, height, **style)
        self.ax_.set(xlabel="Margin / mean absolute margin", ylabel="Cumulative frequency")
        self.ax_.legend(loc="lower right")
        return self


def _margins(estimator: Any, X: MatrixLike, y: ArrayLike) -> Array:
    """Compute the margins of samples from the decision values of a fitted classifier."""
    check_is_fitted(estimator)
    for attribute in ("decision_function", "classes_"):
        if not hasattr(estimator, attribute):
            raise AttributeError(
                f"{type(estimator).__name__} has no {attribute}: margins are computed from "
                "decision values. Pass another classifier."
            )
    known = estimator.classes_.tolist()
    # "ovo" has one column per pair of classes; for three classes the shape does not reveal it.
    classifier = estimators_inside(estimator)[-1]
    if len(known) > 2 and getattr(classifier, "decision_function_shape", "ovr") == "ovo":
        raise ValueError(
            f'{type(estimator).__name__} has decision_function_shape="ovo", which scores pairs of '
            'classes. Set it to "ovr"; the model need not be fitted again.'
        )
    labels = column_or_1d(y).tolist()
    if unseen := sorted(set(labels) - set(known), key=str):
        raise ValueError(f"y contains the label {unseen[0]!r}, which is no class of the estimator.")
    values = check_array(estimator.decision_function(X), ensure_2d=False, dtype=np.float64)
    check_consistent_length(values, labels)
    own = np.array([known.index(label) for label in labels], dtype=np.intp)
    if values.ndim == 1:
        return np.asarray(np.where(own == 1, values, -values))
    others, rows = values.copy(), np.arange(len(own))
    others[rows, own] = -np.inf
    return np.asarray(values[rows, own] - others.max(axis=1))


class ScoredRanks(Protocol):
    """Models of several ranks, such as the result of ``rank_path``."""

    ranks: Indices

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Array:
        """Compute the accuracy of every rank."""


class RankDisplay:
    """Accuracy of a low-rank model as a function of the rank.

    A dashed line marks the accuracy of the largest rank, which by default is full rank. Where the
    curve is above it, a lower rank is better.

    Use `from_path` to create and draw a display. Draw several paths on the same axes to compare
    them.

    Parameters
    ----------
    ranks : ndarray of shape (n_ranks,)
        Ranks in increasing order.
    scores : ndarray of shape (n_ranks,)
        Their accuracies.
    name : str, default="Classifier"
        Name in the legend.

    Attributes
    ----------
    line_, full_rank_line_ : matplotlib Line2D
        The curve and the dashed line.
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    References
    ----------
    X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
    Discriminant Analysis Based Regressions", KDD 2013, section 4.3 and figure 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from discreg import LRRRClassifier
    >>> from discreg.inspection import RankDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> path = LRRRClassifier(beta=10.0).rank_path(X[::2], y[::2])
    >>> display = RankDisplay.from_path(path, X[1::2], y[1::2], name="LRRR")
    >>> print(display.ranks[[2, 5, 8]], display.scores[[2, 5, 8]].round(2))
    [3 6 9] [0.58 0.85 0.93]
    """

    line_: Any
    full_rank_line_: Any
    ax_: Any
    figure_: Any

    def __init__(self, *, ranks: Indices, scores: Array, name: str = "Classifier") -> None:
        self.ranks = ranks
        self.scores = scores
        self.name = name

    @classmethod
    def from_path(
        cls,
        path: ScoredRanks,
        X: MatrixLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str = "Classifier",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> RankDisplay:
        """Draw the accuracies of the models of all ranks.

        Parameters
        ----------
        path : RankPath
            The result of `rank_path` of :class:`~discreg.LRRRClassifier` or
            :class:`~discreg.LRLRClassifier`.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, preferably other than the training samples.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        name : str, default="Classifier"
            Name in the legend.
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot`.

        Returns
        -------
        display : RankDisplay
        """
        if not (hasattr(path, "ranks") and hasattr(path, "score")):
            raise TypeError(
                f"path must be the result of rank_path, for example of LRRRClassifier().rank_path("
                f"X_train, y_train), got {type(path).__name__}."
            )
        scores = path.score(X, column_or_1d(y, warn=True), sample_weight)
        return cls(ranks=path.ranks, scores=scores, name=name).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> RankDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot`.

        Returns
        -------
        self : RankDisplay
        """
        self.ax_ = pyplot().subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        style = {"label": self.name, "marker": "o", **kwargs}
        (self.line_,) = self.ax_.plot(self.ranks, self.scores, **style)
        self.full_rank_line_ = self.ax_.axhline(
            self.scores[-1],
            label=f"{self.name}, rank {self.ranks[-1]}",
            color=self.line_.get_color(),
            linestyle="--",
            linewidth=1,
        )
        self.ax_.set(xlabel="Rank", ylabel="Accuracy")
        self.ax_.locator_params(axis="x", integer=True, min_n_ticks=1)
        self.ax_.legend(loc="lower right")
        return self


class PredictionSetDisplay:
    """Coverage and mean size of prediction sets on new samples, for several confidence levels.

    The coverage is the share of samples whose set contains the true class; on the diagonal it is
    the confidence level. The mean size says what that costs: with one class per set, the
    predictions are unambiguous.

    Use `from_estimator` to create and draw a display. For the calibration of the probabilities use
    :class:`sklearn.calibration.CalibrationDisplay`.

    Parameters
    ----------
    levels : ndarray of shape (n_levels,)
        Confidence levels.
    coverage : ndarray of shape (n_levels,)
    sizes : ndarray of shape (n_levels,)
        Mean number of classes in a set.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The coverage.
    size_line_ : matplotlib Line2D
        The mean sizes.
    ax_ : matplotlib Axes
        Axes with the coverage.
    size_ax_ : matplotlib Axes
        Axes with the mean sizes, on the right.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from discreg import LSRClassifier
    >>> from discreg.inspection import PredictionSetDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LSRClassifier().fit(X[::4], y[::4])
    >>> display = PredictionSetDisplay.from_estimator(model, X[1::4], y[1::4], levels=[0.8, 0.95])
    >>> print(display.coverage.round(2), display.sizes.round(2))
    [0.78 0.94] [0.78 1.06]
    """

    line_: Any
    size_line_: Any
    ax_: Any
    size_ax_: Any
    figure_: Any

    def __init__(self, *, levels: Array, coverage: Array, sizes: Array) -> None:
        self.levels = levels
        self.coverage = coverage
        self.sizes = sizes

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        levels: ArrayLike = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99),
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PredictionSetDisplay:
        """Predict sets of new samples and draw their coverage and mean sizes.

        Parameters
        ----------
        estimator : object
            Fitted classifier with `predict_set`, or a pipeline that ends with one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples that the classifier was not fitted to.
        y : array-like of shape (n_samples,)
            Their labels.
        levels : array-like of float
            Confidence levels, between 0 and 1.
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot` for the coverage.

        Returns
        -------
        display : PredictionSetDisplay
        """
        classifier: Any = estimator
        if isinstance(estimator, Pipeline):
            classifier = estimator[-1]
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        if not hasattr(classifier, "predict_set"):
            raise TypeError(
                f"{type(classifier).__name__} has no predict_set. Use a classifier of discreg with "
                "probability=True, or a pipeline that ends with one."
            )
        places = {label: k for k, label in enumerate(classifier.classes_.tolist())}
        own = np.array([places.get(label, -1) for label in column_or_1d(y).tolist()])
        numbers = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        coverage, sizes = [], []
        for level in numbers.tolist():
            sets = classifier.predict_set(X, level, allow_empty=True)
            coverage.append(np.mean(sets[np.arange(len(own)), own] & (own >= 0)))
            sizes.append(sets.sum(axis=1).mean())
        found = cls(levels=numbers, coverage=np.array(coverage), sizes=np.array(sizes))
        return found.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> PredictionSetDisplay:
        """Draw the coverage and the mean sizes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot` for the coverage.

        Returns
        -------
        display : PredictionSetDisplay
        """
        if ax is None:
            ax = pyplot().subplots()[1]
        style = {"marker": "o", "label": "coverage"} | kwargs
        ends = [float(self.levels.min()), float(self.levels.max())]
        ax.plot(ends, ends, linestyle=":", color="gray", label="confidence level")
        (self.line_,) = ax.plot(self.levels, self.coverage, **style)
        ax.set(xlabel="Confidence level", ylabel="Share of sets with the true class")
        self.size_ax_ = ax.twinx()
        (self.size_line_,) = self.size_ax_.plot(
            self.levels, self.sizes, color="tab:orange", marker="s", label="mean size"
        )
        self.size_ax_.set_ylabel("Classes in a set, mean")
        lines = [*ax.get_lines(), self.size_line_]
        ax.legend(lines, [line.get_label() for line in lines], loc="upper left")
        self.ax_, self.figure_ = ax, ax.figure
        return self
