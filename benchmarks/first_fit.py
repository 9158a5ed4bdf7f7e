"""The first fit of every estimator in a fresh process. Run as ``python benchmarks/first_fit.py``.

``python benchmarks/first_fit.py --before SRC`` also measures the sources of another commit, SRC the
folder that holds its package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from _timing import write_table

import discreg

REPEATS = 3
CLASSES = (2, 3)
SOURCES = Path(discreg.__file__).parents[1]

TEXT = """\
Seconds from `import discreg` to the end of the first `fit` with default parameters, on 200 samples
of 10 features, in a fresh process with an empty cache of compiled code: the median of three. Most
of it, 1.1 to 1.3 seconds, is importing scikit-learn with scipy.stats and pandas. The searches of
ODM and LDM compile coordinate descent. "Before" is the version in which all small fits compiled
loops.
"""

PROGRAM = """\
import sys, time
import numpy as np
name, n_classes = sys.argv[1], int(sys.argv[2])
random = np.random.default_rng(0)
X = random.normal(size=(200, 10))
edges = {2: [0.0], 3: [-0.5, 0.5]}[n_classes]
y = np.digitize(X[:, 0] + 0.5 * random.normal(size=200), edges)
import discreg
start = time.perf_counter()
getattr(discreg, name)().fit(X, y)
print(time.perf_counter() - start)
"""


def seconds(name: str, n_classes: int, sources: Path) -> float:
    """Seconds of a first fit with the package in a folder of sources."""
    with TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(sources)}
        command = [sys.executable, "-c", PROGRAM, name, str(n_classes)]
        printed = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout
    return float(printed.split()[-1])


def measure(folders: list[Path]):
    names = [name for name in discreg.__all__ if name.endswith(("Classifier", "ClassifierCV"))]
    for name in sorted(names, key=lambda name: name.endswith("CV")):
        cells = []
        for n_classes in CLASSES:
            turns = [[seconds(name, n_classes, each) for each in folders] for _ in range(REPEATS)]
            cells += [f"{median(times):.1f}" for times in zip(*turns, strict=True)]
        print(name, *cells, flush=True)
        yield name, *cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="folder with the package of another commit")
    before = parser.parse_args().before
    folders = [SOURCES] if before is None else [before, SOURCES]
    kinds = [""] if before is None else [", before", ", after"]
    header = ["estimator", *(f"{k} classes{kind}" for k in CLASSES for kind in kinds)]
    write_table("first_fit", "First fits", TEXT, header, measure(folders))


if __name__ == "__main__":
    main()
