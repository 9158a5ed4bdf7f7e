"""How many times longer a fit takes with probabilities.

Run as ``python benchmarks/probability_cost.py``; it takes two minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from time import process_time
from typing import Any

from _timing import Table, side_by_side, write_page
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import discreg

CLOSED = ("LSR", "LRLR", "LRRR", "DRM")
ITERATIVE = ("DLSR", "ReLSR", "GReLSR", "SLRR", "ODM", "LDM")
REPEATS = 5
MOST_CLOSED, MOST_IN_FOLDS, MOST_IN_PART = 1.6, 6.5, 2.2
TEXT = (
    "CPU seconds of fits with default parameters, without and with probabilities, their ratio, and "
    "what it should not exceed. LSR, LRLR, LRRR and DRM compute held-out scores in closed form; "
    "the others are fitted again without each of five folds, or above 10,000 rows without one part "
    "of 2,000 rows. The 1,500 rows are standardised digits of ten classes, the 20,000 rows of 50 "
    "columns are synthetic with five classes."
)


def model(name: str, kernel: str) -> Any:
    found = getattr(discreg, f"{name}Classifier")()
    return found.set_params(kernel=kernel) if "kernel" in found.get_params() else found


def row(data: str, name: str, kernel: str, most: float, X: Any, y: Any) -> tuple[object, ...]:
    with_probabilities = model(name, kernel)
    without = clone(with_probabilities).set_params(probability=False)
    fits = {"without": lambda: without.fit(X, y), "with": lambda: with_probabilities.fit(X, y)}
    seconds = side_by_side(fits, REPEATS, process_time)
    ratio = seconds["with"] / seconds["without"]
    cells = (f"{seconds['without']:.3f}", f"{seconds['with']:.3f}", f"{ratio:.2f}", f"{most:g}")
    print(data, name, kernel, *cells, flush=True)
    return (data, f"{name}, {kernel}", *cells)


def rows() -> Iterator[tuple[object, ...]]:
    digits, labels = load_digits(return_X_y=True)
    small = scale(digits)[:1500], labels[:1500]
    large = make_classification(20_000, 50, n_informative=20, n_classes=5, random_state=0)
    for name in CLOSED:
        yield row("20,000 rows", name, "linear", MOST_CLOSED, *large)
    for name in ITERATIVE:
        yield row("20,000 rows", name, "linear", MOST_IN_PART, *large)
    for name in ITERATIVE:
        for kernel in ("linear",) if name == "SLRR" else ("linear", "rbf"):
            yield row("1,500 rows", name, kernel, MOST_IN_FOLDS, *small)


def main() -> None:
    warnings.simplefilter("ignore")
    header = ("data", "model", "without", "with", "ratio", "at most")
    with threadpool_limits(1):
        table = Table("Time that probabilities add to a fit", TEXT, header, list(rows()))
        print(write_page("probability_cost", [table]))


if __name__ == "__main__":
    main()
