"""From what a user passes to what a solver takes: parameters, data, labels, weights, components.

Kernels scale to many rows by components, see `n_components` and `approximation`. Predictions are of
the kind of the samples: lazy on Dask, arrays of another library where these are passed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.blocks.kept_rows import row_keys
from discreg.blocks.mapped import MappedBlocks, kernel_of_blocks, map_of_blocks
from discreg.blocks.opening import open_blocks
from discreg.blocks.source import (
    ROWS,
    ArrayBlocks,
    BlockSource,
    is_dask,
    is_missing,
    is_out_of_core,
    is_streamed,
    number_of_rows,
    require_labels,
)
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import APPROXIMATIONS, FeatureMap, map_of_rows
from discreg.linalg.kernels import KERNELS
from discreg.linalg.resources import require_memory
from discreg.linalg.rows import (
    canonical,
    checked_weights,
    class_sums,
    class_weights,
    find_labels,
    require_two_classes,
    require_weight_in_each_class,
)
from discreg.linalg.types import Array, Indices

from .caller import warn_user

OTHER_MODELS = "other models need make_pipeline(TablePreprocessor(scale=True), model)."
# Messages of NumPy on cells such as text, objects and tuples.
NO_NUMBER = "float() argument must be"
NOT_NUMBERS = ("could not convert", NO_NUMBER, "setting an array element")


@dataclass(frozen=True)
class Number:
    """Number in an interval; ``closed`` specifies which ends are included.

    Infinity is accepted only if it is an end that is included, and ``infinite``.
    """

    low: float = -np.inf
    high: float = np.inf
    closed: str = "both"
    integer: bool = False
    infinite: bool = False

    def accepts(self, value: Any) -> bool:
        kind = Integral if self.integer else Real
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            return False
        try:
            number = float(value)
        except OverflowError:  # an int beyond the largest float
            return False
        above = number >= self.low if self.closed in ("both", "left") else number > self.low
        below = number <= self.high if self.closed in ("both", "right") else number < self.high
        return bool((self.infinite or np.isfinite(number)) and above and below)

    def __str__(self) -> str:
        known = [self.infinite or np.isfinite(end) for end in (self.low, self.high)]
        left = "[" if self.closed in ("both", "left") and known[0] else "("
        right = "]" if self.closed in ("both", "right") and known[1] else ")"
        kind = "an int" if self.integer else "a float"
        return f"{kind} in {left}{self.low:g}, {self.high:g}{right}"


@dataclass(frozen=True)
class Boolean:
    """True or False."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    def __str__(self) -> str:
        return "a bool"


@dataclass(frozen=True)
class Choice:
    """One of a few values, or a value that another constraint or a test accepts."""

    values: tuple[Any, ...]
    others: tuple[Any, ...] = ()
    test: Callable[[Any], bool] | None = None
    described: str = ""

    def accepts(self, value: Any) -> bool:
        named = any(
            value is v or (isinstance(v, str) and isinstance(value, str) and v == value)
            for v in self.values
        )
        return (
            named
            or any(other.accepts(value) for other in self.others)
            or (self.test is not None and self.test(value))
        )

    def __str__(self) -> str:
        parts = [repr(value) for value in self.values] + [str(other) for other in self.others]
        if self.described:
            parts.append(self.described)
        return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def check_params(estimator: Any, constraints: Mapping[str, Any]) -> None:
    """Raise ValueError for the first parameter that does not satisfy its constraint.

    Parameters of a kernel function are refused if the kernel is not a function.
    """
    for name, constraint in constraints.items():
        value = getattr(estimator, name)
        if not constraint.accepts(value):
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {constraint}. "
                f"Got {value!r} instead."
            )
    given = "kernel_params" in constraints and estimator.kernel_params
    if given and not callable(estimator.kernel):
        raise ValueError(
            f"The 'kernel_params' parameter of {type(estimator).__name__} is only for a callable "
            f"kernel, not for kernel={estimator.kernel!r}. Named kernels have the parameters "
            "gamma, degree and coef0."
        )


CLASS_WEIGHT = Choice(
    (None, "balanced"), test=lambda value: isinstance(value, dict), described="a dict"
)

# Constraints on the parameters of a kernel.
KERNEL_CONSTRAINTS: dict[str, Any] = {
    "kernel": Choice(("precomputed", *KERNELS), test=callable, described="a callable"),
    "gamma": Choice((None, "scale", "auto"), others=(Number(0, closed="neither"),)),
    "degree": Number(0, closed="left"),
    "coef0": Number(),
    "kernel_params": Choice(
        (None,), test=lambda value: isinstance(value, dict), described="a dict"
    ),
}

NUMBERS = "biuf"  # kinds of dtypes that every array library has


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """Return the sorted class labels and, for each sample, the index of its label."""
    require_labels(y)
    classes, indices = find_labels(y)
    require_two_classes(classes)
    return classes, indices


def sample_weights(sample_weight: ArrayLike | None, n_samples: int) -> Array:
    """Check sample weights, also those in an array of another library."""
    return checked_weights(dispatched(sample_weight), n_samples)


@dataclass(frozen=True)
class LabelledRows:
    """Checked training data in memory."""

    X: Any
    classes: NDArray[Any]
    y: Indices  # of the classes
    sample_weights: Array
    factors: Array  # weights of the classes
    is_kernel: bool  # whether X is a kernel matrix

    @classmethod
    def of(cls, estimator: Any, X: Any, labels: Any, sample_weight: ArrayLike | None) -> Self:
        """Encode the labels, and compute the weights of checked rows.

        ``class_weight="balanced"`` uses sums of sample weights, so that sample weights remain
        equivalent to repeating rows.
        """
        classes, y = encode_labels(labels)
        given = sample_weights(sample_weight, len(y))
        sizes = class_sums(y, given, len(classes))
        require_weight_in_each_class(sizes, classes, "sample_weight")
        factors = class_weights(estimator.class_weight, classes, sizes)
        require_weight_in_each_class(sizes * factors, classes, "class_weight")
        is_kernel = estimator.kernel == "precomputed"
        return cls(X, classes, y, given, factors, is_kernel)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """Keys by which rows are drawn; equal rows have equal keys."""
        return row_keys(self.X, self.sample_weights, hashed=not self.is_kernel)

    @property
    def weights(self) -> Array:
        """Sample weights times the weights of the classes."""
        return self.sample_weights * self.factors[self.y]

    @property
    def labels(self) -> NDArray[Any]:
        """Class labels."""
        return np.asarray(self.classes[self.y])

    def take(self, rows: Indices) -> Self:
        """Return some of the rows."""
        X = self.X[rows][:, rows] if self.is_kernel else self.X[rows]
        some = replace(self, X=X, y=self.y[rows], sample_weights=self.sample_weights[rows])
        vars(some)["keys"] = self.keys[rows]
        return some

    @property
    def sizes(self) -> Array:
        """Sum of the sample weights of each class."""
        return class_sums(self.y, self.sample_weights, len(self.classes))


def training_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[LabelledRows | BlockSource, int | None]:
    """Check training data, and decide whether they are in memory or read in blocks.

    Returns the rows or their source, and the number of components that approximate the kernel;
    None if it is exact. Rows in memory are read in blocks if their components would not fit.
    """
    if in_blocks(estimator, X):
        n_components = components_of(estimator, number_of_rows(X))
        return open_blocks(estimator, X, y, sample_weight, estimator.class_weight), n_components
    checked, labels = training_rows(estimator, X, y)
    rows = LabelledRows.of(estimator, checked, labels, sample_weight)
    n_rows, n_components = len(rows.y), components_of(estimator, len(rows.y))
    small = n_components is None or fits_in_memory(n_rows, n_components)
    if small or estimator._why_in_memory(None) is not None:
        return rows, n_components
    class_weight = estimator.class_weight
    return ArrayBlocks(checked, labels, rows.sample_weights, class_weight), n_components


def training_rows(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
    """Check training data in memory, and return the rows (an array or CSR) and the labels."""
    rows, labels = validated(estimator, X, y, **options)
    return canonical(rows), labels


def target_rows(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Check training data of a regression, and return the rows (an array or CSR) and targets."""
    if is_out_of_core(X):
        raise ValueError(f"{type(estimator).__name__} needs rows in memory: pass a sample of them.")
    rows, targets = validated(estimator, X, y, multi_output=True, y_numeric=True)
    if sparse.issparse(targets):
        raise ValueError("y is a sparse matrix. Pass y.toarray().")
    return canonical(rows), np.asarray(targets, dtype=np.float64)


def new_rows(estimator: Any, X: Any) -> Any:
    """Check samples to predict, and return their rows, an array or CSR."""
    require_fitted(estimator)
    return canonical(validated(estimator, X, reset=False))


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Check data in memory as scikit-learn does; explain cells and labels that it cannot take."""
    for labels in y:
        refuse_missing_labels(labels)
    if any(map(np.ma.is_masked, (X, *y))):  # scikit-learn would take what is behind the mask
        raise ValueError("Arrays with masked cells are not supported. Fill or leave out the cells.")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds up all cells
            return validate_data(estimator, dispatched(X), *map(dispatched, y), **ROWS | options)
    except (TypeError, ValueError) as error:
        if str(error) == "at least one array or dtype is required":
            raise ValueError("X is a data frame without columns.") from error
        if str(error).startswith("Input X contains NaN"):
            raise ValueError(
                f"Input X contains NaN. AutoClassifier takes missing values; {OTHER_MODELS}"
            ) from error
        is_date = isinstance(error, np.exceptions.DTypePromotionError)
        if not is_date and not str(error).startswith(NOT_NUMBERS):
            raise
        kind = TypeError if str(error).startswith(NO_NUMBER) else ValueError
        raise kind(
            f"X has cells that are not numbers ({'dates' if is_date else error}). AutoClassifier "
            f"takes them in a data frame; {OTHER_MODELS}"
        ) from error


def refuse_missing_labels(y: Any) -> None:
    """Raise ValueError if labels are missing that scikit-learn cannot check, or takes for text."""
    if hasattr(y, "isna"):
        missing = bool(np.asarray(y.isna()).any())
    else:
        is_mixed = isinstance(y, list | tuple) or str(getattr(y, "dtype", "")) == "object"
        missing = is_mixed and any(map(is_missing, np.asarray(y, dtype=object).ravel()))
    if missing:
        raise ValueError("y has missing labels. Leave out the rows without a label.")


def require_fitted(estimator: Any) -> None:
    """Raise NotFittedError if a model cannot predict; after `partial_fit`, name the reason."""
    state = vars(estimator).get("_partial_fit_state")
    if state is not None and not hasattr(estimator, "classes_"):
        missing = ", ".join(map(repr, state.layout.classes[state.sizes == 0].tolist()))
        raise NotFittedError(
            f"This {type(estimator).__name__} has not seen samples of all classes. Call "
            f"partial_fit with samples of class {missing} first."
        )
    check_is_fitted(estimator)


def in_blocks(estimator: Any, X: Any) -> bool:
    """Return whether an estimator is fitted to X block by block.

    A model that needs its rows in memory reads a memory map as a whole; for other sources of
    blocks, ValueError is raised.
    """
    if not is_streamed(X):
        return False
    reason: str | None = estimator._why_in_memory(number_of_rows(X))
    if reason is not None and is_out_of_core(X):
        raise ValueError(reason)
    return reason is None


def set_input_tags(input_tags: Any, kernel: Any) -> None:
    """Set the tags of the data that a kernel accepts."""
    known = KERNELS.get(kernel) if isinstance(kernel, str) else None
    input_tags.sparse = known is None or not known.of_histograms
    input_tags.positive_only = known is not None and known.of_histograms
    input_tags.pairwise = kernel == "precomputed"


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method that treats rows independently return a lazy array for a Dask collection.

    With scikit-learn's ``array_api_dispatch``, arrays of other libraries get results of their kind.
    """

    @wraps(method)
    def on_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_dask(X):
            rows = dispatched(X)
            found = method(self, rows, *args, **kwargs)
            return found if rows is X else in_namespace_of(X, found)
        from discreg.blocks.dask_source import map_rows

        require_fitted(self)
        return map_rows(self, method.__name__, X, *args, **kwargs)

    return on_rows


EXACT_ROWS = 10_000  # n_components="auto": number of rows up to which a kernel is exact
AUTO_COMPONENTS = 1_000  # n_components="auto": number of components for more rows
LARGEST_FEATURES = 1 << 30  # bytes of mapped rows that are kept in memory

COMPONENT_CONSTRAINTS: dict[str, Any] = {
    "n_components": Choice(("auto", None), others=(Number(1, closed="left", integer=True),)),
    "approximation": Choice(APPROXIMATIONS),
}


def components_of(estimator: Any, n_rows: int | None) -> int | None:
    """Return the number of components that approximate the kernel; None for an exact kernel.

    Parameters
    ----------
    estimator : object
        Estimator with the parameters `kernel` and `n_components`.
    n_rows : int or None
        Number of training rows; None if the rows come in blocks, whose kernel matrix is not
        computed.
    """
    if estimator.kernel == "linear" or estimator.n_components is None:
        return None
    given: int | str = estimator.n_components
    if estimator.kernel == "precomputed":
        if given == "auto":
            return None
        raise ValueError(
            "n_components cannot approximate a precomputed kernel, because it needs the features. "
            "Set n_components=None, or pass the features and the name of the kernel."
        )
    if given != "auto":
        if n_rows is None or estimator.approximation != "nystroem":
            return int(given)
        return min(int(given), n_rows)  # rows of the basis
    if n_rows is not None and n_rows <= EXACT_ROWS:
        return None
    cause, advice = "X is not in memory", "Set n_components to choose their number."
    if n_rows is not None:
        cause = f"there are {n_rows:,} rows"
        advice = f"{advice[:-1]}, or n_components=None for the exact kernel."
    warn_user(
        f"{type(estimator).__name__} approximates the kernel by {AUTO_COMPONENTS:,} components, "
        f"because {cause}; it is exact for at most {EXACT_ROWS:,} rows in memory. {advice}"
    )
    return AUTO_COMPONENTS


def is_exact(estimator: Any) -> bool:
    """Return whether a kernel other than the linear one is exact, or may be so by "auto"."""
    return estimator.kernel != "linear" and estimator.n_components in (None, "auto")


def reason_no_partial_fit(estimator: Any) -> str | None:
    """Explain why `partial_fit` does not approximate the kernel; None if it does or need not."""
    if is_exact(estimator):
        return f"kernel is {estimator.kernel!r} and n_components is not a number."
    return why_exact_kernel(estimator, None)


def resolve_n_components(classifier: Any, n_rows: int) -> None:
    """Replace "auto" by the number of components for all rows, also for folds of fewer rows."""
    if vars(classifier).get("n_components") == "auto":
        classifier.n_components = components_of(classifier, n_rows) or "auto"


def store_components(estimator: Any, features: FeatureMap) -> None:
    """Set the fitted attributes of a kernel that components approximate."""
    estimator.n_components_, estimator.kernel_error_ = features.n_components, features.error


def why_exact_kernel(estimator: Any, n_rows: int | None) -> str | None:
    """Explain why a kernel needs its rows in memory; None if it does not.

    `n_rows` is None if the rows can only be read in blocks.
    """
    if estimator.kernel == "linear":
        return None
    if estimator.kernel == "precomputed":
        return "A precomputed kernel has to be in memory. Use kernel='linear' or kernel='rbf'."
    few = n_rows is not None and n_rows <= EXACT_ROWS
    if estimator.n_components is None or (few and estimator.n_components == "auto"):
        return (
            f"kernel={estimator.kernel!r} needs the rows in memory. Set n_components to "
            "approximate it, or use kernel='linear'."
        )
    return None


def require_components_memory(features: FeatureMap) -> None:
    """Raise MemoryError if a fit by sums over rows does not fit into memory."""
    require_memory(
        3 * 8 * features.n_components**2,
        f"A fit in blocks with {features.n_components:,} components",
        "Use fewer n_components.",
    )


def in_memory_if_small(source: MappedBlocks) -> BlockSource:
    """Map the rows once for a model that reads them many times, if the result is small."""
    if not fits_in_memory(source.n_rows, source.n_features):
        return source
    return source.in_memory()


def fits_in_memory(n_rows: int, n_components: int) -> bool:
    """Return whether the components of all rows are kept; otherwise they are read in blocks.

    With fewer rows than components, a fit in blocks would take more memory.
    """
    return n_rows <= n_components or 8 * n_rows * n_components <= LARGEST_FEATURES


def fit_map(estimator: Any, X: Any, weights: Array, n_components: int) -> FeatureMap:
    """Create the components that approximate an estimator's kernel on rows X.

    Rows of weight zero have no effect.
    """
    random = check_random_state(estimator.random_state)
    kernel = FittedKernel.of(estimator, X, weights)
    seen = X if np.all(weights > 0) else X[weights > 0]
    return map_of_rows(estimator.approximation, kernel, seen, n_components, random)


def fit_map_to_blocks(estimator: Any, source: BlockSource, n_components: int) -> FeatureMap:
    """Create the components that approximate an estimator's kernel on rows in blocks."""
    random = check_random_state(estimator.random_state)
    kernel = kernel_of_blocks(estimator, source)
    return map_of_blocks(estimator.approximation, kernel, source, n_components, random)


def as_numpy(values: Any) -> Any:
    """Copy an array of another library to NumPy; return anything else as it is.

    Parameters
    ----------
    values : object
        What a user passed: data, labels or weights.
    """
    if not _is_foreign(values):
        return values
    try:
        return np.asarray(values.detach().cpu() if _is_tensor(values) else values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"An array of type {type(values).__module__}.{type(values).__name__} cannot be copied "
            f"to NumPy: {error}. Copy it to the CPU and convert it with numpy.asarray first."
        ) from error


def dispatched(values: Any) -> Any:
    """Copy an array of another library to NumPy if scikit-learn's `array_api_dispatch` is on."""
    return as_numpy(values) if get_config()["array_api_dispatch"] else values


def in_namespace_of(samples: Any, found: Any) -> Any:
    """Copy predictions to the library and the device of the samples; labels of text stay NumPy."""
    if found.dtype.kind not in NUMBERS:
        return found
    namespace = sys.modules["torch"] if _is_tensor(samples) else samples.__array_namespace__()
    return namespace.asarray(found, device=samples.device)


def _is_tensor(values: Any) -> bool:
    return type(values).__module__.split(".")[0] == "torch"


def _is_foreign(values: Any) -> bool:
    """Return whether values are an array of another library than NumPy."""
    if isinstance(values, np.ndarray | np.generic):
        return False
    return hasattr(values, "__array_namespace__") or (_is_tensor(values) and hasattr(values, "cpu"))
