"""Streams of float32 rows give the models of float64 rows, and no gap is smaller than it is."""

import dask.array as da
import numpy as np
import pytest
from low_rank_oracles import centre, indicators, score_scale, sparse_objective
from numpy.testing import assert_allclose
from products import every_pair, every_value
from scipy.linalg import eigh
from sklearn.base import clone
from stream_problems import blocks_of, mapped

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LRLRClassifier,
    LRRRClassifier,
    LSRClassifier,
    ReLSRClassifier,
    SLRRClassifier,
    penalty_path,
)
from discreg.blocks.moments import block_moments, class_scatters
from discreg.blocks.source import Block
from discreg.linalg.ridge import gap_with_error
from discreg.representation._closed import ScatterForm
from discreg.retargeted import retarget

WIDE = np.longdouble


def faces(n_rows, height=10, width=9, n_classes=4, seed=0):
    """Smooth images in 256 grey levels: few directions with large variances, many with small."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    waves = np.array(
        [
            np.cos(3 * a * columns / width + 3 * b * rows / height).ravel()
            for a in range(5)
            for b in range(5)
        ]
    )
    y = np.arange(n_rows) % n_classes
    own = 12 * random.standard_normal((n_classes, len(waves)))
    light = 6 * random.standard_normal((n_rows, len(waves)))
    noise = 2 * random.standard_normal((n_rows, height * width))
    return np.clip(np.round(128 + (own[y] + light) @ waves + noise), 0, 255), y


def tall(seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((150, 20))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 1)


def problem(name):
    """Rows whose values float32 holds, in float64, and labels."""
    X, y = tall()
    random = np.random.default_rng(1)
    if name == "wide":
        X, y = faces(60)
    elif name == "wide, two classes":
        X, y = faces(45, n_classes=2)
    elif name == "images":
        X, y = faces(200)
    elif name == "offset":
        X = X + 1000
    elif name == "dependent":
        X = np.hstack([X, X[:, :5] @ random.standard_normal((5, 5)), X[:, :2]])
    elif name == "collinear":
        X = np.hstack([X, X[:, :5] + 1e-4 * random.standard_normal((150, 5))])
    elif name == "scales":
        X = X * np.logspace(-4, 4, 20)
    return X.astype(np.float32).astype(np.float64), y


PROBLEMS = [
    "tall", "wide", "wide, two classes", "images", "offset", "dependent", "collinear", "scales",
]  # fmt: skip
MODELS = {
    **{f"LSR, beta={beta:g}": LSRClassifier(beta=beta) for beta in (0, 1e-12, 1e-8, 1e-5, 0.1)},
    "LSR, own units": LSRClassifier(beta=1e-6, scale_beta=False),
    "LRLR": LRLRClassifier(),
    "LRLR, rank 1": LRLRClassifier(rank=1),
    **{f"LRRR, beta={beta:g}": LRRRClassifier(beta=beta) for beta in (0, 1e-8, 1e-2, 10)},
    "SLRR, beta=0": SLRRClassifier(beta=0),
}


def streamed(model, how, X, y, folder):
    """The model fitted to float32 rows in blocks."""
    X, model = X.astype(np.float32), clone(model)
    n_rows = len(y) // 3
    if how == "Dask":
        return model.fit(da.from_array(X, chunks=(n_rows, -1)), y)
    if how == "memory map":
        rows = mapped(X, folder)
        with blocks_of(n_rows, X):
            return model.fit(rows, y)
    merged = None
    for rows in np.array_split(np.arange(len(y)), 3):
        part = clone(model).partial_fit(X[rows], y[rows], classes=np.unique(y))
        if how == "merge":
            merged = part if merged is None else merged.merge(part)
        else:
            model.partial_fit(X[rows], y[rows], classes=np.unique(y))
    return merged or model


@pytest.mark.filterwarnings("ignore:.*have no held-out scores")  # beta=0 with many features
@every_pair(kind=MODELS, name=PROBLEMS, how=["Dask", "memory map", "partial_fit", "merge"])
def test_float32_streams_score_like_float64_rows_in_memory(kind, name, how, tmp_path):
    X, y = problem(name)
    train = np.arange(len(y)) % 3 > 0
    expected = clone(MODELS[kind]).fit(X[train], y[train])
    scores = expected.decision_function(X)
    # Scores are computed in float32, with weak penalties from large coefficients.
    coef = np.abs(expected.coef_).max(axis=0)
    rounding = 100 * 2.0**-24 * (np.abs(X).max(axis=0) @ coef + np.abs(scores).max())
    if not hasattr(expected, "partial_fit"):
        how = "Dask"
    found = streamed(MODELS[kind], how, X[train], y[train], tmp_path)
    assert found.coef_.dtype == np.float32
    assert_allclose(found.decision_function(X.astype(np.float32)), scores, rtol=0, atol=rounding)


@pytest.mark.parametrize(
    "kind", ["LSR, beta=1e-08", "LRLR, rank 1", "LRRR, beta=1e-08", "SLRR, beta=0"]
)
def test_wide_images_are_classified_as_in_float64(kind, tmp_path):
    X, y = faces(120, n_classes=8)
    expected = clone(MODELS[kind]).fit(X[::2], y[::2]).predict(X)
    for how in ("Dask", "memory map"):
        found = streamed(MODELS[kind], how, X[::2], y[::2], tmp_path)
        assert (found.predict(X.astype(np.float32)) == expected).all()


def least_squares(A, B):
    """The minimum of ‖AW − B‖², by Householder's method with pivots in extended precision."""
    A, B = A.astype(WIDE), B.astype(WIDE)
    largest = (A**2).sum(axis=0).max()
    for k in range(min(A.shape)):
        norms = (A[k:, k:] ** 2).sum(axis=0)
        if norms.max() <= largest * 1e-34:
            return (B[k:] ** 2).sum()
        pivot = k + int(norms.argmax())
        A[:, [k, pivot]] = A[:, [pivot, k]]
        v = A[k:, k].copy()
        v[0] += np.copysign(np.sqrt((v**2).sum()), v[0])
        for each in (A[k:, k:], B[k:]):
            each -= np.outer(v, 2 / (v**2).sum() * (v @ each))
    return (B[len(A.T) :] ** 2).sum()


def both_columns(rows, intercept):
    """Coefficients and intercepts of all classes; those of two classes sum to zero and to one."""
    rows, intercept = rows.astype(WIDE).T, intercept.astype(WIDE)
    if len(intercept) == 1:
        return np.hstack([-rows, rows]) / 2, np.hstack([1 - intercept, 1 + intercept]) / 2
    return rows, intercept


def with_rounding(gap, features, coef, intercept, beta, K, objective):
    """The gap of coefficients that were rounded to float32, from that before."""
    D, offset = 2.0**-24 * np.abs(coef), 2.0**-24 * np.abs(intercept)
    moved = np.abs(features) @ D + offset
    return (
        np.sqrt(gap)
        + np.sqrt((moved**2).sum() + beta * (D * (np.abs(K) @ D)).sum()) / np.sqrt(objective)
    ) ** 2


def gap_of_lsr(model, X, y):
    """(objective of `coef_` − minimum) / objective, and `gap_` with rounding to float32."""
    X, Y = X.astype(WIDE), (y[:, None] == model.classes_).astype(WIDE)
    centred = X - X.mean(axis=0)
    beta = WIDE(model.beta) * (centred**2).sum() / X.shape[1]
    coef, intercept = both_columns(model.coef_, model.intercept_)
    objective = ((X @ coef + intercept - Y) ** 2).sum() + beta * (coef**2).sum()
    A, B = centred, Y - Y.mean(axis=0)
    if beta > 0:
        A = np.vstack([A, np.sqrt(beta) * np.eye(X.shape[1])])
        B = np.vstack([B, np.zeros((X.shape[1], Y.shape[1]))])
    found = float((objective - least_squares(A, B)) / objective)
    given = coef.astype(float), intercept.astype(float), float(beta), np.eye(len(coef)), objective
    return found, with_rounding(model.gap_, X.astype(float), *given)


@pytest.mark.filterwarnings("ignore:.*have no held-out scores")  # beta=0 with many features
# Without a penalty, solutions that differ by rounding errors of dependent features do not count.
@pytest.mark.parametrize(
    ("name", "beta"),
    [*((name, 0) for name in PROBLEMS if name != "dependent")]
    + [(name, beta) for name in PROBLEMS for beta in (1e-12, 1e-8, 1e-5, 0.1)],
)
def test_the_gap_of_lsr_is_not_smaller_than_that_of_its_coefficients(name, beta, tmp_path):
    X, y = problem(name)
    model = LSRClassifier(beta=beta)
    fits = [streamed(model, how, X, y, tmp_path) for how in ("Dask", "memory map", "partial_fit")]
    for found in [*fits, model.fit(X.astype(np.float32), y)]:
        assert found.coef_.dtype == np.float32
        gap, bound = gap_of_lsr(found, X, y)
        assert gap <= bound + 1e-17
        assert found.gap_ <= 1.0
    if beta > 1e-6:
        assert max(each.gap_ for each in fits) < 1e-3


def loss_of(model, scores, y):
    """The loss of scores at their best targets, in float64."""
    if isinstance(model, LSRClassifier):
        return ((scores - np.eye(scores.shape[1])[y]) ** 2).sum()
    group = getattr(model, "group_penalty", 0.0)
    rule = "dlsr" if isinstance(model, DLSRClassifier) else "relsr"
    targets = retarget(scores, y, rule=rule, group_penalty=group)
    moves = targets[np.arange(len(y)), y] - 1
    apart = [((moves[y == k] - moves[y == k].mean()) ** 2).sum() for k in range(scores.shape[1])]
    return ((scores - targets) ** 2).sum() + group * sum(apart)


@every_pair(
    model=[LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier],
    kernel=["linear", "rbf"],
    name=["wide", "tall", "offset"],
)
def test_gaps_hold_up_to_the_rounding_of_coefficients(model, kernel, name):
    X, y = problem(name)
    model = model(beta=1e-4, kernel=kernel, gamma=1e-3)
    if hasattr(model, "tol"):
        model.set_params(tol=1e-11)
    best = clone(model).fit(X, y)
    found = clone(model).fit(X.astype(np.float32), y)
    if kernel == "linear":
        features, K, rows = X, np.eye(X.shape[1]), found.coef_.astype(np.float64)
        unit, rounding = (centre(X) ** 2).sum() / X.shape[1], 1e-12
    else:
        features = K = np.exp(-1e-3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
        rows = found.dual_coef_.astype(np.float64)
        unit = np.trace(centre(centre(K).T)) / len(X)
        rounding = 1e-8  # of the kernel of float32 rows
    value = loss_of(model, features @ rows.T + found.intercept_.astype(np.float64), y)
    value += 1e-4 * unit * np.vdot(rows.T, K @ rows.T)
    least, coef = best.objective_history_[-1], rows.T
    bound = with_rounding(found.gap_, features, coef, found.intercept_, 1e-4 * unit, K, least)
    assert -best.gap_ - rounding <= value / least - 1 <= bound + rounding


@pytest.mark.parametrize("name", ["wide", "tall", "offset"])
def test_gaps_of_slrr_include_rounding_errors(name, tmp_path):
    X, y = problem(name)
    model = SLRRClassifier(beta=0.05, tol=1e-9)
    least = clone(model).fit(X, y).objective_history_[-1]
    for found in (streamed(model, "Dask", X, y, tmp_path), model.fit(X.astype(np.float32), y)):
        W = found.coef_.T.astype(np.float64) / score_scale(y)
        value = sparse_objective(centre(X), indicators(y), W, 0.05)
        assert value <= least * (1 + found.gap_ + 1e-7)  # coefficients are rounded to float32
        assert found.gap_ < 1e-4


def test_well_conditioned_rows_are_multiplied_in_float32_and_others_in_float64():
    random = np.random.default_rng(0)
    y = np.zeros(4_000, dtype=np.intp)
    X = random.standard_normal((4_000, 20)).astype(np.float32) + 3
    weak = X.copy()
    weak[:, 1] = weak[:, 0] + 1e-3 * weak[:, 1]
    weights = random.uniform(0.1, 2, 4_000)
    for rows, penalty, is_single in ((X, 0, True), (weak, 0, False), (weak, 0.1, True)):
        moments = block_moments(Block(rows, y, weights), 1, penalty)
        exact = block_moments(Block(rows.astype(np.float64), y, weights), 1).scatter
        assert (moments.error > 0) == is_single
        system = exact + penalty * np.trace(exact) / 20 * np.eye(20)
        relative = eigh(moments.scatter - exact, system, eigvals_only=True)
        assert np.abs(relative).max() <= max(moments.error, 1e-9)


@every_value(
    kind=["normal", "one-hot", "signs", "heavy", "lognormal", "offset"], n_features=[150, 30, 3]
)
def test_the_stated_error_is_not_exceeded(kind, n_features):
    random = np.random.default_rng(n_features)
    X = random.standard_normal((20_000, n_features))
    X = {
        "normal": X,
        "one-hot": (X > 2) * 1.0,
        "signs": np.sign(X),
        "heavy": random.standard_t(2, X.shape),
        "lognormal": np.exp(2 * X),
        "offset": X + 1e4,
    }[kind].astype(np.float32)
    y, weights = np.zeros(len(X), dtype=np.intp), np.ones(len(X))
    moments = block_moments(Block(X, y, weights), 1)
    exact = block_moments(Block(X.astype(np.float64), y, weights), 1)
    assert exact.error == 0 < moments.error <= 1e-3
    relative = eigh(moments.scatter - exact.scatter, exact.scatter, eigvals_only=True)
    assert np.abs(relative).max() <= moments.error


def test_sums_have_the_largest_error_of_their_parts():
    random = np.random.default_rng(0)
    X, y, weights = random.standard_normal((500, 3)), np.zeros(500, dtype=np.intp), np.ones(500)
    wide = block_moments(Block(X, y, weights), 1)
    narrow = block_moments(Block(X.astype(np.float32), y, weights), 1)
    assert (wide + narrow).error == (narrow + wide).error == narrow.scaled(2).error > 0


def test_the_gap_with_an_error_bounds_that_of_the_exact_problem():
    """Ridge regression with a perturbed matrix, in its norm."""
    random = np.random.default_rng(0)
    for _ in range(200):
        root = random.standard_normal((6, 6))
        A, totals = root @ root.T + 1e-3 * np.eye(6), random.standard_normal((6, 2))
        left = np.linalg.qr(random.standard_normal((6, 6)))[0]
        error = 10.0 ** random.uniform(-4, -1)
        half = np.linalg.cholesky(A)
        E = error * half @ (left * random.choice([-1, 1], 6)) @ left.T @ half.T
        W = np.linalg.solve(A + E, totals) * (1 + 0.1 * random.standard_normal())

        def excess(matrix, W=W, totals=totals):
            residual = totals - matrix @ W
            return np.vdot(residual, np.linalg.solve(matrix, residual))

        size = np.sqrt(np.vdot(W, (A + E) @ W) / (1 - error))
        bound = gap_with_error(excess(A + E), size, error / (1 - error))
        assert excess(A) <= bound


def test_the_penalty_of_a_partial_fit_can_be_lowered_later():
    X, y = problem("wide")
    model = LSRClassifier(beta=1.0)
    for rows in np.array_split(np.arange(len(y)), 3):
        model.partial_fit(X[rows].astype(np.float32), y[rows], classes=np.unique(y))
        model.set_params(beta=1e-8)
    expected = LSRClassifier(beta=1e-8).fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=1e-5 * np.abs(expected.coef_).max())


@pytest.mark.parametrize("model", [LSRClassifier(), LRRRClassifier()])
def test_the_smallest_penalty_of_a_path_decides(model):
    X, y = problem("wide")
    lazy = da.from_array(X.astype(np.float32), chunks=(20, -1))
    for betas in ([1.0, 1e-8], [1.0]):
        found, expected = (penalty_path(model, each, y, betas=betas, cv=3) for each in (lazy, X))
        assert_allclose(found.errors, expected.errors, rtol=1e-4)


@pytest.mark.parametrize("beta", [1e-4, 1e-2, 1.0, 100.0])
def test_float32_streams_of_drm_have_the_residuals_of_float64(beta):
    X, y = problem("images")
    X = X - 128
    model = DRMClassifier(kernel="linear", solver="scatter", alpha=0.1, beta=1e6 * beta)
    lazy = da.from_array(X.astype(np.float32), chunks=(70, -1))
    found, expected = (clone(model).fit(each, y).class_residuals(X) for each in (lazy, X))
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


IN_DOUBLE = ["offset", "collinear", "one scale", "a constant zero"]


@every_value(
    kind=["normal", "signs", "heavy", "many scales", "rare class", *IN_DOUBLE],
    beta=[1e-3, 1.0, 1e4, 1.0],
)
def test_scatters_of_float32_rows_give_the_residuals_of_float64(kind, beta):
    is_single = kind not in IN_DOUBLE
    random = np.random.default_rng(0)
    X = random.standard_normal((30_000, 8))
    y = np.arange(len(X)) % (300 if kind == "rare class" else 2) == 0
    X[y] *= np.linspace(0.5, 1, 8)
    X = {
        "signs": np.sign(X),
        "heavy": random.standard_t(2, X.shape),
        "many scales": X * np.logspace(-3, 3, 8) ** 0.2,
        "offset": X + 3,
        "collinear": np.hstack([X, X[:, :1] + 1e-3 * X[:, 1:2]]),
        "one scale": X * np.where(np.arange(8) == 0, 1e3, 1.0),
        "a constant zero": X * (np.arange(8) > 0),
    }.get(kind, X)
    X = X.astype(np.float32)
    block = Block(X, y.astype(np.intp), random.uniform(0.5, 2, len(X)))
    found, exact = (
        class_scatters(block._replace(X=rows), 2, 0.1, beta) for rows in (X, X.astype(np.float64))
    )
    assert (np.abs(found - exact).max() > 1e-10 * np.abs(exact).max()) == is_single
    totals = np.bincount(block.y, block.weights)
    found, exact = (
        ScatterForm.from_scatters(each, totals, 0.1, beta).residuals(X[:2_000])
        for each in (found, exact)
    )
    largest = np.abs(exact).max(axis=1, keepdims=True)
    assert_allclose(found / largest, exact / largest, rtol=0, atol=2e-6 if is_single else 1e-9)
