"""Flags of the results: classes that are never recognised or absent, models that are not judged."""

from dataclasses import replace

import numpy as np
import pytest
from report_findings import evidence_of

from discreg.comparison.flags.score_flags import score_flags

FEW = {"majority": ("scikit-learn", 0.0), "LSR": ("discreg", 1.0)}


@pytest.fixture(scope="module")
def evidence():
    return evidence_of(models=FEW, n=400, shares=(0.8, 0.2))


def kinds(evidence, model):
    return [(flag.kind, flag.level) for flag in score_flags(evidence, model)]


def test_a_good_model_on_complete_folds_has_no_flag(evidence):
    assert kinds(evidence, "LSR") == []


def test_a_class_that_is_never_recognised_is_a_danger(evidence):
    (flag,) = score_flags(evidence, "majority")
    assert (flag.kind, flag.level) == ("recall 0", "danger")
    assert "majority recognises no row of the class “case”" in flag.text


def test_without_a_model_nothing_is_said_of_it(evidence):
    assert kinds(evidence, None) == []
    assert kinds(replace(evidence, held_out={}), "LSR") == []


def test_folds_of_one_class_are_a_danger(evidence):
    def moved(held):
        return replace(held, folds=np.where(evidence.y == 1, 0, held.folds))

    alone = {model: [moved(held) for held in each] for model, each in evidence.held_out.items()}
    flags = score_flags(replace(evidence, held_out=alone), "LSR")
    assert [(flag.kind, flag.level) for flag in flags] == [("single-class folds", "danger")]
    assert flags[0].text.startswith("4 of 5 test folds")


def test_folds_without_one_of_many_classes_are_noted():
    evidence = evidence_of(("a", "b", "c"), shares=(0.5, 0.49, 0.01), n=300, models=FEW)
    assert kinds(evidence, "LSR") == [("absent classes", "note")]


def test_models_that_are_not_judged_are_named(evidence):
    left_out = replace(evidence, left_out={"LDA": "too many columns", "SVC": "too slow"})
    (flag,) = score_flags(left_out, "LSR")
    assert (flag.kind, flag.level) == ("not judged", "note")
    assert flag.text.startswith("LDA and SVC were not judged")
