"""The rules of the source tree: which part imports which, its names, and its base classes.

The rules are those of ``CONTRIBUTING.md``. They are read from the source with ``ast``, so an import
inside a function counts as well.
"""

import ast
import inspect
import textwrap
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

import discreg

SOURCE = Path(discreg.__file__).parent
FAMILIES = {"retargeted", "lowrank", "representation", "margin"}
NUMERICS = {"base", "blocks", "linalg"}
LIBRARY = FAMILIES | NUMERICS | {"tables", "model_files"}
# What each folder or module may import; "discreg" is "import discreg", which can reach all of them.
MAY_IMPORT = {
    "linalg": set(),
    "blocks": {"linalg"},
    "base": {"blocks", "linalg"},
    **dict.fromkeys(FAMILIES, NUMERICS),
    "inspection": NUMERICS,
    "tables": {"base"},
    "model_files": NUMERICS | {"tables"},
    "versions": {"linalg"},
    "auto": LIBRARY,
    "onnx": LIBRARY | {"auto", "discreg"},
    "comparison": LIBRARY | {"auto", "onnx", "discreg"},
    "cli": LIBRARY | {"auto", "comparison", "onnx", "discreg"},
}
# The folders of the comparison, each of which imports only those before it, and never what is
# above all of them, except for the words of messages.
LAYERS = ["protocol", "candidates", "running", "statistics", "flags", "report"]
# Compiled loops, and the solvers and the search of an estimator, are named after what they serve.
CUSTOMARY_ENDINGS = ("_loops", "_solvers", "_cv")

FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
ESTIMATORS = {
    name: getattr(discreg, name)
    for name in discreg.__all__
    if name.endswith(("Classifier", "ClassifierCV", "Regression", "RegressionCV"))
}
SEARCHES = {name: found for name, found in ESTIMATORS.items() if name.endswith("CV")}


def package_of(path):
    """The package that holds a file, as a tuple of names."""
    return ("discreg", *path.relative_to(SOURCE).parent.parts)


def part_of(path):
    """The folder or module directly under ``discreg`` that a file belongs to."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports_of(tree, package):
    """Every import as a pair: the module's absolute name, and the name taken from it or None."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*parents, *((node.module,) if node.module else ())))
            for alias in node.names:
                yield module, alias.name


def homes_of_public_names():
    """The part of the package in which the stub says that each public name lives."""
    stub = SOURCE / "__init__.pyi"
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    homes = {}
    for module, name in imports_of(tree, ("discreg",)):
        homes[name] = module.split(".")[1] if "." in module else name
    return homes


HOMES = homes_of_public_names()


def imported_part(module, name):
    """The part of the package that an import reaches; None for other packages and the version."""
    root, *inside = module.split(".")
    if root != "discreg" or (not inside and name == "__version__"):
        return None
    if inside:
        return inside[0]
    return "discreg" if name is None else HOMES.get(name, name)


def imports():
    """Every import of every file: the file, the module's absolute name, and the name or None."""
    for path, tree in TREES.items():
        for module, name in imports_of(tree, package_of(path)):
            yield path, module, name


def private(step):
    return step.startswith("_") and not step.startswith("__")


def where(path):
    return str(path.relative_to(SOURCE))


def test_every_part_has_a_rule():
    assert {part_of(path) for path in FILES} - {"__init__"} <= MAY_IMPORT.keys()


def test_imports_point_one_way():
    offences = set()
    for path, module, name in imports():
        part, reached = part_of(path), imported_part(module, name)
        if reached not in {None, part} | MAY_IMPORT.get(part, set()):
            offences.add((where(path), reached))
    assert sorted(offences) == []


def test_the_folders_of_the_comparison_import_those_before_them():
    folders = {path.parent.name for path in FILES if path.parent.parent == SOURCE / "comparison"}
    assert folders == set(LAYERS)
    offences = set()
    for path, module, name in imports():
        folder, reached = path.parent.name, [*module.split("."), name][1:]
        if path.parent.parent == SOURCE / "comparison" and reached[0] == "comparison":
            before = LAYERS[: LAYERS.index(folder) + 1]
            if reached[1] not in {*before, "words"}:
                offences.add((where(path), module))
    assert sorted(offences) == []


def test_private_modules_are_imported_in_their_own_folder_only():
    offences = set()
    for path, module, name in imports():
        steps = [*module.split("."), *([name] if name else [])]
        hidden = [i for i, step in enumerate(steps) if private(step)]
        if steps[0] == "discreg" and hidden:
            holder = tuple(steps[: hidden[0]])
            if package_of(path)[: len(holder)] != holder:
                offences.add((where(path), module))
    assert sorted(offences) == []


def test_nothing_private_is_imported_from_scikit_learn():
    offences = {
        (where(path), module, name)
        for path, module, name in imports()
        if module.split(".")[0] == "sklearn" and any(map(private, [*module.split("."), name or ""]))
    }
    assert sorted(offences) == []


def test_nothing_imports_the_reproduction():
    offences = {
        where(path)
        for path, module, _ in imports()
        if module.split(".")[0] == "discreg_reproduction"
    }
    assert sorted(offences) == []


def test_a_class_name_occurs_once():
    names = Counter(
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def differ_by_an_ending(first, second):
    """Whether one name is the other and an ending, or both are one long stem with two endings."""
    short, long = sorted((first, second), key=len)
    if long.startswith(short):
        return long.removeprefix(short) not in CUSTOMARY_ENDINGS
    return short[:6] == long[:6] and "_" not in short + long


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("report", "reported", True),
        ("report", "report_plots", True),
        ("compare", "comparison", True),
        ("lsr", "lsr_cv", False),
        ("columns", "column_types", False),
        ("predict", "preprocessing", False),
    ],
)
def test_what_an_ending_is(first, second, expected):
    assert differ_by_an_ending(first, second) == expected


def test_no_two_modules_differ_by_an_ending():
    folders = {}
    for path in FILES:
        # A folder counts among the modules of the folder above it.
        entry = path.parent if path.stem == "__init__" else path
        folders.setdefault(entry.parent, set()).add(entry.stem.lstrip("_"))
    del folders[SOURCE.parent]
    offences = [
        (folder.name, *pair)
        for folder, names in folders.items()
        for pair in combinations(sorted(names), 2)
        if differ_by_an_ending(*pair)
    ]
    assert sorted(offences) == []


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_has_at_most_two_base_classes_of_ours(name):
    ours = [base for base in ESTIMATORS[name].__mro__[1:] if base.__module__.startswith("discreg")]
    assert len(ours) <= 2, [base.__name__ for base in ours]


def attributes(cls):
    """The attributes of ``self`` that a class reads by ``getattr``, and those that it sets."""
    read, written = set(), set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        match node:
            case ast.Call(
                func=ast.Name("getattr"), args=[ast.Name("self"), ast.Constant(name), *_]
            ):
                read.add(name)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                written.add(name)
    return read, written


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_base_class_reads_no_attribute_of_a_subclass(name):
    ours = [base for base in ESTIMATORS[name].__mro__[1:] if base.__module__.startswith("discreg")]
    for base in ours:
        read, _ = attributes(base)
        written = {
            found
            for above in base.__mro__
            if above.__module__.startswith("discreg")
            for found in attributes(above)[1]
        }
        assert read <= written, base.__name__


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - SEARCHES.keys() - {"AutoClassifier"}))
def test_every_estimator_has_a_search(name):
    assert f"{name}CV" in SEARCHES


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_takes_the_common_parameters(name):
    taken = inspect.signature(SEARCHES[name]).parameters.keys()
    assert taken >= {"cv", "scoring"}
    if name.endswith("ClassifierCV"):
        assert taken >= {"n_jobs", "verbose"}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_over_kernels_takes_gammas(name):
    estimator = ESTIMATORS[name.removesuffix("CV")]
    has_gamma = "gamma" in inspect.signature(estimator).parameters
    assert ("gammas" in inspect.signature(SEARCHES[name]).parameters) == has_gamma
