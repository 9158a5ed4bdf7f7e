"""Coverage and sizes of prediction sets as functions of the confidence level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d

from discreg.linalg.types import Array, MatrixLike

from ._drawing import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PredictionSetDisplay"]


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
    [0.79 0.95] [0.79 1.09]
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
        class_conditional: bool = False,
        allow_empty: bool = True,
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
        class_conditional : bool, default=False
            As in `predict_set`.
        allow_empty : bool, default=True
            Whether sets may be empty. Otherwise they contain the predicted class, and the coverage
            is above low confidence levels.
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
            sets = classifier.predict_set(
                X, level, class_conditional=class_conditional, allow_empty=allow_empty
            )
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
