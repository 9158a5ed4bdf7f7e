"""The result of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreg.base.errors import InputError
from discreg.base.metrics import metric

from .running.files import write_whole

if TYPE_CHECKING:  # the class can be imported without pandas
    import pandas as pd
    from sklearn.model_selection import FixedThresholdClassifier

    from .flags.flag import Flag
    from .report.findings import Findings
    from .report.plots import ComparisonPlots
    from .statistics.evidence import Evidence
    from .statistics.thresholds import Threshold
    from .statistics.verdict import Verdict

__all__ = ["MODEL", "STATE", "Comparison"]

STATE, MODEL = "comparison.json", "model.skops"
SHOWN = 5  # models in a printed comparison
N_RIVALS = 3  # models beside the recommended one in a report of skore
SHORT = ["mean", "low", "high", "difference", "p_equivalent", "p_worse", "fit_seconds"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """The result of `discreg.compare`.

    Attributes
    ----------
    verdict : Verdict
        The decision: its kind, a sentence with the reasons, and the recommended model.
    table : DataFrame
        One row per model, the best first: scores, differences from the best, probabilities of
        being better, equivalent or worse, all metrics, times and parameters. See `summary_table`.
    evidence : Evidence
        Scores of all folds and predictions of all held-out rows.
    findings : Findings
        Contents of the report.
    model : classifier or None
        The recommended model, fitted to all rows; None if no model is recommended.
    folder : Path or None
        Folder with the files of the comparison; None if it was not kept.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import discreg
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> comparison = discreg.compare(X, y, candidates=["LSR", "LDA"], cv=3, n_jobs=1)
    >>> sorted(comparison.table.index)
    ['LDA', 'LSR', 'majority']
    >>> comparison.threshold_at(recall=0.9).recall >= 0.9
    True
    """

    evidence: Evidence
    verdict: Verdict
    table: pd.DataFrame
    findings: Findings
    model: Any = None
    folder: Path | None = None

    @property
    def results(self) -> pd.DataFrame:
        """All scores, with the columns model, repeat, fold, metric and value.

        Fold -1 is for scores of all held-out rows of a repeat.
        """
        return self.evidence.results

    @property
    def flags(self) -> Sequence[Flag]:
        """Warnings about the table and the comparison."""
        return self.findings.flags

    @property
    def plot(self) -> ComparisonPlots:
        """Plots, for example ``comparison.plot.scores()``."""
        from .report.plots import ComparisonPlots

        return ComparisonPlots(self.findings)

    def report(self, path: str | Path) -> None:
        """Write the report to an HTML file.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists.
        """
        from .report.page import write_report

        write_report(Path(path), self.findings)

    def threshold_at(
        self, *, recall: float | None = None, precision: float | None = None
    ) -> Threshold:
        """Choose the threshold of the recommended model for a wanted recall or precision.

        Parameters
        ----------
        recall : float, optional
            Wanted recall of the positive class; the largest threshold that reaches it is chosen.
        precision : float, optional
            Wanted precision of the positive class; the threshold with the highest recall among
            those that reach it is chosen. Pass either `recall` or `precision`.

        Returns
        -------
        Threshold
            The threshold, and the recall and the precision that it reaches on held-out rows.
        """
        from .statistics.thresholds import choose_threshold

        if self.verdict.recommended is None:
            raise InputError(f"No model is recommended: {self.verdict.kind}.")
        return choose_threshold(
            self.evidence, self.verdict.recommended, recall=recall, precision=precision
        )

    def model_at(
        self, *, recall: float | None = None, precision: float | None = None
    ) -> FixedThresholdClassifier:
        """Return the recommended model with a threshold for a wanted recall or precision.

        The threshold is chosen on held-out predictions; see `threshold_at`. The model is fitted
        already. With two classes only.

        Parameters
        ----------
        recall : float, optional
            Wanted recall of the positive class.
        precision : float, optional
            Wanted precision of the positive class. Pass either `recall` or `precision`.

        Returns
        -------
        FixedThresholdClassifier
            A classifier of scikit-learn around the recommended model.
        """
        from sklearn.frozen import FrozenEstimator
        from sklearn.model_selection import FixedThresholdClassifier

        threshold = self.threshold_at(recall=recall, precision=precision)
        if self.model is None:
            raise InputError("The comparison has no fitted model.")
        return FixedThresholdClassifier(
            FrozenEstimator(self.model),
            threshold=threshold.value,
            pos_label=threshold.label,
            response_method=threshold.response_method,
        )

    def to_skore(self, *, n_rivals: int = N_RIVALS) -> Any:
        """Convert the held-out predictions to a report of skore.

        Parameters
        ----------
        n_rivals : int
            Number of models beside the recommended one, the best first.

        Returns
        -------
        skore.ComparisonReport or skore.CrossValidationReport
            The latter if there is only one model. Splits are the folds of the comparison. Nothing
            is fitted again, so that the report has metrics and their plots, but nothing on the
            features.
        """
        from .candidates.contender import MAJORITY
        from .report.skore_reports import skore_report

        judged = [str(name) for name in self.table.index[self.table["reason"] == ""]]
        first = self.verdict.recommended or self.verdict.best
        if first is None:
            raise InputError("No model was judged.")
        rivals = [name for name in judged if name not in (first, MAJORITY)]
        return skore_report(self.evidence, [first, *rivals[:n_rivals]])

    def save_state(self, path: Path) -> None:
        """Write everything but the model to a JSON file, for `load`.

        Parameters
        ----------
        path : Path
            The file.
        """
        from .state import to_json

        state = {
            "evidence": self.evidence,
            "verdict": self.verdict,
            "table": self.table,
            "findings": self.findings,
        }
        write_whole(path, to_json(state).encode())

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Load a comparison from the folder that was its `output`.

        Parameters
        ----------
        folder : str or Path
            The folder with ``comparison.json`` and, if a model is recommended, ``model.skops``.
        """
        from discreg.model_files import load_model

        from .state import from_json

        folder = Path(folder)
        if not (folder / STATE).is_file():
            raise InputError(f"{folder} contains no finished comparison: it has no {STATE}.")
        state = from_json((folder / STATE).read_text(encoding="utf-8"))
        model_file = folder / MODEL
        has_model = state["verdict"].recommended is not None and model_file.is_file()
        model = load_model(model_file) if has_model else None
        return cls(**state, model=model, folder=folder)

    def __repr__(self) -> str:
        return f"{self.verdict.sentence}\n\n{self._head().to_string()}{self._more()}"

    def _repr_html_(self) -> str:
        return (
            f"<p>{escape(self.verdict.sentence)}</p>"
            f"{self._head().to_html(escape=True)}<p>{escape(self._more().strip())}</p>"
        )

    def _head(self) -> pd.DataFrame:
        """Return the best models with the most important columns."""
        columns = [name for name in SHORT if name in self.table]
        title = metric(self.evidence.metric).title
        return self.table[columns][:SHOWN].round(3).rename(columns={"mean": title})

    def _more(self) -> str:
        n_more = len(self.table) - SHOWN
        return f"\n... and {n_more} more models in .table" if n_more > 0 else ""
