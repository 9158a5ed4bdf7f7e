"""Plant small faults in the mathematics, one at a time, and check that the tests notice each.

    python tests/tools/mutants.py             # all faults, some ten minutes
    python tests/tools/mutants.py --only margin
    python tests/tools/mutants.py --list

`mutants.toml` lists the faults. Each is planted in a copy of the checkout, and the tests of its
family run until the first failure. A fault that no test notices calls for a new test. The exit
status is 1 if a fault survives, if its text is not found exactly once, or if a test that noticed a
fault also fails without it.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
TIME_LIMIT = (
    600  # seconds for the tests of one fault; without a fault they take at most some ninety
)
PASSED, FAILED = 0, 1  # exit statuses of pytest; any other one is no verdict


@dataclass(frozen=True)
class Fault:
    """A text in a file under ``src/discreg``, what replaces it, and the folder of tests to run.

    `first` is the file of tests that is likely to notice the fault; it runs before the others.
    """

    what: str
    file: str
    old: str
    new: str
    tests: str
    first: str

    @property
    def family(self) -> str:
        return self.file.split("/")[0]

    def planted(self, source: str) -> str:
        """Return the source with the fault; raise ValueError unless its text occurs once."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file}: found {source.count(self.old)} times: {self.old!r}")
        return source.replace(self.old, self.new)

    def test_files(self, checkout: Path) -> list[Path]:
        """Return the files of tests in the order in which to run them."""
        files = sorted((checkout / "tests" / self.tests).glob("test_*.py"))
        return sorted(files, key=lambda file: file.name != self.first)


def read_faults() -> list[Fault]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return [Fault(**entry) for entry in tomllib.loads(text)["fault"]]


@contextmanager
def planted(fault: Fault, checkout: Path) -> Iterator[None]:
    path = checkout / "src" / "discreg" / fault.file
    source = path.read_text(encoding="utf-8")
    path.write_text(fault.planted(source), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(source, encoding="utf-8")


def run_tests(checkout: Path, tests: list[str], cache: Path) -> tuple[int | None, str]:
    """Run tests until the first failure; return pytest's status (None at the limit) and output."""
    settings = {
        "PYTHONPATH": str(checkout / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",  # Python may take byte code of the same second for current
        "NUMBA_CACHE_DIR": str(cache),
        "OPENBLAS_NUM_THREADS": "1",
    }
    options = ["-x", "-q", "-n0", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=checkout,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # also the processes that a test started
            process.wait()
    return process.returncode, output


def failed_test(output: str) -> str:
    """Return the first test in pytest's summary of failures; an empty string without failures."""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return lines[0].split(" ", 1)[1].split(" - ")[0] if lines else ""


def examine(fault: Fault, checkout: Path, shared_cache: Path) -> tuple[str, str]:
    """Plant a fault and run its tests; return the verdict and the test that failed."""
    with tempfile.TemporaryDirectory() as own_cache, planted(fault, checkout):
        # Numba's cache does not notice a change in a loop that another file calls.
        cache = Path(own_cache) if fault.file.endswith("_loops.py") else shared_cache
        tests = [str(file.relative_to(checkout)) for file in fault.test_files(checkout)]
        status, output = run_tests(checkout, tests, cache)
    if status is None:
        return "caught", "(time limit)"
    if status == FAILED:
        return "caught", failed_test(output)
    return ("SURVIVED", "") if status == PASSED else ("NO RESULT", output[-500:])


def main() -> int:
    faults = read_faults()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    families = sorted({fault.family for fault in faults})
    parser.add_argument("--only", choices=families, help="faults in this folder of src/discreg")
    parser.add_argument("--list", action="store_true", help="list the faults and stop")
    options = parser.parse_args()
    faults = [fault for fault in faults if options.only in (None, fault.family)]
    if options.list:
        print("\n".join(f"{fault.file}: {fault.what}" for fault in faults))
        return 0
    n_caught, catchers = 0, set()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        checkout, cache = Path(folder) / "checkout", Path(folder) / "cache"
        for part in ("src", "tests"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(CHECKOUT / part, checkout / part, ignore=ignored)
        shutil.copy(CHECKOUT / "pyproject.toml", checkout)
        for fault in faults:
            begin = time.monotonic()
            try:
                verdict, test = examine(fault, checkout, cache)
            except ValueError as error:
                verdict, test = "NOT FOUND", str(error)
            n_caught += verdict == "caught"
            catchers |= {test} if test.startswith("tests/") else set()
            print(f"{verdict:9} {time.monotonic() - begin:4.0f} s  {fault.file}: {fault.what}")
            print(f"{'':18}{test}", flush=True)
        status, output = run_tests(checkout, sorted(catchers), cache) if catchers else (PASSED, "")
    print(f"{n_caught} of {len(faults)} faults were caught.")
    if status != PASSED:
        print(f"Without a fault, {failed_test(output) or 'a test that caught one'} fails too.")
    return int(n_caught < len(faults) or status != PASSED)


if __name__ == "__main__":
    sys.exit(main())
