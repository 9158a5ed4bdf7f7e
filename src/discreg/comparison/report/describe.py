"""Texts of a report: columns, methods, and code that uses the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from discreg import __version__
from discreg.base.metrics import metric
from discreg.comparison.protocol.scoring import is_imbalanced
from discreg.comparison.running.nested_cv import NestedCrossValidation
from discreg.comparison.statistics.contrasts import MIN_BLOCKS
from discreg.tables.column_types import MAX_CATEGORIES, USED
from discreg.tables.table import Column, Table

from .findings import ColumnSummary

__all__ = ["column_summaries", "methods_text", "usage_onnx", "usage_python", "usage_shell"]

TREATMENTS = {
    "numeric": "standardised",
    "boolean": "0 and 1",
    "date": "year, month, weekday, hour and days, standardised",
    "text": "latent semantic analysis",
    "constant": "not used",
    "identifier": "not used",
}
KINDS = {"text": "free text"}
ONNX_TYPES = {
    "tensor(double)": '"float64"',
    "tensor(float)": '"float32"',
    "tensor(int64)": '"int64"',
    "tensor(bool)": "bool",
    "tensor(string)": "object",
}
IN_MICROSECONDS = "pd.to_datetime(table[{}], utc=True).to_numpy('datetime64[us]').astype('int64')"
BY_FOLDS = (
    "Intervals of scores and of differences are corrected for the overlap of training sets (Nadeau "
    "and Bengio, 2003), and differences were judged by the Bayesian correlated t-test (Benavoli et "
    "al., 2017)"
)
BY_ROWS = "Intervals and probabilities of differences are from a bootstrap of the test rows"


def column_summaries(table: Table) -> list[ColumnSummary]:
    """Describe the columns of a table and what models get of them."""
    return [
        ColumnSummary(
            column.name,
            KINDS.get(column.kind, column.kind),
            column.n_missing,
            column.n_distinct,
            _treatment(column),
        )
        for column in table.columns
    ]


def _treatment(column: Column) -> str:
    if column.kind == "categorical":
        n_indicators = min(column.n_distinct + (column.n_missing > 0), MAX_CATEGORIES)
        return f"{n_indicators} indicators"
    treatment = TREATMENTS[column.kind]
    if column.n_missing and column.kind in USED and column.kind != "text":
        treatment += "; missing values: median and an indicator"
    return treatment


def usage_shell(table: Table) -> str:
    """Write the command that predicts new rows."""
    return f"discreg predict model.skops {_new_file(table)} --output predicted.csv"


def usage_python(table: Table) -> str:
    """Write the code that predicts new rows."""
    load = 'model = load_model("model.skops")  # no pickle: only known types are loaded\n'
    if isinstance(table.X, pd.DataFrame):
        return (
            "import pandas as pd\nfrom discreg import load_model\n\n"
            f'{load}print(model.predict(pd.read_csv("{_new_file(table)}")))'
        )
    return (
        "from discreg import load_model\nfrom discreg.tables.table import read_features\n\n"
        f'{load}print(model.predict(read_features("{_new_file(table)}", model.expected)))'
    )


def usage_onnx(inputs: Mapping[str, str], outputs: Sequence[str], table: Table) -> str:
    """Write the code that predicts new rows with onnxruntime.

    `inputs` are the types of the inputs of the ONNX model by name, such as "tensor(double)".
    """
    results = ", ".join(outputs)
    open_session = 'session = onnxruntime.InferenceSession("model.onnx")\n'
    if not isinstance(table.X, pd.DataFrame):
        return (
            "import onnxruntime\n\n"
            f"{open_session}# rows: an array of shape (n_rows, {table.X.shape[1]})\n"
            f'{results} = session.run(None, {{"X": rows.astype("float64")}})'
        )
    dates = [name for name, kind in inputs.items() if kind == "tensor(int64)"]
    days = "".join(f"table[{name!r}] = {IN_MICROSECONDS.format(repr(name))}\n" for name in dates)
    used = {kind: ONNX_TYPES[kind] for kind in ONNX_TYPES if kind in inputs.values()}
    types = ", ".join(f'"{kind}": {found}' for kind, found in used.items())
    texts, read = "", f'pd.read_csv("{_new_file(table)}")'
    if "tensor(string)" in used:
        texts = (
            'texts = {i.name: str for i in session.get_inputs() if i.type == "tensor(string)"}\n'
        )
        read = f'pd.read_csv("{_new_file(table)}", dtype=texts).fillna(dict.fromkeys(texts, ""))'
    return (
        f"import onnxruntime\nimport pandas as pd\n\n{open_session}types = {{{types}}}\n{texts}"
        f"table = {read}\n{days}"
        "inputs = {i.name: table[[i.name]].to_numpy(types[i.type]) for i in session.get_inputs()}\n"
        f"{results} = session.run(None, inputs)"
    )


def _new_file(table: Table) -> str:
    return "new.csv" if isinstance(table.X, pd.DataFrame) else "new.svm"


def methods_text(experiment: NestedCrossValidation) -> str:
    """Write a paragraph on the comparison that can be cited."""
    table, folds = experiment.table, experiment.folds
    n_models = len(experiment.models.compared) - 1
    title = metric(experiment.scoring.name).title
    weights = ""
    if is_imbalanced(experiment.scoring.counts):
        weights = " Models were tuned with equal and with balanced class weights."
    if any(model.estimator is not None for model in experiment.models.compared):
        weights += " The user's own models were not tuned."
    kept = " Rows of a group were never in both parts." if table.groups is not None else ""
    if table.time is not None:
        kept += " Training rows were always earlier than test rows."
    how, intervals = "by nested cross-validation", BY_FOLDS
    if len(folds.parts()) < MIN_BLOCKS:
        how, intervals = "on held-out test rows", BY_ROWS
    return (
        f"{n_models} classifiers were compared on {len(table.y):,} rows with "
        f"{table.X.shape[1]:,} features and {len(experiment.classes)} classes {how} "
        f"({folds.text}; discreg {__version__}). Preprocessing and parameter selection used only "
        f"the training rows; parameters were selected by {title} of held-out training rows."
        f"{weights}{kept} {intervals}, with a region of practical equivalence of "
        f"{metric(experiment.scoring.name).rope:g}. The score of the best model was corrected for "
        "its selection by a bootstrap of held-out predictions (Tsamardinos et al., 2018)."
    )
