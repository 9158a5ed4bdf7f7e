"""scikit-learn's common checks on every public estimator. None is expected to fail."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreg

# One parameter away from the defaults; an estimator takes those that it has.
VARIATIONS = (
    {"kernel": "rbf"},
    {"solver": "alternating"},
    {"class_weight": "balanced"},
    {"scale_beta": False},
    {"warm_start": True},
)
# Every fit of a ...CV classifier is many fits of its twin, which meets the other variations.
CV_VARIATIONS = ({"kernel": "rbf"}, {"class_weight": "balanced"})


def configurations():
    for name in discreg.__all__:
        if not name.endswith(("Classifier", "ClassifierCV")):
            continue
        estimator = getattr(discreg, name)
        yield estimator()
        parameters = estimator().get_params()
        for variation in CV_VARIATIONS if name.endswith("CV") else VARIATIONS:
            if parameters.keys() >= variation.keys():
                yield estimator(**variation)


# One check asks for three folds where a class has two samples.
@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
@parametrize_with_checks(list(configurations()))
def test_common_check(estimator, check):
    with warnings.catch_warnings():
        if estimator.get_params().get("solver") == "alternating":
            # The papers' algorithm closes the gap slowly; where it stops early it says so.
            warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)
