"""All classifiers of the package, searches with few candidates."""

import pytest

import discreg

SMALL_GRIDS = {
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
    model = getattr(discreg, name)()
    given = {key: value for key, value in SMALL_GRIDS.items() if hasattr(model, key)}
    return model.set_params(**given, **params)
