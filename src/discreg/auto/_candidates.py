"""Candidates of AutoClassifier: models with held-out log-probabilities, by family.

A candidate is a model that has judged samples that it has not seen, and a way to be fitted to all
samples. The pool knows nothing else of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.special import log_softmax
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import pairwise_distances
from sklearn.utils.validation import has_fit_parameter

from discreg.base.calibration import Temperature, class_columns, fit_temperature
from discreg.linalg.fitted_kernel import LINEAR, FittedKernel
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, Indices
from discreg.lowrank import LRRRClassifier
from discreg.margin import ODMClassifier
from discreg.representation import DRMClassifier
from discreg.retargeted import ReLSRClassifier

from ._least_squares import KernelModel, Spectrum, spectrum_of
from ._pool import FLOOR
from ._samples import Samples

FAMILIES = ("kernels", "trees", "boosting", "logistic", "DRM", "ODM", "LRRR")

# Kernels: kind, kernel, scaling, and widths relative to the inverse of the median distance (squared
# for "rbf"); the polynomial kernel has the inverse of the mean squared norm.
KERNELS: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (
    ("linear", "linear", "standard", ()),
    ("polynomial", "poly", "standard", (1.0,)),
    ("RBF", "rbf", "standard", (0.3, 1.0, 3.0)),
    ("Laplacian", "laplacian", "standard", (0.1, 0.4, 1.5)),
    ("Laplacian of ranks", "laplacian", "ranks", (0.4, 1.5)),
)
DISTANCES = {"rbf": "euclidean", "laplacian": "manhattan"}
FEW_ROWS = 300  # whose distances are computed
LARGEST, STEP, N_PENALTIES = 10.0, 10.0**0.75, 12  # relative to the sum of the eigenvalues
TEST_PENALTY = 0.05  # of kernels in the test of independence, relative to the same sum
EXACT_ROWS = 2_000  # rows up to which kernels are exact; see benchmarks/results/auto_constants.md
FEWEST_FOR_BOOSTING = 300  # rows
FEW_FOR_NORMAL = 200  # rows up to which logistic regression is tried on standard scores only
RELSR_ROWS = 2_000  # rows up to which ReLSR is tried
RELSR_BETAS = (1e-2, 1e-3, 1e-4)
INVERSE_PENALTIES = (0.1, 1.0, 10.0, 100.0)  # of logistic regression
N_TREES, N_TREES_QUICK = 100, 50
TREE_ROWS, TREE_CELLS = 20_000, 400_000  # rows that a tree draws at most, also times classes
SMALL_BOOSTING = 2_000  # rows up to which boosting has few rounds and leaves
N_BINS = 255  # of each feature in boosting
LEAF_PENALTY = 1.0  # of boosting; see benchmarks/results/auto_constants.md


@dataclass(frozen=True)
class AutoCandidate:
    """A model with its held-out log-probabilities.

    Attributes
    ----------
    family, kind : str
        The family, and the kind of model in it.
    params : dict
    scaling : str
        Scaling of the features.
    logs : ndarray of shape (n_judged, n_classes)
        Log-probabilities of the judged samples after the temperature.
    temperature : Temperature
    log_loss, accuracy, balanced_accuracy : float
        Of the judged samples.
    held_out : str
        How samples were held out.
    fit : callable
        Returns the model of all samples: a function from scaled features to scores.
    n_samples : int
    source : Kind
    seconds : float
    """

    family: str
    kind: str
    params: dict[str, Any]
    scaling: str
    logs: Array
    temperature: Temperature
    log_loss: float
    accuracy: float
    balanced_accuracy: float
    held_out: str
    fit: Callable[[], Callable[[Any], Array]]
    n_samples: int
    source: Kind
    seconds: float = 0.0


@dataclass(frozen=True)
class Kind:
    """A kind of model that can be tried on samples.

    Attributes
    ----------
    family, name : str
    run : callable
        ``run(kind, samples)`` returns candidates.
    options : dict
        What `run` needs to know.
    """

    family: str
    name: str
    run: Callable[[Kind, Samples], list[AutoCandidate]]
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, samples: Samples) -> list[AutoCandidate]:
        """Try the kind; return candidates with finite scores, the best first."""
        started = time.perf_counter()
        with np.errstate(all="ignore"):  # candidates that fail are left out
            found = self.run(self, samples)
        seconds = (time.perf_counter() - started) / max(len(found), 1)
        found = [replace(each, seconds=seconds) for each in found]
        return sorted(found, key=lambda each: each.log_loss)


def judge(
    kind: Kind,
    params: dict[str, Any],
    scaling: str,
    scores: Array,
    samples: Samples,
    fit: Callable[[], Callable[[Any], Array]],
    held_out: str | None = None,
) -> list[AutoCandidate]:
    """Make a candidate of held-out scores; none if they are not finite."""
    if not np.isfinite(scores).all():
        return []
    y, weights = samples.y[samples.judged], samples.judged_weights
    temperature = fit_temperature(scores, y, weights)
    logs = np.maximum(log_softmax(temperature.logits(scores), axis=1), FLOOR)
    shares = weights / weights.sum()
    loss = -float(shares @ logs[np.arange(len(y)), y])
    right = logs.argmax(axis=1) == y
    recalls = class_sums(y, weights * right, samples.n_classes)
    sizes = class_sums(y, weights, samples.n_classes)
    balanced = float(np.mean(recalls[sizes > 0] / sizes[sizes > 0]))
    return [
        AutoCandidate(
            kind.family, kind.name, params, scaling, logs, temperature, loss, float(shares @ right),
            balanced, held_out or samples.held_out, fit, len(samples), kind,
        )
    ]  # fmt: skip


# Kernels of least squares, in closed form


def kernel_kinds(samples: Samples) -> list[Kind]:
    """Return the kernels with their widths, those of one kind next to each other."""
    found, distances = [], {}
    for name, kernel, scaling, widths in KERNELS:
        scaling = scaling if not sparse.issparse(samples.X) else "largest"
        if name == "Laplacian of ranks" and scaling == "largest":
            continue
        X = samples.scaled(scaling)[:FEW_ROWS]
        if kernel in DISTANCES:
            if (kernel, scaling) not in distances:
                distances[kernel, scaling] = _median_distance(X, DISTANCES[kernel])
            unit = distances[kernel, scaling] ** (2 if kernel == "rbf" else 1)
        else:
            unit = (
                float(X.power(2).sum() if sparse.issparse(X) else (X**2).sum()) / X.shape[0] or 1.0
            )
        for width in widths or (None,):
            gamma = None if width is None else width / unit
            fitted = FittedKernel(kernel, gamma, 2, 1.0, None)
            options = {"kernel": fitted, "scaling": scaling}
            found.append(Kind("kernels", name, _try_kernel, options))
    return found


def _median_distance(rows: Any, metric: str) -> float:
    """Compute the median of the positive distances between rows."""
    if sparse.issparse(rows):  # scikit-learn's Manhattan distances need short indices
        parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        rows = sparse.csr_matrix(parts, shape=rows.shape)
    distances = pairwise_distances(rows, metric=metric)[np.triu_indices(rows.shape[0], 1)]
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def independence_p_value(samples: Samples) -> float:
    """Test whether labels are independent of features.

    The statistic is the smallest p-value of the first width of each kernel; signs of the residuals
    are random by unit. Groups may differ in size, and labels within groups.
    """
    kinds, ranks = {kind.name: kind for kind in reversed(kernel_kinds(samples))}, []
    for kind in kinds.values():
        spectrum = _spectrum(kind, samples)
        found = spectrum.explained(TEST_PENALTY * float(spectrum.values.sum()))
        ranks.append(rankdata(-found, method="max"))
    smallest = np.min(ranks, axis=0)
    return float(np.mean(smallest <= smallest[0]))


def n_components_for(n_rows: int) -> int | None:
    """Return the number of components that approximate a kernel; None if it is exact."""
    if n_rows <= EXACT_ROWS:
        return None
    return 500 if n_rows <= 20_000 else 300


def _spectrum(kind: Kind, samples: Samples) -> Spectrum:
    """Decompose a kernel; that of many rows is approximated."""
    kernel, scaling = kind.options["kernel"], kind.options["scaling"]
    return spectrum_of(kernel, samples, scaling, n_components_for(len(samples)))


def finer(candidate: AutoCandidate) -> Kind:
    """Return the kernel of a candidate with the penalties around the one of the candidate."""
    place = round(np.log(LARGEST / candidate.params["penalty"]) / np.log(STEP))
    places = [k for k in range(place - 2, place + 3) if 0 <= k < N_PENALTIES]
    return replace(candidate.source, options=candidate.source.options | {"places": places})


def _try_kernel(kind: Kind, samples: Samples) -> list[AutoCandidate]:
    """Try all penalties of a kernel, every second one first."""
    kernel, scaling = kind.options["kernel"], kind.options["scaling"]
    spectrum = _spectrum(kind, samples)
    unit = max(float(spectrum.values.sum()), 1e-300)
    held_out = "one group at a time" if samples.has_groups else "one row at a time"
    found: dict[int, AutoCandidate] = {}

    def try_penalty(place: int) -> None:
        penalty = LARGEST * STEP**-place
        params = {"penalty": penalty}
        if kernel.gamma is not None:
            params["gamma"] = kernel.gamma
        scores = spectrum.held_out(penalty * unit)
        fit = partial(spectrum.model, penalty * unit)
        for each in judge(kind, params, scaling, scores, samples, fit, held_out):
            found[place] = each

    for place in kind.options.get("places", range(0, N_PENALTIES, 2)):
        try_penalty(place)
    if found:
        best = min(found, key=lambda place: found[place].log_loss)
        for place in (best - 1, best + 1):
            if place not in found and 0 <= place < N_PENALTIES:
                try_penalty(place)
    return list(found.values())


# Models that are fitted without each fold


@dataclass(frozen=True)
class ClassifierScores:
    """Logarithms of the probabilities of a classifier, or its decision values, for all classes."""

    classifier: Any
    n_classes: int
    floor: float  # of probabilities

    def __call__(self, X: Any) -> Array:
        """Compute scores of scaled rows."""
        if hasattr(self.classifier, "predict_proba"):
            scores = np.log(np.maximum(self.classifier.predict_proba(X), self.floor))
            lowest = np.log(self.floor)
        else:
            scores = class_columns(self.classifier.decision_function(X))
            lowest = scores.min(axis=1, keepdims=True) - 1.0
        found = np.empty((len(scores), self.n_classes))
        found[:] = lowest
        found[:, self.classifier.classes_] = scores
        return found


Fitted = Callable[[Any], Array]
Path = Callable[[Any, Indices, Array, Sequence[dict[str, Any]]], Iterator[Fitted]]


def _in_folds(
    kind: Kind, samples: Samples, scaling: str, settings: Sequence[dict[str, Any]], path: Path
) -> list[AutoCandidate]:
    """Try settings of a model that is fitted without each fold."""
    X, y, weights = samples.scaled(scaling), samples.y, samples.weights
    scores = np.full((len(settings), len(y), samples.n_classes), np.nan)
    for train, test in samples.folds:
        fitted = path(X[train], y[train], weights[train], settings)
        for k, model in enumerate(fitted):
            scores[k, test] = model(X[test])
    found = []
    for each, setting in zip(scores[:, samples.judged], settings, strict=True):
        fit = partial(_only, path, X, y, weights, setting)
        found += judge(kind, setting, scaling, each, samples, fit)
    return found


def _only(path: Path, X: Any, y: Indices, weights: Array, setting: dict[str, Any]) -> Fitted:
    return next(path(X, y, weights, [setting]))


def _fitted(estimator: Any, X: Any, y: Indices, weights: Array) -> Any:
    """Fit an estimator; rows are repeated if it takes no sample weights."""
    if np.all(weights == 1):
        return estimator.fit(X, y)
    if has_fit_parameter(estimator, "sample_weight"):
        return estimator.fit(X, y, sample_weight=weights)
    times = np.rint(weights).astype(np.intp)
    if not np.allclose(times, weights):
        raise ValueError(
            f"{type(estimator).__name__} takes no sample weights, and those of this fit are not "
            "whole numbers. Leave it out of families, or fit without sample_weight."
        )
    rows = np.repeat(np.arange(len(y)), times)
    return estimator.fit(X[rows], y[rows])


def _path_of(estimator: Any, n_classes: int, floor: float) -> Path:
    """Return a path of independent fits."""

    def path(
        X: Any, y: Indices, weights: Array, settings: Sequence[dict[str, Any]]
    ) -> Iterator[Fitted]:
        for setting in settings:
            fitted = _fitted(clone(estimator).set_params(**setting), X, y, weights)
            yield ClassifierScores(fitted, n_classes, floor)

    return path


# Logistic regression


def _try_logistic(kind: Kind, samples: Samples) -> list[AutoCandidate]:
    scaling = kind.options["scaling"]
    settings = [{"C": C} for C in INVERSE_PENALTIES]
    return _in_folds(kind, samples, scaling, settings, partial(_logistic, samples.n_classes))


def _logistic(
    n_classes: int, X: Any, y: Indices, weights: Array, settings: Sequence[dict[str, Any]]
) -> Iterator[KernelModel]:
    """Fit logistic regression from the largest penalty on; of wide rows in fewer dimensions."""
    rotation = None
    if not sparse.issparse(X) and X.shape[1] > X.shape[0]:
        U, S, rotation = linalg.svd(X, full_matrices=False, check_finite=False)
        X = U * S
    model = LogisticRegression(warm_start=True, max_iter=200)
    for setting in settings:
        model.set_params(**setting).fit(X, y, sample_weight=weights)
        coef, intercept = model.coef_, model.intercept_
        if len(model.classes_) == 2:
            coef, intercept = np.vstack([-coef, coef]) / 2, np.array([-1, 1]) * intercept / 2
        if rotation is not None:
            coef = coef @ rotation
        of_all = np.zeros((n_classes, coef.shape[1]))
        of_all[model.classes_] = coef
        offsets = np.full(n_classes, intercept.min() - 10.0)
        offsets[model.classes_] = intercept
        yield KernelModel(LINEAR, None, of_all, offsets)


# Trees


def _try_trees(kind: Kind, samples: Samples) -> list[AutoCandidate]:
    """Try extremely randomised trees, out of bag; in folds if there are groups."""
    n_classes, n_trees = samples.n_classes, kind.options["n_trees"]
    scaling = "largest" if sparse.issparse(samples.X) else "standard"
    floor = 0.5 / n_trees
    most = int(min(TREE_ROWS, TREE_CELLS / n_classes))
    forest = ExtraTreesClassifier(
        n_trees,
        bootstrap=True,
        max_samples=most if len(samples) > most else None,
        random_state=samples.seed,
    )
    if samples.has_groups:
        return _in_folds(kind, samples, scaling, [{}], _path_of(forest, n_classes, floor))
    X, units = samples.scaled(scaling), samples.units
    forest.fit(X, samples.y, samples.weights)
    model = ClassifierScores(forest, n_classes, floor)
    X_judged = X[samples.judged].astype(np.float32)
    votes, counts = np.zeros((len(samples.judged), n_classes)), np.zeros(len(samples.judged))
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        is_drawn = np.zeros(units.max() + 1, dtype=bool)
        is_drawn[units[drawn]] = True
        rows = np.flatnonzero(~is_drawn[units[samples.judged]])
        if len(rows):
            votes[np.ix_(rows, forest.classes_)] += tree.predict_proba(X_judged[rows])
            counts[rows] += 1
    shares = np.where(counts[:, None] > 0, votes / np.maximum(counts, 1)[:, None], samples.shares)
    scores = np.log(np.maximum(shares, floor))
    params = {"n_estimators": n_trees}
    return judge(kind, params, scaling, scores, samples, lambda: model, "out of bag")


def _try_boosting(kind: Kind, samples: Samples) -> list[AutoCandidate]:
    n_rounds, n_leaves = (60, 8) if len(samples) <= SMALL_BOOSTING else (150, 31)
    settings = [{"max_iter": n_rounds, "max_leaf_nodes": n_leaves}]
    return _in_folds(kind, samples, "standard", settings, partial(_boosting, samples.n_classes))


def _boosting(
    n_classes: int, X: Array, y: Indices, weights: Array, settings: Sequence[dict[str, Any]]
) -> Iterator[Fitted]:
    """Fit boosted trees to features rounded to their bins, whose weighted quantiles are slow."""
    binned = X.copy()
    for column in binned.T:
        values = np.unique(column)
        if len(values) > N_BINS:
            middles = (np.arange(N_BINS) + 0.5) / N_BINS
            values = np.unique(np.quantile(column, middles, method="inverted_cdf"))
            column[:] = values[np.searchsorted((values[1:] + values[:-1]) / 2, column)]
    model = HistGradientBoostingClassifier(
        l2_regularization=LEAF_PENALTY, early_stopping=False, random_state=0
    )
    return _path_of(model, n_classes, 1e-9)(binned, y, weights, settings)


# Estimators of discreg and of the user


def _try_with_kernel(kind: Kind, samples: Samples) -> list[AutoCandidate]:
    """Try a family of discreg at a kernel that least squares has selected."""
    kernel, scaling = kind.options["kernel"], kind.options["scaling"]
    unit = float(samples.weights.sum()) if kind.name in ("ReLSR", "LRRR") else 1.0
    settings = [
        setting | ({"beta": unit * setting["beta"]} if "beta" in setting else {})
        for setting in GRIDS[kind.name](samples.n_classes)
    ]
    model = CLASSIFIERS[kind.name](
        kernel=kernel.kernel, gamma=kernel.gamma, n_components=n_components_for(len(samples)),
        random_state=0, probability=False,
    )  # fmt: skip
    return _in_folds(kind, samples, scaling, settings, _path_of(model, samples.n_classes, 1e-9))


CLASSIFIERS: dict[str, Any] = {
    "ReLSR": ReLSRClassifier,
    "LRRR": LRRRClassifier,
    "DRM": DRMClassifier,
    "ODM": ODMClassifier,
}
GRIDS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "ReLSR": lambda n_classes: [{"beta": beta} for beta in RELSR_BETAS],
    "LRRR": lambda n_classes: [{"beta": beta, "rank": n_classes - 1} for beta in (0.01, 1e-3)],
    "DRM": lambda n_classes: [
        {"alpha": alpha, "beta": beta} for alpha in (1e-3, 0.1, 10.0) for beta in (1e-3, 0.1)
    ],
    "ODM": lambda n_classes: [{"C1": C1, "C2": 1e3, "D": 0.2} for C1 in (100.0, 1e3, 1e4)],
}


def kernel_family(name: str, best: AutoCandidate) -> Kind:
    """Return a family of discreg at the kernel of a candidate."""
    family = "kernels" if name == "ReLSR" else name
    return Kind(family, name, _try_with_kernel, best.source.options)


def _try_estimator(kind: Kind, samples: Samples) -> list[AutoCandidate]:
    path = _path_of(kind.options["estimator"], samples.n_classes, 0.5 / len(samples))
    return _in_folds(kind, samples, "none", [{}], path)


def kinds_of(families: Sequence[Any], samples: Samples, *, is_quick: bool) -> list[Kind]:
    """Return the kinds of the families apart from kernels, the quickest first."""
    n, is_sparse, found = len(samples), sparse.issparse(samples.X), []
    for family in sorted(families, key=lambda family: family == "boosting"):
        if family == "logistic":
            scalings = ("largest",) if is_sparse else ("standard", "normal")
            for scaling in scalings[: 1 if n <= FEW_FOR_NORMAL else 2]:
                name = f"logistic, {scaling} scores"
                found.append(Kind(family, name, _try_logistic, {"scaling": scaling}))
        elif family == "trees":
            options = {"n_trees": N_TREES_QUICK if is_quick else N_TREES}
            found.append(Kind(family, "ExtraTrees", _try_trees, options))
        elif family == "boosting" and n >= FEWEST_FOR_BOOSTING and not is_sparse:
            found.append(Kind(family, "boosting", _try_boosting))
        elif not isinstance(family, str):
            options = {"estimator": family[1]}
            found.append(Kind(family[0], family[0], _try_estimator, options))
    return found


def seconds_of(kind: Kind, samples: Samples) -> float:
    """Estimate the time of a kind on samples; the ratio to measured times is learned."""
    n, p, n_classes = len(samples), int(samples.X.shape[1]), samples.n_classes
    n_fits = len(samples.folds) + 1
    if kind.run is _try_kernel:
        n_all = n if samples.source is None else samples.source.n_rows
        width = p if kind.name == "linear" else n_components_for(n) or n
        return 0.01 + 1.5e-10 * n_all * width * (width + p) + 2e-6 * min(n, 5_000) * n_classes
    if kind.run is _try_with_kernel:
        return float(0.05 + 15 * (2e-10 * min(n, 2_000) ** 3 + 1e-5 * n))
    if kind.run is _try_trees:
        return 0.12 + 2e-7 * N_TREES * min(n, TREE_ROWS) * float(np.log2(n + 1) * p**0.5)
    if kind.run is _try_boosting:
        n_trees = (60 if n <= SMALL_BOOSTING else 150) * (1 if n_classes == 2 else n_classes)
        return n_fits * n_trees * (5e-4 + 1e-8 * n * p)
    return 0.02 + n_fits * (0.01 + 5e-8 * n * min(p, n) * n_classes)
