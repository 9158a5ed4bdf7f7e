"""Fits from processes of every start method, with two BLAS threads, and Ctrl-C in a terminal."""

import os
import select
import subprocess
import sys
import time

import pytest
from cli_runs import easy_frame
from test_first_use import PACKAGE, run

pty = pytest.importorskip("pty")  # Windows has none
FIT = """\
import multiprocessing, sys
import numpy as np
from sklearn.datasets import make_classification
from discreg import AutoClassifier, DRMClassifier, ODMClassifier, ReLSRClassifierCV

X, y = make_classification(240, 4, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
auto = AutoClassifier(families=["logistic", "trees"], n_jobs=2)
MODELS = [auto, ReLSRClassifierCV(n_jobs=2), DRMClassifier(), ODMClassifier()]

def probabilities(place):
    return MODELS[place].fit(X, y).predict_proba(X)
"""
IN_PROCESSES = f"""{FIT}
if __name__ == "__main__":
    here = list(map(probabilities, range(len(MODELS))))
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        there = pool.map(probabilities, range(len(MODELS)))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
"""
STORED = f"{FIT}\nnp.savez(sys.argv[2], *map(probabilities, range(len(MODELS))))\n"
SAME = """\
import sys
import numpy as np

one, two = map(np.load, sys.argv[2:])
for name in one:
    np.testing.assert_allclose(one[name], two[name], atol=1e-4)
"""
WAITING = 60  # seconds


@pytest.mark.full
@pytest.mark.linux
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes_of_every_start_method_fit_the_same_models(tmp_path, method):
    run(IN_PROCESSES, tmp_path, method)


@pytest.mark.full
def test_two_blas_threads_give_the_same_models(tmp_path):
    for threads in "12":
        run(STORED, tmp_path, f"{threads}.npz", OPENBLAS_NUM_THREADS=threads)
    run(SAME, tmp_path, "1.npz", "2.npz")


def read_terminal(terminal, process, wanted=None):
    """What is printed until the wanted text, or to the end."""
    printed, end = "", time.monotonic() + WAITING
    while time.monotonic() < end and (wanted is None or wanted not in printed):
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                printed += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # the other end is closed
                break
        elif process.poll() is not None:
            break
    return printed


@pytest.mark.full
@pytest.mark.linux
@pytest.mark.parametrize("when", ["Models are tuned", "fits"])
def test_ctrl_c_in_a_terminal_ends_a_comparison_with_a_report(tmp_path, when):
    easy_frame(900, 30).to_csv(tmp_path / "table.csv", index=False)
    program = "from discreg.cli import main; main()"
    arguments = ["compare", "table.csv", "--target", "kind", "--output", "out", "--n-jobs", "2"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "TERM": "xterm", "COLUMNS": "200"},
        start_new_session=True,
        preexec_fn=lambda: take_terminal(theirs),
    )
    os.close(theirs)
    printed = read_terminal(ours, process, when)
    os.write(ours, b"\x03")
    printed += read_terminal(ours, process)
    assert process.wait(WAITING) == 130, printed
    assert "Traceback" not in printed
    os.close(ours)


def take_terminal(file):
    """Make a terminal the controlling one, so that Ctrl-C becomes a signal."""
    import fcntl
    import termios

    fcntl.ioctl(file, termios.TIOCSCTTY, 0)
