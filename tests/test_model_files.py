"""A model on disk: it comes back as it was, and strange or hostile files are refused."""

import json
import pickle
import re
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import contextmanager
from functools import partial

import numpy as np
import pandas as pd
import pytest
from cli_runs import kept_models, odd_frame
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, check_scoring, f1_score, fbeta_score, make_scorer
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
from skops import io

import discreg
from discreg import LSRClassifier, LSRClassifierCV, load_model, save_model
from discreg.base.errors import InputError
from discreg.comparison.candidates import CANDIDATES
from discreg.comparison.nested_cv import NestedCrossValidation
from discreg.tables.classifier import ExpectedColumns, TableClassifier, expected_columns
from discreg.tables.table import read_table

NAMES = [candidate.name for candidate in CANDIDATES]
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


def rewritten(path, change):
    """The same file with another schema."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members["schema.json"] = change(members["schema.json"].decode()).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)


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
    assert_same_predictions(further, begun.partial_fit(X[1::2], Y[1::2]), X)


@pytest.mark.parametrize(
    "moved",
    [pytest.param(False, marks=pytest.mark.full, id="as written"), pytest.param(True, id="moved")],
)
@pytest.mark.parametrize(
    "model",
    [discreg.DRMClassifier(kernel="rbf"), CalibratedClassifierCV(LSRClassifier(), cv=2)],
    ids=lambda model: type(model).__name__,
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
    return read_table(tmp_path / "odd.csv", target="kind")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_comes_back_as_it_was(tmp_path, path, monkeypatch, table, name):
    experiment = NestedCrossValidation(table, [name], n_repeats=1, n_folds=3)
    kept = kept_models(monkeypatch)
    pipeline, _ = experiment.final(name)
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
    both = ColumnTransformer([("both", "passthrough", ["a", "b"])])
    pipeline = make_pipeline(both, LogisticRegression()).fit(frame, [0, 1, 0, 1])
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
    with pytest.raises(InputError, match="a pandas data frame, not ndarray"):
        load_model(small).predict(np.ones((1, 2)))


def test_expected_columns_come_back(path, table):
    pipeline, _ = NestedCrossValidation(table, ["LSR"]).final("LSR")
    save_model(TableClassifier.of(pipeline, table), path)
    assert load_model(path).expected == expected_columns(table)
    assert isinstance(load_model(path).expected, ExpectedColumns)


# Files that nobody should read


def write_hostile(model, path):
    """A file of anything, with the metadata of a model file."""
    io.dump(model, path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("discreg.json", json.dumps({"format": 1, "discreg": "0.1.0"}))


def with_part(part):
    """A fitted model that holds something as an attribute."""
    model = LSRClassifier().fit(X, Y)
    model.part_ = part
    return model


class Foreign(ClassifierMixin, BaseEstimator):
    """An estimator of another package than discreg and scikit-learn."""


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (Foreign(), "test_model_files.Foreign"),
        (FunctionTransformer(pd.DataFrame.abs), "pandas.*abs"),
        (FunctionTransformer(np.testing.measure), r"numpy\.testing.*measure"),  # executes a text
        (rbf_kernel, r"sklearn\.metrics\.pairwise\.rbf_kernel"),
        (fbeta_score, r"sklearn\.metrics.*\.fbeta_score"),  # public, but of no named scorer
        (make_scorer(fbeta_score, beta=2), r"sklearn\.metrics.*\.fbeta_score"),
        (make_scorer, r"sklearn\.metrics.*\.make_scorer"),
        (check_scoring, r"sklearn\.metrics.*\.check_scoring"),
        (partial(accuracy_score, normalize=False), r"functools\.partial"),
        (make_scorer(accuracy_score).__call__, r"_Scorer\.__call__"),
        (SelectKBest(), r"sklearn.*\.f_classif"),
        (partial(rbf_kernel, gamma=1.0), r"functools\.partial"),
        (StandardScaler().fit, r"StandardScaler\.fit"),
        (load_model, r"discreg\.model_files\.load_model"),
        (read_table, r"discreg\.tables\.table\.read_table"),
        (NestedCrossValidation, r"discreg\.comparison\.nested_cv\.NestedCrossValidation"),
        (subprocess.Popen, r"subprocess\.Popen"),
        (eval, r"builtins\.eval"),
    ],
    ids=lambda value: value.replace("\\", "") if isinstance(value, str) else "",
)
def test_what_is_no_estimator_of_ours_or_of_scikit_learn_is_refused_by_name(path, part, named):
    with pytest.raises(InputError, match=f"not trusted: .*{named}"):
        save_model(with_part(part), path)
    assert not path.exists()
    write_hostile(with_part(part), path)
    with pytest.raises(InputError, match=f"not trusted: .*{named}"):
        load_model(path)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("discreg.tables.table", "read_table"),
        ("discreg.comparison.store", "Store"),
        ("discreg.cli", "main"),
        ("discreg", "LSRClassifier"),
        ("discreg.tables.table", "Path"),
        ("discreg.retargeted._lsr", "LSRClassifier.fit"),
        ("discreg.no_such_module", "Anything"),
        ("sklearn.utils._mocking", "MockDataFrame"),
        ("sklearn.no_such_module", "Anything"),
        ("sklearn.metrics", "accuracy_score"),  # files name functions by where they are defined
        ("sklearn.metrics._scorer", "get_scorer"),
        ("sklearn.calibration", "calibration_curve"),
        ("sklearn.gaussian_process.kernels", "clone"),
        ("os", "system"),
    ],
)
@pytest.mark.parametrize("loader", ["ObjectNode", "ConstructorFromReduceNode", "FunctionNode"])
def test_a_file_cannot_name_a_type_that_is_not_an_estimator(path, module, name, loader):
    write_hostile(with_part(StandardScaler()), path)
    rewritten(
        path,
        lambda schema: (
            schema.replace('"__class__": "StandardScaler",\n', f'"__class__": "{name}",\n')
            .replace('"sklearn.preprocessing._data"', f'"{module}"')
            .replace(
                f'"{module}",\n          "__loader__": "ObjectNode"',
                f'"{module}",\n          "__loader__": "{loader}"',
            )
        ),
    )
    with pytest.raises(InputError, match=f"not trusted: {module}.{name}"):
        load_model(path)


def test_a_file_does_not_import_the_modules_it_names(path):
    write_hostile(with_part(StandardScaler()), path)
    rewritten(path, lambda schema: schema.replace("sklearn.preprocessing._data", "antigravity"))
    with pytest.raises(InputError, match=r"not trusted: antigravity\.StandardScaler"):
        load_model(path)
    assert "antigravity" not in sys.modules


def test_a_format_from_the_future_is_refused_with_advice(path):
    io.dump(LSRClassifier().fit(X, Y), path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("discreg.json", json.dumps({"format": 2, "discreg": "7.1.0", "more": 1}))
    with pytest.raises(InputError, match=r"format 2, .* by discreg 7\.1\.0: .*discreg==7\.1\.0"):
        load_model(path)


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


@pytest.mark.parametrize("name", ["GoneClassifier", "NestedCrossValidation", "read_table"])
def test_what_discreg_no_longer_has_is_refused_with_advice(path, name):
    write_hostile(LSRClassifier().fit(X, Y), path)
    rewritten(
        path,
        lambda schema: schema.replace('"LSRClassifier"', f'"{name}"').replace(
            '"discreg.retargeted._lsr"', '"discreg.old_place"'
        ),
    )
    advice = r"written by discreg 0\.1\.0: install that version .*, or fit and save"
    with pytest.raises(InputError, match=rf"not trusted: discreg\.old_place\.{name}\. .*{advice}"):
        load_model(path)


def test_a_file_names_the_release_that_wrote_it(path):
    save_model(LSRClassifier().fit(X, Y), path)
    with zipfile.ZipFile(path) as file:
        assert json.loads(file.read("discreg.json")) == {
            "format": 1,
            "discreg": discreg.__version__,
        }


def test_a_file_without_metadata_is_refused(path):
    io.dump(LSRClassifier().fit(X, Y), path)
    with pytest.raises(InputError, match=r"does not contain discreg\.json.*skops\.io\.load"):
        load_model(path)


@pytest.mark.parametrize("metadata", ["", "[]", "{}", '{"format": 1}', '{"format": 2}'])
def test_a_file_with_broken_metadata_is_refused(path, metadata):
    io.dump(LSRClassifier().fit(X, Y), path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("discreg.json", metadata)
    with pytest.raises(InputError, match="not a model file of discreg"):
        load_model(path)


def test_what_is_no_model_file_is_refused(tmp_path, path, table):
    with pytest.raises(InputError, match="There is no file"):
        load_model(path)
    with pytest.raises(InputError, match="not a model file of discreg"):
        load_model(tmp_path / "odd.csv")


def test_a_cut_file_is_refused(small):
    small.write_bytes(small.read_bytes()[:-200])
    with pytest.raises(InputError, match="not a model file of discreg"):
        load_model(small)


# Small files with large contents

LARGE = 2**22  # numbers of 8 bytes
MB = 2**20


def compressed(path, method=zipfile.ZIP_DEFLATED):
    """The same file, compressed."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)


def with_stated_size(path, size):
    """The same file with another size of its largest member in the directory of the file."""
    with zipfile.ZipFile(path) as file:
        largest = max(file.infolist(), key=lambda info: info.file_size)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02", 0, content.rindex(largest.filename.encode()))
    assert struct.unpack_from("<L", content, place + 24) == (largest.file_size,)
    struct.pack_into("<L", content, place + 24, size)
    path.write_bytes(content)


@contextmanager
def memory_below(n_bytes):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < n_bytes
    finally:
        tracemalloc.stop()


def test_contents_larger_than_the_limit_are_refused_before_they_are_read(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path)
    assert path.stat().st_size < MB
    told = (
        r"model\.skops take 3\d,\d{3},\d{3} bytes .* limit is 16,777,216 bytes.* max_bytes=3\d{7}\)"
    )
    with memory_below(4 * MB), pytest.raises(InputError, match=told):
        load_model(path, max_bytes=16 * MB)
    assert load_model(path, max_bytes=64 * MB).part_.shape == (LARGE,)


def test_the_limit_is_one_gigabyte_unless_it_is_given(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path)
    with_stated_size(path, 2**30)
    with memory_below(4 * MB), pytest.raises(InputError, match="limit is 1,073,741,824 bytes"):
        load_model(path)


def test_a_member_that_is_larger_than_it_states_is_refused_within_the_limit(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path)
    with_stated_size(path, 200)
    with memory_below(4 * MB), pytest.raises(InputError, match="not a model file of discreg"):
        load_model(path, max_bytes=16 * MB)


def test_a_compressed_matrix_inside_the_file_counts(path):
    write_hostile(with_part(sparse.csr_array((LARGE, 1))), path)
    assert path.stat().st_size < MB
    with memory_below(4 * MB), pytest.raises(InputError, match="limit is 8,388,608 bytes"):
        load_model(path, max_bytes=8 * MB)
    assert load_model(path).part_.shape == (LARGE, 1)


def test_an_array_that_is_read_several_times_counts_each_time(path):
    write_hostile(with_part([np.zeros(MB), *(np.zeros(place) for place in range(30))]), path)
    with zipfile.ZipFile(path) as file:
        largest = max(file.infolist(), key=lambda info: info.file_size).filename
    rewritten(path, lambda schema: re.sub(r'"file": "[^"]+"', f'"file": "{largest}"', schema))
    with memory_below(40 * MB), pytest.raises(InputError, match="take 30"):
        load_model(path, max_bytes=100 * MB)


def test_an_array_that_two_attributes_share_counts_once(path):
    array = np.zeros(MB)
    save_model(with_part([array] * 30), path)
    with memory_below(80 * MB):
        read = load_model(path, max_bytes=16 * MB)
    assert all(each is read.part_[0] for each in read.part_)


@pytest.mark.parametrize("member", ["discreg.json", "schema.json"])
def test_text_that_takes_much_memory_when_it_is_read_is_refused(path, member):
    members = {"discreg.json": json.dumps({"format": 1, "discreg": "0.1.0"}), "schema.json": "{}"}
    members[member] = "[" + "[]," * MB + "[]]"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    with memory_below(16 * MB), pytest.raises(InputError, match="limit is 67,108,864 bytes"):
        load_model(path, max_bytes=64 * MB)


def test_a_compression_whose_size_cannot_be_limited_is_refused(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path, zipfile.ZIP_BZIP2)
    with pytest.raises(InputError, match=r"in a compression that .* Save the model again"):
        load_model(path)
