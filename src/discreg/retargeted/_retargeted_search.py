"""Searches of the retargeted models: each fit starts from the solution of the previous one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from discreg.base.calibration import class_columns
from discreg.base.classifier import Prepared, with_inherited_docs
from discreg.base.search import ClassifierSearch, candidates_of
from discreg.base.trials import HeldOut, Setting
from discreg.linalg.ridge import Regression
from discreg.linalg.rows import one_hot
from discreg.linalg.types import Array, Indices, Scoring, Splitting

from ._lsr import LSRClassifier, leave_groups_out_scores, leave_one_out_scores
from ._models import (
    LARGEST_GROUP_PENALTY,
    LARGEST_WITHIN_CLASS,
    DLSRClassifier,
    GReLSRClassifier,
    ReLSRClassifier,
    fit_path,
    set_within_class,
)

LARGEST_GAP = 3e-4  # of fits to compare settings; 1e-3 selects worse penalties
BETAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
GROUP_PENALTIES = (10.0, 1.0, 0.1, 0.0)


class RetargetedSearch(ClassifierSearch):
    """Base class of the searches of the retargeted models."""

    betas: Sequence[float]

    @staticmethod
    def _held_out(
        classifier: Any,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        """Yield the scores of the test samples; fits start from the previous one."""
        tol = classifier.get_params().get("tol", 0.0)  # LSR is solved in closed form
        for fitted in fit_path(classifier, X, y, sample_weight, penalties):
            scores = class_columns(fitted.decision_function(X_test))
            yield HeldOut(scores, fitted.classes_, fitted.gap_, not fitted.gap_ > tol > 0)

    def _for_trials(self, classifier: Any) -> Any:
        """Loosen `tol` if the folds are ours: scores are then off by a hundredth of the margin."""
        tol = classifier.get_params().get("tol", 0.0)
        if self.cv is not None or tol == 0:
            return classifier
        return clone(classifier).set_params(tol=max(tol, LARGEST_GAP))

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        betas = candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")
        settings = [{"beta": beta} for beta in betas]
        within = candidates_of(
            "within_classes",
            getattr(self, "within_classes", (0.0,)),
            lambda values: (values >= 0) & (values <= LARGEST_WITHIN_CLASS),
            f"from 0 to {LARGEST_WITHIN_CLASS:g}",
        )
        if within == [0.0]:
            return settings
        return [{"within_class": each} | setting for each in within for setting in settings]

    def _for_share(self, classifier: Any, penalty: Setting, share: float) -> Setting:
        """Return absolute penalties in proportion to the share of the samples.

        Relative ones stay for the linear kernel; for others, their unit does not depend on the
        number of samples.
        """
        if classifier.scale_beta and classifier.kernel == "linear":
            return penalty
        return penalty | {"beta": share * penalty["beta"]}


@with_inherited_docs
class LSRClassifierCV(RetargetedSearch):
    r"""Least squares regression with `beta` selected by leave-one-out.

    One eigendecomposition gives the leave-one-out scores of all samples for every `beta`. They
    equal those of n refits. For a sample with weight s, score r, target y and leverage h, the score
    without the sample is :math:`(r - s h y) / (1 - s h)`. Class weights and the kernel's `gamma`
    are computed once, from all samples.

    Parameters
    ----------
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Candidates for `beta`. Continued beyond an
        edge, see `cv_results_`.
    within_classes : array-like of float, default=(0.0,)
        Candidates for `within_class`, each tried with all `betas`; for example
        ``(10.0, 1.0, 0.1, 0.0)``.

    See Also
    --------
    LSRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import LSRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LSRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = LSRClassifier

    def __init__(
        self,
        estimator: Any = None,
        *,
        betas: Sequence[float] = BETAS,
        within_classes: Sequence[float] = (0.0,),
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.betas = betas
        self.within_classes = within_classes
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    @staticmethod
    def _leave_one_out(
        classifier: LSRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        prepared = classifier._prepare(X, y, sample_weight)
        assert isinstance(prepared.regression, Regression)
        for path in _paths_of_betas(classifier, prepared, penalties):
            held_out = leave_one_out_scores(
                prepared.regression,
                one_hot(prepared.y, len(prepared.classes)),
                [setting["beta"] for setting in path],
                scale_beta=classifier.scale_beta,
            )
            yield from _each_beta(held_out, prepared.classes, path)

    @staticmethod
    def _leave_groups_out(
        classifier: LSRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        penalties: Sequence[Setting],
        groups: Indices,
    ) -> Iterator[HeldOut]:
        prepared = classifier._prepare(X, y, sample_weight)
        assert isinstance(prepared.regression, Regression)
        for path in _paths_of_betas(classifier, prepared, penalties):
            held_out = leave_groups_out_scores(
                prepared.regression,
                one_hot(prepared.y, len(prepared.classes)),
                groups,
                [setting["beta"] for setting in path],
                scale_beta=classifier.scale_beta,
            )
            yield from _each_beta(held_out, prepared.classes, path)


def _paths_of_betas(
    classifier: LSRClassifier, prepared: Prepared, penalties: Sequence[Setting]
) -> Iterator[list[Setting]]:
    """Yield the settings of each weight of the within-class scatter, which is set."""
    for _, path in groupby(penalties, key=lambda setting: setting.get("within_class")):
        settings = list(path)
        set_within_class(classifier.set_params(**settings[0]), prepared)
        yield settings


def _each_beta(
    held_out: Array, classes: NDArray[Any], penalties: Sequence[Setting]
) -> Iterator[HeldOut]:
    """Yield the scores of each penalty."""
    for scores, setting in zip(held_out, penalties, strict=True):
        if setting["beta"] > 0:
            yield HeldOut(scores, classes)
        else:
            yield HeldOut.failed(
                "Leave-one-out needs positive betas: for beta=0 the other samples may not "
                "determine the score of a sample. Remove 0 from betas, or set cv=5."
            )


@with_inherited_docs
class DLSRClassifierCV(RetargetedSearch):
    r"""Discriminative least squares regression with `beta` selected by cross-validation.

    The data of a fold are prepared once, and
    each fit starts from the previous solution; with ``cv=None`` it stops at a gap of 3e-4 if `tol`
    is smaller.

    Parameters
    ----------
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Candidates for `beta`. Continued beyond an
        edge, see `cv_results_`.

    See Also
    --------
    DLSRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import DLSRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = DLSRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = DLSRClassifier

    def __init__(
        self,
        estimator: Any = None,
        *,
        betas: Sequence[float] = BETAS,
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.betas = betas
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose


@with_inherited_docs
class ReLSRClassifierCV(RetargetedSearch):
    r"""Retargeted least squares regression with `beta` selected by cross-validation.

    The data of a fold are prepared once, and
    each fit starts from the previous solution; with ``cv=None`` it stops at a gap of 3e-4 if `tol`
    is smaller.

    Parameters
    ----------
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Candidates for `beta`. Continued beyond an
        edge, see `cv_results_`.
    within_classes : array-like of float, default=(0.0,)
        Candidates for `within_class`, each tried with all `betas`; for example
        ``(10.0, 1.0, 0.1, 0.0)``.

    See Also
    --------
    ReLSRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import ReLSRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ReLSRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = ReLSRClassifier

    def __init__(
        self,
        estimator: Any = None,
        *,
        betas: Sequence[float] = BETAS,
        within_classes: Sequence[float] = (0.0,),
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.betas = betas
        self.within_classes = within_classes
        self.gammas = gammas
        self.degrees = degrees
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose


@with_inherited_docs
class GReLSRClassifierCV(RetargetedSearch):
    r"""Groupwise retargeted regression with its penalties selected by cross-validation.

    The data of a fold are prepared once, and
    each fit starts from the previous solution; with ``cv=None`` it stops at a gap of 3e-4 if `tol`
    is smaller.

    Parameters
    ----------
    group_penalties : array-like of float, default=(10.0, 1.0, 0.1, 0.0)
        Candidates for `group_penalty`. Continued beyond an
        edge, see `cv_results_`.
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Candidates for `beta`. Continued like `group_penalties`.

    See Also
    --------
    GReLSRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import GReLSRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = GReLSRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta', 'group_penalty']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = GReLSRClassifier
    _continued = {"group_penalty": "group_penalties"} | RetargetedSearch._continued

    def __init__(
        self,
        estimator: Any = None,
        *,
        group_penalties: Sequence[float] = GROUP_PENALTIES,
        betas: Sequence[float] = BETAS,
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.group_penalties = group_penalties
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
        others = super()._penalties(classifier, X, y, weights)
        groups = candidates_of(
            "group_penalties",
            self.group_penalties,
            lambda values: (values >= 0) & (values <= LARGEST_GROUP_PENALTY),
            f"from 0 to {LARGEST_GROUP_PENALTY:g}",
        )
        return [{"group_penalty": group} | other for group in groups for other in others]
