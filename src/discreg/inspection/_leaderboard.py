"""Held-out metrics of the candidates of AutoClassifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from discreg.linalg.types import Array, Indices

from ._drawing import estimators_inside, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TITLES = {
    "log_loss": "Held-out log-loss (smaller is better)",
    "accuracy": "Held-out accuracy",
    "balanced_accuracy": "Held-out balanced accuracy",
}
FAR = 2.0  # ranges of the models
SMALLEST_RANGE = 0.01  # relative to the metric


class LeaderboardDisplay:
    """Held-out metric of the best models that AutoClassifier has tried.

    There is one line per kind of model, such as RBF kernels or boosting, the best at the top. An
    open dot is the best setting of the kind, and full dots are the members. A dashed line marks the
    class frequencies, which use no features; if they are far from the models, their metric is only
    in the legend.

    Use `from_estimator` to create and draw a display.

    Parameters
    ----------
    names : sequence of str
        Kinds of models, the best first.
    values : ndarray of shape (n_models,)
        Metric of each kind with its best setting.
    member_places : ndarray of shape (n_members,)
        Place of the kind of each member in `names`.
    member_values : ndarray of shape (n_members,)
        Metric of each member.
    constant : float
        Metric of the class frequencies.
    metric : {"log_loss", "accuracy", "balanced_accuracy"}, default="log_loss"
        The metric.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The models.
    members_ : matplotlib Line2D
        The members.
    constant_line_ : matplotlib Line2D
        The class frequencies.
    ax_ : matplotlib Axes
        Axes with the dots.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    Notes
    -----
    The metrics are not corrected for the choice of the best among many candidates, unlike the
    attributes `held_out_log_loss_` and `held_out_accuracy_` of the classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import AutoClassifier
    >>> from discreg.inspection import LeaderboardDisplay
    >>> model = AutoClassifier().fit(*load_wine(return_X_y=True))
    >>> display = LeaderboardDisplay.from_estimator(model, n=5)
    >>> print(len(display.names), display.values[0] < 0.1 < display.constant)
    5 True
    """

    line_: Any
    members_: Any
    constant_line_: Any
    ax_: Any
    figure_: Any

    def __init__(
        self,
        *,
        names: Sequence[str],
        values: Array,
        member_places: Indices,
        member_values: Array,
        constant: float,
        metric: str = "log_loss",
    ) -> None:
        self.names = names
        self.values = values
        self.member_places = member_places
        self.member_values = member_values
        self.constant = constant
        self.metric = metric

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        metric: str = "log_loss",
        n: int = 10,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> LeaderboardDisplay:
        """Draw the best models of a fitted AutoClassifier, and those of its members.

        Parameters
        ----------
        estimator : AutoClassifier
            Fitted classifier, or a pipeline or search that contains one.
        metric : {"log_loss", "accuracy", "balanced_accuracy"}, default="log_loss"
            Metric of the held-out samples.
        n : int, default=10
            Number of kinds. Kinds of members that are not among the best are added.
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot` for the models.

        Returns
        -------
        display : LeaderboardDisplay
        """
        if metric not in TITLES:
            raise ValueError(f"metric must be one of {', '.join(TITLES)}; got {metric!r}.")
        check_is_fitted(estimator)
        auto = estimators_inside(estimator)[-1]
        results = getattr(auto, "cv_results_", {})
        if not {*TITLES, "kind", "weight"} <= results.keys():
            raise TypeError(
                f"{type(auto).__name__} has no leaderboard. Pass a fitted AutoClassifier, or a "
                "pipeline that ends with one."
            )
        if ax is None:
            pyplot()  # raise ImportError before the computation
        values, weights, sizes = (
            np.asarray(results[name], dtype=np.float64) for name in (metric, "weight", "n_samples")
        )
        is_constant = np.asarray(results["family"]) == "constant"
        # Candidates on a part of the rows cannot be compared with the others.
        tried = np.flatnonzero(~is_constant & (sizes == sizes.max()))
        if not len(tried):
            raise ValueError("No candidates were tried on all rows: there is nothing to draw.")
        names = results["kind"]
        losses = values[tried] if metric == "log_loss" else -values[tried]
        order = tried[np.argsort(losses, kind="stable")]
        best: dict[str, int] = {}
        for k in order.tolist():
            best.setdefault(names[k], k)
        members = tried[weights[tried] > 0]
        of_members = {names[k] for k in members}
        shown = [name for place, name in enumerate(best) if place < n or name in of_members]
        display = cls(
            names=shown,
            values=values[[best[name] for name in shown]],
            member_places=np.array([shown.index(names[k]) for k in members], dtype=np.intp),
            member_values=values[members],
            constant=float(values[is_constant][0]),
            metric=metric,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> LeaderboardDisplay:
        """Draw the models.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot` for the models.

        Returns
        -------
        display : LeaderboardDisplay
        """
        if ax is None:
            height = 1.2 + 0.35 * max(len(self.names), 5)
            ax = pyplot().subplots(figsize=(8, height), layout="constrained")[1]
        style: dict[str, Any] = {"marker": "o", "linestyle": "", "color": "C0", "markersize": 8}
        style |= kwargs
        hollow = {"markerfacecolor": "none", "label": "best setting"}
        places = np.arange(len(self.names))
        (self.line_,) = ax.plot(self.values, places, **style | hollow)
        style["label"] = "member"
        (self.members_,) = ax.plot(self.member_values, self.member_places, **style)
        limits = self._limits()
        label = f"class frequencies: {self.constant:.3g}"
        if not limits[0] <= self.constant <= limits[1]:
            label += " (outside)"
        self.constant_line_ = ax.axvline(self.constant, linestyle="--", color="gray", label=label)
        ax.set(xlabel=TITLES[self.metric], xlim=limits, ylim=(len(self.names) - 0.5, -0.5))
        ax.set_yticks(places, self.names)
        ax.grid(axis="y", alpha=0.3)
        ax.legend(loc="best")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _limits(self) -> tuple[float, float]:
        """Return the range of the axis, without the class frequencies if they are far away."""
        found = np.concatenate([self.values, self.member_values])
        low, high = float(found.min()), float(found.max())
        reach = FAR * max(high - low, SMALLEST_RANGE * max(abs(low), abs(high)))
        if low - reach <= self.constant <= high + reach:
            low, high = min(low, self.constant), max(high, self.constant)
        margin = 0.05 * (high - low) or reach or 1.0
        return low - margin, high + margin
