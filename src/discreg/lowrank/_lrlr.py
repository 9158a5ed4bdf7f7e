"""LRLR: low-rank linear regression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from discreg.base.callbacks import Task, with_callbacks
from discreg.base.components import COMPONENT_CONSTRAINTS
from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared, RegressionClassifier
from discreg.blocks.lazy import lazily
from discreg.blocks.validation import (
    KERNEL_CONSTRAINTS,
)
from discreg.linalg.reduced_rank import RankedCoefficients
from discreg.linalg.resources import small_fits_in_one_thread
from discreg.linalg.types import ClassWeight, KernelParams, MatrixLike, RealArray

from ._leave_one_out import left_out_at_rank
from ._ranks import RankPath, fit_ranked
from ._subspace import CONSTRAINTS, project

__all__ = ["LRLRClassifier"]


class LRLRClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RegressionClassifier):
    r"""Low-rank linear regression: regression in the LDA subspace.

    Solves equation (3) of [1]_ exactly, for centred X and the normalised indicators
    :math:`Y_{ij} = 1/\sqrt{n_j}` for samples i of class j, else 0:

    .. math:: \min_W\; \|Y - XW\|_F^2 \quad\text{subject to}\quad \operatorname{rank}(W) \le s .

    The columns of W span the s leading directions of linear discriminant analysis (Theorem 1).
    If X does not determine W, the solution has minimum norm: the limit of
    :class:`~discreg.LRRRClassifier` as `beta` goes to 0.

    The fitted coefficients are W times :math:`\sqrt{n/c}` for n samples of c classes, those of
    targets of 1 for classes of equal size. Scores therefore do not depend on the number of samples.

    Parameters
    ----------
    rank : int, default=None
        The rank s, at most n_classes - 1 and n_features. None means the largest rank, which is
        linear regression of full rank.
    fit_intercept : bool, default=True
        Whether to centre X, so that scores are those of :math:`x - \bar x` (38). Without centring
        the largest rank is min(n_features, n_classes).
    class_weight : dict or "balanced", default=None
        Class weights, which multiply the weights of the rows. Unlike the same factors in
        `sample_weight`, they do not change Y, and the scores are shifted by what they change in
        the mean of Y. "balanced" gives every class the same total weight, taking sample weights
        into account.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.
    kernel : str or callable, default="linear"
        Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a
        function of two rows. It must be positive semi-definite; negative eigenvalues down to -1e-5
        times the Frobenius norm of the kernel matrix are rounding errors and count as zero.
    gamma : {"scale", "auto"}, float or None, default="scale"
        Parameter of the kernels "rbf", "poly", "sigmoid", "laplacian" and "chi2". "scale" is
        1 / (n_features * X.var()), "auto" and None are 1 / n_features.
    degree : float, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components : int, "auto" or None, default="auto"
        Number of components that approximate the kernel, for many samples; None means the exact
        kernel. "auto" is exact for at most 10,000 rows in memory, and otherwise 1,000 components
        with a warning. It is not the number of discriminant directions, which is `rank`.
        Ignored with the linear kernel.
    approximation : {"nystroem", "random_features"}, default="nystroem"
        "nystroem" is the Nyström method, on training rows drawn at random. "random_features" are
        an even number of random Fourier features, for the kernels "rbf" and "laplacian".
    random_state : int, RandomState instance or None, default=None
        Seed of the components.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features)
        Coefficients for the linear kernel, or of the components of an approximated kernel; for two
        classes, those of the second minus those of the first.
    dual_coef_ : ndarray of shape (n_classes, n_samples) or (1, n_samples)
        Coefficients of the kernel functions of the training samples for other kernels.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Training samples; only set for exact kernels other than "linear" and
        "precomputed".
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts :math:`-\sqrt{n/c}\, W^\top \bar x`, plus the shift of class weights.
    rank_ : int
        Rank of the model.
    scalings_ : ndarray of shape (n_features, `rank_`) or (n_samples, `rank_`)
        The projection A of `transform`, of the features or of the kernel functions.
    directions_ : ndarray of shape (n_classes, `rank_`)
        Orthonormal directions V of the classes, with :math:`\sqrt{n/c}\, W = A V^\top`.
    eigenvalues_ : ndarray of shape (`rank_`,)
        Leading eigenvalues of :math:`S_t^+ S_b`: the ratio of between-class scatter to total
        scatter along each discriminative direction.
    n_components_ : int
        Number of components; only set if the kernel is approximated.
    kernel_error_ : float
        Root mean square error of the approximated kernel on some 500 training rows, relative to
        the root mean square of its values; only set if the kernel is approximated.
    inverse_temperature_ : float
        Factor of the decision values in `predict_proba`, fitted to held-out scores. This and the
        next two attributes are only set with ``probability=True``.
    loo_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples, each from the model without the sample. Only set
        if all samples were held out: at most 2,000 rows in memory, with more than one in each
        class.
    loo_is_exact_ : bool
        True: held-out scores equal those of refits.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    LRLRClassifierCV : Selects the rank by cross-validation.
    LRRRClassifier : The same model with a penalty, for many features or few samples.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : The same subspace with another
        decision rule.

    References
    ----------
    .. [1] X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
           Discriminant Analysis Based Regressions", KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRLRClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LRLRClassifier(rank=2).fit(X[::2], y[::2])
    >>> model.transform(X).shape
    (178, 2)
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.99
    """

    _constraints = CONSTRAINTS | KERNEL_CONSTRAINTS | COMPONENT_CONSTRAINTS
    _known_by_moments = True

    def __init__(
        self,
        *,
        rank: int | None = None,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.rank = rank
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.random_state = random_state

    @with_callbacks
    @small_fits_in_one_thread
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> LRLRClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix. Models
            with a linear or approximated kernel fit memory maps and Dask collections block by
            block.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._check_params()
        task = Task.fit(self, X, y)
        self._fit_moments(self._prepare(X, y, sample_weight))
        task.end()
        return self

    def _fit_moments(self, prepared: Prepared) -> None:
        fit_ranked(self, prepared, 0.0)

    def _left_out(self, prepared: Prepared, solution: RankedCoefficients) -> LeftOut:
        return left_out_at_rank(prepared, solution, self.rank_)

    def rank_path(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RankPath:
        """Compute the models of all ranks from one fit; `rank` is ignored.

        Parameters
        ----------
        X, y, sample_weight
            Training data, as for `fit`.

        Returns
        -------
        path : RankPath
            Coefficients, decision values, labels and accuracies for every rank.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from discreg import LRLRClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> path = LRLRClassifier().rank_path(X[::2], y[::2])
        >>> path.ranks
        array([1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> path.score(X[1::2], y[1::2])[[1, 8]].round(2)
        array([0.41, 0.92])
        """
        return RankPath.of(self, X, y, sample_weight)

    @lazily
    def transform(self, X: MatrixLike) -> RealArray:
        """Project samples onto the discriminative subspace.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        projected : ndarray of shape (n_samples, `rank_`)
            The samples, centred if `fit_intercept`, times `scalings_`. Components are in decreasing
            order of how well they separate the classes.
        """
        return project(self, X)

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])
