"""A model on disk comes back as it was, also from a file of an earlier release."""

import json
import pickle
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from cli_runs import kept_models, odd_frame
from rewritten_files import rewritten
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    RepeatedStratifiedKFold,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from stored_models import FOLDER, made_table, rows_for, write

import discreg
from discreg import LSRClassifier, LSRClassifierCV, TablePreprocessor, load_model, save_model
from discreg.base.errors import InputError
from discreg.comparison.candidates.registry import CANDIDATES
from discreg.comparison.prepare import Plan, prepare
from discreg.tables.classifier import ExpectedColumns, TableClassifier, expected_columns
from discreg.tables.table import as_table

NAMES = [each.name for each in CANDIDATES if each.origin in ("discreg", "scikit-learn")]
ESTIMATORS = [name for name in discreg.__all__ if name.endswith(("Classifier", "ClassifierCV"))]
KERNELS = [
    (name, kernel)
    for name in ESTIMATORS
    for kernel in (None, "linear", "rbf", "precomputed")
    if (kernel is not None) == ("kernel" in getattr(discreg, name)().get_params())
]
X, Y = (array[::6] for array in load_iris(return_X_y=True))


def assert_same_predictions(read, fitted, rows):
    for method in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(fitted, method):
            again, before = getattr(read, method)(rows), getattr(fitted, method)(rows)
            np.testing.assert_array_equal(again, before)


def move_classes(path, place):
    """The same file as from a release that had all classes of discreg in one module."""
    rewritten(path, lambda schema: re.sub(r'"discreg\.[\w.]+"', f'"{place}"', schema))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_every_estimator_comes_back_as_it_was(path, name, kernel):
    settings = {"kernel": kernel} if kernel else {}
    if name.endswith("CV"):
        settings["cv"] = 2
    model = getattr(discreg, name)(**settings)
    rows = rbf_kernel(X) if kernel == "precomputed" else X
    fitted = model.fit(rows, Y)
    save_model(fitted, path)
    assert_same_predictions(load_model(path), fitted, rows)


def grid_search(scoring, **settings):
    return GridSearchCV(LSRClassifier(), {"beta": [0.1, 1.0]}, scoring=scoring, cv=2, **settings)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), LSRClassifier(kernel="rbf")),
        LSRClassifierCV(cv=StratifiedShuffleSplit(3, random_state=0)),
        LSRClassifierCV(cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)),
        make_pipeline(FunctionTransformer(np.log1p), KNeighborsClassifier(metric="manhattan")),
        CalibratedClassifierCV(LSRClassifier(), cv=2),
        CalibratedClassifierCV(LSRClassifier(), method="isotonic", cv=2, ensemble=False),
        grid_search(None),
        grid_search("accuracy"),
        grid_search(["f1_macro", "balanced_accuracy"], refit="f1_macro"),
        LSRClassifierCV(scoring="g_mean"),
        discreg.DRMClassifierCV(
            discreg.DRMClassifier(penalty=(2, 1, "identity"), max_iter=1000), alphas=[0.1]
        ),
        LSRClassifierCV(scoring=make_scorer(f1_score, average="macro")),
        GaussianProcessClassifier(),
        GaussianProcessClassifier(1.0 * RBF(2.0) + WhiteKernel()),
        MLPClassifier(max_iter=2),
        MLPClassifier(solver="sgd", max_iter=2),
        StackingClassifier([("lsr", LSRClassifier())], cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_with_parts_of_scikit_learn_come_back(path, model):
    save_model(model.fit(X, Y), path)
    read = load_model(path)
    assert_same_predictions(read, model, X)
    assert read.score(X, Y) == model.score(X, Y)


def test_a_tuned_threshold_comes_back_and_can_be_fitted_again(path):
    fitted = TunedThresholdClassifierCV(LSRClassifier(), cv=2).fit(X, Y > 0)
    save_model(fitted, path)
    read = load_model(path)
    assert_same_predictions(read, fitted, X)
    assert read.fit(X, Y > 0).best_threshold_ == fitted.best_threshold_


def test_a_model_of_sparse_rows_and_one_that_can_be_fitted_further_come_back(path):
    rows = sparse.csr_array(X)
    fitted = LSRClassifier(kernel="rbf").fit(rows, Y)
    save_model(fitted, path)
    assert_same_predictions(load_model(path), fitted, rows)
    begun = LSRClassifier().partial_fit(X[::2], Y[::2], classes=np.unique(Y))
    save_model(begun, path)
    further = load_model(path).partial_fit(X[1::2], Y[1::2])
    begun.partial_fit(X[1::2], Y[1::2])
    np.testing.assert_array_equal(further.decision_function(X), begun.decision_function(X))
    # A file contains no training rows: the later rows alone calibrate the probabilities.
    assert np.isfinite(further.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("model", "moved"),
    [
        (discreg.DRMClassifier(kernel="rbf"), True),
        pytest.param(discreg.DRMClassifier(kernel="rbf"), False, marks=pytest.mark.full),
        pytest.param(CalibratedClassifierCV(LSRClassifier(), cv=2), True, marks=pytest.mark.full),
    ],
)
def test_another_process_reads_the_file(path, model, moved):
    save_model(model.fit(X, Y), path)
    if moved:
        move_classes(path, "discreg.old_place")
    program = (
        f"import discreg; model = discreg.load_model({str(path)!r}); "
        "print(type(model).__name__, len(model.classes_))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.split() == [type(model).__name__, "3"], said.stderr


def own_kernel(a, b):
    return float(a @ b)


@pytest.mark.parametrize("kernel", [own_kernel, lambda a, b: float(a @ b)], ids=["def", "lambda"])
def test_a_callable_kernel_is_refused_with_advice_when_it_is_saved(path, kernel):
    model = make_pipeline(StandardScaler(), LSRClassifier(kernel=kernel)).fit(X, Y)
    with pytest.raises(InputError, match=r"parameter lsrclassifier__kernel.*'precomputed'"):
        save_model(model, path)
    assert not list(path.parent.iterdir())


def test_a_model_that_is_not_fitted_is_refused(path):
    with pytest.raises(NotFittedError):
        save_model(LSRClassifier(), path)


@pytest.mark.parametrize(
    ("model", "named"),
    [({"f": len}, "dict"), ([LSRClassifier()], "list"), (LSRClassifier, "class LSRClassifier")],
)
def test_what_is_no_estimator_is_not_saved(path, model, named):
    with pytest.raises(InputError, match=f"takes a fitted estimator or pipeline, not {named}"):
        save_model(model, path)
    assert not path.exists()


def test_what_is_missing_without_skops_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (lambda: save_model(LSRClassifier().fit(X, Y), path), lambda: load_model(path)):
        with pytest.raises(InputError, match=r"pip install 'discreg\[compare\]'"):
            call()


# The models of a comparison


@pytest.fixture
def table(tmp_path):
    odd_frame().to_csv(tmp_path / "odd.csv", index=False)
    return as_table(tmp_path / "odd.csv", target="kind")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_comes_back_as_it_was(tmp_path, path, monkeypatch, table, name):
    experiment = prepare(table, Plan(candidates=[name], cv=3)).experiment
    kept = kept_models(monkeypatch)
    pipeline = experiment.final(name)
    sent = pickle.loads(pickle.dumps(pipeline))  # as from the process that fits it
    save_model(TableClassifier.of(sent, table), path)
    (fitted,) = kept
    read = load_model(path)
    new = pd.read_csv(tmp_path / "odd.csv").drop(columns="kind").iloc[::-1, ::-1]
    rows = table.X.iloc[::-1]
    np.testing.assert_array_equal(read.predict(new), fitted.predict(rows))
    np.testing.assert_array_equal(read.classes_, fitted.classes_)
    assert hasattr(read, "predict_proba") == hasattr(fitted, "predict_proba")
    if hasattr(fitted, "predict_proba"):
        np.testing.assert_array_equal(read.predict_proba(new), fitted.predict_proba(rows))


@pytest.fixture
def small(path):
    """The path of a model of the columns a and b."""
    frame = pd.DataFrame({"a": [0.0, 1.0, 0.0, 1.0], "b": [1.0, 1.0, 0.0, 0.0]})
    pipeline = make_pipeline(TablePreprocessor(), LogisticRegression()).fit(frame, [0, 1, 0, 1])
    columns = {"kinds": {"a": "numeric", "b": "numeric"}, "n_features": 2}
    save_model(TableClassifier(pipeline, columns), path)
    return path


def test_columns_are_found_by_name(small):
    model = load_model(small)
    frame = pd.DataFrame({"more": ["u", "v"], "b": [0.5, 0.5], "a": [1, 0]})
    assert model.predict(frame).tolist() == [1, 0]


def test_other_columns_are_refused_by_name(small):
    with pytest.raises(InputError, match="1 of 2 columns are missing: 'b'"):
        load_model(small).predict(pd.DataFrame({"a": [1.0]}))
    with pytest.raises(InputError, match="a data frame with 'a', 'b', not ndarray"):
        load_model(small).predict(np.ones((1, 2)))


def test_expected_columns_come_back(path, table):
    pipeline = prepare(table, Plan(candidates=["LSR"])).experiment.final("LSR")
    save_model(TableClassifier.of(pipeline, table), path)
    assert load_model(path).expected == expected_columns(table)
    assert isinstance(load_model(path).expected, ExpectedColumns)


# Files of other releases


def test_a_file_names_the_release_that_wrote_it(path):
    save_model(LSRClassifier().fit(X, Y), path)
    with zipfile.ZipFile(path) as file:
        assert json.loads(file.read("discreg.json")) == {
            "format": 1,
            "discreg": discreg.__version__,
        }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*/*.skops")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_files_of_released_versions_predict_the_same(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    new = rows_for(path.stem, made_table()[0])[: len(expected["labels"])]
    model = load_model(path)
    assert model.predict(new).tolist() == expected["labels"]
    np.testing.assert_allclose(model.predict_proba(new), expected["probabilities"], atol=1e-10)


def test_a_search_without_a_model_predicts_and_can_be_fitted_again():
    """Searches of 0.2.0 had the parameters of their models in place of a model."""
    frame, labels = made_table()
    rows = rows_for("search", frame)
    fitted = LSRClassifierCV().fit(rows, labels)
    state = {name: value for name, value in fitted.__getstate__().items() if name != "estimator"}
    search = LSRClassifierCV.__new__(LSRClassifierCV)
    search.__setstate__(state)
    for each in (search, clone(search).fit(rows, labels)):
        scores = each.decision_function(rows)
        np.testing.assert_array_equal(scores, fitted.decision_function(rows))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_an_automatic_choice_of_another_release_is_refused_by_name():
    with pytest.raises(InputError, match=r"0\.2\.0.*fit it again"):
        load_model(FOLDER.parent / "auto_0.2.0.skops")


def test_the_files_of_a_release_are_those_that_it_would_write(tmp_path):
    write(tmp_path)
    stored = FOLDER / "0.2.0"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in stored.iterdir()}
    assert sum(path.stat().st_size for path in stored.iterdir()) < 50_000


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (discreg.DRMClassifier(kernel="rbf"), "discreg.old_place"),
        (discreg.DRMClassifier(kernel="rbf"), "discreg.representation._old_module"),
        (LSRClassifierCV(), "discreg.tables.table"),
        (make_pipeline(StandardScaler(), discreg.ODMClassifier()), "discreg.old.deeper.place"),
    ],
)
def test_classes_that_have_moved_since_are_found(path, model, place):
    save_model(model.fit(X, Y), path)
    move_classes(path, place)
    assert_same_predictions(load_model(path), model, X)
