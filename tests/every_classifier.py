"""All classifiers of the package, searches and AutoClassifier with few candidates."""

import pytest
from searches import make_search

import discreg

SMALL_GRIDS = {
    "families": ["logistic"],
    "betas": (1.0, 0.1),
    "group_penalties": (1.0,),
    "alphas": (0.1,),
    "gammas": ("scale",),
    "C1s": (100.0,),
    "C2s": (10.0,),
    "Ds": (0.1,),
    "Cs": (100.0,),
    "lambda1s": (0.1,),
    "lambda2s": (0.1,),
}
# AutoClassifier chooses among the models and has tests of its own in tests/auto.
MODELS = [
    name for name in discreg.__all__ if name.endswith("Classifier") and name != "AutoClassifier"
]
SEARCHES = [name for name in discreg.__all__ if name.endswith("ClassifierCV")]
every_model = pytest.mark.parametrize("name", MODELS)
every_classifier = pytest.mark.parametrize("name", [*MODELS, *SEARCHES])
every_estimator = pytest.mark.parametrize("name", [*MODELS, *SEARCHES, "AutoClassifier"])


def make(name, **params):
    found = getattr(discreg, name)
    known = found().get_params()
    params |= {key: value for key, value in SMALL_GRIDS.items() if key in known}
    return make_search(found, **params) if name in SEARCHES else found(**params)
