"""The rules of the source tree: which part imports which, without cycles.

The imports are read from the source with ``ast``, so an import inside a function counts as well.
"""

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

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
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


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


def modules_imported(path):
    """The modules of the package that a module imports, without those for type checkers only."""
    known = {".".join((*package_of(each), each.stem)): each for each in FILES}
    guarded = {
        id(node)
        for block in ast.walk(TREES[path])
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    tree = ast.Module([node for node in TREES[path].body if id(node) not in guarded], [])
    for module, name in imports_of(tree, package_of(path)):
        for dotted in (f"{module}.{name}", module):
            if dotted in known and known[dotted] != path:
                yield known[dotted]
                break


def test_modules_have_no_cycles():
    graph = {path: set(modules_imported(path)) for path in FILES if path.stem != "__init__"}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_a_class_name_occurs_once():
    names = Counter(
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
