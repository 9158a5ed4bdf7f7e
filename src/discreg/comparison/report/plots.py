"""Plots of a comparison: scores of all models, and held-out predictions of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import ConfusionMatrixDisplay, PrecisionRecallDisplay, RocCurveDisplay

from discreg.base.errors import InputError
from discreg.base.metrics import metric
from discreg.comparison.candidates.contender import MAJORITY
from discreg.comparison.statistics.curves import one_prediction_per_row, ranking_scores
from discreg.comparison.statistics.evidence import HeldOutPredictions

from .findings import Findings

__all__ = ["ComparisonPlots"]

N_BINS = 10
MOST_FEATURES = 15


class ComparisonPlots:
    """Plots of a comparison, each on matplotlib axes.

    Every method has the parameter `ax`, axes to draw on; None creates a new figure. The plots of
    predictions have the parameter `model`, the name of a model; None means the recommended model,
    or the best if none is recommended. They show one held-out prediction per row.

    Parameters
    ----------
    findings : Findings
        Contents of the report.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def scores(self, *, ax: Any = None) -> Any:
        """Plot the mean score of each judged model with its 95 % interval, the best on top."""
        ax = _axes(ax)
        table = self._findings.table
        judged = table[table["mean"].notna()]
        models = judged[judged.index != MAJORITY]
        places = np.arange(len(models))
        reach = np.abs(models[["low", "high"]].to_numpy().T - models["mean"].to_numpy())
        ax.errorbar(models["mean"], places, xerr=reach, fmt="o", capsize=3)
        if MAJORITY in judged.index:
            ax.axvline(judged.loc[MAJORITY, "mean"], linestyle="--", label="majority class")
            ax.legend()
        ax.set_yticks(places, [str(name) for name in models.index])
        ax.invert_yaxis()
        ax.set_xlabel(metric(self._findings.evidence.metric).title)
        return ax

    def confusion(self, *, model: str | None = None, ax: Any = None) -> Any:
        """Plot the confusion matrix, true classes in the rows."""
        held_out, y = self._predictions(model)
        evidence = self._findings.evidence
        display = ConfusionMatrixDisplay.from_predictions(
            y,
            held_out.labels,
            labels=np.arange(len(evidence.classes)),
            display_labels=evidence.classes,
            ax=_axes(ax),
        )
        return display.ax_

    def roc(self, *, model: str | None = None, ax: Any = None) -> Any:
        """Plot the ROC curve: of the positive class, or of each class against the others."""
        return self._curves(RocCurveDisplay, model, _axes(ax))

    def precision_recall(self, *, model: str | None = None, ax: Any = None) -> Any:
        """Plot precision against recall, for the same classes as `roc`."""
        return self._curves(PrecisionRecallDisplay, model, _axes(ax))

    def calibration(self, *, model: str | None = None, ax: Any = None) -> Any:
        """Plot observed fractions against predicted probabilities.

        With more than two classes, the probability is that of the predicted class, and the observed
        fraction is its accuracy.
        """
        held_out, y = self._predictions(model)
        evidence = self._findings.evidence
        if held_out.probabilities is None:
            raise InputError(f"{self._name(model)} has no probabilities.")
        if evidence.positive is None:
            predicted, is_right = held_out.probabilities.max(axis=1), held_out.labels == y
        else:
            predicted = held_out.probabilities[:, evidence.positive]
            is_right = y == evidence.positive
        display = CalibrationDisplay.from_predictions(
            is_right,
            predicted,
            n_bins=N_BINS,
            strategy="quantile",
            pos_label=True,
            name=self._name(model),
            ax=_axes(ax),
        )
        return display.ax_

    def importance(self, *, ax: Any = None) -> Any:
        """Plot the permutation importance of the columns for the recommended model."""
        importance = self._findings.importance
        if importance is None:
            raise InputError("The permutation importance was not computed.")
        ax = _axes(ax)
        top = importance.sort_values("mean", ascending=False, kind="stable")[:MOST_FEATURES]
        places = np.arange(len(top))
        reach = np.abs(top[["low", "high"]].to_numpy().T - top["mean"].to_numpy())
        ax.errorbar(top["mean"], places, xerr=reach, fmt="o", capsize=3)
        ax.axvline(0, linestyle=":")
        ax.set_yticks(places, [str(name) for name in top["feature"]])
        ax.invert_yaxis()
        ax.set_xlabel(f"loss of {metric(self._findings.evidence.metric).title}")
        return ax

    def _curves(self, display: Any, model: str | None, ax: Any) -> Any:
        held_out, y = self._predictions(model)
        evidence = self._findings.evidence
        n_classes = len(evidence.classes)
        wanted = range(n_classes) if evidence.positive is None else [evidence.positive]
        for place in wanted:
            if not 0 < np.count_nonzero(y == place) < len(y):
                continue
            values = ranking_scores(held_out, place)
            if values is None:
                raise InputError(
                    f"{self._name(model)} has neither probabilities nor decision values."
                )
            name = self._name(model) if n_classes == 2 else str(evidence.classes[place])
            display.from_predictions(y == place, values, name=name, ax=ax)
        return ax

    def _name(self, model: str | None) -> str:
        verdict = self._findings.verdict
        name = model or verdict.recommended or verdict.best
        if name is None:
            raise InputError("No model was judged.")
        return name

    def _predictions(self, model: str | None) -> tuple[HeldOutPredictions, NDArray[np.intp]]:
        """Return the predictions of a model, one per row, and the true classes."""
        evidence, name = self._findings.evidence, self._name(model)
        held_out = one_prediction_per_row(evidence, name)
        if held_out is None:
            known = ", ".join(evidence.held_out)
            raise InputError(f"There are no predictions of '{name}'; the models are {known}.")
        return held_out, evidence.y[held_out.rows]


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(layout="constrained")[1]
