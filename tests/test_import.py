"""The public names: all of them resolve, and none costs anything before it is used."""

import subprocess
import sys

import pytest
from sklearn.base import BaseEstimator

import discreg

HEAVY = {"joblib", "matplotlib", "numba", "numpy", "pandas", "scipy", "sklearn"}
ESTIMATORS = [name for name in discreg.__all__ if name.endswith(("Classifier", "ClassifierCV"))]


def printed_by(program):
    """What a fresh interpreter prints: the modules loaded here would hide what is imported."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_import_loads_nothing_heavy_and_reaches_submodules():
    program = (
        f"import sys, discreg; dir(discreg); print({HEAVY} & set(sys.modules)); "
        "print(callable(discreg.retargeted.retarget))"
    )
    assert printed_by(program).split() == ["set()", "True"]


@pytest.mark.parametrize("name", discreg.__all__)
def test_public_name_resolves(name):
    assert getattr(discreg, name) is not None


def test_dir_lists_the_public_names():
    assert set(discreg.__all__) - {"__version__"} == set(dir(discreg))


@pytest.mark.parametrize("name", ["NoSuchClassifier", "retarget", "numpy"])
def test_unknown_attribute_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=name):
        getattr(discreg, name)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator_is_ours_and_scikit_learns(name):
    estimator = getattr(discreg, name)
    assert issubclass(estimator, BaseEstimator)
    assert estimator.__name__ == name
    assert estimator.__module__.split(".")[0] == "discreg"
