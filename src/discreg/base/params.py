"""Constructor parameters: declared once, checked when fit begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from discreg.linalg.kernel_registry import KERNELS

__all__ = ["CLASS_WEIGHT", "KERNEL_CONSTRAINTS", "Boolean", "Choice", "Number", "check_params"]


@dataclass(frozen=True)
class Number:
    """A finite number in an interval; ``closed`` says which ends belong to it."""

    low: float = -np.inf
    high: float = np.inf
    closed: str = "both"
    integer: bool = False

    def accepts(self, value: Any) -> bool:
        kind = Integral if self.integer else Real
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            return False
        number = float(value)
        above = number >= self.low if self.closed in ("both", "left") else number > self.low
        below = number <= self.high if self.closed in ("both", "right") else number < self.high
        return bool(np.isfinite(number) and above and below)

    def __str__(self) -> str:
        left = "[" if self.closed in ("both", "left") and np.isfinite(self.low) else "("
        right = "]" if self.closed in ("both", "right") and np.isfinite(self.high) else ")"
        kind = "an int" if self.integer else "a float"
        return f"{kind} in {left}{self.low:g}, {self.high:g}{right}"


@dataclass(frozen=True)
class Boolean:
    """True or False."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    def __str__(self) -> str:
        return "a bool"


@dataclass(frozen=True)
class Choice:
    """One of a few values, or what one of the other constraints or tests accepts."""

    values: tuple[Any, ...]
    others: tuple[Any, ...] = ()
    test: Callable[[Any], bool] | None = None
    described: str = ""

    def accepts(self, value: Any) -> bool:
        named = any(
            value is v or (isinstance(v, str) and isinstance(value, str) and v == value)
            for v in self.values
        )
        return (
            named
            or any(other.accepts(value) for other in self.others)
            or (self.test is not None and self.test(value))
        )

    def __str__(self) -> str:
        parts = [repr(value) for value in self.values] + [str(other) for other in self.others]
        if self.described:
            parts.append(self.described)
        return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def check_params(estimator: Any, constraints: Mapping[str, Any]) -> None:
    """Raise ValueError for the first parameter outside what it is declared to accept."""
    for name, constraint in constraints.items():
        value = getattr(estimator, name)
        if not constraint.accepts(value):
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {constraint}. "
                f"Got {value!r} instead."
            )


CLASS_WEIGHT = Choice(
    (None, "balanced"), test=lambda value: isinstance(value, dict), described="a dict"
)

# Of the parameters that make a kernel.
KERNEL_CONSTRAINTS: dict[str, Any] = {
    "kernel": Choice(("precomputed", *KERNELS), test=callable, described="a callable"),
    "gamma": Choice((None, "scale", "auto"), others=(Number(0, closed="neither"),)),
    "degree": Number(0, closed="left"),
    "coef0": Number(),
    "kernel_params": Choice(
        (None,), test=lambda value: isinstance(value, dict), described="a dict"
    ),
}
