"""The API reference has a page with an example for every public name, and estimators link to it."""

import re
from inspect import getdoc, ismodule
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

import discreg

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PUBLIC = {name: getattr(discreg, name) for name in discreg.__all__ if name != "__version__"}
MODULES = {name: found for name, found in PUBLIC.items() if ismodule(found)}
# Names of the public modules that discreg itself does not export.
INSIDE = {
    f"{module}.{name}": getattr(found, name)
    for module, found in MODULES.items()
    for name in found.__all__
    if name not in PUBLIC
}
DOCUMENTED = {name: found for name, found in PUBLIC.items() if name not in MODULES} | INSIDE
ESTIMATORS = {
    name: found
    for name, found in DOCUMENTED.items()
    if isinstance(found, type) and issubclass(found, BaseEstimator)
}


def listed():
    """The names in the API reference, in their order."""
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^\.\. autosummary::\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return re.findall(r"^   (\w[\w.]*)$", "\n".join(blocks), re.MULTILINE)


def test_the_reference_lists_every_public_name_once():
    assert sorted(listed()) == sorted(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_has_an_example(name):
    text = getdoc(DOCUMENTED[name]) or ""
    assert re.search(r"^Examples\n-+\n.*^>>> ", text, re.DOTALL | re.MULTILINE)


MODELS = [name for name in ESTIMATORS if name.endswith(("Classifier", "Regression"))]
MODELS.remove("AutoClassifier")  # chooses among models and has no objective of its own


@pytest.mark.parametrize("name", MODELS)
def test_every_model_shows_its_equation_and_its_paper(name):
    text = getdoc(ESTIMATORS[name])
    assert ".. math::" in text
    assert "References\n---" in text


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_html_representation_links_to_the_page(name):
    shown = estimator_html_repr(ESTIMATORS[name]())
    assert f'href="https://discreg.github.io/discreg/api/discreg.{name}.html"' in shown
    assert name in listed()
