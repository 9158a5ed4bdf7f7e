"""The floating-point rules that compiled loops relax."""

from __future__ import annotations

__all__ = ["REORDER"]

REORDER = {"reassoc", "contract", "nsz"}  # sums in any order, so that they use vector registers
