"""The result of a comparison."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreg.base.errors import InputError
from discreg.base.metrics import metric

if TYPE_CHECKING:  # the class can be imported without pandas
    import pandas as pd

    from discreg.tables.classifier import Rule, TableClassifier

    from .flags import Flag
    from .report.findings import Findings
    from .statistics.evidence import Evidence
    from .statistics.performance import OperatingPoint
    from .statistics.verdict import Verdict


STATE, PREDICTIONS, MODEL = "comparison.json", "predictions.parquet", "model.skops"
SHOWN = 5  # models in a printed comparison
SHORT = ["mean", "low", "high", "difference", "p_better", "p_equivalent", "fit_seconds"]
ROW, FOLD, CLASS, WEIGHT, GROUP = "row", "fold", "class", "weight", "group"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """The result of `discreg.compare`.

    Attributes
    ----------
    verdict : Verdict
        The decision: its kind, three sentences, and the recommended model.
    table : DataFrame
        One row per model, the best first: scores, differences from the best, all metrics, times
        and parameters. See `summary_table`.
    evidence : Evidence
        Held-out probabilities of all models.
    findings : Findings
        Further contents of the report.
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
    >>> comparison.threshold_at(recall=0.9).recall.value >= 0.9
    True
    """

    evidence: Evidence
    verdict: Verdict
    table: pd.DataFrame
    findings: Findings
    model: TableClassifier | None = None
    folder: Path | None = None

    @property
    def flags(self) -> list[Flag]:
        """Warnings about the table and the comparison."""
        from .flags import score_flags

        return [*self.findings.flags, *score_flags(self.evidence, self.verdict.best)]

    @property
    def rule(self) -> Rule:
        """How labels follow from probabilities."""
        return self.evidence.rule

    def probabilities(self, model: str | None = None) -> pd.DataFrame:
        """Return the held-out probabilities of a model.

        Parameters
        ----------
        model : str, optional
            Name of the model; by default the one of the verdict.

        Returns
        -------
        DataFrame
            Columns "row", "fold" and "class", the true label, and one column per class. Displays
            of scikit-learn draw it, for example ``RocCurveDisplay.from_predictions``.
        """
        import pandas as pd

        sample = self.evidence.sample(self._name(model))
        frame = pd.DataFrame(sample.probabilities, columns=list(sample.classes))
        frame.insert(0, CLASS, sample.classes[sample.y])
        frame.insert(0, FOLD, sample.folds)
        frame.insert(0, ROW, sample.rows)
        return frame

    def report(self, path: str | Path) -> None:
        """Write the report to an HTML file, which is replaced if it exists.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        from .report.page import write_report

        write_report(Path(path), self)

    def threshold_at(
        self, *, recall: float | None = None, precision: float | None = None
    ) -> OperatingPoint:
        """Choose the threshold of the model for a wanted recall or precision.

        Parameters
        ----------
        recall : float, optional
            Wanted recall of the positive class; the largest threshold that reaches it is chosen.
        precision : float, optional
            Wanted precision of the positive class; the threshold with the highest recall among
            those that reach it is chosen. Pass either `recall` or `precision`.

        Returns
        -------
        OperatingPoint
            The threshold, and the recall, the precision and the share of alarms that held-out rows
            reached, with 95 % intervals. They are slightly too good, because the threshold was
            chosen on the same rows.
        """
        from .statistics.performance import point_of, rule_for

        sample = self.evidence.sample(self._name(None))
        rule = rule_for(sample, recall=recall, precision=precision)
        return point_of(sample, recall if recall is not None else np.nan, rule)

    def model_at(
        self, *, recall: float | None = None, precision: float | None = None
    ) -> TableClassifier:
        """Return the recommended model with the threshold of `threshold_at`.

        Parameters
        ----------
        recall, precision : float, optional
            As for `threshold_at`.

        Returns
        -------
        TableClassifier
            A fitted classifier whose labels follow the threshold.
        """
        from .statistics.performance import rule_for

        if self.model is None:
            raise InputError(f"The comparison has no fitted model: {self.verdict.kind}.")
        sample = self.evidence.sample(self._name(None))
        rule = rule_for(sample, recall=recall, precision=precision)
        return self.model.following(rule)

    def _name(self, model: str | None) -> str:
        name = model or self.verdict.best
        if name is None:
            raise InputError("No model was judged.")
        if name not in self.evidence.held_out:
            known = ", ".join(self.evidence.held_out)
            raise InputError(f"There are no predictions of '{name}'; the models are {known}.")
        return name

    def save(self, folder: Path) -> None:
        """Write the predictions as Parquet and everything else but the model as JSON.

        Parameters
        ----------
        folder : Path
            An existing folder.
        """
        import pandas as pd

        from .running.store import write_whole

        this = self.evidence
        columns: dict[str, Any] = {ROW: this.rows, FOLD: this.folds, CLASS: this.y[this.rows]}
        for name, values in ((WEIGHT, this.weights), (GROUP, this.groups)):
            if values is not None:
                columns[name] = values[this.rows]
        for model, found in this.held_out.items():
            columns |= {
                f"{model}: {label}": found[:, place] for place, label in enumerate(this.classes)
            }
        # Rows that no fold tests are needed for the numbers of all rows.
        state = {
            "evidence": {
                "metric": this.metric,
                "classes": this.classes.tolist(),
                "y": this.y.tolist(),
                "contenders": {name: asdict(each) for name, each in this.contenders.items()},
                "left_out": dict(this.left_out),
                "test_to_train": this.test_to_train,
                "rule": asdict(this.rule),
            },
            "verdict": asdict(self.verdict),
            "findings": asdict(self.findings),
        }
        write_whole(folder / PREDICTIONS, pd.DataFrame(columns).to_parquet(index=False))
        write_whole(folder / STATE, json.dumps(state, default=_plain))

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Load a comparison from the folder that was its `output`.

        Parameters
        ----------
        folder : str or Path
            The folder with ``comparison.json``, ``predictions.parquet`` and, if a model is
            recommended, ``model.skops``.
        """
        import pandas as pd

        from discreg.model_files import load_model

        from .report.findings import Findings
        from .statistics.scores import summary_table

        folder = Path(folder)
        if not (folder / STATE).is_file():
            raise InputError(f"{folder} contains no finished comparison: it has no {STATE}.")
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
            predictions = pd.read_parquet(io.BytesIO((folder / PREDICTIONS).read_bytes()))
            evidence = _evidence(state["evidence"], predictions)
            verdict, findings = _verdict(state["verdict"]), Findings.from_dict(state["findings"])
        except (
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            OSError,
        ) as error:
            raise InputError(
                f"The comparison in {folder} cannot be read ({error}). It is damaged, or another "
                "version of discreg has written it."
            ) from error
        has_model = verdict.recommended is not None and (folder / MODEL).is_file()
        model: Any = load_model(folder / MODEL) if has_model else None
        return cls(
            evidence=evidence,
            verdict=verdict,
            table=summary_table(evidence),
            findings=findings,
            model=model,
            folder=folder,
        )

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


def _plain(value: Any) -> Any:
    """Convert scalars and arrays of NumPy for JSON."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def _evidence(state: dict[str, Any], frame: pd.DataFrame) -> Evidence:
    from discreg.tables.classifier import Rule

    from .statistics.evidence import Contender, Evidence

    y, rows = np.array(state.pop("y"), dtype=np.intp), frame[ROW].to_numpy(np.intp)
    classes = np.array(state.pop("classes"))
    columns: dict[str, Any] = {}
    for name, kind in ((WEIGHT, float), (GROUP, np.intp)):
        columns[name] = None
        if name in frame:
            columns[name] = np.full(len(y), -1, dtype=kind)
            columns[name][rows] = frame[name]
    rule = state.pop("rule")
    contenders = state.pop("contenders")
    return Evidence(
        classes=classes,
        y=y,
        rows=rows,
        folds=frame[FOLD].to_numpy(np.intp),
        held_out={
            model: frame[[f"{model}: {label}" for label in classes]].to_numpy(float)
            for model in contenders
        },
        contenders={name: Contender(**each) for name, each in contenders.items()},
        rule=Rule(**rule | {"weights": tuple(rule["weights"])}),
        weights=columns[WEIGHT],
        groups=columns[GROUP],
        **state,
    )


def _verdict(state: dict[str, Any]) -> Verdict:
    from .statistics.sample import Interval
    from .statistics.verdict import Estimate, Verdict

    estimate, gain = state["estimate"], state["gain"]
    return Verdict(
        **state
        | {
            "sentences": tuple(state["sentences"]),
            "equivalent": tuple(state["equivalent"]),
            "estimate": None if estimate is None else Estimate(**estimate),
            "gain": None if gain is None else Interval(*gain),
        }
    )
