"""ReLSR with its penalty chosen by cross-validation."""

from __future__ import annotations

from discreg.retargeted import ReLSRClassifier

from ._retargeted import IterativeSearchCV

__all__ = ["ReLSRClassifierCV"]


class ReLSRClassifierCV(IterativeSearchCV):
    r"""Retargeted least squares regression with `beta` chosen by cross-validation.

    Each fold is prepared once; along the betas each fit starts from the one before it.

    Parameters
    ----------
    betas : array-like of float, default=(10.0, ..., 1e-4)
        Penalties to choose from.
    scale_beta : bool, default=True
        Whether `beta` counts in units of the mean square of a centred feature,
        :math:`\operatorname{tr}(X^\top HX)/d`, for other kernels
        :math:`\operatorname{tr}(HKH)/n`. The traces are weighted; without an intercept they are
        not centred.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
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
    solver : {"auto", "newton", "alternating"}, default="auto"
        Solver of each fit, as for the classifier.
    tol : float, default=1e-6
        Relative optimality gap at which a fit stops.
    max_iter : int, default=1000
        Largest number of iterations of a fit.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means five stratified folds.
    scoring : str or callable, default=None
        Any scorer of scikit-learn; None means accuracy. It is given the sample weights.
    n_jobs : int, default=None
        Number of folds fitted at once, as joblib counts.

    Attributes
    ----------
    best_params_ : dict
        The best setting; of equally good ones the one with the largest penalty.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`.
    best_estimator_ : ReLSRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `intercept_`, `gap_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

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
