"""Runs of converted models in onnxruntime."""

import numpy as np
import onnxruntime

from discreg.onnx import to_onnx


def session_of(converted):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(converted.SerializeToString(), options)


def run(model, X, **options):
    """Convert a model and run it on the rows of an array."""
    return session_of(to_onnx(model, X, **options)).run(None, {"X": X})


def columns_of(scores):
    """Decision values with one column per class, as the converted models have them."""
    return scores if scores.ndim == 2 else np.column_stack([-scores, scores])


def feeds_of(session, frame):
    """One array per column of a frame, of the type of the input."""
    feeds = {}
    for each in session.get_inputs():
        column = frame[each.name]
        if each.type == "tensor(string)":
            values = column.astype(object).where(column.notna(), "").astype(str).to_numpy(object)
        elif column.dtype.kind == "M":
            values = column.to_numpy("datetime64[us]").astype(np.int64)
        else:
            types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": bool}
            values = column.to_numpy(types.get(each.type, np.float64))
        feeds[each.name] = values[:, None]
    return feeds


def run_on_frame(model, frame, new=None, **options):
    """Convert a model and run it on the rows of a frame, one input per column."""
    session = session_of(to_onnx(model, frame, **options))
    return session.run(None, feeds_of(session, frame if new is None else new))


def assert_same_predictions(model, X):
    """Labels, probabilities and scores of float64 and float32 graphs equal those of Python."""
    for dtype, atol in ((np.float64, 1e-10), (np.float32, 1e-5)):
        rows = X.astype(dtype)
        same = rows.astype(np.float64)
        label, scores = run(model, rows, raw_scores=True)
        np.testing.assert_array_equal(label, model.predict(same))
        expected = columns_of(model.decision_function(same))
        np.testing.assert_allclose(scores, expected, rtol=atol, atol=atol)
        assert scores.dtype == dtype
        if hasattr(model, "predict_proba"):
            label, probabilities = run(model, rows)
            np.testing.assert_array_equal(label, model.predict(same))
            np.testing.assert_allclose(probabilities, model.predict_proba(same), atol=atol)
