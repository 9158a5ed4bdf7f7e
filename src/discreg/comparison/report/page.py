"""HTML report of a comparison: the verdict, its evidence, and how to use the model.

The report is one file without network requests or embedded fonts. Its only script sorts the
ranking. Text from the user's table is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreg.base.metrics import metric
from discreg.comparison.candidates.contender import MAJORITY
from discreg.comparison.flags.score_flags import score_flags
from discreg.comparison.running.experiment import Key
from discreg.comparison.running.files import write_whole
from discreg.comparison.statistics.curves import margins, one_prediction_per_row
from discreg.comparison.statistics.judged import JudgedScores, judge
from discreg.comparison.statistics.ranks import LEVEL, friedman_nemenyi
from discreg.comparison.statistics.verdict import Verdict
from discreg.comparison.words import listed, number, percent, printable

from .figures import critical_difference_figure, margins_figure, scores_figure
from .findings import Findings
from .model_section import ModelSection, Plot, model_section
from .ranking import NOTHING, ranking_of, signed

__all__ = ["write_report"]

MAX_CURVES = 6  # most models in one plot of curves
KINDS = {
    "clear winner": "a clear winner",
    "equally good": "several models are equally good",
    "nothing beats the majority class": "no recommendation",
    "not enough evidence": "no recommendation",
}
TAKES = {
    "nothing beats the majority class": "Nothing beats the majority class",
    "not enough evidence": "Not enough evidence yet",
}


class Figure(NamedTuple):
    """A number below the verdict."""

    title: str
    value: str
    note: str


class Test(NamedTuple):
    """One line of the table of all tests."""

    model: str
    difference: str
    interval: str
    better: str
    equivalent: str
    worse: str
    params: str


def write_report(path: Path, findings: Findings) -> None:
    """Write the report atomically."""
    environment = Environment(
        loader=PackageLoader("discreg.comparison.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assert environment.loader is not None
    script, _, _ = environment.loader.get_source(environment, "report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html").render(
        findings=findings, script=script, script_hash=f"sha256-{digest}", **_contents(findings)
    )
    write_whole(path, page)


def _visible(value: Any) -> Any:
    """Escape control characters of names, which could change the direction of other text."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(map(printable, value.split("\n")))
    return value


def _contents(findings: Findings) -> dict[str, Any]:
    """Compute the variables of the template."""
    evidence, verdict = findings.evidence, findings.verdict
    judged = judge(evidence)
    shown = verdict.recommended or verdict.best
    flags = [*findings.flags, *score_flags(evidence, shown)]
    section = None if shown is None else model_section(findings, shown)
    return {
        "evidence": evidence,
        "verdict": verdict,
        "kind": _kind(verdict),
        "take": TAKES.get(verdict.kind, f"Use {verdict.recommended}"),
        "figures": list(_figures(findings, section)),
        "flags": sorted(flags, key=lambda flag: flag.level != "danger"),
        "ranking": ranking_of(findings),
        "model": section,
        "rope": f"{metric(evidence.metric).rope:g}",
        "confidence": percent(1 - LEVEL),
        "tests": list(_tests(findings)),
        "plots": list(_plots(findings, judged)),
        "failures": _grouped({key: [text] for key, text in evidence.failures.items()}),
        "warnings": _grouped(evidence.warnings),
        "number": number,
        "majority": MAJORITY,
    }


def _kind(verdict: Verdict) -> str:
    if verdict.kind == "equally good" and not verdict.equivalent:
        return "no clear winner"
    return KINDS[verdict.kind]


def _figures(findings: Findings, section: ModelSection | None) -> Iterator[Figure]:
    """Yield the numbers below the verdict."""
    verdict, estimate = findings.verdict, findings.verdict.estimate
    title = findings.metric_title
    if estimate is not None and np.isfinite(estimate.corrected):
        interval = (
            f"{number(estimate.low)} to {number(estimate.high)}. "
            if np.isfinite(estimate.low)
            else ""
        )
        n_models = int((findings.table["reason"] == "").sum()) - 1  # without the majority class
        of_many = f", the best of {n_models} models" if n_models > 1 else ""
        yield Figure(
            f"{title} of {verdict.best} to expect",
            number(estimate.corrected),
            f"{interval}Measured: {number(estimate.mean)}{of_many}.",
        )
    if verdict.baseline is not None and np.isfinite(verdict.baseline):
        yield Figure(
            f"{title} of the majority class",
            number(verdict.baseline),
            "always predicts the class frequencies",
        )
    if section is None:
        return
    _, scores = section.classes[findings.evidence.rarest]
    n_found = round(scores.recall * scores.n_rows) if scores.n_rows else 0
    if np.isfinite(scores.recall):
        yield Figure(
            f"{section.rarest} rows that {section.name} finds",
            f"{n_found:,} of {scores.n_rows:,}",
            f"recall {number(scores.recall)} of the rarest class",
        )
    if np.isfinite(scores.precision):
        yield Figure(
            f"rows predicted as {section.rarest} that are correct",
            f"{n_found:,} of {scores.n_predicted:,}",
            f"precision {number(scores.precision)}",
        )


def _tests(findings: Findings) -> Iterator[Test]:
    """Yield the differences from the best of all judged models."""
    for model, row in findings.table[findings.table["reason"] == ""].iterrows():
        ends = [row["difference_low"], row["difference_high"]]
        better, equivalent, worse = (
            f"{row[f'p_{word}']:.3f}" if np.isfinite(row[f"p_{word}"]) else NOTHING
            for word in ("better", "equivalent", "worse")
        )
        yield Test(
            str(model),
            signed(row["difference"]),
            " to ".join(map(signed, ends)) if np.isfinite(ends).all() else NOTHING,
            better,
            equivalent,
            worse,
            str(row["parameters"]),
        )


def _plots(findings: Findings, judged: JudgedScores) -> Iterator[Plot]:
    """Yield the plots of all models."""
    order = [model for model in findings.table.index if model in judged.models]
    if not order:
        return
    shown = findings.verdict.recommended or findings.verdict.best
    scores = {model: judged.scores[model].to_numpy() for model in order}
    yield Plot(
        "Scores",
        scores_figure(scores, label=findings.metric_title, marked=shown),
        f"{findings.metric_title} of {len(order)} models on each fold, the best mean at the top",
        f"One point per {'repeat' if judged.by_repeat else 'fold'}; the line is the mean. {shown} "
        "is orange.",
    )
    if len(order) > 1 and len(judged.scores) > 1:
        yield _ranks(judged.scores[order], findings.evidence.metric)
    if curves := _margins(findings, order):
        yield Plot(
            "Margins",
            margins_figure(curves),
            f"Cumulative distribution of the held-out margins of {listed(list(curves))}",
            "Margins of held-out rows. A curve further to the right has larger margins; its height "
            "at 0 is the error rate of the highest score.",
        )


def _ranks(scores: pd.DataFrame, name: str) -> Plot:
    results = scores.stack().rename("value").reset_index()
    ranking = friedman_nemenyi(results.assign(dataset="table", metric=name), name)
    first, *_, last = ranking.mean_ranks.items()
    return Plot(
        "Ranks",
        critical_difference_figure(ranking),
        f"Mean ranks of {len(ranking.mean_ranks)} models, "
        f"from {first[0]} at {first[1]:.1f} to {last[0]} at {last[1]:.1f}",
        f"Mean ranks over {ranking.n_blocks} {ranking.blocks}. A bar on the right joins models "
        "whose mean ranks differ by less than Nemenyi's critical difference at the "
        f"{percent(LEVEL)} level. {ranking.caution}".rstrip(),
    )


def _margins(findings: Findings, order: Sequence[str]) -> dict[str, Any]:
    """Margins of the model in the report and of the next best, for one plot."""
    shown = findings.verdict.recommended or findings.verdict.best
    curves: dict[str, Any] = {}
    for model in dict.fromkeys([*filter(None, [shown]), *order]):
        held = one_prediction_per_row(findings.evidence, model)
        values = None if held is None else margins(findings.evidence, held)
        if values is not None and len(curves) < MAX_CURVES:
            curves[model] = values
    return curves


def _grouped(texts: Mapping[Key, Sequence[str]]) -> list[tuple[str, str, int]]:
    """Group equal messages of a model and count their fits."""
    found = Counter((key.model, text) for key, said in texts.items() for text in said)
    return [(model, text, count) for (model, text), count in found.items()]
