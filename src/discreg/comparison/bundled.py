"""Data sets that come with scikit-learn, as tables."""

from __future__ import annotations

from discreg.base.errors import InputError
from discreg.tables.formats import nearest
from discreg.tables.table import Table

__all__ = ["BUNDLED", "DEFAULT", "bundled_table"]

BUNDLED = ("breast_cancer", "wine", "iris", "digits")
DEFAULT = BUNDLED[0]


def bundled_table(name: str) -> Table:
    """One of the data sets in `BUNDLED`, with the names of its classes and features."""
    if name not in BUNDLED:
        hint = nearest(name, list(BUNDLED))
        meant = f" Did you mean {hint}?" if hint else ""
        raise InputError(
            f"scikit-learn has no data set '{name}' here.{meant} There are {', '.join(BUNDLED)}."
        )
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    return Table.from_arrays(name, data.data, data.target_names[data.target], data.feature_names)
