"""LRRR with rank and penalty chosen by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.candidates import candidates_of
from discreg.base.held_out import HeldOut, Setting

from ._leave_one_out import leave_one_out_by_rank
from ._lrrr import LRRRClassifier
from ._search import LowRankSearch, held_out_by_rank

__all__ = ["LRRRClassifierCV"]

BETAS = tuple(10.0**power for power in range(5, -6, -1))


class LRRRClassifierCV(LowRankSearch):
    r"""Low-rank ridge regression with rank and `beta` chosen together, by exact leave-one-out.

    The scores of all samples, each by the models that have not seen it, come for all ranks and all
    penalties from one eigendecomposition and a small eigenproblem per sample and penalty, and equal
    those of n refits. A sample of weight k counts as k copies, one of which is left out. Class
    weights and a kernel's width are those of all samples.

    Parameters
    ----------
    betas : array-like of float, default=(1e5, 1e4, ..., 1e-5)
        Penalties to choose from.
    ranks : array-like of int, default=None
        Ranks to choose from; None means all.
    fit_intercept, class_weight, kernel
        As for :class:`~discreg.LRRRClassifier`.
    gammas : array-like of float or str, default=None
        Widths of the kernel to choose from: numbers, "scale" or "auto". None means 0.1, 0.3, 1, 3
        and 10 times "scale" for "rbf" and "scale" for the other kernels that have a width.
    degrees : array-like of float, default=(3,)
        Degrees of a polynomial kernel to choose from.
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Further arguments of a callable kernel.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means exact leave-one-out, for which the betas must be
        positive and every class needs two samples; a beta so small that a sample would decide its
        own score is left out of the choice, with a warning. With folds, all ranks of a penalty come
        from one solve too.
    scoring : str or callable, default=None
        Any scorer of scikit-learn that judges labels or decision values, or "g_mean"; None means
        accuracy. It is given the decision values in the place of X, and the sample weights if it
        takes them.
    n_jobs : int, default=None
        Number of folds fitted at once, as joblib counts.
    verbose : int, default=0
        Whether to print a line per fold and kernel.

    Attributes
    ----------
    best_params_ : dict
        The best setting; of equally good ones that with the largest penalty, then with the lowest
        rank.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`; with
        leave-one-out there is one score for all samples together.
    best_estimator_ : LRRRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `scalings_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    LRRRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRRRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LRRRClassifierCV().fit(X, y)
    >>> sorted(model.best_params_)
    ['beta', 'rank']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = LRRRClassifier
    _has_leave_one_out = True
    _held_out = staticmethod(held_out_by_rank)

    def __init__(
        self,
        *,
        betas: Sequence[float] = BETAS,
        ranks: Sequence[int] | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] = (3,),
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.ranks = ranks
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel = kernel
        self.gammas = gammas
        self.degrees = degrees
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> list[Setting]:
        betas = candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")
        ranks = self._rank_candidates(X, y)
        return [{"beta": beta, "rank": rank} for beta in betas for rank in ranks]

    @staticmethod
    def _leave_one_out(
        classifier: LRRRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: NDArray[np.float64] | None,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        betas = sorted({setting["beta"] for setting in penalties}, reverse=True)
        ranks = sorted({setting["rank"] for setting in penalties})
        if betas[-1] == 0:
            raise ValueError(
                "Leave-one-out needs positive betas: without a penalty a sample may decide its own "
                "score alone. Leave 0 out of betas, or set cv=5."
            )
        prepared = classifier._prepare(X, y, sample_weight)
        copies = np.ones(len(y)) if sample_weight is None else np.maximum(sample_weight, 1.0)
        by_beta = leave_one_out_by_rank(prepared, 1.0 / copies, betas, ranks)
        for beta, by_rank in zip(betas, by_beta, strict=True):
            for scores in by_rank:
                if np.isfinite(scores).all():
                    yield HeldOut(scores, prepared.classes)
                else:
                    yield HeldOut.failed(
                        f"Leave-one-out is not defined for beta={beta:g}: it is so small that a "
                        "sample decides its own score alone. Use larger betas, or cv=5."
                    )
