"""Contents of the report of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from discreg.comparison.flags.flag import Flag
from discreg.comparison.statistics.evidence import Evidence

if TYPE_CHECKING:
    from discreg.comparison.statistics.verdict import Verdict

__all__ = ["ColumnSummary", "Findings"]


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
    """

    name: str
    kind: str
    n_missing: int
    n_distinct: int | None
    treatment: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Everything that the report of a comparison shows.

    Attributes
    ----------
    name : str
        Name of the table.
    source : str or None
        File that the table was read from; None for data in memory.
    target : str
        Column of the labels.
    date : str
        Date of the run, such as "2026-11-18".
    command : str
        Shell command or Python call that gives the same comparison.
    folds : str
        The cross-validation in words, such as "5 stratified folds, repeated twice".
    metric_title : str
        Name of the metric that decides, in sentences; `evidence.metric` is its name in results.
    evidence : Evidence
        Scores and held-out predictions.
    table : DataFrame
        Result of `summary_table`: one row per model.
    verdict : Verdict
        Result of `decide`.
    n_features : int
        Number of features that the models get before they are encoded.
    class_counts : mapping of str to int
        Rows of each class.
    flags : sequence of Flag
        What is known of the table and the run; `score_flags` adds what the scores show.
    columns : sequence of ColumnSummary
        Columns of the file; empty for sparse data.
    importance : DataFrame or None
        Permutation importance of the recommended model: feature, mean, low and high.
    learning_curve : DataFrame or None
        Score of the recommended model by the number of training rows: n, mean, low and high.
    model_file : str or None
        File of the recommended model; None if none was saved.
    keeps_rows : bool
        Whether the model file contains training rows.
    usage_shell, usage_python : str
        Code that applies the model to new rows.
    onnx_file : str or None
        ONNX file of the recommended model; None if none was written.
    onnx_trouble : str or None
        Why there is no ONNX file although one was wanted.
    usage_onnx : str
        Code that applies the ONNX file to new rows.
    methods : str
        A paragraph on the comparison to cite.
    versions : mapping of str to str
        Versions of the packages.
    incomplete : str or None
        Why the run is not complete; None if it is.
    show_rows : bool
        Whether the report may show predictions of single rows.
    """

    name: str
    source: str | None = None
    target: str
    date: str
    command: str
    folds: str
    metric_title: str
    evidence: Evidence
    table: pd.DataFrame
    verdict: Verdict
    n_features: int
    class_counts: Mapping[str, int]
    flags: Sequence[Flag] = ()
    columns: Sequence[ColumnSummary] = ()
    importance: pd.DataFrame | None = None
    learning_curve: pd.DataFrame | None = None
    model_file: str | None = None
    keeps_rows: bool = False
    usage_shell: str = ""
    usage_python: str = ""
    onnx_file: str | None = None
    onnx_trouble: str | None = None
    usage_onnx: str = ""
    methods: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    incomplete: str | None = None
    show_rows: bool = False
