"""Type aliases of arrays and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator


Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
RealArray: TypeAlias = NDArray[np.floating[Any]]  # in the precision of the features
Labels: TypeAlias = NDArray[np.generic]

# Types of user input.
MatrixLike: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray
ClassWeight: TypeAlias = Mapping[object, float] | str | None
KernelParams: TypeAlias = Mapping[str, object] | None
Scoring: TypeAlias = str | Callable[..., float] | None
Splitting: TypeAlias = "int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]] | None"
