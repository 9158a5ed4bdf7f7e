"""Converted models in onnxruntime beside Python: equal predictions, and the time of one row.

Run as ``python benchmarks/onnx_predictions.py``. The data are those of scikit-learn and of the
folder named by ``DISCREG_DATA``, or of ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
from _timing import Table, write_page
from default_penalties import load
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import discreg
from discreg.onnx import to_onnx

SETS = (
    *("iris", "wine", "glass", "vehicle", "vowel", "tic-tac-toe", "dna", "pendigits", "shuttle"),
    *("usps_9298", "keel/haberman", "keel/ecoli1", "keel/new-thyroid2", "keel/yeast3"),
    *("odm/heart", "odm/wdbc", "odm/german", "odm/clean1"),
)
MOST_TRAINED, MOST_NEW = 300, 2_000  # rows
MODELS = {
    **{
        name: getattr(discreg, f"{name}Classifier")()
        for name in ("LSR", "DLSR", "ReLSR", "GReLSR", "LRLR", "LRRR", "SLRR", "DRM", "ODM", "LDM")
    },
    "LSR, Laplacian": discreg.LSRClassifier(kernel="laplacian"),
    "LRRR, RBF": discreg.LRRRClassifier(kernel="rbf"),
    "ReLSR, 100 components": discreg.ReLSRClassifier(
        kernel="rbf", n_components=100, random_state=0
    ),
    "DRM, linear": discreg.DRMClassifier(kernel="linear"),
    "LSR search": discreg.LSRClassifierCV(),
    "Auto": discreg.AutoClassifier(random_state=0),
}
EQUAL = (
    f"Models of at most {MOST_TRAINED} standardised rows of each data set, and predictions of all "
    f"other rows, at most {MOST_NEW:,}, by {len(MODELS)} models: {'; '.join(MODELS)}. Different "
    "labels are counted over all models. Differences of scores are the largest of all rows and "
    "models, relative to the largest score of the model if that is above 1; differences of "
    "probabilities are absolute. Python gets the rounded rows of the float32 graph."
)
TIMES = (
    "Median microseconds of label and probabilities of one row, and of 1,000 rows divided by "
    "1,000, in onnxruntime and by `predict_proba` in Python, with one thread each, in three rounds "
    "that take turns; the last columns are the smallest and the largest ratio of the rounds."
)
ROUNDS, SECONDS = 3, 0.3


def data_sets() -> Iterator[tuple[str, Any, Any]]:
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    yield "digits", *load_digits(return_X_y=True)
    for name in SETS:
        found = load(name)
        if found is None:
            print(f"{name} is missing")
        else:
            yield name.split("/")[-1], *found


def session_of(model: Any, X: Any, **options: Any) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    converted = to_onnx(model, X, **options).SerializeToString()
    return onnxruntime.InferenceSession(converted, settings)


def differences(model: Any, X: Any) -> tuple[int, float, float]:
    """Number of different labels, and the largest differences of scores and probabilities."""
    label, probabilities = session_of(model, X).run(None, {"X": X})
    _, scores = session_of(model, X, raw_scores=True).run(None, {"X": X})
    rows = X.astype(np.float64)
    expected = model.decision_function(rows)
    if expected.ndim == 1:
        expected = np.column_stack([-expected, expected])
    return (
        int((label != model.predict(rows)).sum()),
        float(np.abs(scores - expected).max() / max(1.0, np.abs(expected).max())),
        float(np.abs(probabilities - model.predict_proba(rows)).max()),
    )


def equality() -> Iterator[tuple[object, ...]]:
    for name, X, y in data_sets():
        train, new, labels, _ = train_test_split(
            X, y, train_size=min(MOST_TRAINED, len(X) // 2), stratify=_repeated(y), random_state=0
        )
        scaler = StandardScaler().fit(train)
        train, new = scaler.transform(train), scaler.transform(new[:MOST_NEW])
        fitted = [model.fit(train, labels) for model in MODELS.values()]
        row: list[object] = [name, len(new), new.shape[1], len(np.unique(labels))]
        for dtype in (np.float64, np.float32):
            found = [differences(model, new.astype(dtype)) for model in fitted]
            n_different, scores, probabilities = zip(*found, strict=True)
            row += [sum(n_different), f"{max(scores):.0e}", f"{max(probabilities):.0e}"]
        print(*row, flush=True)
        yield tuple(row)


def _repeated(y: Any) -> Any:
    """Labels to stratify by: classes of one or two rows count as one."""
    classes, places, counts = np.unique(y, return_inverse=True, return_counts=True)
    return np.where(counts[places] < 3, 0, places)


def timed_models() -> Iterator[tuple[str, Any, Any]]:
    for n_samples, n_features, n_classes in ((1_000, 100, 3), (1_000, 20, 10)):
        X, y = make_classification(
            n_samples + 1_000, n_features, n_informative=10, n_classes=n_classes, random_state=0
        )
        X = StandardScaler().fit_transform(X)
        train, new = X[:n_samples], X[n_samples:]
        of = f"{n_samples:,} x {n_features}, {n_classes} classes"
        for name, model in (
            ("ReLSR, linear", discreg.ReLSRClassifier()),
            ("ODM, linear", discreg.ODMClassifier(kernel="linear")),
            ("LSR, RBF", discreg.LSRClassifier(kernel="rbf")),
            ("LSR, Laplacian", discreg.LSRClassifier(kernel="laplacian")),
            ("LSR, polynomial", discreg.LSRClassifier(kernel="poly")),
            ("LSR, 300 components", discreg.LSRClassifier(kernel="rbf", n_components=300)),
            ("ODM, RBF", discreg.ODMClassifier(kernel="rbf")),
            ("DRM, RBF", discreg.DRMClassifier()),
            ("DRM, linear", discreg.DRMClassifier(kernel="linear")),
        ):
            yield f"{name}; {of}", model.fit(train, y[:n_samples]), new
    X, y = load_breast_cancer(return_X_y=True)
    yield "Auto; breast cancer", discreg.AutoClassifier(random_state=0).fit(X[:400], y[:400]), X


def seconds_of(function: Any, *arguments: Any) -> float:
    spent, end = [], perf_counter() + SECONDS
    while len(spent) < 3 or perf_counter() < end:
        start = perf_counter()
        function(*arguments)
        spent.append(perf_counter() - start)
    return median(spent)


def times() -> Iterator[tuple[object, ...]]:
    for name, model, new in timed_models():
        session, row = session_of(model, new), [name]
        ratios = []
        for rows in (new[:1], np.resize(new, (1_000, new.shape[1]))):
            found = []
            for _ in range(ROUNDS):
                onnx = seconds_of(session.run, None, {"X": rows})
                python = seconds_of(model.predict_proba, rows)
                found.append((onnx, python))
            row += [f"{1e6 * median(each) / len(rows):,.1f}" for each in zip(*found, strict=True)]
            ratios.append([onnx / python for onnx, python in found])
        row += [f"{min(each):.2f} to {max(each):.2f}" for each in ratios]
        print(*row, sep=" | ", flush=True)
        yield tuple(row)


def main() -> None:
    of_equality = ["data", "rows", "features", "classes"]
    for graph in ("float64", "float32"):
        of_equality += [f"{graph}: labels", "scores", "probabilities"]
    of_times = ["model", "one row: ONNX", "Python", "1,000 rows: ONNX", "Python"]
    of_times += ["ratio, one row", "ratio, 1,000 rows"]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Class|The only sample|Classes|No candidate")
        tables = [
            Table("Predictions of converted models", EQUAL, of_equality, list(equality())),
            Table("Time of converted models", TIMES, of_times, list(times())),
        ]
        write_page("onnx", tables)


if __name__ == "__main__":
    main()
