"""What has no conversion is refused with the reason and what to do."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreg import (
    AutoClassifier,
    DRMClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReducedRankRegression,
    TablePreprocessor,
)
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.onnx import to_onnx
from discreg.onnx._scores import kernel_rows

X, Y = load_iris(return_X_y=True)


def own_kernel(a, b):
    return float(a @ b)


def test_a_named_kernel_without_a_conversion_is_not_taken_for_another_one():
    with pytest.raises(NotImplementedError, match=r"'wider' cannot be converted.*rbf"):
        kernel_rows(None, FittedKernel("wider", 1.0), "X", X)


@pytest.mark.parametrize("model", [LSRClassifier(), ODMClassifier(), DRMClassifier()])
def test_functions_as_kernels(model):
    model.set_params(kernel=own_kernel).fit(X[::3], Y[::3])
    with pytest.raises(
        NotImplementedError, match=r"own_kernel is a Python function.*'precomputed'"
    ):
        to_onnx(model, X)


@pytest.mark.parametrize("params", [{"penalty": "lasso"}, {"solver": "gd"}])
def test_iterations_for_each_row(params):
    model = DRMClassifier(**params, beta=1.0, max_iter=1000, probability=False).fit(X[::3], Y[::3])
    with pytest.raises(NotImplementedError, match=r"iterates for each new row.*penalty='ridge'"):
        to_onnx(model, X)


def test_texts():
    texts = [f"the patient has symptom number {k} since day {k * k}" for k in range(len(X))]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(report=texts)
    for model in (
        AutoClassifier(families=["kernels"]),
        make_pipeline(TablePreprocessor(), LSRClassifier()),
    ):
        with pytest.raises(NotImplementedError, match="'report' contains texts"):
            to_onnx(model.fit(frame, Y), frame)


@pytest.mark.parametrize("family", ["trees", "boosting"])
def test_trees_are_refused_with_the_families_that_convert(family):
    X, y = make_classification(320, 4, n_informative=3, n_redundant=0, random_state=0)
    with pytest.raises(NotImplementedError, match=r"families=\['kernels', 'logistic'\]"):
        to_onnx(AutoClassifier(families=[family]).fit(X, y), X)
    to_onnx(AutoClassifier(families=["kernels", "logistic"]).fit(X, y), X)


def test_dates_as_labels():
    labels = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[D]")[Y]
    with pytest.raises(NotImplementedError, match=r"datetime64\[D\].*astype\(str\)"):
        to_onnx(LSRClassifier().fit(X, labels), X)


def test_an_unknown_label_that_is_no_integer():
    model = DRMClassifier(reject_above=0.5, unknown_label=np.nan).fit(X, Y.astype(float))
    with pytest.raises(NotImplementedError, match="cannot contain nan"):
        to_onnx(model, X)


def test_a_projection_inside_a_pipeline():
    model = make_pipeline(LRRRClassifier(), LSRClassifier()).fit(X, Y)
    with pytest.raises(NotImplementedError, match="LRRRClassifier is not the last step"):
        to_onnx(model, X)


def test_columns_that_are_not_numbers():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(StandardScaler(), LSRClassifier()).fit(frame, Y)
    with pytest.raises(TypeError, match=r"'a' is of type datetime64.*TablePreprocessor"):
        to_onnx(model, frame.assign(a=pd.Timestamp("2024-01-01")))
    with pytest.raises(TypeError, match="input 'a' is of strings"):
        to_onnx(LSRClassifier().fit(frame, Y), frame.assign(a="text"))


def test_a_table_without_a_column():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=np.array(["u", "v", "w"])[Y])
    model = make_pipeline(TablePreprocessor(), LSRClassifier()).fit(frame, Y)
    with pytest.raises(ValueError, match="one input per column, but there is none for 'a'"):
        to_onnx(model, np.hstack([X, X[:, :1]]))


@pytest.mark.parametrize(
    "model",
    [
        LSRClassifier(),
        ODMClassifier(),
        AutoClassifier(families=["kernels"]),
        make_pipeline(StandardScaler(), LSRClassifier()),
        make_pipeline(TablePreprocessor(), DRMClassifier()),
        GridSearchCV(LSRClassifier(), {"beta": [1.0]}, cv=2),
        ReducedRankRegression(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_rows_with_other_features_than_those_of_fit(model):
    frame = pd.DataFrame(X, columns=list("abcd"))
    targets = X[:, :1] if isinstance(model, ReducedRankRegression) else Y
    for rows in (X[:, :1], np.hstack([X, X]), X[0], frame[["a"]]):
        with pytest.raises(ValueError, match="but the model was fitted to 4 features"):
            to_onnx(model.fit(X, targets), rows)
    model.fit(frame, targets)
    with pytest.raises(ValueError, match="but the model was fitted to 4 features"):
        to_onnx(model, X[:, :1])
    with pytest.raises(ValueError, match="no column 'b', to which the model was fitted"):
        to_onnx(model, frame.drop(columns="b"))


def test_other_misuse():
    with pytest.raises(NotFittedError):
        to_onnx(LSRClassifier(), X)
    with pytest.raises(ValueError, match="no decision values"):
        to_onnx(ReducedRankRegression().fit(X, X), X, raw_scores=True)
    with pytest.raises(ValueError, match="opset of at least 20"):
        to_onnx(LSRClassifier().fit(X, Y), X, target_opset=18)


def test_import_loads_nothing_of_onnx_and_without_it_the_message_names_the_extra():
    program = (
        "import sys, discreg\n"
        "discreg.onnx.to_onnx\n"
        "print({'onnx', 'skl2onnx'} & set(sys.modules))\n"
        "sys.modules['skl2onnx'] = None\n"
        "discreg.onnx.to_onnx(discreg.LSRClassifier(), None)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.strip() == "set()"
    assert 'pip install "discreg[onnx]"' in ended.stderr.splitlines()[-1]
