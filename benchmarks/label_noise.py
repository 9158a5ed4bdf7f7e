"""Accuracy of ReLSR without and with a cap of the loss, for labels as they are and wrong labels.

Run ``python benchmarks/label_noise.py``. The data are read from the folder named by
``DISCREG_DATA``, or from ``../shared/data`` beside the repository; three sets are those of
scikit-learn. 60 % of a set are for training, at most 200 rows, and at most 2,000 others for
testing. Labels of the training part are replaced by other ones at random; the searches see only
these.
"""

from __future__ import annotations

import warnings

import numpy as np
from _timing import Table, write_page
from default_penalties import load
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from discreg import ReLSRClassifierCV

OWN = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
STORED = ("vowel", "glass", "vehicle", "pendigits", "usps_9298")
SPLITS, MOST_ROWS, MOST_TESTED = 3, 200, 2000
SHARES = (0.0, 0.3)  # of wrong labels
LOSS_CAPS = (None, 2.0, 1.0, 0.5, 0.25)
FIXED = {"betas": (10.0, 1.0, 0.1, 0.01), "kernel": "rbf", "gammas": "scale", "cv": 5}
SEARCHES = {
    "plain": ReLSRClassifierCV(probability=False, **FIXED),
    "capped": ReLSRClassifierCV(probability=False, loss_caps=LOSS_CAPS, **FIXED),
}
HEADER = (
    "data set",
    *("no wrong labels", "cap", "chosen"),
    *("30 % wrong", "cap", "chosen"),
    "found",
)
TEXT = (
    "Test accuracy of ReLSR with an RBF kernel in percent, with the true labels of the test part: "
    "the mean of three random stratified splits with at most 200 standardised rows for training. "
    f"`beta` from {FIXED['betas']} and, in the columns `cap`, `loss_cap` from {LOSS_CAPS} are "
    "chosen by `ReLSRClassifierCV` in five folds of the training part, whose labels are wrong too; "
    "`chosen` are the caps in the three splits. `found`, where a cap was chosen, is the share of "
    "wrong labels among the capped samples, and the share of capped samples among wrong labels."
)


def wrong_labels(y, share, n_classes, random):
    """Return labels of which a share is replaced by another one, and where."""
    is_wrong = random.random(len(y)) < share
    moves = random.integers(1, n_classes, len(y))
    return np.where(is_wrong, (y + moves) % n_classes, y), is_wrong


def row(name):
    """Search on the splits of one set; return a row of the page and the mean accuracies."""
    X, y = OWN[name](return_X_y=True) if name in OWN else load(name)
    y, n_train = np.unique(y, return_inverse=True)[1], min(int(0.6 * len(y)), MOST_ROWS)
    keys = [(share, search) for share in SHARES for search in SEARCHES]
    found, chosen, suspects = {key: [] for key in keys}, {share: [] for share in SHARES}, []
    for seed in range(SPLITS):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=n_train, random_state=seed, stratify=y
        )
        scaler = StandardScaler().fit(X_train)
        X_train, X_test = (scaler.transform(each) for each in (X_train, X_test[:MOST_TESTED]))
        for share, title in keys:
            random = np.random.default_rng(seed)
            labels, is_wrong = wrong_labels(y_train, share, y.max() + 1, random)
            search = SEARCHES[title].fit(X_train, labels)
            found[share, title].append(100 * search.score(X_test, y_test[:MOST_TESTED]))
            if title == "capped":
                cap = search.best_estimator_.loss_cap
                chosen[share].append("-" if cap is None else f"{cap:g}")
                if cap is not None and share > 0:
                    both = search.capped_ & is_wrong
                    suspects.append([both.sum(), search.capped_.sum(), is_wrong.sum()])
    means = [float(np.mean(found[key])) for key in keys]
    cells = [f"{mean:.1f}" for mean in means]
    shares = "-"
    if suspects:
        both, capped, wrong = np.sum(suspects, axis=0)
        shares = f"{both / max(capped, 1):.0%}, {both / wrong:.0%}"
    clean, noisy = (", ".join(chosen[share]) for share in SHARES)
    return [name, *cells[:2], clean, *cells[2:], noisy, shares], means


def main():
    """Measure all sets and write the page after each."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)  # of classes with one sample left
    rows, means = [], []
    for name in (*OWN, *STORED):
        cells, found = row(name)
        rows.append(cells)
        means.append(found)
        print(*cells, sep=" | ", flush=True)
        last = [f"{mean:.1f}" for mean in np.mean(means, axis=0)]
        mean_row = ["mean", *last[:2], "", *last[2:], "", ""]
        write_page("label_noise", [Table("Wrong labels", TEXT, HEADER, [*rows, mean_row])])


if __name__ == "__main__":
    main()
