"""A fuzz case in plain values, and the estimator and the arrays that it describes.

A case prints in a line, shrinks well and is stored as JSON. The arrays depend on nothing else: the
same case gives the same arrays on every machine.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

import discreg

DENSE = ("array", "fortran", "strided", "readonly", "list", "frame", "memmap")
SPARSE = ("csr", "csr_matrix", "csc", "coo", "bsr", "lil", "dok", "dia")
FAULTY_SPARSE = ("unsorted", "duplicates", "zeros", "wide_indices")
LABELS = {
    "int": lambda k: k,
    "negative": lambda k: 2 * k - 1,
    "str": lambda k: "abcdef"[k],
    "object": lambda k: "abcdef"[k],
    "float": lambda k: float(2 * k),
    "uint64": lambda k: 2**63 + k,
}


@dataclass(frozen=True)
class Data:
    """Recipe of a training set."""

    seed: int = 0
    sizes: tuple[int, ...] = (6, 6)  # rows of each class
    n_features: int = 2
    apart: float = 1.0  # distance between the classes, in standard deviations of the noise
    exponent: int = 0  # all features are multiplied by this power of ten
    offset: float = 0.0  # added to all features, in standard deviations
    columns: tuple[str, ...] = ()  # one special column each, see `_special`
    twins: bool = False  # the second half of the rows repeats the first
    dtype: str = "float64"
    form: str = "array"
    labels: str = "int"
    weights: str = "none"
    defect: str = "none"

    def classes(self) -> np.ndarray:
        """The class of each row, from 0."""
        y = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return np.random.default_rng(self.seed).permutation(y)

    def dense(self) -> np.ndarray:
        """The features, in `dtype`."""
        y = self.classes()
        random = np.random.default_rng([self.seed, 1])
        centres = self.apart * random.normal(size=(len(self.sizes), self.n_features))
        X = random.normal(size=(len(y), self.n_features)) + centres[y] + self.offset
        if self.form in SPARSE + FAULTY_SPARSE:
            X[random.random(X.shape) < 0.5] = 0
        if self.twins:
            half = len(X) // 2
            X[half : 2 * half] = X[:half]
        for place, kind in enumerate(self.columns):
            _special(X, place % self.n_features, kind)
        with np.errstate(over="ignore", invalid="ignore"):
            X *= 10.0**self.exponent
            if np.dtype(self.dtype).kind == "f":
                limit = np.finfo(self.dtype).max / 1e3  # scikit-learn sums the entries
                return np.clip(X, -limit, limit).astype(self.dtype)
            return np.clip(np.rint(10 * X), 0, 100).astype(self.dtype)

    def sample_weight(self) -> Any:
        n = sum(self.sizes)
        random = np.random.default_rng([self.seed, 2])
        return {
            "none": lambda: None,
            "scalar": lambda: 2.5,
            "ones": lambda: np.ones(n),
            "whole": lambda: random.integers(1, 4, n),
            "zeros": lambda: random.integers(0, 3, n).astype(float),
            "uniform": lambda: random.uniform(0.1, 5, n),
            "wide": lambda: 10 ** random.uniform(-8, 0, n),
            "small": lambda: 1e-90 * random.uniform(0.5, 1, n),
            "large": lambda: 1e90 * random.uniform(0.5, 1, n),
            "one_large": lambda: np.where(np.arange(n) == 0, 1e15, 1.0),
        }[self.weights]()

    def labelled(self, indices: np.ndarray) -> Any:
        """Class indices as labels."""
        if self.labels == "bool":
            return indices == 1 if len(self.sizes) == 2 else indices
        labels = [LABELS[self.labels](int(k)) for k in indices]
        kinds = {"object": object, "uint64": np.uint64}
        return np.array(labels, dtype=kinds.get(self.labels))

    def arrays(self) -> tuple[Any, Any, Any]:
        """X, y and the weights in the form in which a user passes them, with their defect."""
        X, y, weights = self.dense(), self.labelled(self.classes()), self.sample_weight()
        if self.defect == "none":
            return in_form(X, self.form), y, weights
        return _with_defect(self.defect, X, y)


@dataclass(frozen=True)
class Case:
    """One call of a property: which, of which estimator, and on which data."""

    check: str
    estimator: str
    params: dict[str, Any] = field(default_factory=dict)
    data: Data = field(default_factory=Data)
    steps: tuple[str, ...] = ()

    def model(self, **changes: Any) -> Any:
        """The estimator, unfitted; class weights are stored by the number of the class."""
        params = {**self.params, **changes}
        if params.get("kernel") == "callable":
            params["kernel"] = _dot
        if isinstance(params.get("class_weight"), dict):
            classes = np.unique(self.data.labelled(np.arange(len(self.data.sizes)))).tolist()
            params["class_weight"] = {classes[int(k)]: v for k, v in params["class_weight"].items()}
        kind = getattr(discreg, self.estimator)
        of_model = getattr(kind, "_classifier", kind)
        if "random_state" in of_model().get_params():
            params.setdefault("random_state", 0)
        if of_model is kind:
            return kind(**params)
        own = signature(kind).parameters
        model = of_model(**{name: value for name, value in params.items() if name not in own})
        return kind(model, **{name: value for name, value in params.items() if name in own})

    @property
    def is_regression(self) -> bool:
        return self.estimator.endswith("Regression")

    def targets(self, y: Any) -> Any:
        """What the model learns: labels, or continuous targets of the classes for a regression."""
        if not self.is_regression:
            return y
        known = np.unique(self.data.labelled(np.arange(len(self.data.sizes))))
        of_classes = np.random.default_rng([self.data.seed, 3]).normal(size=(len(known), 3)) + 2
        return of_classes[np.searchsorted(known, y)]

    def rows(self, X: Any) -> Any:
        """The rows, or their kernel matrix if the model wants one."""
        if self.params.get("kernel") != "precomputed" or np.ndim(X) != 2:
            return X
        dense = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(dense @ dense.T, posinf=1e300, neginf=-1e300)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Case:
        stored = json.loads(text)
        data = {k: tuple(v) if isinstance(v, list) else v for k, v in stored["data"].items()}
        return cls(**{**stored, "data": Data(**data), "steps": tuple(stored["steps"])})


def in_form(X: np.ndarray, form: str) -> Any:
    """A dense array in another form, among them sparse matrices that are not canonical."""
    if form not in DENSE and X.dtype == np.float16:
        X = X.astype(np.float32)  # SciPy has no others
    if form == "fortran":
        return np.asfortranarray(X)
    if form == "strided":
        wide = np.zeros((2 * X.shape[0], X.shape[1]), dtype=X.dtype)
        wide[::2] = X[:, ::-1]
        return wide[::2, ::-1]
    if form == "readonly":
        X = X.copy()
        X.flags.writeable = False
        return X
    if form == "list":
        return X.tolist()
    if form == "frame":
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    if form == "memmap":
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, dtype=X.dtype, shape=X.shape, mode="w+")
            mapped[:] = X
            return mapped
    if form == "csr_matrix":
        return sparse.csr_matrix(X)
    if form in SPARSE:
        return getattr(sparse, f"{form}_array")(X)
    if form in FAULTY_SPARSE:
        return _faulty_csr(X, form)
    return X


def _faulty_csr(X: np.ndarray, fault: str) -> Any:
    """The same matrix with indices in reverse order, entries in two parts, or stored zeros."""
    columns = np.indices(X.shape)[1]
    keep = np.ones(X.shape, dtype=bool) if fault == "zeros" else X != 0
    data, columns = X[keep], columns[keep]
    ends = np.r_[0, np.cumsum(keep.sum(axis=1))]
    if fault == "unsorted":
        order = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(ends)])
        data, columns = data[order], columns[order]
    if fault == "duplicates":  # halves add up exactly, except for the smallest integers
        data = data.astype(X.dtype if X.dtype.kind == "f" else np.int64)
        half = (data / 2).astype(data.dtype)
        data = np.column_stack([half, data - half]).ravel()
        columns, ends = np.repeat(columns, 2), 2 * ends
    matrix = sparse.csr_array((data, columns, ends), shape=X.shape)
    width = np.int64 if fault == "wide_indices" else np.int32
    matrix.indices, matrix.indptr = matrix.indices.astype(width), matrix.indptr.astype(width)
    return matrix


def _special(X: np.ndarray, place: int, kind: str) -> None:
    X[:, place] = {
        "constant": lambda column: np.ones(len(X)),
        "zero": lambda column: np.zeros(len(X)),
        "duplicate": lambda column: X[:, 0],
        "small": lambda column: 1e-8 * column,
        "large": lambda column: 1e8 * column,
        "spike": lambda column: np.where(np.arange(len(X)) == 0, 1e200, column),
    }[kind](X[:, place])


def _with_index(X: np.ndarray, column: int) -> Any:
    """A sparse matrix with an entry in a column that it does not have."""
    matrix = sparse.csr_array(X.astype(float))
    matrix.indices[-1] = column
    return matrix


def _beside(X: np.ndarray, cell: Any) -> pd.DataFrame:
    """A data frame with a further column of the same cell in all rows."""
    return pd.DataFrame(X).add_prefix("x").assign(other=cell)


DEFECTS = {
    "nan": lambda X, y: (np.where(X[0, 0] == X, np.nan, X), y, None),
    "inf": lambda X, y: (np.where(X[0, 0] == X, np.inf, X), y, None),
    "complex": lambda X, y: (X + 1j, y, None),
    "text": lambda X, y: (np.full(X.shape, "x", dtype=object), y, None),
    "no_rows": lambda X, y: (X[:0], y[:0], None),
    "no_columns": lambda X, y: (X[:, :0], y, None),
    "one_dimension": lambda X, y: (X[:, 0], y, None),
    "three_dimensions": lambda X, y: (X[None], y, None),
    "one_class": lambda X, y: (X, np.repeat(y[:1], len(y)), None),
    "short_y": lambda X, y: (X, y[:-1], None),
    "no_y": lambda X, y: (X, None, None),
    "none_in_y": lambda X, y: (X, np.where(np.arange(len(y)) == 0, None, y.astype(object)), None),
    "continuous_y": lambda X, y: (X, np.arange(len(y)) + 0.5, None),
    "nan_in_y": lambda X, y: (X, np.where(np.arange(len(y)) == 0, np.nan, 1.0), None),
    "two_columns_of_y": lambda X, y: (X, np.column_stack([y, y]), None),
    "mixed_y": lambda X, y: (X, np.array(["a", 1] * len(y), dtype=object)[: len(y)], None),
    "na_in_y": lambda X, y: (X, pd.Series([pd.NA, *map(str, y[1:])], dtype="string"), None),
    "gap_in_y": lambda X, y: (X, pd.Categorical([None, *map(str, y[1:])]), None),
    "nan_in_words": lambda X, y: (X, [np.nan, *map(str, y[1:])], None),
    "objects_of_y": lambda X, y: (X, np.array([Decimal(k) for k in range(len(y))]), None),
    "bytes_of_y": lambda X, y: (X, np.array([b"a", b"b"] * len(y))[: len(y)], None),
    "word_in_frame": lambda X, y: (_beside(X, "female"), y, None),
    "frame_without_columns": lambda X, y: (pd.DataFrame(index=range(len(y))), y, None),
    "date_in_frame": lambda X, y: (
        pd.DataFrame(X).add_prefix("x").assign(day=pd.Timestamp(0)),
        y,
        None,
    ),
    "masked": lambda X, y: (np.ma.masked_equal(X, X[0, 0]), y, None),
    "index_beyond": lambda X, y: (_with_index(X, 10**6), y, None),
    "index_below": lambda X, y: (_with_index(X, -1), y, None),
    "lazy_frame": lambda X, y: (pl.LazyFrame(X), y, None),
    "records": lambda X, y: ([{"a": 1.0}] * len(y), y, None),
    "short_weights": lambda X, y: (X, y, np.ones(len(y) - 1)),
    "negative_weight": lambda X, y: (X, y, np.r_[-1.0, np.ones(len(y) - 1)]),
    "nan_weight": lambda X, y: (X, y, np.r_[np.nan, np.ones(len(y) - 1)]),
    "no_weight": lambda X, y: (X, y, np.zeros(len(y))),
    "class_without_weight": lambda X, y: (X, y, (y != y[0]).astype(float)),
    "text_weights": lambda X, y: (X, y, np.full(len(y), "x")),
}


def _with_defect(defect: str, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any, Any]:
    return DEFECTS[defect](X, y)


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum(a * b))
