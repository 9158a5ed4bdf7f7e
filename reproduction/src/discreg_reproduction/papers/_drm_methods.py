"""Parameter selection and measurements of the DRM paper."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import (
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from discreg import DRMClassifier, DRMClassifierCV, g_mean_score
from discreg.comparison.running.store import Outcome
from discreg_reproduction.protocol import Method, Part, at, judged, series

Rows = NDArray[np.intp]
SCALERS = {"plain": FunctionTransformer(), "scaled": MaxAbsScaler()}
SCORES = {"accuracy": accuracy_score, "g_mean": g_mean_score}


class Chosen(NamedTuple):
    """A classifier fitted with the best setting, and its held-out score."""

    model: Any
    score: float


class Chooser(Protocol):
    """Selection of the parameters of a classifier on the training part."""

    def chosen(self, train: Part, seed: int) -> Chosen:
        """Fit the classifier with the best setting to the whole training part."""


class HeldOutLabels(Protocol):
    """Held-out predictions of the training samples."""

    def labels(self, model: BaseEstimator, train: Part, seed: int) -> NDArray[Any]:
        """Predict one label per sample."""


@dataclass(frozen=True)
class Search:
    """The first of the settings whose held-out labels are best.

    A setting that cannot be fitted is left out with a warning.
    """

    model: BaseEstimator
    parameter: str
    values: Sequence[Any]
    held_out: HeldOutLabels
    scoring: str

    def chosen(self, train: Part, seed: int) -> Chosen:
        start = clone(self.model)
        if "random_state" in start.get_params():
            start.set_params(random_state=seed)
        models = [clone(start).set_params(**{self.parameter: value}) for value in self.values]
        scores = [self._score(model, train, seed) for model in models]
        best = int(np.argmax(scores))
        return Chosen(models[best].fit(*train), scores[best])

    def _score(self, model: BaseEstimator, train: Part, seed: int) -> float:
        try:
            labels = self.held_out.labels(model, train, seed)
        except ValueError as error:
            warnings.warn(f"Left out {model}: {error}", RuntimeWarning, stacklevel=2)
            return -np.inf
        return float(SCORES[self.scoring](train.y, labels))


@dataclass(frozen=True)
class HeldOutFolds:
    """Labels by cross-validation, for classifiers without a fast leave-one-out."""

    n_folds: int = 5

    def labels(self, model: BaseEstimator, train: Part, seed: int) -> NDArray[Any]:
        smallest = np.unique(train.y, return_counts=True)[1].min()
        kind = StratifiedKFold if smallest >= self.n_folds else KFold
        folds = kind(self.n_folds, shuffle=True, random_state=seed)
        return np.asarray(cross_val_predict(model, *train, cv=folds))


@dataclass(frozen=True)
class HeldOutSupport:
    """Labels by exact leave-one-out of an `SVC`; by folds if there are too many samples.

    A sample that is no support vector can leave without a change of the solution, so only support
    vectors need a new fit.
    """

    at_most: int
    otherwise: HeldOutLabels

    def labels(self, model: SVC, train: Part, seed: int) -> NDArray[Any]:
        if len(train.y) > self.at_most:
            return self.otherwise.labels(model, train, seed)
        kernel = _kernel_matrix(model, train.X)
        model = clone(model).set_params(kernel="precomputed")
        whole = clone(model).fit(kernel, train.y)
        labels = whole.predict(kernel)
        for left_out in whole.support_:
            others = np.delete(np.arange(len(labels)), left_out)
            part = clone(model).fit(kernel[np.ix_(others, others)], train.y[others])
            labels[left_out] = part.predict(kernel[left_out, others][None])[0]
        return np.asarray(labels)


def _kernel_matrix(model: SVC, X: Any) -> NDArray[np.float64]:
    gamma = 1 / X.shape[1] if model.gamma == "auto" else model.gamma
    kernel: NDArray[np.float64] = pairwise_kernels(
        X,
        metric=model.kernel,
        filter_params=True,
        gamma=gamma,
        degree=model.degree,
        coef0=model.coef0,
    )
    return kernel


class NearestNeighbours(ClassifierMixin, BaseEstimator):
    """Most frequent label among the nearest training samples; of equally frequent the nearest.

    This is MATLAB's rule; scikit-learn takes the first of equally frequent labels.
    """

    def __init__(self, *, n_neighbors: int = 2, metric: str = "euclidean") -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> NearestNeighbours:
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        self.X_fit_ = X
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        check_is_fitted(self)
        distances = cdist(X, self.X_fit_, self.metric)
        return self._labels(_nearest(distances, self.n_neighbors))

    def leave_one_out(self, values: Sequence[int]) -> list[NDArray[Any]]:
        """Predict leave-one-out labels for each number of neighbours."""
        distances = cdist(self.X_fit_, self.X_fit_, self.metric)
        np.fill_diagonal(distances, np.inf)
        nearest = _nearest(distances, max(values))
        return [self._labels(nearest[:, :value]) for value in values]

    def _labels(self, nearest: Rows) -> NDArray[Any]:
        codes = self.codes_[nearest]
        votes = (codes[:, :, None] == codes[:, None, :]).sum(axis=2)
        return np.asarray(self.classes_[codes[np.arange(len(codes)), votes.argmax(axis=1)]])


def _nearest(distances: NDArray[np.float64], number: int) -> Rows:
    """The nearest first; of equally near ones the first, whatever the number."""
    return np.argsort(distances, axis=1, kind="stable")[:, :number]


@dataclass(frozen=True)
class NeighbourSearch:
    """Nearest neighbours, with their number selected by exact leave-one-out."""

    metric: str
    values: Sequence[int]
    scoring: str

    def chosen(self, train: Part, seed: int) -> Chosen:
        model = NearestNeighbours(metric=self.metric).fit(*train)
        labels = model.leave_one_out(self.values)
        scores = [float(SCORES[self.scoring](train.y, found)) for found in labels]
        best = int(np.argmax(scores))
        return Chosen(model.set_params(n_neighbors=self.values[best]), scores[best])


@dataclass(frozen=True)
class DRMSearch:
    """DRM with the setting selected by leave-one-out on (some of) the training samples.

    Of settings with the same score the search takes the one with the smallest log-loss, or with
    `first_tie` the first.
    """

    search: DRMClassifierCV
    at_most: int
    first_tie: bool = False

    def chosen(self, train: Part, seed: int) -> Chosen:
        some = some_rows(train.y, self.at_most, seed)
        search = clone(self.search).fit(train.X[some], train.y[some])
        params: dict[str, Any] = search.best_params_
        if self.first_tie:
            results = search.cv_results_
            params = results["params"][int(np.nanargmax(results["mean_test_score"]))]
        model = clone(search.best_estimator_).set_params(**params)
        return Chosen(model.fit(*train), search.best_score_)


def some_rows(y: NDArray[Any], at_most: int, seed: int) -> Rows:
    """Draw random samples, or return all if they are few, of classes with two or more samples."""
    drawn = np.sort(np.random.default_rng(seed).permutation(len(y))[:at_most])
    labels, counts = np.unique(y[drawn], return_counts=True)
    return drawn[np.isin(y[drawn], labels[counts > 1])]


@dataclass(frozen=True)
class EachScaling:
    """Parameter selection on unscaled features and on features divided by their largest value.

    Scores of each are named after the scaling, ``accuracy[scaling=plain]``. Those without are of
    the scaling whose held-out score on the training part is better: no test sample decides.
    """

    chooser: Chooser
    scalings: tuple[str, ...] = ("plain", "scaled")

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        values: dict[str, float] = {}
        outcomes, held_out = [], []
        for name in self.scalings:
            scaler = clone(SCALERS[name])
            began = time.perf_counter()
            scaled = Part(scaler.fit_transform(train.X), train.y)
            model, score = self.chooser.chosen(scaled, seed)
            seconds = time.perf_counter() - began
            scaled_test = Part(scaler.transform(test.X), test.y)
            outcomes.append(judged(model, scaled_test, fit_seconds=seconds))
            held_out.append(score)
            values |= at("scaling", name, outcomes[-1].values)
        best = outcomes[int(np.argmax(held_out))]
        return Outcome({**best.values, **values}, best.arrays)


@dataclass(frozen=True)
class SomeTestSamples:
    """A method scored on test samples that are drawn by chance, the same for every method."""

    method: Method
    n_test: int

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        rows = np.sort(np.random.default_rng(seed).permutation(len(test.y))[: self.n_test])
        return self.method.run(train, Part(test.X[rows], test.y[rows]), seed)


@dataclass(frozen=True)
class IterativeDRM:
    """Linear DRM by one of the algorithms.

    alpha and beta are those of the exact solution that random splits of some training samples
    prefer: the algorithms solve one and the same problem.
    """

    solver: str
    alphas: Sequence[float]
    betas: Sequence[float]
    n_search: int
    n_splits: int = 5

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        began = time.perf_counter()
        params = self._best_params(train, seed)
        model = DRMClassifier(probability=False, kernel="linear", solver=self.solver, **params).fit(
            *train
        )
        seconds = time.perf_counter() - began
        return judged(model, test, **params, fit_seconds=seconds)

    def _best_params(self, train: Part, seed: int) -> dict[str, Any]:
        some = some_rows(train.y, self.n_search, seed)
        splits = ShuffleSplit(self.n_splits, test_size=0.2, random_state=seed)
        search = DRMClassifierCV(
            DRMClassifier(probability=False, kernel="linear"),
            alphas=self.alphas,
            betas=self.betas,
            cv=splits,
        )
        return dict(search.fit(train.X[some], train.y[some]).best_params_)


@dataclass(frozen=True)
class SecondsOfAnExample:
    """Average seconds to represent one sample, for several numbers of training samples."""

    model: DRMClassifier
    sizes: Sequence[int]
    n_examples: int

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        order = np.random.default_rng(seed).permutation(len(train.y))
        seconds = {}
        for size in (size for size in self.sizes if size <= len(order)):
            model = clone(self.model).fit(train.X[order[:size]], train.y[order[:size]])
            examples = test.X[: self.n_examples]
            began = time.process_time()
            for example in examples:
                model.convergence(example[None])
            seconds[size] = (time.process_time() - began) / len(examples)
        return series("seconds", "n", seconds)


@dataclass(frozen=True)
class ObjectiveHistory:
    """The objective after each iteration for the first test sample."""

    model: DRMClassifier

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        done = clone(self.model).fit(*train).convergence(test.X[:1])
        history = done.objective_history[:, 0]
        values = {"iterations": float(done.n_iter[0]), "objective": float(history[-1])}
        return Outcome(values, {"history": history})


@dataclass(frozen=True)
class IterationCounts:
    """Average iterations per sample for several weights of the penalty."""

    model: DRMClassifier
    betas: Sequence[float]
    n_examples: int

    def run(self, train: Part, test: Part, seed: int) -> Outcome:
        counts = {}
        for beta in self.betas:
            model = clone(self.model).set_params(beta=beta).fit(*train)
            done = model.convergence(test.X[: self.n_examples])
            counts[beta] = done.n_iter.mean()
        return series("iterations", "beta", counts)
