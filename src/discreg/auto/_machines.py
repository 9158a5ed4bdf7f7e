"""The machines that are tried: a family with a kernel on scaled features, and its penalties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_distances

from discreg.base.held_out import Setting
from discreg.base.search import ClassifierSearch
from discreg.linalg.types import ClassWeight, Indices
from discreg.lowrank import LRRRClassifierCV
from discreg.margin import ODMClassifierCV
from discreg.representation import DRMClassifierCV
from discreg.retargeted import LSRClassifierCV, ReLSRClassifierCV

__all__ = ["FAMILIES", "Family", "Machine", "TrainingSize", "kernels_of", "params_for", "ridge_of"]

# Widths by kernel, relative to the inverse of the median distance, squared for "rbf".
WIDTHS: dict[str, dict[str, tuple[float, ...]]] = {
    "standard": {"linear": (), "rbf": (0.3, 1.0, 3.0), "laplacian": (0.1, 0.4, 1.5)},
    "ranks": {"laplacian": (0.4, 1.5)},
}
WIDTHS["largest"] = WIDTHS["standard"]
DISTANCES = {"rbf": "euclidean", "laplacian": "manhattan"}
FEW_ROWS = 300  # whose distances are computed
STEP = 10.0**0.75  # ratio of penalties
LARGEST, N_RIDGES = 100.0, 17  # penalties relative to the sum of the squared features
N_NEAR = 5  # penalties around one that is known to be good


@dataclass(frozen=True)
class TrainingSize:
    """Size of the training data."""

    total: float  # sum of the sample weights
    n_features: int
    n_classes: int


@dataclass(frozen=True)
class Machine:
    """A classifier but for its penalties.

    Attributes
    ----------
    family : str
        Key of `FAMILIES`.
    scaling : str
        How the features are scaled, see `scalers_for`.
    kernel : str
    gamma : float or None
        Parameter of the kernel.
    class_weight : dict, "balanced" or None
    n_components : int or None
        Number of components that approximate the kernel; None means the exact kernel.
    seed : int
        Seed for drawing the components.
    """

    family: str
    scaling: str
    kernel: str
    gamma: float | None
    class_weight: ClassWeight = None
    n_components: int | None = None
    seed: int = 0

    def classifier(self, **params: Any) -> Any:
        """Create the unfitted classifier, without probabilities."""
        kernel = {} if self.gamma is None else {"gamma": self.gamma}
        return FAMILIES[self.family].search._classifier(
            kernel=self.kernel,
            class_weight=self.class_weight,
            probability=False,
            n_components=self.n_components,
            random_state=self.seed,
            **kernel,
            **params,
        )


def kernels_of(X: Any, distinct: Indices, scaling: str) -> Iterator[Machine]:
    """Yield least squares regression with the kernels and widths for a scaling of the features.

    Widths are relative to the median distance of up to 300 rows among the `distinct` ones.
    """
    for kernel, widths in WIDTHS[scaling].items():
        if kernel == "linear":
            yield Machine("LSR", scaling, kernel, None)
            continue
        median = _median_distance(X[distinct[:FEW_ROWS]], DISTANCES[kernel])
        unit = median**2 if kernel == "rbf" else median
        for width in widths:
            yield Machine("LSR", scaling, kernel, width / unit)


def _median_distance(rows: Any, metric: str) -> float:
    """Compute the median of the positive distances between rows."""
    if sparse.issparse(rows):  # scikit-learn's Manhattan distances need short indices
        parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        rows = sparse.csr_matrix(parts, shape=rows.shape)
    distances = pairwise_distances(rows, metric=metric)[np.triu_indices(rows.shape[0], 1)]
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


@dataclass(frozen=True)
class Family:
    """A family of machines.

    Attributes
    ----------
    search : type
        Its ...CV class, which computes held-out scores.
    penalties : callable
        ``penalties(machine, size, known)``: the settings to try, in the order of a path of fits.
        `known` has good settings, of this family on fewer samples or of another one: "ridge" is the
        penalty relative to the sum of the squared features.
    exact : bool, default=True
        Whether the search has exact leave-one-out scores. Newton steps without a sample are too
        optimistic where a flexible kernel has a small penalty: they find structure in random
        labels.
    """

    search: type[ClassifierSearch]
    penalties: Callable[[Machine, TrainingSize, Setting], list[Setting]]
    exact: bool = True

    def leaves_out(self, *, groups: bool) -> bool:
        """Return whether samples, or groups, are left out one by one rather than in folds."""
        known = self.search._has_leave_group_out if groups else self.search._has_leave_one_out
        return self.exact and known


def ridge_of(machine: Machine, size: TrainingSize, params: Setting) -> float | None:
    """Return the penalty relative to the sum of the squared features, if there is such a one."""
    if machine.family not in ("LSR", "LRRR", "ReLSR"):
        return None
    return float(params["beta"] / _unit(machine, size))


def params_for(machine: Machine, params: Setting, size: TrainingSize, total: float) -> Setting:
    """Return the same relative penalty for another sum of the sample weights."""
    ridge = ridge_of(machine, size, params)
    if ridge is None:
        return params
    return params | {"beta": ridge * _unit(machine, replace(size, total=total))}


def _unit(machine: Machine, size: TrainingSize) -> float:
    """Return the sum of the squared features in the units of `beta`.

    The unit of `beta` is the sum of the squares divided by the number of features, or of samples
    for a kernel; that of LRRR is one, where standard scores have the mean square one.
    """
    if machine.kernel != "linear":
        return size.total
    return size.n_features * (size.total if machine.family == "LRRR" else 1.0)


def _ridges(machine: Machine, size: TrainingSize, known: Setting) -> list[Setting]:
    if "ridge" in known:
        ridges = [known["ridge"] * STEP ** (N_NEAR // 2 - k) for k in range(N_NEAR)]
    else:
        ridges = [LARGEST * STEP**-k for k in range(N_RIDGES)]
    return [{"beta": each * _unit(machine, size)} for each in ridges]


def _full_rank(machine: Machine, size: TrainingSize, known: Setting) -> list[Setting]:
    rank = {"rank": size.n_classes - 1}
    return [setting | rank for setting in _ridges(machine, size, known)]


def _three_ridges(machine: Machine, size: TrainingSize, known: Setting) -> list[Setting]:
    unit = known.get("ridge", 1e-3) * _unit(machine, size)
    return [{"beta": k * unit} for k in (10.0, 1.0, 0.1)]


def _scatter(machine: Machine, size: TrainingSize, known: Setting) -> list[Setting]:
    alphas = [known["alpha"]] if "alpha" in known else [1e-3, 1e-1, 10.0]
    return [{"alpha": alpha, "beta": beta} for alpha in alphas for beta in (1e-3, 0.1)]


def _costs(machine: Machine, size: TrainingSize, known: Setting) -> list[Setting]:
    costs = [known["C1"]] if "C1" in known else [100.0, 1e3, 1e4]
    return [{"C1": C1, "C2": 1e3, "D": 0.2} for C1 in costs]


FAMILIES = {
    "LSR": Family(LSRClassifierCV, _ridges),
    "LRRR": Family(LRRRClassifierCV, _full_rank),
    "ReLSR": Family(ReLSRClassifierCV, _three_ridges, exact=False),
    "DRM": Family(DRMClassifierCV, _scatter),
    "ODM": Family(ODMClassifierCV, _costs),
}
