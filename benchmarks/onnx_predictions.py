"""Converted models in onnxruntime beside Python: equal predictions, and the time of one row.

Run as ``python benchmarks/onnx_predictions.py``. The data are those of scikit-learn and of the
folder named by ``DISCREG_DATA``, or of ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
import onnxruntime
from _timing import Table, write_page
from default_penalties import load
from onnx import TensorProto, helper
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
    "Median microseconds of processor time of label and probabilities of one row, and of 1,000 "
    "rows divided by 1,000, in onnxruntime and by `predict_proba` in Python, with one thread each, "
    "in three rounds that take turns; the last columns are the smallest and the largest ratio of "
    "the rounds."
)
SHARES = (
    "Share of the operators in the time of 1,000 rows, by onnxruntime's profiler. Scan computes "
    "the distances of the Laplacian kernel row by row: there is no operator for distances other "
    "than the Euclidean one. Exponentials of a million numbers in double precision take {:.1f} ms "
    "of processor time in onnxruntime and {:.1f} ms in NumPy."
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


def session_of(model: Any, X: Any, *, profile: Path | None = None, **options: Any) -> Any:
    return session_from(to_onnx(model, X, **options).SerializeToString(), profile)


def session_from(content: bytes, profile: Path | None = None) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    if profile is not None:
        settings.enable_profiling, settings.profile_file_prefix = True, str(profile)
    return onnxruntime.InferenceSession(content, settings)


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
        start = process_time()
        function(*arguments)
        spent.append(process_time() - start)
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


def shares() -> Iterator[tuple[object, ...]]:
    for name, model, new in timed_models():
        if "RBF" not in name and "Laplacian" not in name:
            continue
        with TemporaryDirectory() as folder:
            session = session_of(model, new, profile=Path(folder) / "profile")
            for _ in range(20):
                session.run(None, {"X": new})
            events = json.loads(Path(session.end_profiling()).read_text())
        spent: Counter[str] = Counter()
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                spent[event["args"]["op_name"]] += event["dur"]
        if "Scan" in spent:  # its parts are reported as well
            spent = Counter({kind: spent[kind] for kind in ("Scan", "Exp", "Gemm")})
        total = sum(spent.values())
        parts = [f"{kind} {100 * part / total:.0f} %" for kind, part in spent.most_common(3)]
        yield name, ", ".join(parts)


def milliseconds_of_exponentials() -> tuple[float, float]:
    """Time of a million exponentials in onnxruntime and in NumPy."""
    number = helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, None])
    result = helper.make_tensor_value_info("Y", TensorProto.DOUBLE, [None, None])
    graph = helper.make_graph([helper.make_node("Exp", ["X"], ["Y"])], "exp", [number], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = session_from(model.SerializeToString())
    X = -np.random.default_rng(0).random((1_000, 1_000))
    return 1e3 * seconds_of(session.run, None, {"X": X}), 1e3 * seconds_of(np.exp, X)


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
            Table(
                "Where the time of kernels goes",
                SHARES.format(*milliseconds_of_exponentials()),
                ["model", "operators"],
                list(shares()),
            ),
        ]
        write_page("onnx", tables)


if __name__ == "__main__":
    main()
