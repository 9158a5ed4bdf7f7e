"""Accuracy of LSR and ReLSR without and with the penalty on the within-class scatter.

Run ``python benchmarks/within_class.py``. The data are read from the folder named by
``DISCREG_DATA``, or from ``../shared/data`` beside the repository. As in the ReLSR paper, 40 % of a
set are for training, here at most 400 rows, and the rest for testing, here at most 2,000. The
searches choose `beta` and `within_class` on the training part.
"""

from __future__ import annotations

import warnings

import numpy as np
from _timing import Table, write_page
from default_penalties import load
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from discreg import LSRClassifierCV, ReLSRClassifierCV

IMAGES = ("umist_28x23", "att_28x23", "binalpha36", "usps_9298", "yaleb_32x32")
TABLES = ("vowel", "glass", "vehicle", "pendigits", "dna")  # which are standardised
SPLITS, MOST_ROWS, MOST_TESTED = 3, 400, 2000
WITHIN_CLASSES = (10.0, 1.0, 0.1, 0.0)
SEARCHES = {
    (name, within): search(within_classes=within)
    for name, search in (("LSR", LSRClassifierCV), ("ReLSR", ReLSRClassifierCV))
    for within in ((0.0,), WITHIN_CLASSES)
}
HEADER = (
    *("data set", "LSR", "LSR, within", "chosen"),
    *("ReLSR", "ReLSR, within", "chosen"),
)
TEXT = (
    "Test accuracy in percent, the mean of three random stratified splits with 40 % of the rows "
    "(at most 400) for training; images are raw, tables standardised. `beta` and, in the columns "
    f"`within`, `within_class` from {WITHIN_CLASSES} are chosen on held-out rows of the training "
    "part; `chosen` are the values of `within_class` in the three splits."
)


def row(name: str) -> tuple[list[str], list[float]]:
    """Search on the splits of one set; return a row of the page and the mean accuracies."""
    X, y = load(name)
    found, chosen = ({key: [] for key in SEARCHES} for _ in range(2))
    n_train = min(int(0.4 * len(y)), MOST_ROWS)
    for seed in range(SPLITS):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=n_train, random_state=seed, stratify=y
        )
        X_test, y_test = X_test[:MOST_TESTED], y_test[:MOST_TESTED]
        if name in TABLES:
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        for key, search in SEARCHES.items():
            search.fit(X_train, y_train)
            found[key].append(100 * search.score(X_test, y_test))
            chosen[key].append(f"{search.best_estimator_.within_class:g}")
    means = [float(np.mean(found[key])) for key in SEARCHES]
    cells = [f"{mean:.1f}" for mean in means]
    lsr, relsr = (", ".join(chosen[model, WITHIN_CLASSES]) for model in ("LSR", "ReLSR"))
    return [name, *cells[:2], lsr, *cells[2:], relsr], means


def main() -> None:
    """Measure all sets and write the page after each."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows, means = [], []
    for name in (*TABLES, *IMAGES):
        cells, found = row(name)
        rows.append(cells)
        means.append(found)
        print(*cells, sep=" | ", flush=True)
        last = [f"{mean:.1f}" for mean in np.mean(means, axis=0)]
        mean_row = ["mean", *last[:2], "", *last[2:], ""]
        table = Table("Within-class scatter in the penalty", TEXT, HEADER, [*rows, mean_row])
        write_page("within_class", [table])


if __name__ == "__main__":
    main()
