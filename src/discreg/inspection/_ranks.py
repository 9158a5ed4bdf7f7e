"""Scores as a function of the rank, figure 2 of the low-rank paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from discreg.linalg.types import Array, Indices, MatrixLike

from ._drawing import by_name, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RankDisplay"]

Curve = tuple[Indices, Array, Array | None]


class ScoredRanks(Protocol):
    """Models of several ranks, such as the result of ``rank_path``."""

    ranks: Indices

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Array:
        """Compute the accuracy of every rank."""


class RankDisplay:
    """Held-out scores of one or more low-rank models as a function of the rank.

    A dashed line marks the score of a curve's largest rank. Where the curve is above it, a lower
    rank has a better score. If the ranks include the largest possible rank, as they do by default,
    the dashed line is the score of the model of full rank.

    Use `from_search`, `from_searches`, `from_path` or `from_paths` to create and draw a display.

    Parameters
    ----------
    curves : dict of str to (ranks, scores, errors)
        For each name in the legend, three arrays of equal length: ranks in increasing order, their
        scores, and the half widths of a band around the scores, which may be None.
    score_name : str, default="Score"
        Label of the y-axis.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The curves, in the order of `curves`.
    full_rank_lines_ : list of matplotlib Line2D
        The dashed lines, in the order of `curves`.
    bands_ : list of matplotlib PolyCollection or None
        The error bands, in the order of `curves`; None for a curve without errors.
    ax_ : matplotlib Axes
        Axes with the curves.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    References
    ----------
    X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
    Discriminant Analysis Based Regressions", KDD 2013, section 4.3 and figure 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from discreg import LRRRClassifierCV
    >>> from discreg.inspection import RankDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> search = LRRRClassifierCV(ranks=[3, 6, 9], cv=5).fit(X[::4], y[::4])
    >>> display = RankDisplay.from_search(search)
    >>> ranks, scores, errors = display.curves["LRRRClassifierCV"]
    >>> print(ranks, scores.round(2), errors.round(2))
    [3 6 9] [0.65 0.86 0.91] [0.05 0.06 0.03]
    """

    lines_: list[Any]
    full_rank_lines_: list[Any]
    bands_: list[Any]
    ax_: Any
    figure_: Any

    def __init__(self, *, curves: Mapping[str, Curve], score_name: str = "Score") -> None:
        self.curves = curves
        self.score_name = score_name

    @classmethod
    def from_search(
        cls,
        search: BaseEstimator,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> RankDisplay:
        """Draw the best score of every rank of a search.

        Parameters
        ----------
        search : LRRRClassifierCV, SLRRClassifierCV or other search
            Fitted search with `rank` in its grid, or a pipeline that ends with one. The score of a
            rank is its best `mean_test_score` over the other parameters. With folds, the band shows
            one standard deviation of that setting's scores over the folds. Leave-one-out has one
            score for all samples and no band.
        name : str, default=None
            Name in the legend; None means the class name of the search.
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot`.

        Returns
        -------
        display : RankDisplay

        Notes
        -----
        The best of several scores is optimistic, because the setting was selected on the same
        samples. `from_path` draws scores of samples that were not used for selection.
        """
        named = {_class_name(search) if name is None else name: search}
        return cls.from_searches(named, ax=ax, **kwargs)

    @classmethod
    def from_searches(
        cls,
        searches: Mapping[str, BaseEstimator] | Sequence[BaseEstimator],
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> RankDisplay:
        """Draw the best score of every rank for several searches.

        Parameters
        ----------
        searches : dict of str to search, or list of searches
            Fitted searches with the same `scoring`, as for `from_search`. The keys are the names in
            the legend; the items of a list are named after their classes.
        ax, **kwargs
            As for `from_search`; `kwargs` apply to every curve.

        Returns
        -------
        display : RankDisplay
        """
        named = by_name(searches, "searches", "search", single="from_search", name_of=_class_name)
        if ax is None:
            pyplot()  # raise ImportError before the computation
        curves = {name: _search_curve(search, name) for name, search in named.items()}
        return cls(curves=curves, score_name=_score_name(named.values())).plot(ax, **kwargs)

    @classmethod
    def from_path(
        cls,
        path: ScoredRanks,
        X: MatrixLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
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
        name : str, default=None
            Name in the legend; None means "Classifier".
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot`.

        Returns
        -------
        display : RankDisplay

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from discreg import LRRRClassifier
        >>> from discreg.inspection import RankDisplay
        >>> X, y = load_digits(return_X_y=True)
        >>> path = LRRRClassifier(beta=10.0).rank_path(X[::2], y[::2])
        >>> display = RankDisplay.from_path(path, X[1::2], y[1::2], name="LRRR")
        >>> ranks, scores, _ = display.curves["LRRR"]
        >>> print(ranks[[2, 5, 8]], scores[[2, 5, 8]].round(2))
        [3 6 9] [0.58 0.85 0.93]
        """
        return cls.from_paths(
            {"Classifier" if name is None else name: path},
            X,
            y,
            sample_weight=sample_weight,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_paths(
        cls,
        paths: Mapping[str, ScoredRanks],
        X: MatrixLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> RankDisplay:
        """Draw the accuracies of several rank paths on the same samples.

        Parameters
        ----------
        paths : dict of str to RankPath
            Paths, as for `from_path`. The keys are the names in the legend.
        X, y, sample_weight, ax, **kwargs
            As for `from_path`; `kwargs` apply to every curve.

        Returns
        -------
        display : RankDisplay
        """
        if not isinstance(paths, Mapping):
            raise TypeError(
                "paths must be a dict from names in the legend to results of rank_path, got "
                f"{type(paths).__name__}. For a single path use from_path."
            )
        if not paths:
            raise ValueError("paths is empty: pass at least one path.")
        if ax is None:
            pyplot()  # raise ImportError before the computation
        labels = column_or_1d(y, warn=True)
        curves = {
            name: _path_curve(path, name, X, labels, sample_weight) for name, path in paths.items()
        }
        return cls(curves=curves, score_name="Accuracy").plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> RankDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None draws on a new figure.
        **kwargs : dict
            Keyword arguments passed to matplotlib's `plot` for every curve.

        Returns
        -------
        self : RankDisplay
        """
        self.ax_ = pyplot().subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.lines_, self.full_rank_lines_, self.bands_ = [], [], []
        for name, (ranks, scores, errors) in self.curves.items():
            (line,) = self.ax_.plot(ranks, scores, **{"label": name, "marker": "o", **kwargs})
            style = {"color": line.get_color(), "linestyle": "--", "linewidth": 1}
            label = f"{name}, rank {ranks[-1]}"
            self.full_rank_lines_.append(self.ax_.axhline(scores[-1], label=label, **style))
            self.lines_.append(line)
            self.bands_.append(None if errors is None else self._band(line, errors))
        self.ax_.set(xlabel="Rank", ylabel=self.score_name)
        self.ax_.locator_params(axis="x", integer=True, min_n_ticks=1)
        self.ax_.legend(loc="lower right")
        return self

    def _band(self, line: Any, errors: Array) -> Any:
        ranks, scores = line.get_data()
        style = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0}
        return self.ax_.fill_between(ranks, scores - errors, scores + errors, **style)


def _last_step(search: BaseEstimator) -> Any:
    return _last_step(search[-1]) if isinstance(search, Pipeline) else search


def _class_name(search: BaseEstimator) -> str:
    return type(_last_step(search)).__name__


def _score_name(searches: Iterable[Any]) -> str:
    """Return the name of the score that all searches share."""
    names = []
    for search in searches:
        scoring = getattr(_last_step(search), "scoring", None) or "accuracy"
        named = isinstance(scoring, str)
        names.append(scoring.replace("_", " ").capitalize() if named else "Score")
    if len(set(names)) > 1:
        raise ValueError(
            f"The searches have different scores: {', '.join(names)}. Pass searches with the same "
            "scoring."
        )
    return names[0]


def _search_curve(search: BaseEstimator, name: str) -> Curve:
    """Compute the best mean score of every rank, and its standard deviation over the folds."""
    search = _last_step(search)
    check_is_fitted(search)
    results = getattr(search, "cv_results_", {})
    if not {"param_rank", "mean_test_score"} <= results.keys():
        raise ValueError(
            f"{name!r} ({type(search).__name__}) has no scores by rank: cv_results_ must contain "
            "param_rank and mean_test_score. Pass a fitted LRRRClassifierCV or SLRRClassifierCV, "
            "or draw the path of a classifier with from_path."
        )
    try:
        tried = np.asarray(results["param_rank"], dtype=np.intp)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name!r} has ranks that are not integers. Use the number of the largest rank instead "
            "of None."
        ) from error
    scores = results["mean_test_score"]
    if not np.all(np.isfinite(scores)):
        raise ValueError(f"{name!r} has settings without a score, because their fits failed.")
    ranks = np.unique(tried)
    settings = (np.flatnonzero(tried == rank) for rank in ranks)
    best = [setting[np.argmax(scores[setting])] for setting in settings]
    errors = results.get("std_test_score")  # leave-one-out has none
    return ranks, scores[best], None if errors is None else errors[best]


def _path_curve(
    path: ScoredRanks, name: str, X: MatrixLike, y: NDArray[Any], sample_weight: ArrayLike | None
) -> Curve:
    if not (hasattr(path, "ranks") and hasattr(path, "score")):
        raise ValueError(
            f"{name!r} ({type(path).__name__}) is not a rank path. Pass the result of "
            "LRRRClassifier().rank_path(X_train, y_train), or use from_search for a fitted search."
        )
    return path.ranks, path.score(X, y, sample_weight), None
