"""DRM with alpha, beta and kernel parameters selected on held-out samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from discreg.base.candidates import candidates_of, rows_of_groups
from discreg.base.components import components_of
from discreg.base.held_out import HeldOut, Setting
from discreg.base.search import ClassifierSearch
from discreg.blocks.validation import (
    encode_labels,
    row_weights,
)
from discreg.linalg.types import Array, ClassWeight, Indices, KernelParams, Scoring, Splitting

from ._drm import DRMClassifier
from ._held_out import (
    FoldResiduals,
    HeldOutResiduals,
    LeaveGroupsOutResiduals,
    LeaveOneOutResiduals,
    PenalisedResiduals,
)
from ._penalties import Penalty
from ._problem import Groups, TrainingSamples, training_samples
from ._rejection import check_rejection
from ._solvers import DRMSettings, choose_solver

__all__ = ["DRMClassifierCV"]

# Chosen by measurement, see benchmarks/default_grids.py.
ALPHAS = (1e-3, 1e-1, 10.0)
BETAS = (1e-3, 1e-1)


class DRMClassifierCV(ClassifierSearch):
    r"""Discriminative regression machine with parameters selected by exact leave-one-out.

    The leave-one-out residuals of one setting cost as much as a few fits and equal those of n
    refits with the same `gamma` and features. A sample of weight k is equivalent to k samples of
    weight 1, one of which is left out. Ties go to the setting with the smaller held-out log-loss.

    Penalties other than ridge have no such formula. They are selected by cross-validation, in five
    stratified folds by default.

    Parameters
    ----------
    alphas : array-like of float, default=(0.001, 0.1, 10)
        Candidates for `alpha`, the weight of the within-class scatter. If the best of the default
        values is at an edge, up to three values beyond it are tried, each after the first only if
        the one before increased the score by more than 0.1 %; see ``cv_results_["beyond_grid"]``.
    betas : array-like of float, default=(0.001, 0.1)
        Candidates for `beta`, the weight of the penalty; positive. Continued like `alphas`.
    kernel : str or callable, default="rbf"
        As for :class:`~discreg.DRMClassifier`.
    gammas : array-like of float or str, default=None
        Candidates for `gamma`: numbers, "scale" or "auto". None means 0.1, 0.3, 1, 3 and 10 times
        "scale" for "rbf", continued like `alphas`, and "scale" for the other kernels that have this
        parameter.
    degrees : array-like of float, default=(3,)
        Candidates for the degree of the kernel "poly".
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    penalty : str or tuple, default="ridge"
        As for :class:`~discreg.DRMClassifier`. One penalty is searched; `betas` are its weights.
    solver, n_components, approximation, class_weight, probability
        As for :class:`~discreg.DRMClassifier`. With "scatter", leave-one-out costs no more than a
        prediction of the training samples.
    reject_above, unknown_label
        As for :class:`~discreg.DRMClassifier`. The search scores predictions without rejection.
    tol, max_iter
        As for :class:`~discreg.DRMClassifier`.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter; None means exact leave-one-out, and with `groups` in `fit` the
        exact residuals of models without each group.
        Penalties other than ridge use five stratified folds, and with `groups` folds of whole
        groups; ``cv_results_["held_out"]`` says which. Scorers other than those of labels, the
        log-loss and the Brier score, such as AUC or a callable, use five stratified folds. With
        None and more than 900 samples, all settings are tried on a part of the samples and the best
        ones on more, see ``cv_results_["n_samples"]``.
    scoring : str or callable, default=None
        Any scikit-learn scorer, by name or as a callable, or "g_mean", the geometric mean of the
        recalls; None means accuracy. The scorer receives decision values in place of X, and sample
        weights if it accepts them.
    n_jobs : int, default=None
        Number of parallel jobs, as for joblib. One job fits all settings of a fold that have the
        same kernel parameters; leave-one-out counts as one fold.
    verbose : int, default=0
        If positive, print one line per round, with the best setting so far.
    random_state : int, RandomState instance or None, default=None
        Seed of the components.

    Attributes
    ----------
    best_params_ : dict
        The best setting.
    best_score_ : float
        Held-out score of the best setting.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`, and
        the log-loss of all held-out samples as `mean_log_loss`. Leave-one-out gives one score for
        all samples together. `held_out` says how samples were held out. The score is nan for
        settings that cannot be fitted because beta is too small compared with the kernel's values.
    best_estimator_ : DRMClassifier
        The classifier with the best setting, fitted to all samples. Its fitted attributes are also
        set on this estimator.
    loo_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Held-out decision values of the training samples with the best setting, as for
        :class:`~discreg.DRMClassifier`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

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
    _has_leave_one_out = _has_leave_group_out = True
    _continued = {"alpha": "alphas", "beta": "betas", "gamma": "gammas"}

    def __init__(
        self,
        *,
        alphas: Sequence[float] = ALPHAS,
        betas: Sequence[float] = BETAS,
        kernel: str | Callable[..., float] = "rbf",
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] = (3,),
        coef0: float = 1,
        kernel_params: KernelParams = None,
        penalty: str | tuple[float, float, str] = "ridge",
        solver: str = "auto",
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        class_weight: ClassWeight = None,
        probability: bool = True,
        reject_above: float | None = None,
        unknown_label: object = None,
        tol: float = 1e-5,
        max_iter: int | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alphas = alphas
        self.betas = betas
        self.kernel = kernel
        self.gammas = gammas
        self.degrees = degrees
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.penalty = penalty
        self.solver = solver
        self.n_components = n_components
        self.approximation = approximation
        self.class_weight = class_weight
        self.probability = probability
        self.reject_above = reject_above
        self.unknown_label = unknown_label
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _unfitted(self) -> DRMClassifier:
        classifier: DRMClassifier = super()._unfitted()
        if not isinstance(self.random_state, int | np.integer):
            # One seed for all settings and the last fit, so that they use the same features.
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            classifier.set_params(random_state=int(seed))
        return classifier

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        check_rejection(classifier, encode_labels(y)[0])
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
        classes, weights, groups, _ = _groups(classifier, y, sample_weight)

        penalty = Penalty.of(classifier.penalty)

        def held_out_residuals() -> FoldResiduals | PenalisedResiduals:
            training = _samples(classifier, X, groups, weights)
            if penalty.is_ridge:
                return FoldResiduals(training, classifier.solver, training.points(X_test))
            settings = DRMSettings.of(classifier, penalty, backtracking=False)
            return PenalisedResiduals(training, settings, X_test)

        yield from _each_penalty(held_out_residuals, penalties, classes)

    @staticmethod
    def _leave_one_out(
        classifier: DRMClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        classes, weights, groups, units = _groups(classifier, y, sample_weight)

        def leave_one_out() -> LeaveOneOutResiduals:
            training = _samples(classifier, X, groups, weights)
            return LeaveOneOutResiduals(training, classifier.solver, units)

        yield from _each_penalty(leave_one_out, penalties, classes, groups.order)

    @staticmethod
    def _leave_groups_out(
        classifier: DRMClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        penalties: Sequence[Setting],
        groups: Indices,
    ) -> Iterator[HeldOut]:
        classes, weights, samples, _ = _groups(classifier, y, sample_weight)
        parts = rows_of_groups(groups[samples.order])

        def leave_groups_out() -> LeaveGroupsOutResiduals:
            training = _samples(classifier, X, samples, weights)
            return LeaveGroupsOutResiduals(training, classifier.solver, parts)

        yield from _each_penalty(leave_groups_out, penalties, classes, samples.order)

    def _leaves_out(self, groups: Indices | None, scorer: Callable[..., float]) -> bool:
        return Penalty.of(self.penalty).is_ridge and super()._leaves_out(groups, scorer)

    def _for_share(self, penalty: Setting, share: float) -> Setting:
        factor = Penalty.of(self.penalty).of_copies(1 / share)
        return {"alpha": share * penalty["alpha"], "beta": factor * penalty["beta"]}


def _groups(
    classifier: DRMClassifier, y: NDArray[Any], sample_weight: Array | None
) -> tuple[NDArray[Any], Array, Groups, Array]:
    """Return classes, row weights, groups of samples, and the weight to leave out of each."""
    classes, indices = encode_labels(y)
    weights = row_weights(sample_weight, classifier.class_weight, classes, indices)
    groups = Groups.of(indices, weights, len(classes))
    units = weights if sample_weight is None else weights / np.maximum(sample_weight, 1.0)
    return classes, weights, groups, units[groups.order]


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # the residuals are checked
def _samples(classifier: DRMClassifier, X: Any, groups: Groups, weights: Array) -> TrainingSamples:
    """Prepare the training samples of one kernel and check that the solver applies."""
    random = check_random_state(classifier.random_state)
    n_components = components_of(classifier, X.shape[0])
    training = training_samples(classifier, X, groups, weights, n_components, random)
    choose_solver(classifier, training, Penalty.of(classifier.penalty))
    return training


def _each_penalty(
    make: Callable[[], HeldOutResiduals | PenalisedResiduals],
    penalties: Sequence[Setting],
    classes: NDArray[Any],
    rows: Indices | None = None,
) -> Iterator[HeldOut]:
    """Yield the scores of each penalty, or the reason why it cannot be fitted."""
    try:
        held_out = make()
    except ValueError as error:
        yield from repeat(HeldOut.failed(error), len(penalties))
        return
    for penalty in penalties:
        try:
            delta, gap, converged = held_out.residuals(**penalty)
        except ValueError as error:
            yield HeldOut.failed(error)
        else:
            yield HeldOut(-delta, classes, gap, converged, rows)
