"""Configuration of the documentation: ``sphinx-build -W --keep-going -n docs docs/_build``.

``-D plot_gallery=0`` shows the code of the gallery without running it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import discreg

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_extensions"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # pictures do not depend on the number of cores

project = "discreg"
author = "The discreg developers"
project_copyright = author
version = release = discreg.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.githubpages",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax in the pages, so that they need no network
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "linked_names",
    "outside_pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
templates_path = ["_templates"]
nitpicky = True
default_role = "literal"  # of docstrings
# Names of other packages: their pages are on other sites, and a build needs no network.
OTHERS = "sklearn|numpy|scipy|matplotlib|pandas|dask|skl2onnx|onnx"
nitpick_ignore_regex = [("py:.*", rf"({OTHERS})\..*")]

# Files outside of this folder that have a page.
outside_pages = {
    "project/changelog": "CHANGELOG.md",
    "project/contributing": "CONTRIBUTING.md",
    "reproduction/command": "reproduction/README.md",
    "reproduction/results": "reproduction/docs/results.md",
} | {
    f"benchmarks/{'overview' if path.stem == 'README' else path.stem}": str(path.relative_to(ROOT))
    for path in sorted((ROOT / "benchmarks/results").glob("*.md"))
}
outside_examples = ("examples", "gallery")
outside_repository = "https://github.com/discreg/discreg"

# Markdown, written so that GitHub shows it as well.
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# API reference.
autosummary_generate = True
autosummary_generate_overwrite = True
autodoc_typehints = "none"  # numpydoc shows the types
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template lists the methods
numpydoc_xref_param_type = False
# All checks but these. GL01, GL02: the text may begin on the line of the quotes. GL08: a short
# override has no docstring. ES01, SA01, SA04: more text and "See Also" where there is something to
# say. EX01: examples of methods; tests/test_documentation.py requires one of every public name.
# PR04: parameters that a search shares with its classifier refer to it. PR07, RT03: no sentence
# that repeats a name and its type. RT02: returned values have names, as in scikit-learn.
numpydoc_validation_checks = {
    "all", "GL01", "GL02", "GL08", "ES01", "SA01", "SA04", "EX01", "PR04", "PR07", "RT02", "RT03",
}  # fmt: skip
# Results and data classes, whose attributes are documented in place of their parameters.
numpydoc_validation_exclude = {
    r"\.(Comparison|MarginStatistics|Penalty|PenaltyPath|TargetLoss)$",
    r"\.TargetLoss\.",
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("discreg",),
    "reference_url": {"discreg": None},
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # their pages would need a network
    "show_signature": False,
    "plot_gallery": "True",
    "abort_on_example_error": False,
    "min_reported_time": 5,
    "default_thumb_file": str(DOCS / "images" / "retargeted.png"),
}

html_theme = "pydata_sphinx_theme"
html_title = "discreg"
html_static_path = ["_static"]
html_css_files = ["discreg.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "discreg"},
    "header_links_before_dropdown": 6,
    "icon_links": [
        {"name": "GitHub", "url": outside_repository, "icon": "fa-brands fa-github"},
    ],
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"getting_started": [], "glossary": [], "citing": [], "index": []}
html_context = {"default_mode": "auto"}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def setup(app):
    app.connect("autodoc-skip-member", leave_out_members_of_scikit_learn)


def leave_out_members_of_scikit_learn(app, what, name, member, skip, options):
    """Leave out inherited methods such as `set_params`, whose pages are on scikit-learn's site."""
    return skip or str(getattr(member, "__module__", "")).startswith("sklearn.")
