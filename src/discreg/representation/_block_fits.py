"""Fits of the discriminative regression machine to rows that come in blocks or in parts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from discreg.base.partial_fit import PartialFitState
from discreg.blocks.moments import class_scatters
from discreg.blocks.source import Block, BlockLayout, open_blocks

from ._block_scatter import scatter_solver, solve_table
from ._forms import Solver
from ._penalties import Penalty
from ._setup import LINEAR, unknown_label

__all__ = ["TableFitsMixin"]


class TableFitsMixin:
    """The scatter form from sums over rows, which are not kept."""

    alpha: float
    beta: float
    penalty: Any
    solver: str
    probability: bool
    kernel: Any
    n_components: int | None
    random_state: Any
    _solver: Solver

    @abstractmethod
    def _forget(self, *, parts: bool = True) -> None:
        """Drop what an earlier fit left, so that one which fails leaves no mixture."""

    def _why_in_memory(self) -> str | None:
        """What makes the model need its rows in memory, and what to use instead; None: nothing."""
        if not Penalty.of(self.penalty).is_ridge:
            return f"penalty={self.penalty!r} needs the rows in memory. Use penalty='ridge'."
        if self.solver not in ("auto", "scatter"):
            return f"solver={self.solver!r} needs the rows in memory. Use solver='scatter'."
        if self.probability:
            return "probability=True needs the rows in memory. Use probability=False."
        if self.kernel == "precomputed":
            return "A precomputed kernel has to be in memory. Use kernel='linear' or n_components."
        if self.kernel != "linear" and self.n_components is None:
            return (
                f"kernel={self.kernel!r} needs the rows in memory. Use kernel='linear', or set "
                "n_components to approximate the kernel by features."
            )
        return None

    def _fit_table(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit to rows in blocks."""
        table = open_blocks(self, X, y, sample_weight, self.class_weight)
        unknown_label(self, table.layout.classes)
        self._solver = solve_table(self, table, check_random_state(self.random_state), X)
        self._set_scatter(table.layout)

    def _why_no_partial_fit(self) -> str | None:
        if self.kernel != "linear" or self.n_components is not None:
            return f"kernel is {self.kernel!r} and n_components {self.n_components!r}."
        return self._why_in_memory()

    def _statistics(self, block: Block, n_classes: int) -> NDArray[np.float64]:
        return class_scatters(block, n_classes, float(self.alpha), float(self.beta))

    def _fit_state(self, seen: PartialFitState) -> None:
        unknown_label(self, seen.layout.classes)
        factors = seen.class_factors(self.class_weight)
        scatters = factors[:, None, None] * seen.statistics
        solver = scatter_solver(self, scatters, factors * seen.sizes, LINEAR)
        self._forget(parts=False)  # what comes before may fail, and the model then stays
        self._solver = solver
        self._set_scatter(seen.layout)

    def _forget_fit(self) -> None:
        super()._forget_fit()
        self._forget(parts=False)

    def _set_scatter(self, frame: BlockLayout) -> None:
        """Set the attributes of a fit that keeps no rows."""
        self.classes_ = frame.classes
        self.solver_, self.n_iter_ = "scatter", 1
        self._dtype = frame.dtype
