"""Data sets of scikit-learn as tables."""

from __future__ import annotations

from discreg.base.errors import InputError
from discreg.tables.formats import nearest
from discreg.tables.table import Table

__all__ = ["BUNDLED", "DEFAULT", "bundled_table"]

BUNDLED = ("breast_cancer", "wine", "iris", "digits")
DEFAULT = BUNDLED[0]


def bundled_table(name: str) -> Table:
    """Load one of the data sets in `BUNDLED`, with names of classes and features."""
    if name not in BUNDLED:
        hint = nearest(name, list(BUNDLED))
        meant = f" Did you mean {hint}?" if hint else ""
        raise InputError(
            f"There is no data set '{name}'.{meant} The data sets are {', '.join(BUNDLED)}."
        )
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    return Table.from_arrays(name, data.data, data.target_names[data.target], data.feature_names)
