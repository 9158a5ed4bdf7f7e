"""`show_versions` prints what a bug report needs."""

import importlib.metadata
import re

import pytest

import discreg
from discreg import versions


@pytest.fixture
def printed(capsys):
    discreg.show_versions()
    return capsys.readouterr().out


def test_versions_of_installed_packages_are_printed(printed):
    assert f"    discreg: {discreg.__version__}\n" in printed
    for package in ("numpy", "scipy", "scikit-learn", "numba", "skops", "pandas"):
        assert f"    {package}: {importlib.metadata.version(package)}\n" in printed


def test_packages_that_are_not_installed_are_none(monkeypatch, capsys):
    monkeypatch.setattr(versions, "_dependencies", lambda: ["numpy", "no-such-package"])
    discreg.show_versions()
    assert "    no-such-package: None\n" in capsys.readouterr().out


def test_threads_of_blas_are_printed(printed):
    assert re.search(r"user_api: blas, .*num_threads: \d+", printed)


def test_folder_of_compiled_loops_is_printed(printed):
    assert re.search(r"    cache: (\S*[/\\]\S*|no writable folder)\n", printed)
