"""The command: what it prints, where, and with which exit code."""

import subprocess
import sys

import pytest

import discreg
from discreg.cli import main
from discreg.studies.datasets import BUNDLED

HEAVY = {"joblib", "numba", "numpy", "scipy", "sklearn"}
PEERS = ["RidgeClassifier", "LinearSVC", "LogisticRegression"]
FAMILY = [name for name in discreg.__all__ if name.endswith("Classifier")]


def run_command(*arguments):
    """The command in a process of its own, as a user starts it."""
    program = "import sys; from discreg.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )


def test_demo_prints_a_comparison_and_nothing_else():
    done = run_command("demo", "--dataset", "iris")
    assert done.returncode == 0
    assert done.stderr == ""
    rows = [line.split()[0] for line in done.stdout.splitlines() if " ± " in line]
    assert set(rows) >= {*FAMILY, *PEERS}


def test_demo_runs_on_digits_by_default(capsys):
    with pytest.raises(SystemExit) as end:
        main(["demo", "--help"])
    assert end.value.code == 0
    assert "(default: digits)" in " ".join(capsys.readouterr().out.split())


def test_unknown_data_set_is_refused_with_the_names_of_the_known_ones(capsys):
    with pytest.raises(SystemExit) as end:
        main(["demo", "--dataset", "mnist"])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert "mnist" in message
    assert all(name in message for name in BUNDLED)


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"discreg {discreg.__version__}\n"


def test_without_arguments_it_prints_its_help(capsys):
    assert main([]) == 0
    assert "usage: discreg" in (printed := capsys.readouterr().out)
    assert "demo" in printed


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from discreg.cli import main\n"
        "try: main(['--help'])\n"
        f"finally: print('loaded:', *{HEAVY} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
