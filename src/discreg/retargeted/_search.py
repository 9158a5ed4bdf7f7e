"""What the searches of the retargeted family share: grid, held-out scores, fit of the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import validate_data

from discreg.base.best import BestClassifier
from discreg.base.old_search import Setting, best_setting, cv_results, score_folds
from discreg.base.params import Choice, Number, check_params
from discreg.blocks.labels import sample_weights

from ._fit import fit_path

__all__ = ["BETAS", "IterativeSearchCV", "RetargetedSearchCV"]

BETAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


class RetargetedSearchCV(BestClassifier):
    """Base of the four: a grid of settings, held-out scores, and a fit of the best setting."""

    _classifier: type[Any]
    _grid_names = {"betas": "beta"}
    _constraints = {
        "scoring": Choice(
            (None,),
            test=lambda value: isinstance(value, str) or callable(value),
            described="the name of a scorer or a callable",
        ),
        "n_jobs": Choice((None,), others=(Number(integer=True),)),
    }

    def __init__(
        self,
        *,
        betas: Sequence[float] = BETAS,
        scale_beta: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.betas = betas
        self.scale_beta = scale_beta
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> RetargetedSearchCV:
        """Choose the setting on held-out samples and fit it on all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Weights, for the fits and for the held-out scores.
        groups : array-like of shape (n_samples,), default=None
            Groups of the samples, for a `cv` that splits by groups.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        check_params(self, self._constraints)
        self._require_rows_in_memory(X)
        grid = self._grid()
        classifier = self._model()
        rows, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        weights = None if sample_weight is None else sample_weights(sample_weight, len(labels))
        scorer = check_scoring(classifier, scoring=self.scoring)
        self.cv_results_ = self._search(classifier, rows, labels, weights, groups, grid, scorer)
        self.best_params_, self.best_score_ = best_setting(self.cv_results_)
        self.best_estimator_ = clone(classifier).set_params(**self.best_params_)
        self.best_estimator_.fit(rows, labels, weights)
        self._adopt()
        return self

    def _grid(self) -> list[Setting]:
        """All combinations of the candidates, the largest first."""
        candidates = []
        for plural in self._grid_names:
            try:
                values = np.atleast_1d(np.asarray(getattr(self, plural), dtype=np.float64))
            except (TypeError, ValueError):
                values = np.array([np.nan])
            acceptable = np.isfinite(values) & (values >= 0)
            if values.ndim != 1 or not values.size or not acceptable.all():
                raise ValueError(
                    f"{plural} must hold one or more finite numbers, none of them negative; got "
                    f"{getattr(self, plural)!r}."
                )
            candidates.append(sorted(set(values.tolist()), reverse=True))
        names = self._grid_names.values()
        return [dict(zip(names, values, strict=True)) for values in product(*candidates)]

    def _model(self) -> Any:
        """The classifier with the parameters that are not chosen."""
        shared = self._classifier().get_params().keys() & self.get_params().keys()
        return self._classifier(**{name: getattr(self, name) for name in shared})

    def _search(
        self,
        classifier: Any,
        X: Any,
        y: NDArray[Any],
        weights: NDArray[np.float64] | None,
        groups: ArrayLike | None,
        grid: list[Setting],
        scorer: Callable[..., float],
    ) -> dict[str, Any]:
        """Held-out scores of all settings by cross-validation."""
        folds = check_cv(5 if self.cv is None else self.cv, y, classifier=True)
        splits = list(folds.split(X, y, groups))
        return cv_results(
            grid,
            *score_folds(fit_path, classifier, X, y, weights, grid, splits, scorer, self.n_jobs),
        )


class IterativeSearchCV(RetargetedSearchCV):
    """Base of the three whose fits are iterative: each starts from the one before it."""

    def __init__(
        self,
        *,
        betas: Sequence[float] = BETAS,
        scale_beta: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            betas=betas,
            scale_beta=scale_beta,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            cv=cv,
            scoring=scoring,
            n_jobs=n_jobs,
        )
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
