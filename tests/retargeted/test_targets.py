"""The target rules are the exact minimisers that the papers define."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import best_row_targets

from discreg.retargeted import retarget
from discreg.retargeted._losses import MarginTargets

# Table I of the ReLSR paper: true class, scores, then loss and targets of LSR, DLSR and ReLSR.
TABLE_1 = [
    (0, [1.5, 0, 0], 0.25, 0.0, [1.5, 0, 0], 0.0, [1.5, 0, 0]),
    (0, [1, -0.5, -0.5], 0.50, 0.0, [1, -0.5, -0.5], 0.0, [1, -0.5, -0.5]),
    (1, [0.5, 1.5, 0.5], 0.75, 0.50, [0, 1.5, 0], 0.0, [0.5, 1.5, 0.5]),
    (1, [-0.5, 1.5, 0.5], 0.75, 0.25, [-0.5, 1.5, 0], 0.0, [-0.5, 1.5, 0.5]),
    (2, [0.2, 0.2, 0.8], 0.12, 0.12, [0, 0, 1], 0.11, [0.0667, 0.0667, 1.0667]),
    (2, [-0.2, 0.2, 0.6], 0.24, 0.20, [-0.2, 0, 1], 0.18, [-0.2, -0.1, 0.9]),
]


@pytest.mark.parametrize("row", TABLE_1)
def test_table_1_of_relsr(row):
    true, scores, lsr_loss, dlsr_loss, dlsr_targets, relsr_loss, relsr_targets = row
    scores = np.array([scores], dtype=float)
    dlsr = retarget(scores, [true], rule="dlsr")
    relsr = retarget(scores, [true])
    # The table is printed to two digits (losses) and four (targets).
    assert np.sum((scores - np.eye(3)[true]) ** 2) == pytest.approx(lsr_loss, abs=5e-3)
    assert np.sum((scores - dlsr) ** 2) == pytest.approx(dlsr_loss, abs=5e-3)
    assert np.sum((scores - relsr) ** 2) == pytest.approx(relsr_loss, abs=5e-3)
    np.testing.assert_allclose(dlsr[0], dlsr_targets, atol=5e-5)
    np.testing.assert_allclose(relsr[0], relsr_targets, atol=5e-5)


def random_rows(n_rows, n_classes, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(n_rows, n_classes)), rng.integers(n_classes, size=n_rows)


@pytest.mark.parametrize("group_penalty", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("n_classes", [2, 3, 5, 7])
def test_rows_equal_brute_force_over_active_sets(n_classes, group_penalty):
    scores, y = random_rows(40, n_classes, seed=n_classes)
    centres = np.linspace(-0.5, 0.5, n_classes)
    targets = retarget(scores, y, group_penalty=group_penalty, centres=centres)
    for row, true, target in zip(scores, y, targets, strict=True):
        expected = best_row_targets(row, true, group_penalty, centres[true])
        np.testing.assert_allclose(target, expected, atol=1e-12)


def test_closed_form_23_of_relsr():
    scores, y = random_rows(200, 6)
    targets = retarget(scores, y)
    for row, true, target in zip(scores, y, targets, strict=True):
        false = np.arange(6) != true
        v = row + 1 - row[true]  # (18)
        slope = v + np.minimum(v[:, None] - v[None, false], 0).sum(axis=1)  # g'(v_i), (22)
        taken = false & (slope > 0)
        delta = v[taken].sum() / (1 + taken.sum())  # (23)
        expected = np.where(false, row + np.minimum(delta - v, 0), row[true] + delta)  # (20)
        np.testing.assert_allclose(target, expected, atol=1e-12)


@given(
    arrays(float, st.integers(2, 12), elements=st.floats(-1e3, 1e3)),
    st.floats(0, 10),
    st.floats(-3, 3),
)
def test_margins_hold_and_stationarity(scores, group_penalty, centre):
    """KKT conditions of a row: margins of 1, multipliers of one sign, a balanced pull."""
    targets = retarget(
        scores[None], [0], group_penalty=group_penalty, centres=np.full(len(scores), centre)
    )[0]
    rounding = 1e-12 * (1 + np.abs(scores).max())
    assert np.all(targets[0] - targets[1:] >= 1 - rounding)
    pull = scores - targets
    assert np.all(pull[1:] >= -rounding)
    held = targets[0] - targets[1:] > 1 + rounding
    assert np.all(np.abs(pull[1:][held]) <= rounding)
    assert pull.sum() == pytest.approx(
        group_penalty * (targets[0] - 1 - centre), abs=len(scores) * (1 + group_penalty) * rounding
    )


def test_rows_made_to_drop_one_class_at_a_time():
    """Each mean lies just above the smallest value in it: Newton's steps are as many as classes."""
    values, total, shortfall = [1.0], 1.0, 1e-13
    while shortfall < 0.5:
        size = len(values) + 1
        shortfall *= 1.2 * size
        values.append((1 - shortfall) * total / size)
        total += values[-1]
    scores = np.array([0.0, *values]) - np.array([0.0, *np.ones(len(values))])
    mean, steps = 0.0, 0
    while True:
        pulling = [value for value in values if value > mean]
        following = sum(pulling) / (1 + len(pulling))
        if following <= mean:
            break
        mean, steps = following, steps + 1
    assert steps > 10
    for copies in (1, 100):
        targets = retarget(np.tile(scores, (copies, 1)), np.zeros(copies, dtype=int))
        np.testing.assert_allclose(targets[-1], best_row_targets(scores, 0), atol=1e-12)


@pytest.mark.parametrize("group_penalty", [0.0, 0.3, 5.0])
def test_rows_have_the_same_targets_and_derivatives_among_many_copies(group_penalty):
    """Many rows go through compiled loops, few do not."""
    copies = 100
    scores, y = random_rows(20, 4)
    random = np.random.default_rng(1)
    direction, weights = random.normal(size=scores.shape), random.uniform(0.5, 2, size=len(y))
    loss = MarginTargets(group_penalty)
    few = loss.evaluate(scores, y, weights)
    many = loss.evaluate(np.tile(scores, (copies, 1)), np.tile(y, copies), np.tile(weights, copies))
    np.testing.assert_allclose(many.targets, np.tile(few.targets, (copies, 1)), atol=1e-12)
    np.testing.assert_allclose(many.centres, few.centres, atol=1e-12)
    product = loss.score_hessp(few.residuals, direction.copy(), y, weights)
    products = loss.score_hessp(
        np.tile(few.residuals, (copies, 1)),
        np.tile(direction, (copies, 1)),
        np.tile(y, copies),
        np.tile(weights, copies),
    )
    np.testing.assert_allclose(products, np.tile(product, (copies, 1)), atol=1e-12)


@pytest.mark.parametrize("group_penalty", [0.01, 1.0, 100.0])
def test_eliminated_centres_are_class_means_and_optimal(group_penalty):
    scores, y = random_rows(300, 5, seed=3)
    weights = np.random.default_rng(4).uniform(0.1, 3, size=300)

    def value(centres):
        targets = retarget(scores, y, group_penalty=group_penalty, centres=centres)
        own = targets[np.arange(300), y]
        loss = np.sum((scores - targets) ** 2, axis=1) + group_penalty * (own - 1 - centres[y]) ** 2
        return weights @ loss

    targets = retarget(scores, y, group_penalty=group_penalty, sample_weight=weights)
    translations = targets[np.arange(300), y] - 1
    centres = np.bincount(y, weights * translations) / np.bincount(y, weights)
    fixed = retarget(scores, y, group_penalty=group_penalty, centres=centres)
    np.testing.assert_allclose(targets, fixed, atol=1e-11 * (1 + group_penalty))
    best = value(centres)
    for k in range(5):
        for step in (-1e-3, 1e-3):
            moved = centres.copy()
            moved[k] += step
            assert value(moved) > best


def test_theorem_1_of_grelsr():
    """Targets with margin 1 are those of dragging plus a translation (12), and the other way."""
    rng = np.random.default_rng(0)
    scores, y = random_rows(50, 4)
    labels = np.where(np.eye(4)[y] == 1, 1.0, 0.0)
    sign = np.where(labels == 1, 1.0, -1.0)
    targets = retarget(scores, y)
    translation = targets[np.arange(50), y] - 1
    dragging = sign * (targets - labels - translation[:, None])
    assert np.all(dragging >= -1e-12)
    np.testing.assert_allclose(dragging[np.arange(50), y], 0, atol=1e-12)
    anything = labels + sign * rng.exponential(size=(50, 4)) + rng.normal(size=(50, 1))
    own = anything[np.arange(50), y]
    false = labels == 0
    assert np.all((own[:, None] - anything)[false] >= 1)


def test_lemma_1_of_grelsr():
    """The drag of a false class for a fixed translation a is max(a - r_j, 0)."""
    scores, y = random_rows(50, 4)
    targets = retarget(scores, y, group_penalty=0.5, centres=np.zeros(4))
    a = targets[np.arange(50), y] - 1
    drag = a[:, None] - targets
    false = np.eye(4)[y] == 0
    np.testing.assert_allclose(drag[false], np.maximum(a[:, None] - scores, 0)[false], atol=1e-12)


def test_zero_translations_give_dlsr_but_for_the_true_class():
    """GReLSR as γ → ∞ with centre 0: false targets are DLSR's, the true one is 1, not above."""
    scores, y = random_rows(50, 4)
    tight = retarget(scores, y, group_penalty=1e12, centres=np.zeros(4))
    dragged = retarget(scores, y, rule="dlsr")
    false = np.eye(4)[y] == 0
    np.testing.assert_allclose(tight[false], dragged[false], atol=1e-9)
    np.testing.assert_allclose(tight[~false], 1, atol=1e-9)


def test_common_shift_moves_targets_along():
    scores, y = random_rows(30, 4)
    for group_penalty in (0.0, 0.7):
        np.testing.assert_allclose(
            retarget(scores + 2.5, y, group_penalty=group_penalty),
            retarget(scores, y, group_penalty=group_penalty) + 2.5,
            atol=1e-12,
        )


def test_permuting_classes_permutes_targets():
    scores, y = random_rows(30, 5)
    order = np.array([3, 1, 4, 0, 2])
    permuted = retarget(scores[:, order], np.argsort(order)[y], group_penalty=0.3)
    np.testing.assert_allclose(
        permuted, retarget(scores, y, group_penalty=0.3)[:, order], atol=1e-13
    )


def test_weights_are_copies_in_the_centres():
    scores, y = random_rows(20, 3)
    copies = np.random.default_rng(1).integers(0, 4, size=20)
    kept = copies > 0
    weighted = retarget(scores, y, group_penalty=0.5, sample_weight=copies)[kept]
    copied = retarget(np.repeat(scores, copies, axis=0), np.repeat(y, copies), group_penalty=0.5)
    np.testing.assert_allclose(np.repeat(weighted, copies[kept], axis=0), copied, atol=1e-13)


def test_input_is_left_alone_and_dtype_kept():
    scores, y = random_rows(10, 3)
    scores = scores.astype(np.float32)
    scores.flags.writeable = False
    before = scores.copy()
    for options in ({}, {"group_penalty": 1.0}, {"rule": "dlsr"}):
        assert retarget(scores, y, **options).dtype == np.float32
    np.testing.assert_array_equal(scores, before)
    assert retarget(np.asfortranarray(scores), y).shape == (10, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 3]}, "from 0 to 2"),
        ({"y": [0, -1]}, "from 0 to 2"),
        ({"y": [0.0, 1.0]}, "class indices"),
        ({"y": [0]}, "inconsistent numbers"),
        ({"rule": "relsr2"}, "'relsr' or 'dlsr'"),
        ({"rule": "dlsr", "group_penalty": 1.0}, "rule='relsr'"),
        ({"group_penalty": -1.0}, "group_penalty"),
        ({"group_penalty": np.nan}, "group_penalty"),
        ({"centres": [0.0]}, "one number for each of the 3 classes"),
        ({"sample_weight": [-1.0, 1.0]}, "negative"),
        ({"sample_weight": [[1.0], [1.0]]}, "one number for each"),
        ({"group_penalty": "a"}, "group_penalty"),
        ({"scores": [[np.nan, 0, 0], [0, 0, 0]]}, "NaN"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {"scores": np.zeros((2, 3)), "y": [0, 1], "group_penalty": 0.5} | change
    if change.get("rule") == "dlsr" and "group_penalty" not in change:
        del arguments["group_penalty"]
    with pytest.raises(ValueError, match=message):
        retarget(arguments.pop("scores"), arguments.pop("y"), **arguments)
