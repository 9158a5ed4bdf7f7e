"""The recipes of CONTRIBUTING.md work as they are written: each is one file and one test."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n# ((?:src|tests)/\S+\.py)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = {
    section.splitlines()[0]: BLOCK.findall(section)
    for section in re.split(r"^### Add ", TEXT, flags=re.MULTILINE)[1:]
    if "```" in section
}


def test_a_recipe_is_one_file_and_one_test():
    assert RECIPES
    for blocks in RECIPES.values():
        assert [path.split("/")[0] for path, _ in blocks] == ["src", "tests"]


@pytest.mark.full
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works(name, tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src")  # with numba's cache
    for path, code in RECIPES[name]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        with (tmp_path / path).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{code}")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(tmp_path / "tests"),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
