"""Methods of the ODM paper: parameter searches, margins and times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import maxabs_scale, minmax_scale

from discreg import LDMClassifier
from discreg.base.errors import InputError
from discreg.comparison.running.store import Outcome
from discreg_reproduction.protocol import Part, Tuned, judged
from discreg_reproduction.registry import Dataset

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the mean distance
WEIGHTS = {"lambda1": "lambda1s", "C": "Cs", "lambda2": "lambda2s"}  # those of one sample
MOST_DENSE_VALUES = 50_000_000  # 0.4 GB


def unit_interval(dataset: Dataset) -> Dataset:
    """Scale all features to [0, 1]; sparse features with minimum 0 stay sparse."""
    scaled = maxabs_scale(dataset.X) if sparse.issparse(dataset.X) else minmax_scale(dataset.X)
    return replace(dataset, X=scaled)


def widths(X: NDArray[Any]) -> list[float]:
    """Compute gammas of exp(−‖x − z‖²/(2 width²)) for widths δ/4 to 4δ, δ the mean distance."""
    delta = pdist(X).mean()
    return [float(1 / (2 * (factor * delta) ** 2)) for factor in WIDTHS]


def dense(X: Any) -> NDArray[Any]:
    """Convert rows to dense arrays; raise an error if they would not fit into memory."""
    if not sparse.issparse(X):
        return np.asarray(X)
    if np.prod(X.shape, dtype=float) > MOST_DENSE_VALUES:
        raise InputError(
            f"LDA needs dense rows, and {X.shape[0]:,} of {X.shape[1]:,} features are too many: "
            "the paper has no result of it on its large text sets either."
        )
    return np.asarray(X.toarray())


@dataclass(frozen=True)
class TunedLDM(Tuned):
    """LDM with C and lambdas per sample, selected by cross-validation.

    `LDMClassifier` divides by the number of samples, so they are multiplied by it: in each fold by
    the number of its training samples.
    """

    def fitted(self, train: Part, seed: int) -> LDMClassifier:
        """Fit the best setting; ties go to the smallest width, lambda1, C and lambda2."""
        search = clone(self.estimator).set_params(
            estimator__random_state=seed, **self.grid_of(train)
        )
        weights = {name: np.array(getattr(search, name)) for name in WEIGHTS.values()}
        scores = []
        for fold in self.folds(train, seed).split(*train):
            n_samples = len(fold[0])
            scaled = {name: n_samples * values for name, values in weights.items()}
            results = clone(search).set_params(cv=[fold], **scaled).fit(*train).cv_results_
            scores.append(results["mean_test_score"])
        settings = zip(results["params"], np.mean(scores, axis=0), strict=True)
        in_order = sorted(settings, key=lambda setting: _order(setting[0]))
        best, _ = max(in_order, key=lambda setting: setting[1])
        share = len(train.y) / n_samples
        whole = {name: share * value if name in WEIGHTS else value for name, value in best.items()}
        best_model: LDMClassifier = clone(search.estimator).set_params(**whole).fit(*train)
        return best_model


def _order(setting: Mapping[str, float]) -> tuple[float, ...]:
    """Return the sort key of tied settings; the smallest width is the largest gamma."""
    return (-setting.get("gamma", 0.0), *(setting[name] for name in WEIGHTS))


@dataclass(frozen=True)
class TrainingMargins:
    """A tuned linear classifier with the distances y w·x/‖w‖ of its training samples."""

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
    """CPU seconds of one fit with fixed parameters.

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
