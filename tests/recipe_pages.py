"""The code of the pages in docs/recipes."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "recipes"


def run_page(name):
    """Run the Python blocks of a page one after the other, and return the variables at the end."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    variables = {"__name__": "__main__"}
    exec(compile(code, f"{name}.md", "exec"), variables)
    return variables
