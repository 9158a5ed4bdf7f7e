"""The discriminative regression machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.base.calibration import fit_inverse_temperature, probabilities
from discreg.base.classifier import BaseClassifier
from discreg.base.params import check_params
from discreg.base.partial_fit import reset_partial_fit
from discreg.blocks.labels import encode_labels, row_weights, sample_weights
from discreg.blocks.lazy import lazily
from discreg.blocks.source import in_blocks

from ._block_fits import TableFitsMixin
from ._forms import BatchSolver, Settings, make_solver
from ._held_out import held_out_residuals
from ._iterative import Iterations
from ._penalties import Penalty
from ._problem import Groups
from ._scatter import LossOfPrecisionError
from ._setup import CONSTRAINTS, choose_solver, make_training, require_squares, unknown_label
from ._training import Training

__all__ = ["DRMClassifier"]

FITTED = (
    "classes_",
    "_solver",
    "X_fit_",
    "fit_order_",
    "objective_history_",
    "gap_",
    "inverse_temperature_",
    "loo_decision_function_",
)


def _has_probability(estimator: Any) -> bool:
    if not estimator.probability:
        raise AttributeError(
            "predict_proba is there with probability=True only, because fit then also computes "
            "held-out scores. Set it before fit."
        )
    return True


class DRMClassifier(TableFitsMixin, BaseClassifier):
    r"""Discriminative regression machine: represent a point by the training samples.

    The representation of a point x solves equation (9),

    .. math:: \min_w \tfrac12 w^\top (K + \alpha H - \alpha B) w - K_x^\top w
              + \beta\, \rho(\|w\|_{q,r}),

    with the kernel matrix K of the training samples, its diagonal H and its class blocks
    :math:`B_i = K_i / n_i`, so that :math:`w^\top (H - B) w` is the scatter of the weighted samples
    within their classes. With the default penalty :math:`\tfrac12\|w\|^2` the solution is (14),
    :math:`(K + \alpha H - \alpha B + \beta I)^{-1} K_x`. The class of the smallest residual wins,
    (11) and (12): :math:`\delta_i` measures how far x is from what the samples of class i
    contribute, and how much all others do.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the within-class scatter, not negative.
    beta : float, default=0.01
        Weight of the penalty on the representation, positive. It is in units of the kernel's
        values: for the RBF kernel k(x, x) = 1, for the linear kernel it is the squared norm.
    kernel : str or callable, default="rbf"
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two rows. It must be positive semi-definite.
    gamma : float, "scale", "auto" or None, default="scale"
        Width of the RBF, polynomial, sigmoid, Laplacian and chi2 kernels, as in
        :class:`sklearn.svm.SVC`.
    degree, coef0 : float, default=3 and 1
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Further parameters of a callable kernel.
    penalty : str or tuple, default="ridge"
        "ridge", "lasso", "group_lasso", "exclusive_lasso", or a triple (q, r, rho) with q and r 1,
        2 or `numpy.inf` and rho "identity" or "half_square", for :math:`\rho(\|w\|_{q,r})`.
    solver : str, default="auto"
        "closed" is Algorithm 2: one Cholesky factorisation. "gd", "ppa" and "apg" are Algorithms
        3, 4 and 6, matrix-free as in 5 with the linear kernel; they iterate for each batch of new
        points. "scatter" is the exact linear form in the features, whose prediction does not depend
        on the number of samples. "auto" takes "scatter" for linear kernels (or features) with
        few features, else "closed"; for a penalty other than ridge "apg".
    n_components : int, default=None
        Approximate the kernel by the inner products of so many features; None means exactly. Needed
        for many samples.
    approximation : {"nystroem", "fourier"}, default="nystroem"
        Kind of the features: Nyström's for any kernel, or random Fourier features for "rbf".
    backtracking : bool, default=False
        Whether "apg" finds its step by backtracking, (25), instead of by Lanczos' method.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, times those of the samples.
    probability : bool, default=False
        Whether to have `predict_proba`. Fit then also computes held-out scores, by exact
        leave-one-out (ridge) or five folds (other penalties).
    reject_above : float, default=None
        Predict the unknown label where the smallest relative residual exceeds this number. The
        residual with :math:`k(x, x)` added and divided by it is 0 for a point that its class
        explains entirely and 1 for one that no training sample is like. Values from 0.5 to 1 are
        sensible.
    unknown_label : int, float or str, default=None
        The unknown label; None means -1, or "unknown" where labels are strings.
    tol : float, default=1e-5
        "gd", "ppa" and "apg" stop when a representation changes by no more than this, as in the
        paper; with a penalty other than ridge, when the relative duality gap is no larger.
    max_iter : int, default=150
        Iteration limit, the paper's.
    random_state : int, RandomState instance or None, default=None
        Chance in the features and in the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    X_fit_ : {ndarray, sparse matrix} of shape (n_fit, n_features)
        Training samples of positive weight in order of their class; not for "precomputed", nor
        after a fit by parts or block by block.
    fit_order_ : ndarray of shape (n_fit,)
        Which training samples they are; likewise.
    solver_ : str
        The solver that is used.
    n_iter_ : int
        1, or the iterations that the training sample of the largest norm takes.
    objective_history_, gap_ : ndarray and float
        Objective of each of these iterations and bound of what is left of it, relative to
        k(x, x) / 2; for solvers that iterate.
    inverse_temperature_ : float
        With ``probability=True``, probabilities are its softmax with the residuals.
    loo_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        With ``probability=True``, decision values of the training samples when held out: one by
        one with the width and the features that all samples gave, or in folds (other penalties).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    DRMClassifierCV : Chooses alpha, beta and the kernel by exact leave-one-out.

    References
    ----------
    C. Peng and Q. Cheng, "Discriminative Regression Machine: A Classifier for High-Dimensional
    Data or Imbalanced Data".

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import DRMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = DRMClassifier(probability=True).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.98
    True
    >>> model.predict_proba(scale(X)).shape, model.representation(scale(X)).shape
    ((178, 3), (178, 178))
    """

    _constraints = CONSTRAINTS
    _statistics_depend_on = ("alpha", "beta", "class_weight")

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 0.01,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        penalty: str | tuple[float, float, str] = "ridge",
        solver: str = "auto",
        n_components: int | None = None,
        approximation: str = "nystroem",
        backtracking: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        probability: bool = False,
        reject_above: float | None = None,
        unknown_label: Any = None,
        tol: float = 1e-5,
        max_iter: int = 150,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.penalty = penalty
        self.solver = solver
        self.n_components = n_components
        self.approximation = approximation
        self.backtracking = backtracking
        self.class_weight = class_weight
        self.probability = probability
        self.reject_above = reject_above
        self.unknown_label = unknown_label
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> DRMClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix. Memory maps and
            Dask collections are fitted block by block with the linear kernel or `n_components`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Weights; a sample of weight k counts exactly as k copies of it.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        check_params(self, self._constraints)
        penalty = Penalty.of(self.penalty)
        self._forget()
        if in_blocks(self, X):
            self._fit_table(X, y, sample_weight)
            return self
        rows, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        classes, indices = encode_labels(labels)
        weights = row_weights(sample_weight, self.class_weight, classes, indices)
        unknown_label(self, classes)
        random = check_random_state(self.random_state)
        groups = Groups.of(indices, weights, len(classes))
        training = make_training(self, rows, groups, weights, random)
        self.classes_ = classes
        self.solver_ = choose_solver(self, training, penalty)
        try:
            self._solver = make_solver(self.solver_, training, self._settings(penalty))
        except LossOfPrecisionError:
            if self.solver != "auto":
                raise
            self.solver_ = "closed"
            self._solver = make_solver(self.solver_, training, self._settings(penalty))
        self._dtype, self._n_training = rows.dtype, rows.shape[0]
        self.fit_order_ = groups.order
        if not training.is_precomputed:
            self.X_fit_ = training.rows
        self.n_iter_ = 1
        if isinstance(self._solver, BatchSolver):
            outcome = self._solver.largest_sample()
            self.n_iter_ = max(1, int(outcome.n_iter[0]))
            self.objective_history_ = outcome.objective_history[:, 0]
            self.gap_ = float(outcome.gap[0])
        if self.probability:
            copies = np.maximum(sample_weights(sample_weight, len(indices)), 1.0)
            units = (weights / copies)[groups.order]
            self._fit_probability(training, rows, units, penalty, random)
        return self

    def _settings(self, penalty: Penalty) -> Settings:
        return Settings(self.alpha, self.beta, penalty, self.tol, self.max_iter, self.backtracking)

    def _forget(self, *, parts: bool = True) -> None:
        for name in FITTED:
            self.__dict__.pop(name, None)
        if parts:
            reset_partial_fit(self)

    def _fit_probability(
        self,
        training: Training,
        X: Any,
        units: NDArray[np.float64],
        penalty: Penalty,
        random: np.random.RandomState,
    ) -> None:
        """Held-out scores of the training samples, and the temperature that suits them."""
        groups = training.groups
        # "auto" may leave the features for the kernel form where they would lose digits.
        name = self.solver if self.solver_ == "scatter" else self.solver_
        delta = held_out_residuals(
            name, training, self._settings(penalty), units, self.classes_, random
        )
        self.inverse_temperature_ = fit_inverse_temperature(-delta, groups.y, groups.weights)
        scores = np.empty((self._n_training, groups.n_classes))
        scores[groups.order] = -delta
        unseen = np.setdiff1d(np.arange(self._n_training), groups.order)  # of weight zero
        if len(unseen):
            scores[unseen] = -self._solver.residuals(training.points(X[unseen]))
        self.loo_decision_function_ = self._shaped(scores)

    @lazily
    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Negative residuals −δ of (11).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; with ``kernel="precomputed"`` the kernel between them and the training
            samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column a class; for two classes the score of the second minus that of the first.
        """
        return self._shaped(-self._residuals(self._points(X))).astype(self._dtype)

    @lazily
    def class_residuals(self, X: ArrayLike) -> NDArray[Any]:
        """Residuals δ of (11): the smaller, the better a class explains a sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        residuals : ndarray of shape (n_samples, n_classes)
            They leave out k(x, x), which is the same for all classes.
        """
        return self._residuals(self._points(X)).astype(self._dtype)

    @lazily
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Label of the class with the smallest residual, equation (12).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        rows = self._rows(X)
        delta = self._residuals(self._solver.training.points(rows))
        labels = self.classes_[delta.argmin(axis=1)]
        if self.reject_above is None:
            return labels
        norms = self._solver.training.exact_self_kernel(rows)
        smallest = delta.min(axis=1) + norms
        rejected = smallest > self.reject_above * norms
        # An array, so that the type of the labels grows where it cannot hold the unknown one.
        return np.where(rejected, np.asarray(unknown_label(self, self.classes_)), labels)

    @available_if(_has_probability)
    @lazily
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Probabilities of the classes; the largest is that of the predicted class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        if not hasattr(self, "inverse_temperature_"):
            raise NotFittedError("Fit again with probability=True to have probabilities.")
        scores = -self._residuals(self._points(X))
        return probabilities(scores, self.inverse_temperature_, self._dtype.type)

    def representation(self, X: ArrayLike) -> NDArray[Any]:
        """Weights w* of the training samples that represent each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        weights : ndarray of shape (n_samples, n_training_samples)
            One column for each sample that fit was given; a sample of weight k has the sum of the
            weights of its k copies.
        """
        points = self._points(X)
        if not hasattr(self, "fit_order_"):
            raise ValueError(
                "A representation needs the training rows, which a fit by parts, on Dask or on a "
                "memory map does not keep. Fit to rows in memory."
            )
        V = self._solver.represent(points)
        weights = np.zeros((len(V), self._n_training), dtype=self._dtype)
        weights[:, self.fit_order_] = V
        return weights

    def convergence(self, X: ArrayLike) -> Iterations:
        """What the iterative solvers do for each sample: Figures 3 and 4 of the paper.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        iterations : Iterations
            Its `objective_history` has a row an iteration and a column a sample; `n_iter`,
            `converged` and `gap` have an entry a sample.
        """
        points = self._points(X)
        if not isinstance(self._solver, BatchSolver):
            raise ValueError(
                f"solver={self.solver_!r} does not iterate. Use solver='gd', 'ppa' or 'apg'."
            )
        training = self._solver.training
        return self._solver.run(training.cross(points), training.self_kernel(points))

    def _rows(self, X: ArrayLike) -> Any:
        """New samples, checked."""
        check_is_fitted(self, "_solver")
        rows = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )
        require_squares(rows, self._solver.training.source_kernel)
        return rows

    def _points(self, X: ArrayLike) -> Any:
        """New samples in the coordinates of the solver."""
        rows = self._rows(X)
        return self._solver.training.points(rows)

    def _residuals(self, points: Any) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):  # the residuals tell
            delta = self._solver.residuals(points)
        if not np.all(np.isfinite(delta)):
            raise ValueError(
                "The residuals of these samples overflow. Scale the features as in training, for "
                "example with sklearn.preprocessing.StandardScaler."
            )
        return delta

    def _shaped(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """scikit-learn's shape of decision values: one column for two classes."""
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
