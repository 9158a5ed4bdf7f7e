"""Newton's method for linear ODM, on rows in memory and on rows in blocks.

A pass at (w, b) gives P(w, b) = ½‖w‖² + Σ ℓ(z), z = y (Xw + b), with its gradient and Hessian in w
and b together. All two-class problems share their passes. A full step that is accepted costs one
pass. Otherwise the next point is on the same line.

Optimality gap. ℓ is quadratic below and above the band, with a = −ℓ'(z) = (e − z)/u. So scaled
multipliers a' = f a, f ≥ 0, satisfy ℓ(z) + ℓ*(−a') + a'z = ½ u (a − a')² = (1 − f)² ℓ(z). The dual
has the constraint Σ y a' = 0, because b has no penalty. If it holds, Σ a'z = wᵀv' for
v' = Σ y a' x, and so

    P(w, b) − D(a') = ½ ‖w − v'‖² + Σ (1 − f)² ℓ(z).

Let S be Σ |a|, V be Σ y a x and L be Σ ℓ over the rows with y a > 0, and over those with y a < 0.
Factors t/S on either side are feasible for every t ≥ 0, and the gap

    ½ ‖w − t Σ V/S‖² + Σ (1 − t/S)² L    (sums over the two sides),

has its minimum over t in closed form. At the optimal b both S are equal, and t = S gives
½‖∇_w P‖². Without an intercept every factor is feasible; then there is one side, with S = 1.

Margins, gradients and losses are computed in double precision. On rows in blocks, the products for
the Hessian have the precision of the rows, or double precision if a problem needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import count
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import gen_batches

from discreg.blocks.moments import Moments, block_moments
from discreg.blocks.source import Block, BlockSource
from discreg.linalg.factorisation import conjugate_gradients, psd_solver
from discreg.linalg.resources import require_memory, run_in_threads, threads_for
from discreg.linalg.rows import centred_gram, matmul, rmatmul, weighted_mean
from discreg.linalg.types import Array

from ._losses import MarginLoss, Numbers
from ._problem import BinaryFit, BinaryProblem, MarginStatistics

FEW_FEATURES = 1_000  # of rows in memory: up to this number the Hessian is formed and factored
EXACT = 1e-28  # relative gap due to rounding
ROUNDING = 1e-14  # relative decrease of the objective due to rounding
STANDSTILL = 2  # steps without a decrease before stopping
MAX_CG_STEPS = 500
CG_ACCURACY = 0.1
DECREASE = 1e-4  # minimum decrease of the objective, relative to the slope
SEARCHES = 30  # maximum number of lengths along one step
SLOW = 0.5  # ratio of successive gaps above which the Hessian is in double precision
MATRICES = 4  # n_features × n_features matrices in memory for each problem
SMALL_BLOCK = 1 << 19  # bytes of the rows of a small block, in double precision
FEWEST_ROWS = 64
PARTS = 4  # maximum number of parts of a block, for different threads
PART_BYTES = 64 << 20  # memory for the Hessians of all parts

Solve = Callable[[Array, float], Array]  # solves H step = right, more accurately for a smaller gap


class PrimalPoint(NamedTuple):
    """Point at which to compute all sums; `shift` is the score at the origin of the rows."""

    positive: int
    coef: Array
    shift: float
    precise: bool = False


@dataclass
class BlockSums:
    """Sums over rows, for each point.

    Attributes
    ----------
    sizes, values : ndarray of shape (n_points, 2)
        Σ |a| and Σ ℓ over the rows with y a > 0 and over those with y a < 0.
    products : ndarray of shape (n_points, 3, n_features)
        Σ y a x over either side, and Σ ℓ'' x.
    curvature : ndarray of shape (n_points,)
        Σ ℓ''.
    grams : ndarray of shape (n_points, n_features, n_features)
        Σ ℓ'' x xᵀ.
    spread : ndarray of shape (n_points, 4)
        Σ s, Σ s (z − 1), Σ s (z − 1)² and the smallest margin z, with weights s.
    """

    sizes: Array
    values: Array
    products: Array
    curvature: Array
    grams: Array
    spread: Array

    @classmethod
    def zero(cls, n_points: int, n_features: int, *, with_grams: bool = True) -> BlockSums:
        return cls(
            np.zeros((n_points, 2)),
            np.zeros((n_points, 2)),
            np.zeros((n_points, 3, n_features)),
            np.zeros(n_points),
            np.zeros((n_points * with_grams, n_features, n_features)),
            np.tile([0.0, 0.0, 0.0, np.inf], (n_points, 1)),
        )

    def __add__(self, other: BlockSums) -> BlockSums:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        both = BlockSums(*(mine + its for mine, its in pairs))
        both.spread[:, 3] = np.minimum(self.spread[:, 3], other.spread[:, 3])
        return both


def block_sums(
    block: Block,
    origin: Array,
    loss: Numbers,
    points: tuple[PrimalPoint, ...],
) -> BlockSums:
    """Compute the sums of one block of rows x − origin; the origin is 0 for sparse blocks."""
    X, y, weights = block[:3]
    n_rows, n_features = X.shape
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    n_parts = min(max(PART_BYTES // (8 * n_features**2 * max(len(points), 1)), 1), PARTS)
    parts = list(gen_batches(n_rows, max(-(-n_rows // n_parts), FEWEST_ROWS)))
    found = [BlockSums.zero(len(points), n_features) for _ in parts]

    def add_up(number: int) -> None:
        rows = parts[number]
        part = Block(X[rows], y[rows], weights[rows])
        if sparse.issparse(X):
            signed = _add_rows(found[number], part, np.zeros(n_features), loss, points)
            active = [np.flatnonzero(each[2]) for each in signed]
            for gram, those, each in zip(found[number].grams, active, signed, strict=True):
                gram += _outer_products(part.X, those, each[2, those])
        else:
            _add_part(found[number], part, origin, loss, points)

    run_in_threads(add_up, range(len(parts)))
    return reduce(add, found)


def _add_part(
    total: BlockSums,
    part: Block,
    origin: Array,
    loss: Numbers,
    points: tuple[PrimalPoint, ...],
) -> None:
    """Add the sums of dense rows, in small blocks."""
    from ._loops import scale_rows

    n_rows, n_features = part.X.shape
    step = min(max(FEWEST_ROWS, SMALL_BLOCK // (8 * n_features), 2 * n_features), n_rows)
    centred = np.empty((step, n_features))
    scaled = {
        precise: np.empty((step, n_features), dtype=np.float64 if precise else part.X.dtype)
        for precise in {point.precise for point in points}
    }
    for rows in gen_batches(n_rows, step):
        some = centred[: rows.stop - rows.start]
        np.subtract(part.X[rows], origin, out=some)
        block = Block(some, part.y[rows], part.weights[rows])
        signed = _add_rows(total, block, np.zeros(n_features), loss, points)
        for gram, point, each in zip(total.grams, points, signed, strict=True):
            buffer = scaled[point.precise]
            active = buffer[: scale_rows(some, each[2], buffer)]
            gram += active.T @ active


def _add_rows(
    total: BlockSums,
    block: Block,
    origin: Array,
    loss: Numbers,
    points: tuple[PrimalPoint, ...],
) -> Array:
    """Add all sums of rows but those of the Hessian.

    Returns the positive y a, the negative y a and ℓ'' of each row, for all points.
    """
    from ._loops import evaluate_block

    X, y, weights = block[:3]
    signed = np.empty((len(points), 3, len(y)))
    if points:
        scores = _scores(X, origin, [(point.coef, point.shift) for point in points])
        for k, point in enumerate(points):
            sums = total.sizes[k], total.values[k], total.spread[k]
            evaluate_block(scores[k], y, point.positive, weights, loss, signed[k], *sums)
        flat = signed.reshape(-1, len(y))
        products = rmatmul(X, flat.T).T - np.outer(flat.sum(axis=1), origin)
        total.products += products.reshape(total.products.shape)
        total.curvature += signed[:, 2].sum(axis=1)
    return signed


def _scores(X: Any, origin: Array, models: list[tuple[Array, float]]) -> Array:
    """Compute the scores of all rows, with one row per model."""
    coefs, shifts = zip(*models, strict=True)
    coef = np.array(coefs).T
    return np.ascontiguousarray((matmul(X, coef) + (np.array(shifts) - origin @ coef)).T)


@dataclass(frozen=True)
class NewtonStep:
    """Step of the coefficients and of the score at the origin."""

    coef: Array
    shift: float


@dataclass(frozen=True)
class LocalModel:
    """Quadratic model of one problem at a point, from the sums of a pass."""

    point: PrimalPoint
    fit_intercept: bool
    sizes: Array
    values: Array
    products: Array  # Σ y a x of both sides, and Σ ℓ'' x
    curvature: float  # Σ ℓ''
    spread: Array  # weight, mean, scatter and minimum of the margins
    solve: Solve  # of systems with the Hessian, from which b is eliminated

    @classmethod
    def of(
        cls, sums: BlockSums, k: int, point: PrimalPoint, solve: Solve, *, fit_intercept: bool
    ) -> LocalModel:
        """Create the model at the k-th point of a pass."""
        values = sums.sizes[k], sums.values[k], sums.products[k], float(sums.curvature[k])
        return cls(point, fit_intercept, *values, sums.spread[k], solve)

    @cached_property
    def objective(self) -> float:
        return 0.5 * float(self.point.coef @ self.point.coef) + float(self.values.sum())

    @cached_property
    def gap(self) -> float:
        """Upper bound of the objective minus its minimum, relative to the objective."""
        sizes, values, products = self.sizes, self.values, self.products[:2]
        if not self.fit_intercept:
            sizes, values = np.ones(1), values.sum(keepdims=True)
            products = products.sum(axis=0)[None]
        left = self.point.coef
        if np.all(sizes > 0):
            product = (products / sizes[:, None]).sum(axis=0)
            curved = float(product @ product) + 2.0 * float((values / sizes / sizes).sum())
            slope = float(product @ left) + 2.0 * float((values / sizes).sum())
            t = max(slope / curved, 0.0) if curved > 0 else 0.0
            left = left - t * product
            values = (1.0 - t / sizes) ** 2 * values
        gap = 0.5 * float(left @ left) + float(values.sum())
        return min(gap / max(self.objective, 1e-300), 1.0)

    def slope(self, step: NewtonStep) -> float:
        """Compute the derivative of the objective along a step."""
        along = float((self.point.coef - self.products[:2].sum(axis=0)) @ step.coef)
        return along - float(self.sizes[0] - self.sizes[1]) * step.shift

    def newton_step(self) -> NewtonStep:
        """Compute the step to the minimum of the quadratic model, with b eliminated."""
        right = self.products[:2].sum(axis=0) - self.point.coef
        if not (self.fit_intercept and self.curvature > 0):
            return NewtonStep(self.solve(right, self.gap), 0.0)
        excess, moment = float(self.sizes[0] - self.sizes[1]), self.products[2]
        step = self.solve(right - excess / self.curvature * moment, self.gap)
        shift = (excess - float(moment @ step)) / self.curvature
        return NewtonStep(step, shift)

    def moved(self, step: NewtonStep, length: float, *, precise: bool) -> PrimalPoint:
        """Return the point at a length along a step."""
        positive, coef, shift, _ = self.point
        return PrimalPoint(
            positive, coef + length * step.coef, shift + length * step.shift, precise
        )


Asking = Generator[PrimalPoint, Any, Any]  # receives a LocalModel for each point


def newton_on_rows(problem: BinaryProblem, tol: float) -> BinaryFit:
    """Fit one problem to rows in memory."""
    rows = RowsInMemory(problem)
    coef, intercept = np.zeros(len(rows.origin)), 0.0
    if problem.start is not None:
        coef, intercept = problem.start
    begin = PrimalPoint(1, coef, intercept + float(rows.origin @ coef))
    solver = _newton(begin, rows.origin, tol, problem.options.max_iter)
    return _in_common([solver], lambda points: [rows.model_at(each) for each in points])[0]


class RowsInMemory:
    """Rows of one problem in memory, with a Hessian that is updated.

    The curvature of few rows changes from point to point; only their products are computed. With
    many features, conjugate gradients solve the systems instead.
    """

    def __init__(self, problem: BinaryProblem) -> None:
        training, X = problem.training, problem.training.X
        self._fit_intercept, n_features = problem.fit_intercept, X.shape[1]
        self._block = Block(X, (problem.y > 0).astype(np.intp), training.weights)
        self._loss = problem.loss.numbers(float(training.weights.sum()))
        # Moments about the mean stay accurate if the rows are far from the origin.
        centred = problem.fit_intercept and not sparse.issparse(X)
        self.origin = weighted_mean(X, training.weights) if centred else np.zeros(n_features)
        self._is_factored = n_features <= FEW_FEATURES
        self._curvature = np.zeros(len(problem.y))
        if self._is_factored:
            self._gram = np.zeros((n_features, n_features))
        else:
            self._squares = X.multiply(X).tocsr() if sparse.issparse(X) else X * X

    def model_at(self, point: PrimalPoint) -> LocalModel:
        """Return the model at a point."""
        sums = BlockSums.zero(1, len(self.origin), with_grams=False)
        curvature = _add_rows(sums, self._block, self.origin, self._loss, (point,))[0, 2]
        solve: Solve = partial(self._by_gradients, curvature)
        if self._is_factored:
            total = float(sums.curvature[0]) if self._fit_intercept else 0.0
            solve = partial(self._by_factor, curvature, sums.products[0, 2], total)
        return LocalModel.of(sums, 0, point, solve, fit_intercept=self._fit_intercept)

    def _by_factor(
        self, curvature: Array, moment: Array, total: float, right: Array, gap: float
    ) -> Array:
        X, change = self._block.X, curvature - self._curvature
        for sign in (1.0, -1.0):
            rows = np.flatnonzero(sign * change > 0)
            if len(rows) and sparse.issparse(X):
                self._gram += sign * _outer_products(X, rows, np.abs(change[rows]))
            elif len(rows):
                some = X if len(rows) == len(change) else X[rows]
                self._gram += sign * centred_gram(some, np.abs(change[rows]), self.origin)
        self._curvature = curvature
        return _factored(self._gram, moment, total, right, gap)

    def _by_gradients(self, curvature: Array, right: Array, gap: float) -> Array:
        """Solve by conjugate gradients, preconditioned by the diagonal of the Hessian."""
        active = np.flatnonzero(curvature)
        X, squares, weights = self._block.X[active], self._squares[active], curvature[active]
        inverse = 1.0 / (1.0 + np.asarray(squares.T @ weights).ravel())
        transposed = X.T.tocsr() if sparse.issparse(X) else X.T
        total = float(weights.sum())

        def hessp(v: Array) -> Array:
            moved = np.asarray(X @ v)
            if self._fit_intercept and total > 0:
                moved -= (weights @ moved) / total
            moved *= weights
            return np.asarray(v + np.asarray(transposed @ moved))

        return conjugate_gradients(
            hessp,
            right,
            lambda residual: inverse * residual,
            tol=min(CG_ACCURACY, gap**0.25),
            max_iter=MAX_CG_STEPS,
        )


def _factored(gram: Array, moment: Array, curvature: float, right: Array, gap: float) -> Array:
    """Solve a system with I + gram, minus the part of b if the curvature is positive."""
    hessian = gram.copy()
    if curvature > 0:
        hessian -= np.outer(moment / curvature, moment)
    hessian[np.diag_indices_from(hessian)] += 1.0
    with threads_for(len(hessian) ** 3 / 6):  # of a Cholesky factorisation
        return psd_solver(hessian)(right[:, None])[:, 0]


def _outer_products(X: Any, rows: NDArray[np.intp], factors: Array) -> Array:
    """Compute Σ factor · x xᵀ over CSR rows."""
    from ._loops import add_outer_products

    half = np.zeros((X.shape[1], X.shape[1]))
    add_outer_products(half, X.data, X.indices, X.indptr, rows, factors)
    return np.asarray(half + half.T - np.diag(half.diagonal()))


def newton_on_blocks(
    source: BlockSource,
    loss: MarginLoss,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    start: tuple[Array, Array] | None,
    dtype: Any,
) -> list[BinaryFit]:
    """Fit all two-class problems by passes over blocks of rows.

    Parameters
    ----------
    source : BlockSource
    loss : MarginLoss
    fit_intercept : bool
    tol : float
        Relative gap at which to stop. With 0, stop when the objective does not decrease.
    max_iter : int
        Maximum number of steps.
    start : tuple of coefficients and intercepts, one row per problem, or None
        Starting point; None means zero.
    dtype : dtype
        Precision in which the coefficients will be stored; the gaps include its rounding.

    Returns
    -------
    fits : list of BinaryFit
    """
    n_classes, n_features = source.n_classes, source.layout.n_features
    positives = [1] if n_classes == 2 else list(range(n_classes))
    require_memory(
        MATRICES * len(positives) * n_features**2 * 8,
        f"Newton's method on {n_features} features and {len(positives)} problems",
        "Use fewer features, or rows in memory with solver='svrg'.",
    )
    with np.errstate(over="ignore", invalid="ignore"):
        moments = source.reduce(block_moments, source.n_classes)
    if not np.all(np.isfinite(moments.scatter)):
        raise ValueError(
            "The squares of the features overflow. Scale the features: divide them by their "
            "largest values."
        )
    # Centred rows lose no precision; sparse rows cannot be centred.
    centred = fit_intercept and not moments.is_sparse
    origin = moments.mean if centred else np.zeros(n_features)
    numbers = loss.numbers(float(source.weights.sum()))  # for a row of weight one
    shape = len(positives), n_features
    coefs, intercepts = (np.zeros(shape), np.zeros(shape[0])) if start is None else start
    shifts = (intercepts + coefs @ origin).tolist()
    begins = [PrimalPoint(*each) for each in zip(positives, coefs, shifts, strict=True)]
    solvers = [_newton(begin, origin, tol, max_iter) for begin in begins]

    def solver_of(sums: BlockSums, k: int) -> Solve:
        curvature = float(sums.curvature[k]) if fit_intercept else 0.0
        return partial(_factored, sums.grams[k], sums.products[k, 2], curvature)

    def ask(points: list[PrimalPoint]) -> list[LocalModel]:
        sums = source.reduce(block_sums, origin, numbers, tuple(points))
        return [
            LocalModel.of(sums, k, point, solver_of(sums, k), fit_intercept=fit_intercept)
            for k, point in enumerate(points)
        ]

    fits = _in_common(solvers, ask)
    if dtype != np.float64:
        fits = [_stored(fit, moments, loss, dtype) for fit in fits]
    return fits


def _stored(fit: BinaryFit, moments: Moments, loss: MarginLoss, dtype: Any) -> BinaryFit:
    """Return a fit with a bound of the gap of its coefficients stored in a precision.

    Half the Hessian of the objective is at most H, with the larger curvature in all rows. If a
    point has a gap g, the gap after a step d is at most (√g + ‖d‖)² in the norm of H.
    """
    assert fit.coef is not None
    change = fit.coef.astype(dtype) - fit.coef
    offset = float(np.asarray(fit.intercept).astype(dtype)) - fit.intercept
    scatter = (1.0 + moments.error) * float(change @ moments.scatter @ change)
    shift = float(moments.mean @ change) + offset
    curvature = 1.0 / min(loss.ridge_low, loss.ridge_high)
    losses = curvature * (scatter / moments.total + shift**2)  # of the mean square of the change
    square = 0.5 * (float(change @ change) + losses)
    gap = (np.sqrt(fit.gap) + np.sqrt(square / max(fit.objective, 1e-300))) ** 2
    return replace(fit, gap=min(float(gap), 1.0))


@np.errstate(over="ignore")  # in a gap, of tiny sums of multipliers
def _in_common(solvers: list[Asking], ask: Any) -> list[BinaryFit]:
    """Run all solvers; one pass answers the requests of all of them."""
    found: dict[int, BinaryFit] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(solvers)))
    while answers:
        requests: dict[int, PrimalPoint] = {}
        for k, answer in answers.items():
            try:
                requests[k] = solvers[k].send(answer)
            except StopIteration as end:
                found[k] = end.value
        answers = {}
        if requests:
            answers = dict(zip(requests, ask(list(requests.values())), strict=True))
    return [found[k] for k in range(len(solvers))]


def _newton(begin: PrimalPoint, origin: Array, tol: float, max_iter: int) -> Asking:
    """Solve one problem by Newton steps and return the fit with the smallest gap."""
    local: LocalModel = yield begin
    best: BinaryFit | None = None
    precise, stalled, previous = False, 0, np.inf
    for n_iter in count():
        gap = local.gap
        if best is None or gap < best.gap:
            best = _end(local, origin, gap, n_iter)
        if gap <= max(tol, EXACT) or stalled == STANDSTILL:
            break
        if n_iter == max_iter:
            return replace(best, n_iter=n_iter, limited=True)
        precise = precise or gap > SLOW * previous
        following = yield from _search(local, local.newton_step(), precise=precise)
        if following is None:
            break
        stalled = stalled + 1 if following.objective >= local.objective * (1 - ROUNDING) else 0
        local, previous = following, gap
    assert best is not None
    return replace(best, n_iter=n_iter)


def _search(local: LocalModel, step: NewtonStep, *, precise: bool) -> Asking:
    """Return the model at a length that decreases the objective; None if rounding prevents it.

    The objective is convex, so it decreases until its slope is zero. If this length lies between
    two lengths of ratio 2, the shorter one gains at least half of the possible decrease. Such
    lengths are found by bisection of their logarithms, from the zero of a secant of the slope.
    """
    first = local.slope(step)
    if not first < 0:
        return None
    allowed = ROUNDING * local.objective
    best: LocalModel | None = None
    length, low, high = 1.0, 0.0, np.inf
    for _ in range(SEARCHES):
        trial: LocalModel = yield local.moved(step, length, precise=precise)
        slope = trial.slope(step)
        if slope <= 0:
            low, best = length, trial
        elif trial.objective <= local.objective + DECREASE * length * first + allowed:
            return trial
        else:
            high = length
            if best is None:
                low = length * first / (first - slope)
        if best is not None and (high == np.inf or high <= 2.0 * low):
            return best
        length = float(np.sqrt(low * high)) if high > 2.0 * low else low
    return best


def _end(local: LocalModel, origin: Array, gap: float, n_iter: int) -> BinaryFit:
    total, apart, squares, minimum = (float(number) for number in local.spread)
    coef, shift = local.point.coef, local.point.shift
    intercept = shift - float(origin @ coef) if local.fit_intercept else 0.0
    mean = apart / total
    margins = MarginStatistics(1.0 + mean, max(squares / total - mean**2, 0.0), minimum)
    return BinaryFit(intercept, local.objective, gap, n_iter, margins, coef)
