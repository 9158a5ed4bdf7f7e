"""Large margin distribution machine, called ODM^L in the paper."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreg.blocks.validation import (
    Choice,
    Number,
)
from discreg.linalg.types import ClassWeight, KernelParams

from ._classifier import MarginClassifier
from ._ldm_solvers import solve_ldm
from ._losses import MarginLoss
from ._problem import BinaryFit, BinaryProblem

__all__ = ["LDMClassifier"]


class LDMClassifier(MarginClassifier):
    r"""Large margin distribution machine: SVM with terms for the mean and variance of the margins.

    Minimises objective (5) of the paper (called ODM\ :sup:`L` there) for margins
    :math:`z_i = y_i (w^\top \phi(x_i) + b)` of m samples:

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + \lambda_1 \operatorname{var}(z)
              - \lambda_2 \operatorname{mean}(z) + \frac{C}{m} \sum_i \max(0, 1 - z_i)

    With :math:`\lambda_1 = \lambda_2 = 0` this is the soft-margin SVM with parameter C/m. With
    :math:`C = \infty` the hinge losses are replaced by the constraints :math:`z_i \ge 1`. With more
    than two classes there is one problem for each class against all others.

    Parameters
    ----------
    C : float, default=1000.0
        Weight of the hinge losses, positive; it is divided by the number of samples. With
        `numpy.inf` the margin is hard: all margins are at least 1, and classes that cannot be
        separated raise an error.
    lambda1 : float, default=1000.0
        Weight of the variance of the margins, not negative. With values far below C the model is
        almost an SVM. The paper uses values up to 1/4.
    lambda2 : float, default=0.0
        Weight of the mean of the margins, not negative. With ``lambda1=0`` and an intercept, a
        large value raises an error, because the objective then has no minimum.
    kernel : str or callable, default="rbf"
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two rows. It must be positive semi-definite; negative eigenvalues down to -1e-5 times the
        Frobenius norm of the kernel matrix are rounding errors and count as zero.
    gamma : float, "scale", "auto" or None, default="scale"
        Width of the RBF, polynomial, sigmoid, Laplacian and chi2 kernels, as in
        :class:`sklearn.svm.SVC`.
    degree, coef0 : float, default=3 and 1
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components : int, "auto" or None, default="auto"
        Number of components that approximate the kernel, for many samples; None means the exact
        kernel. "auto" is exact for at most 10,000 rows in memory, and otherwise 1,000 components
        with a warning. Ignored with the linear kernel.
    approximation : {"nystroem", "random_features"}, default="nystroem"
        "nystroem" is the Nyström method, on training rows drawn at random. "random_features" are
        an even number of random Fourier features, for the kernels "rbf" and "laplacian".
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised. The paper's model has none.
    class_weight : dict, "balanced" or None, default=None
        Class weights, which multiply the sample weights. "balanced" gives every class the same
        total weight, taking sample weights into account.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.
    solver : {"auto", "active_set", "dcd", "svrg"}, default="auto"
        All solvers converge to the same optimum.

        - "dcd": dual coordinate descent, Algorithm 1. One factorisation includes the variance in
          the kernel matrix or in the rows of features. With ``lambda1 > 0`` this needs memory for
          dense rows, or for an n × n matrix if there are more features than samples. Kernel
          problems with an intercept and more than 1000 samples try to do without factorisation.
        - "active_set": a semismooth Newton method on the same dual, for at most 2000 free
          multipliers. "dcd" replaces it if it does not converge within `max_iter` steps.
        - "svrg": stochastic gradients, Algorithm 2, for ``kernel="linear"`` and many samples, with
          too many features for the other solvers. It converges slowly because the loss is not
          smooth.
        - "auto": "active_set" for a kernel other than linear with at most 300 samples, else "dcd".
    selection : {"random", "cyclic"}, default="random"
        Order in which coordinate descent passes over the samples.
    shrinking : bool, default=True
        Whether coordinate descent skips samples whose multiplier is unlikely to change soon.
    svrg_step : float, default=0.1
        First step size of "svrg", relative to 1/L with the largest smoothness constant L of the
        gradients of single samples or pairs; at most 1. An epoch that increases the objective is
        repeated with half the step. The default is that of Johnson and Zhang (2013), whose setup
        the paper takes.
    cache_size : float, default=1000
        Maximum size of the kernel matrix in megabytes, with ``lambda1=0``. The rows of a larger
        matrix are computed on demand and cached up to this size; working sets of up to 256 rows
        come on top. With ``lambda1 > 0`` or at most 256 samples the whole matrix is stored.
    warm_start : bool, default=False
        Whether to start from the solution of the previous fit if shape, classes, kernel, solver
        and `fit_intercept` are the same.
    tol : float, default=1e-3
        Relative duality gap at which to stop. With 0 a fit continues until `max_iter` or until
        rounding prevents a smaller gap, and warns only if that gap is above 1e-6. Except for
        "svrg", problems with at most 1000 samples, or 1000 features for a linear kernel, are solved
        to machine precision if possible; `gap_` is the gap reached. With more samples, dense rows
        and ``kernel="rbf"`` the kernel matrix is in single precision if `tol` is at least 1e-4 and
        C, lambda1 and lambda2 are at most 1e4; `gap_` then includes 5e-6 for its rounding, which is
        four times the largest error measured.
    max_iter : int, default=1000
        Maximum number of iterations of a two-class problem, see `n_iter_`. With ``C=inf``, the
        maximum for each of up to ten finite values of C.
    n_jobs : int, default=None
        Number of threads that fit the two-class problems of more than two classes.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples and of the components.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels. With two classes, the second is the positive one.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features for ``kernel="linear"``, or of the components of an
        approximated kernel.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    support_ : ndarray of shape (n_support,)
        Indices of the training samples with a non-zero coefficient θ in at least one problem: all
        samples unless both lambdas are zero, because mean and variance depend on every margin.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients θ of the support vectors; the score of x is Σ θ k(x, support vector) +
        intercept.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_support, n_features)
        The support vectors; not set for "precomputed".
    margins_ : MarginStatistics
        Weighted `mean` and `variance` and the `minimum` of the training margins; numbers for two
        classes, else arrays with one entry per class.
    loo_error_bound_ : float or ndarray of shape (n_classes,)
        Upper bound of the leave-one-out error of the two-class problems, Theorem 2. Only with
        ``fit_intercept=False``, and not after "svrg".
    objective_ : float or ndarray of shape (n_classes,)
        Value of the objective.
    gap_ : float
        Largest duality gap of the two-class problems, relative to the objective without the term
        of the mean, including the rounding of coefficients to float32 if X has this type.
    n_iter_ : int
        Largest number of iterations of the two-class problems: passes over the samples ("dcd"),
        linear systems ("active_set") or epochs ("svrg"). The steps that bring a small problem to
        machine precision afterwards are not counted.
    solver_ : str
        The solver that ran; "dcd" if it replaced "active_set" in at least one problem.
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
        Whether held-out scores equal those of refits, rather than those of Newton steps without
        the sample.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    ODMClassifier : Squared losses that keep all margins close to one.
    LDMClassifierCV : Selects C, lambda1, lambda2 and gamma by cross-validation.

    Notes
    -----
    With ``probability=True``, held-out scores of at most 1000 samples are those of refits in which
    C/m, lambda1/m and lambda2/m stay what they are. For more samples, they come from one Newton
    step without the sample, and a linear model smooths the hinge for it. With more than 2000
    samples and a kernel, more than 1000 features or ``solver="svrg"``, a tenth of the samples, at
    least 300 and at most 2000, are left out together: one more fit, which starts from the solution,
    does not contain them.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from discreg import LDMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LDMClassifier().fit(minmax_scale(X), y)
    >>> model.score(minmax_scale(X), y) > 0.95, model.gap_ < 1e-9
    (True, True)
    """

    _constraints = MarginClassifier._constraints | {
        "C": Number(0, closed="right", infinite=True),
        "lambda1": Number(0, closed="left"),
        "lambda2": Number(0, closed="left"),
        "solver": Choice(("auto", "active_set", "dcd", "svrg")),
    }

    def __init__(
        self,
        *,
        C: float = 1000.0,
        lambda1: float = 1000.0,
        lambda2: float = 0.0,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        solver: str = "auto",
        selection: str = "random",
        shrinking: bool = True,
        svrg_step: float = 0.1,
        cache_size: float = 1000,
        warm_start: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.selection = selection
        self.shrinking = shrinking
        self.svrg_step = svrg_step
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        if np.inf == self.C and self.solver == "svrg":
            raise ValueError(
                "C=inf does not allow margins below 1, and solver='svrg' needs a finite C. Use "
                "solver='auto', 'active_set' or 'dcd'."
            )

    def _loss(self) -> MarginLoss:
        return MarginLoss.ldm(self.C, self.lambda1, self.lambda2)

    def _solve(self, problem: BinaryProblem) -> BinaryFit:
        return solve_ldm(problem)
