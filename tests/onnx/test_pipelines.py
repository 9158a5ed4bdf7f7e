"""Pipelines, options of skl2onnx, names of inputs and outputs."""

import numpy as np
import pandas as pd
import pytest
import skl2onnx
from onnx_runs import columns_of, run, run_on_frame, session_of
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from discreg import DRMClassifier, LSRClassifier, ODMClassifier, ReLSRClassifier
from discreg.onnx import register, to_onnx

FRAME, Y = load_wine(return_X_y=True, as_frame=True)  # a name of a column contains a slash
X, Y = FRAME.to_numpy(), Y.to_numpy()
WORDS = np.array(["low", "mid", "high"])[Y]


def names_of(parts):
    return [each.name for each in parts]


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), ODMClassifier()),
        make_pipeline(make_pipeline(StandardScaler()), make_pipeline(DRMClassifier())),
        GridSearchCV(
            make_pipeline(StandardScaler(), LSRClassifier()), {"lsrclassifier__beta": [1]}
        ),
        make_pipeline(StandardScaler(), GridSearchCV(ReLSRClassifier(), {"beta": [0.1, 1]}, cv=2)),
        make_pipeline(StandardScaler(), CalibratedClassifierCV(LSRClassifier(), cv=2)),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_pipelines_with_scikit_learn(model):
    model.fit(X, WORDS)
    label, probabilities = run(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-6)


def test_columns_of_a_frame_are_inputs():
    halves = [(StandardScaler(), list(FRAME)[:6]), (MinMaxScaler(), list(FRAME)[6:])]
    steps = [(str(place), *half) for place, half in enumerate(halves)]
    for first in (StandardScaler(), ColumnTransformer(steps)):
        model = make_pipeline(first, ReLSRClassifier()).fit(FRAME, WORDS)
        converted = to_onnx(model, FRAME)
        assert names_of(converted.graph.input) == list(FRAME)
        label, probabilities = run_on_frame(model, FRAME)
        np.testing.assert_array_equal(label, model.predict(FRAME))
        np.testing.assert_allclose(probabilities, model.predict_proba(FRAME), atol=1e-10)


def test_columns_are_those_of_fit_in_any_order():
    model = LSRClassifier().fit(FRAME, Y)
    others = FRAME[list(FRAME)[::-1]].assign(more="text")
    assert names_of(to_onnx(model, others).graph.input) == list(FRAME)
    np.testing.assert_array_equal(run_on_frame(model, others)[0], model.predict(FRAME))
    with pytest.raises(ValueError, match="no column 'alcohol'"):
        to_onnx(model, FRAME.drop(columns="alcohol"))


def test_a_column_transformer_with_strings_and_unused_columns():
    frame = FRAME.assign(colour=np.where(FRAME["hue"] > 1, "red", "blue"), day=pd.Timestamp("2024"))
    frame["proline"] = frame["proline"].astype(int)
    steps = [
        ("number", StandardScaler(), ["proline", "hue"]),
        ("category", OneHotEncoder(sparse_output=False), ["colour"]),
    ]
    model = make_pipeline(ColumnTransformer(steps), LSRClassifier()).fit(frame, Y)
    label, probabilities = run_on_frame(model, frame)
    np.testing.assert_array_equal(label, model.predict(frame))
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), atol=1e-5)


def test_outputs_are_named_after_what_they_are():
    model = LSRClassifier().fit(X, Y)
    assert names_of(to_onnx(model, X).graph.output) == ["label", "probabilities"]
    assert names_of(to_onnx(model, X, raw_scores=True).graph.output) == ["label", "scores"]
    plain = make_pipeline(StandardScaler(), LSRClassifier(probability=False)).fit(X, Y)
    assert names_of(to_onnx(plain, X).graph.output) == ["label", "scores"]
    scores = run(plain, X)[1]
    np.testing.assert_allclose(scores, columns_of(plain.decision_function(X)), atol=1e-10)
    svm = make_pipeline(StandardScaler(), LinearSVC()).fit(X, Y)
    np.testing.assert_array_equal(run(svm, X.astype(np.float32))[0], svm.predict(X))


def test_a_column_with_the_name_of_an_output_is_refused():
    frame = FRAME.rename(columns={"alcohol": "label"})
    model = LSRClassifier().fit(frame, Y)
    with pytest.raises(ValueError, match="column 'label' has the name of an output"):
        to_onnx(model, frame)


def test_options_of_skl2onnx():
    register()
    rows, model = X.astype(np.float32), LSRClassifier().fit(X, WORDS)
    expected = model.predict_proba(rows.astype(np.float64))

    def found(**options):
        given = {"options": {id(model): options}} if options else {}
        return session_of(skl2onnx.to_onnx(model, rows[:1], **given)).run(None, {"X": rows})

    label, by_class = found()
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(
        [[each[word] for word in model.classes_] for each in by_class], expected, atol=1e-6
    )
    np.testing.assert_allclose(np.column_stack(found(zipmap="columns")[1:]), expected, atol=1e-6)
    codes, _ = found(zipmap=False, nocl=True)
    np.testing.assert_array_equal(model.classes_[codes], model.predict(X))
    *_, classes = found(zipmap=False, output_class_labels=True)
    np.testing.assert_array_equal(classes, model.classes_)
