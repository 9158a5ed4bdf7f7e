"""What the ODM paper compares: its searches, its margins and its times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.preprocessing import maxabs_scale, minmax_scale

from discreg import LDMClassifier
from discreg.base.errors import InputError
from discreg.comparison.experiment import Outcome
from discreg_reproduction.protocol import Part, Tuned, judged
from discreg_reproduction.registry import Dataset

__all__ = ["LDMSearchCV", "Timed", "TrainingMargins", "dense", "unit_interval", "widths"]

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the mean distance
MOST_DENSE_VALUES = 50_000_000  # 0.4 GB


def unit_interval(dataset: Dataset) -> Dataset:
    """The data set with all features in [0, 1]; sparse ones, whose minimum is 0, stay sparse."""
    scaled = maxabs_scale(dataset.X) if sparse.issparse(dataset.X) else minmax_scale(dataset.X)
    return replace(dataset, X=scaled)


def widths(X: NDArray[Any]) -> list[float]:
    """Gammas of exp(−‖x − z‖²/(2 width²)) for the widths δ/4 to 4δ, δ the mean distance."""
    delta = pdist(X).mean()
    return [float(1 / (2 * (factor * delta) ** 2)) for factor in WIDTHS]


def dense(X: Any) -> NDArray[Any]:
    """Rows for a classifier that takes no sparse ones, unless they would fill the memory."""
    if not sparse.issparse(X):
        return X
    if np.prod(X.shape, dtype=float) > MOST_DENSE_VALUES:
        raise InputError(
            f"LDA needs dense rows, and {X.shape[0]:,} of {X.shape[1]:,} features are too many: "
            "the paper has no result of it on its large text sets either."
        )
    return X.toarray()


class LDMSearchCV(ClassifierMixin, BaseEstimator):
    """LDM without intercept, its parameters chosen by cross-validation.

    Each fold has one kernel matrix for each width, and each fit begins at the solution of the one
    before it, as in :class:`~discreg.ODMClassifierCV`.

    Parameters
    ----------
    Cs : sequence of float
        Costs of one sample, as in an SVM: `LDMClassifier`, which divides by the number of samples,
        is given that many times as much.
    lambda1s, lambda2s : sequence of float
        Weights of the variance and of the mean of the margins.
    kernel : {"linear", "rbf"}, default="rbf"
        Kernel.
    gammas : sequence of float, default=(1.0,)
        Widths of the RBF kernel.
    cv : splitter, default=None
        How to hold samples out.
    random_state : int, default=None
        Seed of the order of coordinate descent.
    """

    def __init__(
        self,
        *,
        Cs: Sequence[float],
        lambda1s: Sequence[float],
        lambda2s: Sequence[float],
        kernel: str = "rbf",
        gammas: Sequence[float] = (1.0,),
        cv: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.Cs = Cs
        self.lambda1s = lambda1s
        self.lambda2s = lambda2s
        self.kernel = kernel
        self.gammas = gammas
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: NDArray[Any]) -> LDMSearchCV:
        """Choose the setting on held-out samples, the first among equals, and fit it on all."""
        # The factorisation of a kernel matrix depends on lambda1 alone, which comes first for that.
        penalties = list(product(self.lambda1s, self.Cs, self.lambda2s))
        folds = list(self.cv.split(X, y))
        scores = [
            np.mean([list(self._held_out(X, y, fold, gamma, penalties)) for fold in folds], axis=0)
            for gamma in self.gammas
        ]
        width, setting = divmod(int(np.argmax(scores)), len(penalties))
        self.best_estimator_ = self._model(self.gammas[width])
        _set_penalty(self.best_estimator_, penalties[setting], len(y))
        self.best_estimator_.fit(X, y)
        self.best_score_ = float(scores[width][setting])
        self.classes_ = self.best_estimator_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels by the best setting."""
        return self.best_estimator_.predict(X)

    def _model(self, gamma: float) -> LDMClassifier:
        return LDMClassifier(
            kernel=self.kernel,
            gamma=gamma,
            fit_intercept=False,
            random_state=self.random_state,
        )

    def _held_out(
        self,
        X: Any,
        y: NDArray[Any],
        fold: tuple[NDArray[np.intp], NDArray[np.intp]],
        gamma: float,
        penalties: Sequence[tuple[float, float, float]],
    ) -> Iterator[float]:
        """Accuracy on a fold for one setting after another."""
        train, test = fold
        model = self._model(gamma)
        prepared = model._prepare(X[train], y[train], None)
        training = prepared.training
        cross = None if training.kernel is None else training.kernel(X[test], training.X)
        starts = [None]
        for penalty in penalties:
            _set_penalty(model, penalty, len(train))
            (fit,) = model._fit_all(prepared, starts, exact=False)
            starts = [fit.warm]
            scores = X[test] @ fit.coef if cross is None else cross @ fit.theta
            yield float(np.mean(prepared.classes[(scores > 0).astype(int)] == y[test]))


def _set_penalty(model: LDMClassifier, penalty: tuple[float, float, float], n_samples: int) -> None:
    """Give the model λ1, C and λ2, which are those of one sample, for all samples together."""
    model.lambda1, model.C, model.lambda2 = (n_samples * each for each in penalty)


@dataclass(frozen=True)
class TrainingMargins:
    """A tuned linear classifier, and the distances y w·x/‖w‖ of its training samples."""

    method: Tuned

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        chosen = self.method.fitted(train, seed)
        model = getattr(chosen, "best_estimator_", chosen)
        signs = np.where(train.y == model.classes_[1], 1.0, -1.0)
        margins = np.sort(signs * model.decision_function(train.X) / np.linalg.norm(model.coef_))
        values = {
            **judged(chosen, test).values,
            "margin_mean": float(margins.mean()),
            "margin_std": float(margins.std()),
            "margin_min": float(margins[0]),
        }
        return Outcome(values, {"margins": margins})


@dataclass(frozen=True)
class Timed:
    """CPU seconds of one fit with given parameters.

    Parameters
    ----------
    estimator : classifier
        Cloned for every fit.
    of_size : function of the number of training samples
        Parameters that depend on it.
    """

    estimator: BaseEstimator
    of_size: Callable[[int], Mapping[str, float]] | None = None

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        model = clone(self.estimator).set_params(random_state=seed)
        if self.of_size is not None:
            model.set_params(**self.of_size(len(train.y)))
        clone(model).fit(*train)  # compiled loops are loaded at their first call
        began = time.process_time()
        model.fit(*train)
        seconds = time.process_time() - began
        return Outcome(judged(model, test, fit_seconds=seconds).values)
