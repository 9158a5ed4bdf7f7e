"""Small experiments for tests of the engine, in a module that workers can import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_info

from discreg.comparison.running.store import CPU_SECONDS, Key, Outcome


@dataclass(frozen=True)
class Recorded:
    """Fits that write a line to a file when they begin, and take a while."""

    log: Path
    n_models: int = 3
    n_folds: int = 4
    seconds: float = 0.0
    version: str = "1"

    def settings(self):
        return {"version": self.version}

    def keys(self):
        return [
            Key("data", f"model {model}", 0, fold)
            for fold in range(self.n_folds)
            for model in range(self.n_models)
        ]

    def run(self, key):
        with self.log.open("a") as lines:
            lines.write(f"{key.model} {key.fold} {os.getpid()}\n")
        time.sleep(self.seconds)
        return Outcome(
            {"fold": key.fold, "nothing": np.nan}, {"model": np.array([ord(key.model[-1])])}
        )


@dataclass(frozen=True)
class Measured(Recorded):
    """Fits of model 0 are quick by their own account; those of model 1 take long."""

    n_models: int = 2

    def run(self, key):
        return Outcome({CPU_SECONDS: 1.0 if key.model == "model 0" else 30.0})


@dataclass(frozen=True)
class Troubled(Recorded):
    """Model 0 raises, model 1 is killed as by a system that is out of memory."""

    def run(self, key):
        if key.model == "model 0":
            raise ValueError("singular")
        if key.model == "model 1":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(key)


@dataclass(frozen=True)
class FirstIsSlow(Recorded):
    """All fits of model 0 come first, and none of them ends in time."""

    def keys(self):
        return sorted(super().keys(), key=lambda key: key.model)

    def run(self, key):
        if key.model == "model 0":
            time.sleep(600)
        return super().run(key)


@dataclass(frozen=True)
class FirstComputes(Recorded):
    """Fits of model 0 compute without end in compiled code; those of others only wait."""

    seconds: float = 1.0

    def run(self, key):
        while key.model == "model 0":
            np.linalg.svd(np.ones((600, 600)))
        return super().run(key)


@dataclass(frozen=True)
class Unreadable(Recorded):
    """An experiment that no worker can read."""

    def __setstate__(self, state):
        raise ValueError("not here")


@dataclass(frozen=True)
class Threads(Recorded):
    """Fits that tell how many threads they may use."""

    def run(self, key):
        threads = max(pool["num_threads"] for pool in threadpool_info())
        return Outcome({"threads": threads, "numba": numba.config.NUMBA_NUM_THREADS})
