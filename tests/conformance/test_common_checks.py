"""scikit-learn's common checks on every public estimator. None is expected to fail.

Every estimator passes all checks with its default parameters. A variant that solves the problem in
another way passes the checks that the way of solving can break. Its other checks, and the variants
that are solved like one of these, are marked ``full``.
"""

import re
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

import discreg

ENDINGS = ("Classifier", "ClassifierCV", "Regression", "RegressionCV", "Preprocessor")
# Every fit of a ...CV classifier is many fits of its estimator: a small grid is enough of them.
SMALL_GRID = {
    "betas": (1.0, 0.1),
    "group_penalties": (1.0, 0.0),
    "alphas": (0.1,),
    "gammas": ("scale",),
    "C1s": (10.0, 100.0),
    "C2s": (10.0,),
    "Ds": (0.1,),
    "Cs": (1.0, 10.0),
    "lambda1s": (0.1,),
    "lambda2s": (0.1,),
}
# One variant for each way of solving. Linear DRM has no intercept, so that one check's centred
# clusters are beyond it; its solver is checked with the features of "n_components". LRLR with a
# kernel fits the targets exactly, whatever the class weights, and is not checked.
VARIANTS = {
    "LSRClassifier": [{"kernel": "rbf"}, {"within_class": 1.0}],
    "ReLSRClassifier": [{"kernel": "rbf"}, {"solver": "alternating", "max_iter": 30}],
    "GReLSRClassifier": [{"penalty": "l21"}, {"translation_penalty": "l1", "within_class": 1.0}],
    "LRRRClassifier": [{"beta": 0.1, "kernel": "rbf", "class_weight": "balanced"}],
    "SLRRClassifier": [{"solver": "reweighted", "class_weight": "balanced"}],
    "DRMClassifier": [
        {"solver": "ppa"},
        {"penalty": "lasso"},
        {"n_components": 20, "probability": True, "random_state": 0},
    ],
    "ODMClassifier": [
        {"kernel": "linear"},
        {"kernel": "linear", "solver": "dcd", "selection": "cyclic"},
        {"kernel": "linear", "solver": "svrg", "random_state": 0},
    ],
    "LDMClassifier": [
        {"kernel": "linear"},
        {"kernel": "linear", "solver": "svrg", "random_state": 0},
    ],
    "ReducedRankRegression": [{"penalty": "l21"}],
    "ReducedRankRegressionCV": [{"penalty": "l21"}],
    "ReLSRClassifierCV": [
        {"kernel": "rbf", "class_weight": "balanced"},
        {"within_classes": (1.0, 0.0)},
    ],
    "LRRRClassifierCV": [{"betas": (1.0,), "ranks": None, "cv": 3}],
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
RBF = {"kernel": "rbf"}
BALANCED = {"class_weight": "balanced"}
ALTERNATING = {"solver": "alternating", "max_iter": 30}
SPARSE = {"penalty": "l21"}
FURTHER_VARIANTS = {
    "LSRClassifier": [BALANCED],
    "DLSRClassifier": [RBF, BALANCED, ALTERNATING, SPARSE],
    "ReLSRClassifier": [BALANCED, SPARSE],
    "GReLSRClassifier": [RBF, BALANCED, ALTERNATING, {"translation_penalty": "l2"}],
    "LRLRClassifier": [BALANCED],
    "LRRRClassifier": [BALANCED],
    "SLRRClassifier": [BALANCED],
    "DRMClassifier": [{"probability": True} | BALANCED],
    "ODMClassifier": [{"kernel": "linear"} | BALANCED],
    "LDMClassifier": [
        {"kernel": "linear"} | BALANCED,
        {"kernel": "linear", "solver": "dcd", "selection": "cyclic"},
    ],
    "LSRClassifierCV": [RBF | BALANCED, {"within_classes": (1.0, 0.0)}],
    "DLSRClassifierCV": [RBF | BALANCED],
    "GReLSRClassifierCV": [RBF | BALANCED],
    "SLRRClassifierCV": [{"ranks": None, "cv": 3}],
    "DRMClassifierCV": [RBF | BALANCED, {"penalty": "lasso"}],
    "ODMClassifierCV": [BALANCED],
}


def title_of(check):
    keywords = ",".join(f"{key}={value}" for key, value in check.keywords.items())
    return check.func.__name__ + (f"({keywords})" if keywords else "")


# Stochastic gradients draw other samples for weights than for repeated rows, and stop at `tol`.
# scikit-learn leaves these checks out for SGDClassifier too.
EXACT_CHECKS = "check_sample_weight_equivalence"


def pairs_of_estimator_and_check():
    for name in discreg.__all__:
        if not name.endswith(ENDINGS):
            continue
        estimator = getattr(discreg, name)
        taken = estimator().get_params()
        grid = {key: values for key, values in SMALL_GRID.items() if key in taken}
        variants = [{}, *VARIANTS.get(name, []), *FURTHER_VARIANTS.get(name, [])]
        for number, variant in enumerate(variants):
            instance = estimator(**(grid | variant))
            quick = CHECKS_OF_A_VARIANT if number <= len(VARIANTS.get(name, [])) else set()
            for candidate, check in estimator_checks_generator(instance):
                title = title_of(check)
                if variant.get("solver") == "svrg" and title.startswith(EXACT_CHECKS):
                    continue
                marks = [] if variant == {} else [pytest.mark.variant]
                if variant != {} and title not in quick:
                    marks.append(pytest.mark.full)
                parameters = re.sub(r"\s", "", str(candidate))
                yield pytest.param(candidate, check, marks=marks, id=f"{parameters}-{title}")


# One check asks for three folds where a class has two samples, several have random labels or few
# samples for the penalty of SLRR, and those of sample weights have classes of one sample.
@pytest.mark.filterwarnings("ignore:Class.* only one sample, which cannot be held out:UserWarning")
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
