"""LRRR: low-rank ridge regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.params import Number

from ._ridge import RidgeLowRankClassifier

__all__ = ["LRRRClassifier"]


class LRRRClassifier(RidgeLowRankClassifier):
    r"""Low-rank ridge regression: regression in the subspace of regularised LDA.

    Solves equation (16) of [1]_ exactly, for centred X and the normalised indicators
    :math:`Y_{ij} = 1/\sqrt{n_j}` for samples i of class j, else 0:

    .. math:: \min_W\; \|Y - XW\|_F^2 + \beta \|W\|_F^2
              \quad\text{subject to}\quad \operatorname{rank}(W) \le s .

    The columns of W span the s leading directions of linear discriminant analysis with the total
    scatter :math:`S_t + \beta I` (Theorem 3). With more features than samples the work is that of
    one n by n system: `transform` is shrinkage LDA for wide data.

    Parameters
    ----------
    rank : int, default=None
        The rank s, at most n_classes - 1 and n_features. None: the largest, which is ridge
        regression of full rank.
    beta : float, default=10.0
        The paper's :math:`\lambda`, at least 0; 0 is :class:`~discreg.LRLRClassifier`. It counts in
        the units of :math:`X^\top X`: standardise the features, or choose it by
        :class:`~discreg.LRRRClassifierCV`.
    fit_intercept : bool, default=True
        Whether to centre X, so that scores are :math:`W^\top (x - \bar x)` (38). Without centring
        the largest rank is min(n_features, n_classes).
    class_weight : dict or "balanced", default=None
        Weights of the classes, which multiply the sample weights. "balanced" makes the classes
        equally heavy, counting samples with their weights.
    kernel : str or callable, default="linear"
        Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a
        function of two rows.
    gamma : {"scale", "auto"}, float or None, default="scale"
        Parameter of the kernels "rbf", "poly", "sigmoid", "laplacian" and "chi2". "scale" is
        1 / (n_features * X.var()), "auto" and None are 1 / n_features.
    degree : float, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Further arguments of a callable kernel.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features)
        Coefficients, for the linear kernel; for two classes, the second minus the first.
    dual_coef_ : ndarray of shape (n_classes, n_samples) or (1, n_samples)
        Coefficients of the kernel functions of the training samples, for other kernels.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Training samples, for kernels neither linear nor precomputed.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts :math:`-W^\top \bar x`.
    rank_ : int
        Rank of the model.
    scalings_ : ndarray of shape (n_features, rank_) or (n_samples, rank_)
        The projection A of `transform`, of the features or of the kernel functions.
    directions_ : ndarray of shape (n_classes, rank_)
        Orthonormal directions V of the classes, with :math:`W = A V^\top`.
    eigenvalues_ : ndarray of shape (rank_,)
        Leading eigenvalues of :math:`(S_t + \beta I)^{-1} S_b`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    LRRRClassifierCV : Chooses rank and `beta` by exact leave-one-out.
    SLRRClassifier : Selects features too.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : With shrinkage, d by d.

    References
    ----------
    .. [1] X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
           Discriminant Analysis Based Regressions", KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from discreg import LRRRClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LRRRClassifier(beta=10.0).fit(X[::2], y[::2])
    >>> model.transform(X).shape
    (1797, 9)
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.93
    """

    _constraints = RidgeLowRankClassifier._constraints | {"beta": Number(0, closed="left")}

    def __init__(
        self,
        *,
        rank: int | None = None,
        beta: float = 10.0,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            rank=rank,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
        )
        self.beta = beta

    @property
    def _penalty(self) -> float:
        return self.beta

    def _class_targets(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """The centred indicators of each class, for classes of so many copies."""
        return np.eye(len(sizes)) / np.sqrt(sizes) - np.sqrt(sizes) / sizes.sum()
