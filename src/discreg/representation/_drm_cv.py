"""DRM with alpha, beta and kernel parameters selected on held-out samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.classifier import with_inherited_docs
from discreg.base.held_out import holdout_mask
from discreg.base.search import ClassifierSearch, candidates_of
from discreg.base.trials import HeldOut, Setting
from discreg.base.validation import LabelledRows, components_of, encode_labels
from discreg.linalg.types import Array, Indices, Scoring, Splitting

from ._drm import DRMClassifier, overflow_is_checked, require_finite
from ._problem import Groups, Penalty, TrainingSamples
from ._solvers import IterativeSolver, LeaveOneOut, Settings, fit_solver

# Chosen by measurement, see benchmarks/default_grids.py.
ALPHAS = (1e-3, 1e-1, 10.0)
BETAS = (1e-3, 1e-1)


def _held_out_scores(
    classifier: DRMClassifier,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    penalties: Sequence[Setting],
    fold: Any = None,
) -> Iterator[HeldOut]:
    """Yield the scores of each penalty, or the reason why it cannot be fitted.

    The scores are those of the rows of a fold, or without one leave-one-out scores of all samples
    that are not the only one of their class, with the ridge penalty.
    """
    given = LabelledRows.of(classifier, X, y, sample_weight)
    classes, weights = given.classes, given.weights
    groups = Groups.of(given.y, weights, len(classes))
    rows = None
    if fold is None:
        kept = np.flatnonzero(holdout_mask(groups.y, groups.weights, None))
        rows = groups.order[kept]
    try:
        with overflow_is_checked():
            training = classifier._prepare(X, groups, weights, components_of(classifier, len(y)))
    except ValueError as error:
        yield from repeat(HeldOut.failed(error), len(penalties))
        return
    matrix, left_out = cache(partial(training.matrix, copies=3)), LeaveOneOut(training)
    for penalty in penalties:
        settings = replace(classifier._settings(), **penalty)
        gap, converged = 0.0, True
        try:
            with overflow_is_checked():
                if fold is None:
                    delta = left_out.residuals(settings, kept, groups.weights[kept])
                else:
                    delta, gap, converged = _of_fold(training, settings, matrix, fold)
            require_finite(delta)
        except ValueError as error:
            yield HeldOut.failed(error)
        else:
            yield HeldOut(-delta, classes, gap, converged, rows)


def _of_fold(
    training: TrainingSamples, settings: Settings, matrix: Callable[[], Array], fold: Any
) -> tuple[Array, float, bool]:
    """Compute the residuals of a fold, the largest gap, and whether `tol` is reached.

    With the ridge penalty they are those of the solution, also if the solver iterates.
    """
    if settings.penalty.is_ridge and settings.solver != "scatter":
        settings = replace(settings, solver="closed" if settings.solver == "closed" else "auto")
    _, solver = fit_solver(training, settings, lambda: matrix().copy())
    if not isinstance(solver, IterativeSolver):
        return solver.residuals(fold), 0.0, True
    delta, n_left, gap = solver.unwarned_residuals(fold)
    return delta, gap, n_left == 0


@with_inherited_docs
class DRMClassifierCV(ClassifierSearch):
    r"""Discriminative regression machine with parameters selected by leave-one-out.

    The leave-one-out residuals of one setting cost as much as a few fits and equal those of n
    refits with the same `gamma` and features. Penalties other than ridge have no such formula; they
    are selected in five stratified folds. With groups, whole groups are held out in folds. The
    search scores predictions without rejection.

    Parameters
    ----------
    alphas : array-like of float, default=(0.001, 0.1, 10)
        Candidates for `alpha`, the weight of the within-class scatter. Continued beyond an
        edge, see `cv_results_`.
    betas : array-like of float, default=(0.001, 0.1)
        Candidates for `beta`, the weight of the penalty; positive. Continued like `alphas`.

    See Also
    --------
    DRMClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import DRMClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = DRMClassifierCV(gammas=[0.01, 0.1]).fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['alpha', 'beta', 'gamma']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = DRMClassifier
    _leave_one_out = staticmethod(_held_out_scores)
    _continued = {"alpha": "alphas", "beta": "betas", "gamma": "gammas"}

    def __init__(
        self,
        estimator: Any = None,
        *,
        alphas: Sequence[float] = ALPHAS,
        betas: Sequence[float] = BETAS,
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.alphas = alphas
        self.betas = betas
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        classifier._check_rejection(encode_labels(y)[0])
        alphas = candidates_of("alphas", self.alphas, lambda values: values >= 0, "not negative")
        betas = candidates_of("betas", self.betas, lambda values: values > 0, "positive")
        return [{"alpha": alpha, "beta": beta} for alpha in alphas for beta in betas]

    @staticmethod
    def _held_out(
        classifier: DRMClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        return _held_out_scores(classifier, X, y, sample_weight, penalties, X_test)

    def _leaves_out(
        self, classifier: Any, groups: Indices | None, scorer: Callable[..., float]
    ) -> bool:
        is_ridge = Penalty.of(classifier.penalty).is_ridge
        return is_ridge and super()._leaves_out(classifier, groups, scorer)

    def _for_share(self, classifier: Any, penalty: Setting, share: float) -> Setting:
        factor = Penalty.of(classifier.penalty).of_copies(1 / share)
        return {"alpha": share * penalty["alpha"], "beta": factor * penalty["beta"]}
