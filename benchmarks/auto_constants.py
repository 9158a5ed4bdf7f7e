"""Constants of AutoClassifier, chosen on the choosing half of the benchmark tables.

The penalty of the leaves of boosted trees: without one (scikit-learn's default), a leaf with rows
of few classes can be as certain as it likes. And the number of rows up to which kernels are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from _auto_tables import Split, base_set, half, large_names, load, long_names
from _timing import Table, write_page
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

from discreg import AutoClassifier
from discreg.auto import _candidates, _mixture

PENALTIES = (0.0, 1.0, 3.0, 10.0, 30.0)
SMALL, LARGE = (60, 8), (150, 31)  # rounds and leaves up to 2,000 rows, and above
EXACT = (1_000, 2_000)  # rows up to which kernels are exact


def splits(names: Sequence[str], most: int) -> Iterator[tuple[str, Split]]:
    """The first split of the tables of the choosing half that are numbers only."""
    for name in names:
        if half(base_set(name)) == "choosing":
            split = load(name).split(0, most)
            if not isinstance(split.X, pd.DataFrame):  # categories need preparation
                yield name, split


def loss(model: Any, split: Split) -> float:
    """The log-loss of a model on test rows, after a fit to training rows."""
    proba = model.fit(split.X, split.y).predict_proba(split.X_test)
    return float(log_loss(split.y_test, proba, labels=np.unique(split.y)))


def penalties() -> Iterator[list[object]]:
    """Log-loss of boosted trees with each penalty."""
    for most, names in ((500, large_names()), (2_000, large_names()), (100_000, long_names())):
        found = []
        for name, split in splits(names, most):
            n_rounds, n_leaves = SMALL if len(split.y) <= 2_000 else LARGE
            model = HistGradientBoostingClassifier(
                max_iter=n_rounds, max_leaf_nodes=n_leaves, early_stopping=False, random_state=0
            )
            each = [loss(model.set_params(l2_regularization=p), split) for p in PENALTIES]
            found.append(each)
            yield [f"{len(split.y):,}", name, *(f"{value:.4f}" for value in each)]
        yield [f"at most {most:,}", "mean", *(f"{value:.4f}" for value in np.mean(found, axis=0))]


def exact_kernels() -> Iterator[list[object]]:
    """Log-loss and CPU seconds of AutoClassifier with approximated and exact kernels."""
    found = []
    for name, split in splits(large_names(), 2_000):
        losses, seconds = [], []
        for n_rows in EXACT:
            _candidates.EXACT_ROWS = _mixture.EXACT_ROWS = n_rows
            started = process_time()
            losses.append(loss(AutoClassifier(), split))
            seconds.append(process_time() - started)
        found.append([*losses, *seconds])
        yield [f"{len(split.y):,}", name, *_shown(found[-1])]
    yield ["at most 2,000", "mean", *_shown(np.mean(found, axis=0))]


def _shown(values: Any) -> list[str]:
    return [f"{value:.4f}" for value in values[:2]] + [f"{value:.1f}" for value in values[2:]]


def main() -> None:
    texts = (
        f"Log-loss on test rows; {SMALL[0]} rounds of {SMALL[1]} leaves up to 2,000 rows, "
        f"{LARGE[0]} of {LARGE[1]} above. AutoClassifier uses 1.",
        "Log-loss on test rows, and CPU seconds of a fit with its predictions. AutoClassifier has "
        "exact kernels up to 2,000 rows.",
    )
    exact = [f"exact up to {n_rows:,}" for n_rows in EXACT]
    tables = (
        Table(
            "Penalty of the leaves of boosted trees",
            texts[0],
            ("training rows", "table", *(f"penalty {penalty:g}" for penalty in PENALTIES)),
            penalties(),
        ),
        Table(
            "Exact kernels in AutoClassifier",
            texts[1],
            ("training rows", "table", *exact, *(f"{each}: seconds" for each in exact)),
            exact_kernels(),
        ),
    )
    print(write_page("auto_constants", tables))


if __name__ == "__main__":
    main()
