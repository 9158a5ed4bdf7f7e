"""How property tests run, where the data sets are, and how a test reads one.

Facts about data sets that cannot be shipped are tests of their own in ``tests/shared_data``. They
are collected only where the data are: in the folder named by ``DISCREG_DATA``, or else in
``../shared/data`` beside the repository. Facts about pages are collected only where there are
Chromium and playwright to open them. Facts about arrays of other libraries are collected only with
``SCIPY_ARRAY_API=1``, which scikit-learn needs before SciPy is imported; ``.ci/run`` sets it.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # tests run side by side: one thread for each process
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that runs tests in the background ignores Ctrl-C for all processes that they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse

# The first call of a compiled loop takes seconds, and a test that fails must fail again.
settings.register_profile("discreg", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("discreg")


def find_data_folder() -> Path | None:
    named = os.environ.get("DISCREG_DATA")
    if named is None:
        beside = Path(__file__).resolve().parents[2] / "shared" / "data"
        return beside if beside.is_dir() else None
    if not Path(named).is_dir():
        raise pytest.UsageError(
            f"DISCREG_DATA={named!r} is not a folder: correct it, or unset it to leave out the "
            "tests that need data"
        )
    return Path(named)


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


DATA_FOLDER = find_data_folder()
CHROMIUM = find_chromium()

collect_ignore = [] if DATA_FOLDER else ["shared_data"]
if CHROMIUM is None or find_spec("playwright") is None:
    collect_ignore += ["comparison/report/test_page_in_browser.py", "test_compare_in_browser.py"]
if os.environ.get("SCIPY_ARRAY_API") != "1":
    collect_ignore += ["blocks/test_namespaces.py", "recipes/test_torch.py"]


def pytest_collection_modifyitems(config, items):
    """Leave out the tests marked "linux" on other systems."""
    if sys.platform != "linux":
        config.hook.pytest_deselected(items=[item for item in items if "linux" in item.keywords])
        items[:] = [item for item in items if "linux" not in item.keywords]


@dataclass(frozen=True)
class DataSet:
    """A data set; ``X, y = data_set`` unpacks it."""

    X: np.ndarray | sparse.csr_matrix
    y: np.ndarray
    fold: np.ndarray | None = None  # the five original folds, numbered from 1
    split: np.ndarray | None = None  # "train" or "test"
    n_train: int | None = None  # the first n_train rows are the training set

    def __iter__(self) -> Iterator:
        return iter((self.X, self.y))


def read_table(path: Path) -> DataSet:
    import pandas as pd

    table = pd.read_csv(path, keep_default_na=False)
    marks = {name: table.pop(name).to_numpy() for name in ("fold", "split") if name in table}
    y = table.pop("y").to_numpy()
    if y.dtype.kind != "i":
        y = y.astype(str)
    return DataSet(table.to_numpy(dtype=np.float64), y, **marks)


def read_arrays(path: Path) -> DataSet:
    with np.load(path) as arrays:
        if "X" in arrays:
            X = arrays["X"]
        else:
            parts = (arrays["data"], arrays["indices"], arrays["indptr"])
            X = sparse.csr_matrix(parts, shape=tuple(arrays["shape"]))
        n_train = int(arrays["n_train"]) if "n_train" in arrays else None
        return DataSet(X, arrays["y"], n_train=n_train)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the data sets; tests in shared_data are collected only if there is one."""
    assert DATA_FOLDER is not None
    return DATA_FOLDER


@pytest.fixture(scope="session")
def load_data():
    """A function from a data set's name ("iris", "keel/ecoli1") to its ``DataSet``."""
    if DATA_FOLDER is None:
        pytest.skip("no data folder: set DISCREG_DATA")

    def load(name: str) -> DataSet:
        for ending, read in ((".npz", read_arrays), (".csv.gz", read_table)):
            path = DATA_FOLDER / f"{name}{ending}"
            if path.is_file():
                return read(path)
        pytest.skip(f"data set {name!r} is not in {DATA_FOLDER}")

    return load
