"""Versions that are written in several files agree."""

import re
import tomllib
from pathlib import Path

import discreg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lower_bounds(requirements):
    """The oldest admitted release of each package, as a tuple of numbers."""
    found = (re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", each) for each in requirements)
    return {each[1]: tuple(map(int, each[2].split("."))) for each in found if each}


def test_the_oldest_releases_that_are_tested_are_admitted_and_those_of_numerics_are_the_bounds():
    lines = (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    tested = {name: tuple(map(int, pin.split(".")[:-1])) for name, pin in pins.items()}
    bounds = lower_bounds(PROJECT["dependencies"])
    numerics = {"numpy", "scipy", "scikit-learn", "numba", "joblib"}
    assert {name: tested[name] for name in numerics} == {name: bounds[name] for name in numerics}
    admitted = bounds | lower_bounds(PROJECT["optional-dependencies"]["compare"])
    assert all(pin >= admitted[name] for name, pin in tested.items())


def test_ruff_is_the_same_everywhere():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    (pinned,) = (each for each in PROJECT["optional-dependencies"]["dev"] if "ruff" in each)
    assert set(re.findall(r"ruff==[\d.*]+", hooks)) == {pinned}


def test_the_classifiers_name_the_python_versions_that_are_tested():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    tested = set(re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow)[1]))
    named = {each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if ":: 3." in each}
    assert named == tested
    assert min(tested, key=lambda each: int(each[2:])) == PROJECT["requires-python"][2:]


def test_the_version_is_the_same_everywhere():
    version = re.escape(discreg.__version__.removesuffix(".dev0"))
    if discreg.__version__.endswith(".dev0"):  # between releases, the files name the last one
        version = r"[\d.]+"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.search(rf"^## \[({version})\] - (\d{{4}}-\d\d-\d\d)$", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {released[1]}\ndate-released: {released[2]}\n" in citation
    conda = (ROOT / "conda" / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'  version: "{released[1]}"\n' in conda
    text = (ROOT / "reproduction" / "pyproject.toml").read_text(encoding="utf-8")
    (needed,) = tomllib.loads(text)["project"]["dependencies"]
    assert needed == f"discreg[compare]=={discreg.__version__}"


def test_the_conda_recipe_requires_what_pip_requires():
    conda = (ROOT / "conda" / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"  run:\n(.*?)\n\n", conda, re.DOTALL)[1]
    named = {line.strip(" -").replace(" ", "") for line in run.splitlines()[1:]}
    assert named == set(PROJECT["dependencies"])
