"""Answers to the checklist of TRIPOD+AI, as far as a comparison knows them.

References
----------
G. S. Collins et al., "TRIPOD+AI statement: updated guidance for reporting clinical prediction
models that use regression or machine learning methods", BMJ 385, 2024.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreg.comparison.statistics.evidence import Evidence
from discreg.comparison.statistics.verdict import Verdict
from discreg.comparison.words import listed, percent

from .findings import Findings

N_LISTED = 8  # most names in an answer


class Item(NamedTuple):
    """An item of the checklist; the answer is empty where only the author knows it."""

    number: str
    title: str
    answer: str
    to_add: str = ""  # what the author adds


def checklist(findings: Findings, evidence: Evidence, verdict: Verdict) -> list[Item]:
    """Answer the items of TRIPOD+AI in order."""
    development = "development and evaluation on a test table" if findings.n_test else "development"
    events = ", ".join(f"{label} {count:,}" for label, count in findings.class_counts.items())
    fewest = min(findings.class_counts.values())
    groups = "" if evidence.groups is None else f" in {len(np.unique(evidence.groups)):,} groups"
    return [
        Item(
            "1", "Title", f"{development.capitalize()} of a model that predicts {findings.target}."
        ),
        Item("2", "Abstract", "", "structured summary"),
        Item("3", "Background", "", "context, target population, known health inequalities"),
        Item("4", "Objectives", f"{development.capitalize()} with internal validation."),
        Item(
            "5",
            "Data",
            f"{findings.source or 'data in memory'}, analysed on {findings.date}.",
            "source, dates of collection, how representative the rows are",
        ),
        Item("6", "Participants", f"{len(evidence.y):,} rows{groups}.", "setting, eligibility"),
        Item("7", "Data preparation", _preparation(findings)),
        Item(
            "8",
            "Outcome",
            f"{findings.target}, with {len(evidence.classes)} classes: {events}.",
            "definition, time horizon, how and by whom it was assessed, blinding",
        ),
        Item("9", "Predictors", _predictors(findings), "definition and time of measurement"),
        Item(
            "10",
            "Sample size",
            f"{len(evidence.y):,} rows, {fewest:,} of the smallest class; "
            f"{fewest / findings.n_parameters:.1f} of them per candidate parameter "
            f"({findings.n_parameters:,} parameters before selection).",
            "justification",
        ),
        Item("11", "Missing data", _missing(findings)),
        Item(
            "12",
            "Analytical methods",
            f"{findings.methods} {_recommended(evidence, verdict)}",
        ),
        Item("13", "Class imbalance", f"{_weighted(evidence)}; {_rule(evidence)}."),
        Item("14", "Fairness", _fairness(findings), "which groups matter and why"),
        Item("15", "Model output", f"Probabilities of the classes; {_rule(evidence)}."),
        Item("16", "Training versus evaluation", _evaluation(findings)),
        Item("17", "Ethical approval", "", "committee and consent"),
        Item("18", "Open science", _software(findings), "funding, conflicts, protocol, data"),
        Item("19", "Patient and public involvement", "", "involvement, or that there was none"),
        Item("20", "Participants (results)", f"By class: {events}.", "flow, follow-up"),
        Item("21", "Model development", f"{len(evidence.y):,} rows; by class: {events}."),
        Item("22", "Model specification", _file(findings)),
        Item("23", "Model performance", _performance(verdict)),
        Item("24", "Model updating", "None."),
        Item("25", "Interpretation", "", "overall interpretation and fairness"),
        Item("26", "Limitations", _limitations(findings), "further limitations"),
        Item("27", "Usability", "", "input that is needed, handling of poor input, next steps"),
    ]


def _preparation(findings: Findings) -> str:
    kinds: dict[str, list[str]] = {}
    for column in findings.columns:
        kinds.setdefault(column.treatment, []).append(column.name)
    treated = [f"{listed(names, N_LISTED)}: {how}" for how, names in kinds.items()]
    return "; ".join(treated) + "." if treated else "Columns were divided by their largest value."


def _predictors(findings: Findings) -> str:
    used = [each.name for each in findings.columns if not each.treatment.startswith("not used")]
    named = f": {listed(used, N_LISTED)}" if used else ""
    return f"{findings.n_features:,} columns{named}."


def _missing(findings: Findings) -> str:
    gaps = [each for each in findings.columns if each.n_missing]
    if not gaps:
        return "No used column has missing values."
    told = []
    for column in gaps[:N_LISTED]:
        by_class = ", ".join(f"{label} {n:,}" for label, n in column.missing.items())
        told.append(f"{column.name} {column.n_missing:,}" + (f" ({by_class})" if by_class else ""))
    more = f" and {len(gaps) - N_LISTED} more columns" if len(gaps) > N_LISTED else ""
    return (
        f"Missing values (by class): {'; '.join(told)}{more}. Numbers were replaced by the median "
        "of the training rows, with an indicator; a missing category is a category."
    )


def _recommended(evidence: Evidence, verdict: Verdict) -> str:
    name = verdict.recommended
    if name is None:
        return "No model is recommended."
    params = evidence.contenders[name].usual_params
    selected = f", with the parameters selected most often {params}" if params else ""
    return f"The recommended model is {name}{selected}."


def _weighted(evidence: Evidence) -> str:
    weighted = "No rows were weighted" if evidence.weights is None else "Rows have sample weights"
    return f"{weighted}, and none were drawn to balance classes"


def _rule(evidence: Evidence) -> str:
    return f"labels follow {evidence.rule.text}"


def _fairness(findings: Findings) -> str:
    return f"Performance by {findings.subgroup} is reported." if findings.subgroup else ""


def _evaluation(findings: Findings) -> str:
    test = f" A test table of {findings.n_test:,} rows was scored once." if findings.n_test else ""
    return f"{findings.folds[:1].upper()}{findings.folds[1:]}.{test}"


def _software(findings: Findings) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in findings.versions.items())
    return f"Software: {versions}; random seed {findings.seed}. Call: {findings.command}"


def _file(findings: Findings) -> str:
    if findings.model_file is None:
        return "No model was saved."
    return (
        f"{findings.specification}. The complete model, with the preparation of the columns, is "
        f"{findings.model_file}."
    )


def _performance(verdict: Verdict) -> str:
    if verdict.estimate is None:
        return "No estimate is given."
    return (
        f"{verdict.sentences[1]} This is corrected for selection. The section on the model has "
        "discrimination and calibration with intervals, and net benefit. Stability of the choice: "
        f"{percent(verdict.stability or 0.0)}."
    )


def _limitations(findings: Findings) -> str:
    told = [flag.text for flag in findings.flags]
    external = "" if findings.n_test else "There was no external validation."
    return " ".join([external, *told]).strip()
