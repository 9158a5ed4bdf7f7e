"""Contents of the report of a comparison, besides its predictions: facts and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

import pandas as pd

from discreg import AutoClassifier, __version__
from discreg.base.metrics import metric
from discreg.comparison.flags import Flag
from discreg.comparison.running.nested_cv import NestedCrossValidation
from discreg.comparison.statistics.evidence import Evidence
from discreg.comparison.statistics.performance import Measured
from discreg.comparison.statistics.scores import equivalence
from discreg.comparison.statistics.verdict import STABLE
from discreg.comparison.words import percent
from discreg.tables.classifier import expected_columns
from discreg.tables.column_types import MAX_CATEGORIES, USED, Column
from discreg.tables.preprocessor import TablePreprocessor
from discreg.tables.table import Table

Subgroup = tuple[str, int, Sequence[Measured]]


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the table, as the report lists it.

    Attributes
    ----------
    name : str
    kind : str
        "numeric", "categorical", "date", "free text", "identifier", "constant" and so on.
    n_missing : int
        Number of missing values.
    n_distinct : int or None
        Number of distinct values; None if they were not counted.
    treatment : str
        What the models get, such as "standardised, missing values: median" or "not used".
    missing : dict
        Missing values in the rows of each class, if there are any.
    """

    name: str
    kind: str
    n_missing: int
    n_distinct: int | None
    treatment: str
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the report of a comparison shows besides predictions and verdict: numbers and texts.

    Attributes
    ----------
    name, target, date, command, folds : str
        The table, its column of labels, the day, the call, and the folds in words.
    source : str or None
        File that the table was read from; None for data in memory.
    n_features : int
        Number of features that the models get before they are encoded.
    class_counts : mapping of str to int
        Rows of each class.
    flags : sequence of Flag
        What is known of the table; `score_flags` adds what the scores show.
    columns : sequence of ColumnSummary
        Columns of the file; empty for sparse data.
    importance : sequence of dict
        Permutation importance of the recommended model: feature, mean, low, high and correlated.
    learning_curve : sequence of dict
        Score of the recommended model by the number of training rows: n, mean, low and high.
    subgroup : str or None
        Column of the subgroups.
    subgroups : sequence of tuple
        Name, number of rows and numbers of each subgroup.
    test : sequence of Measured
        Numbers of the recommended model on the test table.
    n_test : int
        Rows of the test table.
    model_file, onnx_file : str or None
        Files of the recommended model that were written.
    specification : str
        The recommended model as it was fitted to all rows: its members, or its parameters.
    onnx_trouble : str or None
        Why there is no ONNX file although one was wanted.
    methods : str
        A paragraph on the comparison to cite.
    versions : mapping of str to str
        Versions of the packages.
    n_parameters : int
        Number of features that the models get after the columns are encoded.
    seed : int
        Seed of folds and models.
    incomplete : str or None
        Why the run is not complete; None if it is.
    """

    name: str
    target: str
    date: str
    command: str
    folds: str
    n_features: int
    class_counts: Mapping[str, int]
    source: str | None = None
    flags: Sequence[Flag] = ()
    columns: Sequence[ColumnSummary] = ()
    importance: Sequence[Mapping[str, Any]] = ()
    learning_curve: Sequence[Mapping[str, float]] = ()
    subgroup: str | None = None
    subgroups: Sequence[Subgroup] = ()
    test: Sequence[Measured] = ()
    n_test: int = 0
    model_file: str | None = None
    onnx_file: str | None = None
    specification: str = ""
    onnx_trouble: str | None = None
    methods: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    n_parameters: int = 1
    seed: int = 0
    incomplete: str | None = None

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Findings:
        """Create findings from the result of `dataclasses.asdict`, read from JSON."""
        state["flags"] = [Flag(**flag) for flag in state["flags"]]
        state["columns"] = [ColumnSummary(**column) for column in state["columns"]]
        state["test"] = [Measured(*each) for each in state["test"]]
        state["subgroups"] = [
            (name, n, [Measured(*each) for each in numbers])
            for name, n, numbers in state["subgroups"]
        ]
        return cls(**state)


TREATMENTS = {
    "numeric": "standardised",
    "boolean": "0 and 1",
    "date": "year, month, weekday, hour and days, standardised",
    "text": "latent semantic analysis",
    "constant": "not used",
    "identifier": "not used",
}
KINDS = {"text": "free text"}
LONGEST = 400  # characters of the parameters of a model


def column_summaries(table: Table) -> list[ColumnSummary]:
    """Describe the columns of a table and what models get of them."""
    return [
        ColumnSummary(
            column.name,
            KINDS.get(column.kind, column.kind),
            column.n_missing,
            column.n_distinct,
            _treatment(column),
            _missing_by_class(table, column),
        )
        for column in table.columns
    ]


def _missing_by_class(table: Table, column: Column) -> dict[str, int]:
    if not column.n_missing or column.name not in table.X:
        return {}
    labels = table.y[table.X[column.name].isna().to_numpy()]
    return {label: int((labels.astype(str) == label).sum()) for label in table.class_counts}


def _treatment(column: Column) -> str:
    if column.kind == "categorical":
        n_indicators = min(column.n_distinct + (column.n_missing > 0), MAX_CATEGORIES)
        return f"{n_indicators} indicators"
    treatment = TREATMENTS[column.kind]
    if column.n_missing and column.kind in USED and column.kind != "text":
        treatment += "; missing values: median and an indicator"
    return treatment


def n_parameters(table: Table) -> int:
    """Count the features that models get: parts of dates, indicators and those of texts."""
    if not isinstance(table.X, pd.DataFrame):
        return int(table.X.shape[1])
    preprocessor = TablePreprocessor(kinds=expected_columns(table).kinds).fit(table.X)
    return len(preprocessor.get_feature_names_out())


def specification(model: Any) -> str:
    """Describe a fitted model: the members of a mixture with their weights, or the parameters."""
    if isinstance(model, AutoClassifier):
        members = [
            f"{each.kind} ({weight:.2f})"
            for each, weight in zip(model.estimators_, model.weights_, strict=True)
        ]
        of = f"a mixture (weights) of {'; '.join(members)}" if members else "the class frequencies"
        return f"AutoClassifier: {of}"
    return shorten(repr(model), LONGEST)


def methods_text(experiment: NestedCrossValidation, evidence: Evidence) -> str:
    """Write a paragraph on the comparison that can be cited."""
    table, title = experiment.table, metric(evidence.metric).title
    parts = [
        f"{len(experiment.models.compared) - 1} classifiers were compared on {len(table.y):,} rows "
        f"with {table.X.shape[1]:,} features and {len(evidence.classes)} classes by nested "
        f"cross-validation ({experiment.folds.text}; discreg {__version__}).",
        "Preprocessing and parameter selection used only the training rows; parameters were "
        f"selected by {title} of held-out training rows.",
    ]
    if any(model.estimator is not None for model in experiment.models.compared):
        parts.append("The user's own models were not tuned.")
    if table.groups is not None:
        parts.append("Rows of a group were never in training and test rows at once.")
    if table.time is not None:
        parts.append("Training rows were always earlier than test rows.")
    unit = "rows" if table.groups is None else "groups"
    parts.append(
        "All scores follow from the held-out probabilities of the outer folds. Labels follow "
        f"{evidence.rule.text}. Intervals are the wider ones of a bootstrap of {unit} and of the "
        "interval of the folds that is corrected for overlapping training sets (Nadeau and Bengio, "
        f"2003); those of proportions are Wilson's. Models whose {title} differs by less than "
        f"{equivalence(evidence.metric)} count as practically equivalent. The score of the "
        "recommended model was corrected for its selection by the bootstrap (Tsamardinos et al., "
        f"2018), and a recommendation had to be repeated in {percent(STABLE)} of bootstrap samples."
    )
    return " ".join(parts)
