"""scikit-learn's common checks on every public estimator. None is expected to fail.

Every model passes all checks with its default parameters. A variant that solves the problem in
another way passes the checks that the way of solving can break; its other checks are marked
``full``, as are those of AutoClassifier with all families.
"""

import re
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

import discreg

ENDINGS = ("Classifier", "Regression", "Preprocessor")
# One family of AutoClassifier is quick. All searches share one engine: one with leave-one-out and
# one with folds are checked.
SEVERAL = {
    "AutoClassifier": {"families": ["logistic"]},
    "LSRClassifierCV": {"betas": (1.0, 0.1)},
    "ODMClassifierCV": {
        "estimator": discreg.ODMClassifier(random_state=0),
        "C1s": (10.0, 100.0),
        "C2s": (10.0,),
        "Ds": (0.1,),
        "gammas": ("scale",),
    },
}
# One variant for each way of solving, without probabilities, which all of them find alike. Linear
# DRM has no intercept, so that one check's centred clusters are beyond it; its solver is checked
# with the features of "n_components". LRLR with a kernel fits the targets exactly, whatever the
# class weights, and is not checked.
VARIANTS = {
    "AutoClassifier": [{"families": "auto"}],
    "LSRClassifier": [{"kernel": "rbf"}, {"within_class": 1.0}],
    "ReLSRClassifier": [
        {"kernel": "rbf", "probability": False},
        {"solver": "alternating", "max_iter": 30, "probability": False},
    ],
    "LRRRClassifier": [{"beta": 0.1, "kernel": "rbf"}],
    "SLRRClassifier": [{"solver": "reweighted", "probability": False}],
    "DRMClassifier": [
        {"solver": "ppa", "probability": False},
        {"penalty": "lasso", "tol": 1e-3, "probability": False},
        {"n_components": 10, "probability": True, "random_state": 0},
    ],
    "ODMClassifier": [
        {"kernel": "linear"},
        {"kernel": "linear", "solver": "dcd", "probability": False},
        {"kernel": "linear", "solver": "svrg", "random_state": 0, "probability": False},
    ],
    "LDMClassifier": [{"kernel": "linear"}],
}
# Checks of the data as they reach a solver, and of what it makes of them.
CHECKS_OF_A_VARIANT = {
    "check_class_weight_classifiers",
    "check_classifiers_one_label",
    "check_classifiers_one_label_sample_weights",
    "check_decision_proba_consistency",
    "check_dict_unchanged",
    "check_estimator_sparse_array",
    "check_estimators_dtypes",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_non_transformer_estimators_n_iter",
    "check_readonly_memmap_input",
    "check_regressor_multioutput",
    "check_regressors_train(readonly_memmap=True,X_dtype=float32)",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_classifiers_train(readonly_memmap=True,X_dtype=float32)",
}


def title_of(check):
    keywords = ",".join(f"{key}={value}" for key, value in check.keywords.items())
    return check.func.__name__ + (f"({keywords})" if keywords else "")


# Stochastic gradients draw other samples for weights than for repeated rows, and stop at `tol`.
# scikit-learn leaves these checks out for SGDClassifier too.
EXACT_CHECKS = "check_sample_weight_equivalence"


def pairs_of_estimator_and_check():
    models = {name: {} for name in discreg.__all__ if name.endswith(ENDINGS)}
    for name, params in (models | SEVERAL).items():
        for variant in [{}, *VARIANTS.get(name, [])]:
            instance = getattr(discreg, name)(**(params | variant))
            for candidate, check in estimator_checks_generator(instance):
                title = title_of(check)
                if variant.get("solver") == "svrg" and title.startswith(EXACT_CHECKS):
                    continue
                marks = [] if variant == {} else [pytest.mark.variant]
                if "families" in variant or (variant and title not in CHECKS_OF_A_VARIANT):
                    marks.append(pytest.mark.full)
                parameters = re.sub(r"\s", "", str(candidate))
                yield pytest.param(candidate, check, marks=marks, id=f"{parameters}-{title}")


# One check asks for three folds where a class has two samples, several have random labels or few
# samples for the penalty of SLRR, and those of sample weights have classes of one sample.
@pytest.mark.filterwarnings(
    "ignore:Class.* only one distinct row, which cannot be held out:UserWarning"
)
@pytest.mark.filterwarnings("ignore:.* class frequencies are the prediction:UserWarning")
@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
@pytest.mark.filterwarnings("ignore:All coefficients are zero with beta=1:UserWarning")
@pytest.mark.parametrize(("estimator", "check"), list(pairs_of_estimator_and_check()))
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
