"""Why AutoClassifier predicts a label: votes of the members and training rows that decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.dummy import DummyClassifier

from discreg.base.calibration import class_columns
from discreg.linalg.types import Array, Indices, MatrixLike
from discreg.tables.frames import is_frame

from ._average import member_logs
from ._contributions import contributions_of, keeps_rows

__all__ = ["PredictionExplanation", "RowContribution", "Vote", "explain", "one_row", "rows_to_keep"]

SHOWN = 5  # most labels, and rows for and against the prediction, in the text
SCALINGS = {"StandardScaler": "standard", "RankScaler": "ranks", "MaxAbsScaler": "largest"}


@dataclass(frozen=True)
class Vote:
    """What one member predicts.

    Attributes
    ----------
    member : str
        Description of the member.
    weight : float
        Weight of its probabilities in the average.
    label : object
        Its label.
    probability : float
        Its probability of the label that the average predicts.
    """

    member: str
    weight: float
    label: Any
    probability: float


@dataclass(frozen=True)
class RowContribution:
    """A training row and its contribution to the prediction.

    Attributes
    ----------
    index : int
        Index in the training data passed to `fit`.
    label : object
        Its label.
    contribution : float
        Positive if the row speaks for the predicted label rather than for the runner-up.
    """

    index: int
    label: Any
    contribution: float


@dataclass(frozen=True, eq=False)
class PredictionExplanation:
    """Why :class:`~discreg.AutoClassifier` predicts a label.

    Each member that keeps its training rows is a sum over them. Their contributions are in units of
    its log-odds, the logarithm of the probability of the predicted label divided by that of the
    runner-up, and are averaged over the members by weight. The contributions of all rows and `rest`
    add up to `log_odds`. With wide kernels and small penalties, they can be much larger than their
    sum, because those of similar rows cancel.

    Attributes
    ----------
    label : object
        The predicted label.
    runner_up : object
        The label with the second largest probability.
    probabilities : dict
        Probability of each label.
    votes : list of Vote
        What each member predicts: `member`, `weight`, `label` and `probability`, that of the label
        that the average predicts.
    log_odds : float
        Log-odds of the predicted label and the runner-up, the weighted mean of the members.
    rest : float
        Part of the log-odds that no row contributes: intercepts, and members that keep no rows.
    row_indices : ndarray of shape (n_rows,)
        Indices in the training data of the rows that contribute, the largest contribution first. It
        is empty if no member keeps its rows.
    row_labels : ndarray of shape (n_rows,)
        Their labels.
    contributions : ndarray of shape (n_rows,)
        Their contributions, positive for the predicted label and negative for the runner-up.
    is_constant : bool
        Whether the class frequencies are the prediction, the same for all samples.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import AutoClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> explanation = AutoClassifier().fit(X[1:], y[1:]).explain_prediction(X[0])
    >>> explanation.label, explanation.probabilities[0] > 0.9
    (0, True)
    >>> [row.label for row in explanation.rows_for(2)]
    [0, 0]
    """

    label: Any
    runner_up: Any
    probabilities: dict[Any, float]
    votes: list[Vote]
    log_odds: float
    rest: float
    row_indices: Indices
    row_labels: NDArray[Any]
    contributions: Array
    is_constant: bool

    def rows_for(self, n: int = SHOWN) -> list[RowContribution]:
        """Return the training rows that speak loudest for the prediction, the loudest first.

        Parameters
        ----------
        n : int, default=5
            Largest number of rows.

        Returns
        -------
        rows : list of RowContribution
            The `index`, the `label` and the positive `contribution` of each row.
        """
        return [row for row in self._rows(slice(None, n)) if row.contribution > 0]

    def rows_against(self, n: int = SHOWN) -> list[RowContribution]:
        """Return the training rows that speak loudest for the runner-up, the loudest first.

        Parameters
        ----------
        n : int, default=5
            Largest number of rows.

        Returns
        -------
        rows : list of RowContribution
            The `index`, the `label` and the negative `contribution` of each row.
        """
        last = slice(None, -n - 1, -1)
        return [row for row in self._rows(last) if row.contribution < 0]

    def _rows(self, part: slice) -> Iterator[RowContribution]:
        columns = self.row_indices, self.row_labels, self.contributions
        return map(RowContribution, *(each[part].tolist() for each in columns))

    def __str__(self) -> str:
        parts = [self._title]
        for caption, header, rows in self._tables():
            parts.append(f"{caption}\n{_aligned(header, rows)}")
        return "\n\n".join([*parts, *self._remarks()])

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escape(self._title)}</b></p>"]
        for caption, header, rows in self._tables():
            lines = [_html_line("th", header), *(_html_line("td", row) for row in rows)]
            parts.append(f"<p>{escape(caption)}</p><table>{''.join(lines)}</table>")
        remarks = (f"<p>{escape(remark)}</p>" for remark in self._remarks())
        return f"<div>{''.join([*parts, *remarks])}</div>"

    @property
    def _title(self) -> str:
        return f"Prediction: {self.label}, runner-up: {self.runner_up}"

    def _tables(self) -> Iterator[tuple[str, Sequence[str], list[list[str]]]]:
        """Yield the caption, the header and the rows of each table."""
        shares = sorted(self.probabilities.items(), key=lambda each: -each[1])[:SHOWN]
        yield (
            "Probabilities",
            ("label", "probability"),
            [[str(label), f"{share:.1%}"] for label, share in shares],
        )
        if self.is_constant:
            return
        header = ("member", "weight", "label", f"probability of {self.label}")
        yield (
            "Votes of the members",
            header,
            [
                [v.member, f"{v.weight:.2f}", str(v.label), f"{v.probability:.1%}"]
                for v in self.votes
            ],
        )
        for caption, found in (
            (f"Training rows that speak for {self.label}", self.rows_for()),
            (f"Training rows that speak for {self.runner_up}", self.rows_against()),
        ):
            if found:
                yield (
                    caption,
                    ("row", "label", "contribution"),
                    [[str(row.index), str(row.label), f"{row.contribution:+.3f}"] for row in found],
                )

    def _remarks(self) -> list[str]:
        if self.is_constant:
            return [
                "The class frequencies are the prediction, the same for all samples, because no "
                "candidate was better on held-out samples."
            ]
        if not len(self.row_indices):
            return [
                "No contributions of training rows: the members have linear or approximated "
                "kernels and keep no rows."
            ]
        gains = self.contributions
        found = gains[gains > 0].sum(), gains[gains < 0].sum(), self.rest, self.log_odds
        plus, minus, rest, total = (f"{round(float(each), 3) + 0.0:+.3f}" for each in found)
        return [
            f"Contributions are parts of the log-odds {total} of {self.label} and "
            f"{self.runner_up}: {plus} of rows that speak for {self.label}, {minus} of rows that "
            f"speak for {self.runner_up}, and {rest} of no row. Single rows are decisive only if "
            "these sums do not cancel."
        ]


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table with aligned columns, the first to the left and the others to the right."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  "
        + "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _html_line(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def one_row(x: ArrayLike | MatrixLike) -> Any:
    """Return a sample as a matrix or frame of one row.

    Parameters
    ----------
    x : {array-like, sparse matrix, DataFrame} of shape (n_features,) or (1, n_features)
        A Series of pandas is a row of a data frame.
    """
    if hasattr(x, "to_frame") and hasattr(x, "index"):  # a Series of pandas
        return x.to_frame().T.infer_objects()
    row: Any = x if is_frame(x) or sparse.issparse(x) else np.asarray(x)
    if len(row.shape) == 1:
        return row.reshape(1, -1)
    if len(row.shape) != 2 or row.shape[0] != 1:
        raise ValueError(
            f"explain_prediction explains one sample; the shape of x is {row.shape}. Pass one row, "
            "such as X[0]."
        )
    return row


def rows_to_keep(members: Sequence[Any], seen: Indices, y: Indices) -> Indices | None:
    """Return the indices and classes of the training rows if an explanation needs them.

    Parameters
    ----------
    members : sequence of Pipeline
    seen : ndarray of shape (n_samples,)
        Indices in the training data of the rows that the members were fitted to.
    y : ndarray of shape (n_samples,)
        Class indices of these rows.

    Returns
    -------
    rows : ndarray of shape (2, n_samples) or None
        `seen` and `y`; None if no member keeps its rows.
    """
    if any(keeps_rows(_classifier(member)) for member in members):
        return np.array([seen, y])
    return None


def explain(auto: Any, logs: Array, rows: Any) -> PredictionExplanation:
    """Explain the prediction of one sample.

    Parameters
    ----------
    auto : AutoClassifier
        It is fitted.
    logs : ndarray of shape (n_classes,)
        Logarithms of the probabilities.
    rows : ndarray or CSR matrix of shape (1, n_features)
        The sample as the members take it.
    """
    labels, members = auto.classes_, auto.estimators_
    first, second = np.argsort(-logs, kind="stable")[:2].tolist()
    of_members = [
        member_logs(member, temperature, rows)[0]
        for member, temperature in zip(members, auto._temperatures, strict=True)
    ]
    names = labels.tolist()
    votes = [
        Vote(_description(member), weight, names[found.argmax()], float(np.exp(found[first])))
        for member, weight, found in zip(members, auto.weights_.tolist(), of_members, strict=True)
    ]
    log_odds = float(auto.weights_ @ [found[first] - found[second] for found in of_members])
    indices, values, y = _contributions(auto, rows, first, second)
    return PredictionExplanation(
        label=names[first],
        runner_up=names[second],
        probabilities=dict(zip(names, np.exp(logs).tolist(), strict=True)),
        votes=votes,
        log_odds=log_odds,
        rest=log_odds - float(values.sum()),
        row_indices=indices,
        row_labels=labels[y],
        contributions=values,
        is_constant=isinstance(members[0], DummyClassifier),
    )


def _contributions(auto: Any, rows: Any, first: int, second: int) -> tuple[Indices, Array, Indices]:
    """Return contributing training rows, their contributions, the largest first, and classes."""
    if auto._rows is None:
        none = np.empty(0, dtype=np.intp)
        return none, np.empty(0), none
    seen, y = auto._rows
    total, contribute = np.zeros(len(y)), np.zeros(len(y), dtype=bool)
    members = zip(auto.estimators_, auto.weights_, auto._temperatures, strict=True)
    for member, weight, temperature in members:
        classifier = _classifier(member)
        if keeps_rows(classifier):
            point = member[:-1].transform(rows)
            found = contributions_of(classifier, point, y, first, second)
            scores = class_columns(member.decision_function(rows))
            factor = temperature.factors(np.ptp(scores, axis=1))[0]
            total[found.rows] += weight * factor * found.values
            contribute[found.rows] = True
    order = np.argsort(-total, kind="stable")
    order = order[contribute[order]]
    return seen[order], total[order], y[order]


def _classifier(member: Any) -> Any:
    return member if isinstance(member, DummyClassifier) else member[-1]


def _description(member: Any) -> str:
    """Describe a member by its model, kernel and scaling."""
    if isinstance(member, DummyClassifier):
        return "class frequencies"
    scaler, classifier = type(member[0]).__name__, member[-1]
    family = type(classifier).__name__.removesuffix("Classifier")
    width = "" if classifier.kernel == "linear" else f" (gamma={classifier.gamma:.3g})"
    scaling = SCALINGS.get(scaler, scaler)
    return f"{family}, {classifier.kernel} kernel{width}, {scaling} scaling"
