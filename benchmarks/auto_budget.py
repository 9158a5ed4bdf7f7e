"""How much longer than `time_budget` AutoClassifier takes, in CPU seconds of one thread.

python benchmarks/auto_budget.py

The search measures CPU time here, so that other processes do not matter.
"""

from __future__ import annotations

import time

from _timing import RESULTS
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

import discreg.auto._search
from discreg import AutoClassifier

ROWS, BUDGETS = (500, 1_500, 5_000, 20_000), (0.5, 2.0, 10.0)


def main() -> None:
    discreg.auto._search.time.perf_counter = time.process_time
    X, y = make_classification(max(ROWS), 20, n_informative=8, n_classes=3, random_state=0)
    AutoClassifier().fit(X[:600], y[:600])  # compiles
    lines = [
        "# Time budgets of AutoClassifier\n",
        "CPU seconds of a fit (20 features, 3 classes), and candidates tried on all rows.\n",
        "| rows | budget | seconds | candidates |",
        "| --- | --- | --- | --- |",
    ]
    for n_rows in ROWS:
        for budget in BUDGETS:
            started = time.process_time()
            model = AutoClassifier(time_budget=budget).fit(X[:n_rows], y[:n_rows])
            seconds = time.process_time() - started
            n_tried = sum(n == n_rows for n in model.cv_results_["n_samples"]) - 1
            lines.append(f"| {n_rows:,} | {budget:g} | {seconds:.2f} | {n_tried} |")
            print(lines[-1], flush=True)
    (RESULTS / "auto_budget.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
