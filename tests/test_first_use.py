"""Estimators work in processes that have compiled nothing, cannot cache, or do not compile."""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import discreg

PACKAGE = Path(discreg.__file__).parent
NAMES = [name for name in discreg.__all__ if name.endswith("Classifier")]
COMPILING = ["ReLSRClassifier", "SLRRClassifier", "DRMClassifier", "ODMClassifier", "LDMClassifier"]
NOBODY = 65534

TABLE = """\
import numpy as np

def table(n_rows):
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 4))
    return X, np.digitize(X[:, 0] + 0.3 * random.normal(size=n_rows), [-0.5, 0.5])
"""
# Under -OO there are no assert statements.
LOAD = f"""{TABLE}
import pickle, sys, warnings
from pathlib import Path
import discreg

def load(folder):
    warnings.simplefilter("error")
    X, _ = table(60)
    for path in sorted(Path(folder).glob("*.pickle")):
        expected = np.load(path.with_name(f"{{path.stem}}-60.npy"))
        pickled = pickle.loads(path.read_bytes())
        for model in pickled, discreg.load_model(path.with_suffix(".skops")):
            if not np.allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-9):
                sys.exit(f"{{path.stem}} decides differently")
"""
LOAD_HERE = f"{LOAD}\nload(sys.argv[1])\n"
LOAD_IN_A_SPAWNED_PROCESS = f"""{LOAD}
if __name__ == "__main__":
    import multiprocessing
    process = multiprocessing.get_context("spawn").Process(target=load, args=sys.argv[1:])
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
FIT = f"""{LOAD}
load(sys.argv[1])
n_rows, *names = sys.argv[2:]
X, y = table(int(n_rows))
for name in names:
    expected = np.load(Path(sys.argv[1], f"{{name}}-{{n_rows}}.npy"))
    found = getattr(discreg, name)().fit(X, y).decision_function(X)
    if not np.allclose(found, expected, rtol=1e-6, atol=1e-6):
        sys.exit(f"{{name}} decides differently by {{np.abs(found - expected).max()}}")
"""
PRINT_CACHE = "\nfrom discreg.linalg.compiled import cache_folder\nprint(cache_folder())\n"


@pytest.fixture(scope="module")
def models():
    """A folder that every user can read, with each fitted estimator and what it decides."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in NAMES:
            model = stored_fit(name, 60, Path(folder))
            path = Path(folder, f"{name}.pickle")
            path.write_bytes(pickle.dumps(model))
            discreg.save_model(model, path.with_suffix(".skops"))
            for ending in (".pickle", ".skops"):
                path.with_suffix(ending).chmod(0o644)
        yield Path(folder)


def stored_fit(name, n_rows, folder):
    """A fitted estimator; what it decides is stored."""
    names = {}
    exec(TABLE, names)
    X, y = names["table"](n_rows)
    model = getattr(discreg, name)().fit(X, y)
    path = folder / f"{name}-{n_rows}.npy"
    np.save(path, model.decision_function(X))
    path.chmod(0o644)
    return model


def run(program, folder, *arguments, options=(), user=None, sources=PACKAGE.parent, **variables):
    """What a program prints that runs in a fresh interpreter, with few environment variables."""
    script = folder / "program.py"
    script.write_text(program, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "SYSTEMROOT")}
    done = subprocess.run(
        [sys.executable, *options, script, folder, *map(str, arguments)],
        env={**kept, "PYTHONPATH": str(sources), "OPENBLAS_NUM_THREADS": "1", **variables},
        user=user,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "program", [LOAD_HERE, LOAD_IN_A_SPAWNED_PROCESS], ids=["fresh", "spawned"]
)
@pytest.mark.full
def test_models_load_where_nothing_was_compiled(program, models, tmp_path):
    run(program, models, NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.full
def test_models_load_without_assert_statements(models):
    run(LOAD_HERE, models, options=["-OO"])


@pytest.mark.full
def test_models_load_and_fit_where_numba_does_not_compile(models):
    run(FIT, models, 60, *NAMES, NUMBA_DISABLE_JIT="1")


@pytest.mark.full
def test_models_load_and_fit_where_no_cache_can_be_written(models):
    """Files stand where cache folders would be made, which stops administrators, too."""
    for name in COMPILING:
        stored_fit(name, 400, models)  # rows, enough for compiled loops
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        ignored = shutil.ignore_patterns("__pycache__")
        package = shutil.copytree(PACKAGE, Path(folder, "discreg"), ignore=ignored)
        for part in {path.parent for path in package.rglob("*.py")}:
            (part / "__pycache__").touch()
            part.chmod(0o555)
        nowhere = str(package / "__init__.py")
        homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "USERPROFILE"), nowhere)
        printed = run(
            FIT + PRINT_CACHE,
            models,
            400,
            *COMPILING,
            user=another_user(),
            sources=folder,
            **homes,
        )
        for part in {path.parent for path in package.rglob("*.py")}:
            part.chmod(0o755)
    assert printed.splitlines()[-1] == "None"


def another_user():
    """A user without rights where the tests may become one that can start Python."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    try:
        subprocess.run([sys.executable, "-c", ""], user=NOBODY, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return NOBODY
