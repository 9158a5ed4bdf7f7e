"""Texts of a report: columns, methods, and code that uses the model."""

from __future__ import annotations

import pandas as pd

from discreg import __version__
from discreg.base.metrics import metric
from discreg.comparison.protocol.scoring import is_imbalanced
from discreg.comparison.running.nested_cv import NestedCrossValidation
from discreg.tables.column_types import MAX_CATEGORIES, USED
from discreg.tables.table import Column, Table

from .findings import ColumnSummary

__all__ = ["column_summaries", "methods_text", "usage_python", "usage_shell"]

TREATMENTS = {
    "numeric": "standardised",
    "boolean": "0 and 1",
    "date": "year, month, weekday, hour and days, standardised",
    "text": "latent semantic analysis",
    "constant": "not used",
    "identifier": "not used",
}
KINDS = {"text": "free text"}


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
    return (
        "from discreg import load_model\n"
        "from discreg.tables.table import read_features\n\n"
        'model = load_model("model.skops")  # no pickle: only known types are loaded\n'
        f'print(model.predict(read_features("{_new_file(table)}", model.expected)))'
    )


def _new_file(table: Table) -> str:
    return "new.csv" if isinstance(table.X, pd.DataFrame) else "new.svm"


def methods_text(experiment: NestedCrossValidation) -> str:
    """Write a paragraph on the comparison that can be cited."""
    table, folds = experiment.table, experiment.folds
    n_models = len(experiment.models.compared) - 1
    title = metric(experiment.scoring.name).title
    weights = (
        " Every model was tuned with equal and with balanced class weights."
        if is_imbalanced(experiment.scoring.counts)
        else ""
    )
    kept = " Rows of a group were never in both parts." if table.groups is not None else ""
    if table.time is not None:
        kept += " Training rows were always earlier than test rows."
    return (
        f"{n_models} classifiers were compared on {len(table.y):,} rows with "
        f"{table.X.shape[1]:,} features and {len(experiment.classes)} classes by nested "
        f"cross-validation ({folds.text}; discreg {__version__}). Preprocessing and parameter "
        f"selection used only the training rows of each fold; parameters were selected by {title} "
        f"of held-out training rows.{weights}{kept} Intervals of scores and of differences are "
        "corrected for the overlap of training sets (Nadeau and Bengio, 2003). Differences were "
        "judged by the Bayesian correlated t-test with a region of practical equivalence of "
        f"{metric(experiment.scoring.name).rope:g} (Benavoli et al., 2017). The score of the best "
        "model was corrected for its selection by a bootstrap of held-out predictions "
        "(Tsamardinos et al., 2018)."
    )
