"""A few cases of every property, and every counterexample that the fuzzer has found so far."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from fuzz.cases import Case
from fuzz.properties import FEW, PROPERTIES, check
from fuzz.strategies import MODELS, cases, constraints_of

STORED = sorted((Path(__file__).parent / "regressions").glob("*.json"))


@pytest.mark.parametrize("name", PROPERTIES)
def test_property(name):
    @settings(
        max_examples=2 if name in FEW else 20,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(name))
    def holds(case):
        check(case)

    holds()


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_counterexample(path):
    check(Case.from_json(path.read_text(encoding="utf-8")))


def test_a_case_is_stored_as_it_is():
    case = Case("is_certified", "LSRClassifier", {"class_weight": {"0": 2.0}, "beta": 1e-300})
    assert Case.from_json(case.to_json()) == case


@pytest.mark.parametrize("name", MODELS)
def test_parameters_have_constraints(name):
    undeclared = set(Case("", name).model().get_params()) - set(constraints_of(name))
    assert undeclared <= {"random_state"}
