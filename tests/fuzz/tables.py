"""Columns of hostile tables for `TablePreprocessor`, and what must hold for every one of them."""

from __future__ import annotations

import datetime as dt
import pickle
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn import config_context

from discreg import TablePreprocessor
from discreg.base.errors import InputError

from .cases import Case

SPELLINGS = ["a", " a", "a ", " ", "", "?", "NaN", "-0.0", "0.0", "-0", "1", "1.0", "x" * 9999]
DAY = dt.datetime(2024, 1, 31, 13, 5)


def _arrow(kind: Any, values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype=pd.ArrowDtype(kind))


def _picked(values: list[Any]) -> Any:
    return lambda random, n: [values[k] for k in random.integers(len(values), size=n)]


# How the cells of a column are drawn from a random state and a number of rows.
CELLS = {
    "numbers": lambda random, n: random.normal(size=n),
    "gaps": lambda random, n: np.where(random.random(n) < 0.4, np.nan, random.normal(size=n)),
    "counter": lambda random, n: np.arange(n) + 5,
    "one": lambda random, n: np.where(random.random(n) < 0.5, np.nan, 1.0),
    "yes": _picked(["yes", None]),
    "true": _picked([True, None]),
    "empty": _picked([None]),
    "constant": _picked([3]),
    "huge": _picked([1.7e308, -1.7e308, 1e308]),
    "infinite": _picked([1.0, np.inf]),
    "digits": _picked([1, 10**400, 10**5000]),
    "spellings": _picked(SPELLINGS),
    "mixed": _picked([1, True, "x", None, 2.5, b"x", DAY]),
    "half": lambda random, n: pd.Series(_picked(["a", "\ud800"])(random, n), dtype=object),
    "bytes": _picked([b"a", b"b", b"\xff"]),
    "lists": _picked([[1], [2, 3], None]),
    "dicts": _picked([{"a": 1}, None]),
    "complex": _picked([1j, 2]),
    "dates": _picked(["2024-01-31", "9999-12-31", None, "0001-01-01"]),
    "not dates": _picked(["2024-02-30", "2024-01-31"]),
    "sentences": lambda random, n: [
        f"word {k} and {k * k} more" for k in random.integers(99, size=n)
    ],
    "string": lambda random, n: pd.Series(_picked(["a", pd.NA])(random, n), dtype="string"),
    "category": lambda random, n: pd.Categorical(_picked(["1", "-0.0", None])(random, n)),
    "floats": lambda random, n: pd.Categorical(_picked([0.0, 1.0, 2.5])(random, n)),
    "length": lambda random, n: pd.to_timedelta(random.integers(99, size=n), unit="h"),
    "zone": lambda random, n: pd.date_range("2024-01-01", periods=n, tz="Asia/Tokyo"),
    "period": lambda random, n: pd.period_range("2024-01", periods=n, freq="M"),
    "arrow date": lambda random, n: _arrow(pa.date32(), _picked([DAY.date(), None])(random, n)),
    "arrow time": lambda random, n: _arrow(pa.timestamp("ns"), _picked([DAY, None])(random, n)),
    "arrow list": lambda random, n: _arrow(pa.list_(pa.int8()), _picked([[1], None])(random, n)),
    "arrow struct": lambda random, n: _arrow(
        pa.struct([("a", pa.int8())]), _picked([{"a": 1}, None])(random, n)
    ),
    "arrow number": lambda random, n: _arrow(
        pa.decimal128(9, 2), _picked([Decimal("1.5"), Decimal(2), None])(random, n)
    ),
}
POLARS = {
    "wide": lambda random, n: pl.Series(_picked([1, 2, None])(random, n)).cast(pl.Int128),
    "list": lambda random, n: pl.Series(_picked([[1], [2, 3]])(random, n)),
    "date": lambda random, n: pl.Series(_picked([DAY.date(), None])(random, n), dtype=pl.Date),
    "enum": lambda random, n: pl.Series(_picked(["a", None])(random, n), dtype=pl.Enum(["a"])),
    "struct": lambda random, n: pl.Series([{"a": k} for k in range(n)]),
    "time": lambda random, n: pl.Series(_picked([DAY.time(), None])(random, n), dtype=pl.Time),
    "null": lambda random, n: pl.Series([None] * n),
    "number": lambda random, n: pl.Series(random.normal(size=n)),
    "word": lambda random, n: pl.Series(_picked(["a", " a", "b", " "])(random, n)),
}
PARAMS = {
    "scale": [True, False, "no"],
    "max_categories": [2, 3, 50, 0, None, 2.5, True],
    "max_text_features": [1, 5, None, 0],
    "kinds": [None, "numeric", [], {"a": "numeric"}, {"c0": "categorical"}, {"c0": "text"}],
}
FORMS = ("frame", "rows", "series", "lazy", "dict")


def made_table(case: Case) -> Any:
    """The table of a case: the steps are a form and the kinds of the columns."""
    form, *kinds = case.steps
    random = np.random.default_rng(case.data.seed)
    n, known = sum(case.data.sizes), POLARS if kinds[0] in POLARS else CELLS
    columns = {f"c{k}": known[kind](random, n) for k, kind in enumerate(kinds) if kind in known}
    if known is POLARS:
        frame = pl.DataFrame(columns)
        return frame.lazy() if form == "lazy" else frame
    frame = pd.DataFrame({name: pd.Series(cells) for name, cells in columns.items()})
    return {
        "rows": lambda: frame.set_index(random.permutation(n)),
        "series": lambda: frame.iloc[0],
        "dict": lambda: dict(frame),
    }.get(form, lambda: frame)()


def refusal(model: TablePreprocessor, table: Any) -> str | None:
    """The message of the error if the table is refused; other errors are not caught."""
    try:
        model.fit(table)
    except ValueError as error:
        if isinstance(error, InputError) or "parameter of TablePreprocessor must" in str(error):
            return str(error)
        raise
    return None


def handles_tables(case: Case) -> None:
    """A clear error that changes nothing, or finite features that are described as they are."""
    table, model = made_table(case), TablePreprocessor(**case.params)
    with warnings.catch_warnings(), config_context(transform_output="pandas"):
        warnings.simplefilter("error")
        message = refusal(model, table)
        found = model.transform(table) if message is None else None
    if message is not None:
        assert 15 < len(message) < 2000, f"the message has {len(message)} characters"
        assert not any(name.endswith("_") for name in vars(model)), "a failed fit left a part"
        known = pd.DataFrame({"x": [1.0, 2.0, np.nan], "c": ["a", "b", "b"]})
        fitted = TablePreprocessor().fit(known)
        before = fitted.transform(known)
        assert refusal(fitted.set_params(**case.params), table) == message
        np.testing.assert_array_equal(fitted.transform(known), before)
        return
    assert np.isfinite(found.to_numpy()).all()
    assert list(found) == model.get_feature_names_out().tolist()
    again = pickle.loads(pickle.dumps(model)).set_params(max_categories=2, max_text_features=1)
    for each in (again, model):
        np.testing.assert_array_equal(each.transform(table), found)
        assert len(each.columns_of_features()) == len(each.is_indicator_) == found.shape[1]
    for row in (0, len(found) - 1):
        np.testing.assert_array_equal(model.transform(table[row : row + 1])[0], found.iloc[row])
