"""Contents of files, data frames and arrays, before they are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from discreg.base.errors import InputError

from .formats import Contents, default_names, quoted, read_contents, refuse_duplicates
from .frames import as_pandas, is_frame, one_column
from .roles import ROLES, Roles, unknown_column

__all__ = ["TARGET_IN_FILE", "Source", "is_path", "located", "with_test"]

TARGET_IN_FILE = "y"  # name of the labels in files of arrays


@contextmanager
def located(where: object) -> Iterator[None]:
    """Prefix error messages with the file or the data set."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def is_path(X: Any) -> bool:
    """Return whether X is the name of a file."""
    return isinstance(X, str | PathLike)


@dataclass(frozen=True)
class Source:
    """Features, labels and columns with a role, before they are checked."""

    X: pd.DataFrame | sparse.csr_array
    labels: pd.Series
    target: str
    roles: Roles
    first_index: int = 0
    n_test: int = 0  # the last rows
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        target: str | None,
        roles: Mapping[str, Any],
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Source:
        """Collect the contents of a file, a data frame or an array."""
        if unknown := set(roles) - set(ROLES):
            raise TypeError(f"{', '.join(unknown)}: roles are {', '.join(ROLES)}")
        if is_path(X):
            names = {name for name in (target, roles.get("groups")) if isinstance(name, str)}
            contents = read_contents(Path(X), text_columns=names)
        else:
            contents = Contents(_features(X, feature_names))
            roles = _by_name(roles, contents.X)
        if y is not None:
            if target is not None:
                raise InputError(f"give the labels as y or as column '{target}', not as both")
            labels = one_column(y, "the target")
            contents = replace(contents, y=labels, labels_apart=True)
            return cls._apart(contents, _name_of_labels(y), roles)
        if contents.labels_apart:
            if target not in (None, TARGET_IN_FILE):
                raise InputError(
                    f"the labels of this file are its array 'y', so the target cannot be "
                    f"'{target}'; omit --target"
                )
            if contents.y is None:
                raise InputError("the file has no array 'y' of labels")
            return cls._apart(contents, TARGET_IN_FILE, roles)
        if sparse.issparse(contents.X):
            raise InputError("a sparse array has no column of labels; give the labels as y")
        return cls._of_columns(contents, target, roles)

    @classmethod
    def _of_columns(
        cls, contents: Contents, target: str | None, given: Mapping[str, Any]
    ) -> Source:
        frame = contents.X
        if target is None:
            raise InputError(
                f"which column holds the labels? Name one of {quoted(frame, at_most=20)} with "
                "--target (target= in Python)"
            )
        if target not in frame:
            raise InputError(unknown_column("target", target, list(frame)))
        roles = Roles.of(given, frame, len(frame), target)
        used = {target, *(roles.names()[role] for role in roles.names() if _is_name(given[role]))}
        X = frame.drop(columns=[name for name in frame if name in used])
        return cls(X, frame[target], target, roles, notes=contents.notes)

    @classmethod
    def _apart(cls, contents: Contents, target: str, given: Mapping[str, Any]) -> Source:
        X, first_index = contents.X, contents.first_index or 0
        n_rows = X.shape[0]
        columns = {
            name: array for name, array in contents.others.items() if array.shape == (n_rows,)
        }
        if isinstance(X, pd.DataFrame) and not contents.others:
            columns = dict(X.items())
        roles = Roles.of(given, columns, n_rows, None)
        if isinstance(X, pd.DataFrame):
            named = [roles.names()[role] for role in roles.names() if _is_name(given[role])]
            X = X.drop(columns=named, errors="ignore")
        else:
            X = X[:, first_index:]
        labels = pd.Series(contents.y)
        if len(labels) != n_rows:
            raise InputError(f"there are {len(labels)} labels for {n_rows} rows")
        return cls(X, labels, target, roles, first_index, notes=contents.notes)

    def followed_by(self, test: Source) -> Source:
        """Append the rows of a test table."""
        if isinstance(self.X, pd.DataFrame) is not isinstance(test.X, pd.DataFrame):
            raise InputError("one of the table and the test table is sparse; both must be")
        n_test = test.X.shape[0]
        if isinstance(self.X, pd.DataFrame):
            missing = [name for name in self.X if name not in test.X]
            if missing:
                raise InputError(f"the test table has no columns {quoted(missing)}")
            X = pd.DataFrame(
                {name: _joined(column, test.X[name]) for name, column in self.X.items()}
            )
        else:
            width = max(self.X.shape[1], test.X.shape[1])
            parts = [self.X.copy(), test.X.copy()]
            for part in parts:
                part.resize(part.shape[0], width)
            X = sparse.csr_array(sparse.vstack(parts))
        return replace(
            self,
            X=X,
            labels=_joined(self.labels, test.labels),
            roles=self.roles.followed_by(test.roles, n_test),
            n_test=n_test,
            notes=(*self.notes, *test.notes),
        )


def _is_name(option: Any) -> bool:
    return isinstance(option, str)


def _by_name(roles: Mapping[str, Any], X: pd.DataFrame | sparse.csr_array) -> dict[str, Any]:
    """Replace a column of X that is given as values by its name, so that it is no feature."""
    columns = dict(X.items()) if isinstance(X, pd.DataFrame) else {}
    found = dict(roles)
    for role, option in roles.items():
        column = columns.get(getattr(option, "name", None))
        if column is not None and column.equals(one_column(option, ROLES[role])):
            found[role] = column.name
    return found


def _name_of_labels(y: Any) -> str:
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else TARGET_IN_FILE


def _features(X: Any, names: Sequence[str] | None) -> pd.DataFrame | sparse.csr_array:
    """Convert the features to a data frame with strings as names, or to a CSR array."""
    if sparse.issparse(X):
        return sparse.csr_array(X, dtype=np.float64)
    if is_frame(X):
        frame = as_pandas(X).reset_index(drop=True)
    else:
        array = np.asarray(X)
        if not array.ndim:
            raise InputError(
                f"X is a {type(X).__name__}; a data frame of pandas or polars, an array, a sparse "
                "array or the name of a file is expected"
            )
        if array.ndim != 2:
            raise InputError(
                f"X has shape {array.shape}; two dimensions with one row per sample are expected, "
                "such as X.reshape(len(X), -1)"
            )
        frame = pd.DataFrame(X if isinstance(X, np.ndarray) else list(X))
        frame.columns = pd.Index(default_names(frame.shape[1]))
    if names is not None:
        frame.columns = pd.Index([str(name) for name in names])
        refuse_duplicates(frame.columns)
    if not len(frame):
        raise InputError("there are no rows of data")
    return frame


def with_test(source: Source, test: Any, roles: Mapping[str, Any]) -> Source:
    """Append the rows of a test table, if there is one, to the training rows."""
    if test is None:
        return source
    for role in ("fold", "time"):
        if roles.get(role) is not None:
            raise InputError(
                f"a test table and the {ROLES[role]} column both say which rows are held out; "
                "give one of them"
            )
    named = {role: option for role, option in roles.items() if isinstance(option, str)}
    with located("test table"):
        if isinstance(test, tuple):
            if len(test) != 2:
                raise InputError(f"a tuple (X, y) is expected, not one of {len(test)} parts")
            further = Source.of(*test, None, named)
        else:
            further = Source.of(test, None, source.target, named)
        return source.followed_by(further)


def _joined(first: pd.Series, second: pd.Series) -> pd.Series:
    """Append a column of a test table; a declared category stays one."""
    joined = pd.concat(
        [first, second]
        if first.dtype == second.dtype
        else [first.astype(object), second.astype(object)],
        ignore_index=True,
    )
    is_category = isinstance(first.dtype, pd.CategoricalDtype)
    return joined.astype("category") if is_category else joined
