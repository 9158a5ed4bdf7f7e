"""scikit-learn's common checks on every public estimator. None is expected to fail."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreg

# A few parameters away from the defaults; an estimator takes those that it has.
VARIATIONS = (
    {"kernel": "rbf"},
    {"class_weight": "balanced"},
    {"solver": "alternating", "max_iter": 30},
    {"penalty": "l21"},
)
# Linear DRM has no intercept, so that one check's centred clusters are beyond it; its solver is
# checked with the features of "n_components".
DRM_VARIATIONS = (
    {"probability": True, "class_weight": "balanced"},
    {"solver": "ppa"},
    {"penalty": "lasso"},
    {"n_components": 20, "probability": True, "random_state": 0},
)
MARGIN_VARIATIONS = (
    {"kernel": "linear", "class_weight": "balanced"},
    {"kernel": "linear", "solver": "dcd", "selection": "cyclic"},
    {"kernel": "linear", "solver": "svrg", "random_state": 0},
)
# Not LRLR with a kernel: it fits the targets exactly, whatever the class weights.
LOW_RANK_VARIATIONS = (
    {"beta": 0.1, "kernel": "rbf", "class_weight": "balanced"},
    {"solver": "reweighted", "class_weight": "balanced"},
    {"class_weight": "balanced"},
)
SPECIAL_VARIATIONS = {
    "LRLRClassifier": LOW_RANK_VARIATIONS,
    "LRRRClassifier": LOW_RANK_VARIATIONS,
    "SLRRClassifier": LOW_RANK_VARIATIONS,
    "DRMClassifier": DRM_VARIATIONS,
    "ODMClassifier": MARGIN_VARIATIONS,
    "LDMClassifier": MARGIN_VARIATIONS,
}
# Every fit of a ...CV classifier is many fits of its twin: a small grid is enough of them.
SMALL_GRID = {
    "betas": (1.0, 0.1),
    "group_penalties": (1.0, 0.0),
    "alphas": (0.1,),
    "gammas": ("scale",),
    "C1s": (10.0, 100.0),
    "C2s": (10.0,),
    "Ds": (0.1,),
}
CV_VARIATIONS = (
    {},
    {"kernel": "rbf", "class_weight": "balanced"},
    {"betas": (1.0,), "ranks": None, "cv": 3},
)


def configurations():
    for name in discreg.__all__:
        if not name.endswith(("Classifier", "ClassifierCV")):
            continue
        estimator = getattr(discreg, name)
        parameters = estimator().get_params()
        if name.endswith("CV"):
            grid = {key: values for key, values in SMALL_GRID.items() if key in parameters}
            for variation in CV_VARIATIONS:
                if parameters.keys() >= variation.keys():
                    yield estimator(**(grid | variation))
        else:
            yield estimator()
            for variation in SPECIAL_VARIATIONS.get(name, VARIATIONS):
                if parameters.keys() >= variation.keys():
                    yield estimator(**variation)


# One check asks for three folds where a class has two samples.
@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
@parametrize_with_checks(list(configurations()))
def test_common_check(estimator, check):
    with warnings.catch_warnings():
        parameters = estimator.get_params()
        if (
            parameters.get("solver") in ("alternating", "ppa", "svrg", "reweighted")
            or "lasso" in parameters.values()
        ):
            # The papers' algorithms converge slowly; where they stop early they say so.
            warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)
