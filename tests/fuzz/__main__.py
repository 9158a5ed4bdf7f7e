"""Run the fuzzer for some time: ``python -m tests.fuzz --minutes 30``.

Every new counterexample is shrunk and stored in ``tests/fuzz/regressions``, where ``pytest`` tries
it again from then on. The exit status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import signal
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the oracles of the other tests

import hypothesis

from fuzz.cases import Case
from fuzz.properties import FEW, PROPERTIES, check
from fuzz.strategies import cases

REGRESSIONS = Path(__file__).parent / "regressions"
EXAMPLES = 50  # of a property, before the next one
PATIENCE = 60  # seconds of processor time; a case has some forty rows


class Run:
    """Counts and counterexamples of one run."""

    def __init__(self, seconds: float, seed: int, rounds: int | None) -> None:
        self.seconds, self.seed, self.rounds = seconds, seed, rounds
        self.end = float("inf")
        self.tried: Counter[str] = Counter()
        self.failed: dict[tuple[str, ...], Path] = {}
        self.latest: tuple[Case, BaseException] | None = None

    def know_stored(self) -> None:
        """Counterexamples that are stored already are not new."""
        for path in sorted(REGRESSIONS.glob("*.json")):
            case = Case.from_json(path.read_text(encoding="utf-8"))
            try:
                check(case)
            except Exception as error:
                print(f"still fails: {path.name}", flush=True)
                self.failed[signature(case, error)] = path

    def is_over(self) -> bool:
        return time.monotonic() > self.end

    def run(self) -> None:
        self.end = time.monotonic() + self.seconds
        for number in count() if self.rounds is None else range(self.rounds):
            for name in PROPERTIES:
                if self.is_over():
                    return
                self.try_property(name, self.seed * 1_000_003 + number)

    def try_property(self, name: str, seed: int) -> None:
        test = hypothesis.given(cases(name))(self.try_case)
        test = hypothesis.settings(
            max_examples=FEW.get(name, EXAMPLES),
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
            verbosity=hypothesis.Verbosity.quiet,
        )(test)
        self.latest = None
        try:
            hypothesis.seed(seed)(test)()
        except Exception as error:
            case, error = self.latest or (None, error)
            if case is None:
                raise
            self.failed[signature(case, error)] = store(case, error)

    def try_case(self, case: Case) -> None:
        if self.latest is None and self.is_over():
            return
        self.tried[f"{case.check} {case.estimator}"] += 1
        try:
            with patience():
                check(case)
        except Exception as error:
            if signature(case, error) in self.failed:
                return
            self.latest = case, error
            raise


class patience:
    """Raise TimeoutError in a block that takes longer than PATIENCE, where there are signals."""

    def __enter__(self) -> None:
        if hasattr(signal, "SIGPROF"):
            signal.signal(signal.SIGPROF, self.stop)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)

    def __exit__(self, *_: object) -> None:
        if hasattr(signal, "SIGPROF"):
            signal.setitimer(signal.ITIMER_PROF, 0)

    @staticmethod
    def stop(*_: object) -> None:
        raise TimeoutError(f"took more than {PATIENCE} s")


def signature(case: Case, error: BaseException) -> tuple[str, ...]:
    """Errors of the same kind count as one."""
    words = re.sub(r"-?\d[-+.\de]*", "#", str(error).strip())[:40]
    return case.check, case.estimator.removesuffix("CV"), type(error).__name__, words


def store(case: Case, error: BaseException) -> Path:
    text = case.to_json()
    name = f"{case.check}-{case.estimator}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    (REGRESSIONS / name).write_text(text + "\n", encoding="utf-8")
    print(f"\n{name}\n{case}\n{type(error).__name__}: {str(error).strip()[:600]}", flush=True)
    return REGRESSIONS / name


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="another seed tries other cases")
    parser.add_argument(
        "--rounds", type=int, help="stop earlier, so that a fast machine tries no other cases"
    )
    options: Any = parser.parse_args()
    run = Run(60 * options.minutes, options.seed, options.rounds)
    run.know_stored()
    run.run()
    for what, times in sorted(run.tried.items()):
        print(f"{times:6d} {what}")
    print(f"{run.tried.total()} cases, {len(run.failed)} kinds of counterexamples", flush=True)
    for (name, estimator, *error), path in run.failed.items():
        print(f"{path.name}: {name} {estimator} {' '.join(error)}")
    return int(bool(run.failed))


if __name__ == "__main__":
    sys.exit(main())
