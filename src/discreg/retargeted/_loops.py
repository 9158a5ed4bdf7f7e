"""Compiled loops over rows: the exact retargeting of ReLSR and GReLSR and its derivative."""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import REORDER, compiled

__all__ = [
    "best_centres",
    "centre_moves",
    "class_sums",
    "margin_hessp",
    "margin_hessp_of_rows",
    "scale_residuals",
    "targets_below",
    "true_targets",
]

NEWTON_STEPS = 8


@compiled()
def _sift_down(heap, size):
    """Restore the max-heap heap[:size] whose root alone may be too small."""
    value = heap[0]
    parent = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[parent] = heap[child]
        parent = child
        child = 2 * parent + 1
    heap[parent] = value


@compiled()
def _push(heap, size, value):
    """Add a value to the max-heap heap[:size]."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if heap[parent] >= value:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = value


@compiled(fastmath=REORDER)
def _true_target(scores, true, group_penalty, centre, heap):
    """Optimal target of the true class of one row and the number of false classes that pull it.

    It is the mean of the true class's score, `group_penalty` times 1 + centre, and the values
    r_j + 1 of those false classes that exceed it. Newton's steps for that equation go up from the
    mean without false classes and mostly end after two or three; if not, the values are taken in
    from the largest down.
    """
    base = scores[true] + group_penalty * (1.0 + centre)
    base_weight = 1.0 + group_penalty
    mean = base / base_weight
    for _ in range(NEWTON_STEPS):
        total = base
        weight = base_weight
        for j in range(len(scores)):
            value = scores[j] + 1.0
            pulls = 1.0 if value > mean and j != true else 0.0
            total += pulls * value
            weight += pulls
        above = total / weight
        if above <= mean:
            return mean, weight - base_weight
        mean = above
    return _true_target_by_order(scores, true, base, base_weight, heap)


@compiled()
def _true_target_by_order(scores, true, base, base_weight, heap):
    """The same in O(c log c), whatever the scores."""
    total = base
    weight = base_weight
    size = 0
    for j in range(len(scores)):
        if j != true:
            _push(heap, size, scores[j] + 1.0)
            size += 1
    while size > 0 and heap[0] * weight > total:
        total += heap[0]
        weight += 1.0
        size -= 1
        heap[0] = heap[size]
        _sift_down(heap, size)
    return total / weight, weight - base_weight


@compiled()
def true_targets(scores, y, group_penalty, centres, tops):
    """Write t_k of each row's minimiser of ‖r − t‖² + γ (t_k − 1 − μ_k)² under t_k − t_j ≥ 1."""
    heap = np.empty(scores.shape[1])
    for i in range(len(scores)):
        tops[i], _ = _true_target(scores[i], y[i], group_penalty, centres[y[i]], heap)


@compiled()
def targets_below(scores, y, tops, targets):
    """Write the targets that t_k leaves: at most t_k − 1 for every other class."""
    n_rows, n_classes = scores.shape
    for i in range(n_rows):
        top = tops[i]
        for j in range(n_classes):
            targets[i, j] = min(scores[i, j], top - 1.0)
        targets[i, y[i]] = top


@compiled()
def best_centres(scores, y, weights, group_penalty, centres, tops):
    """Solve μ_k = mean over class k of t_k(μ_k) − 1 for all classes, from the start in `centres`.

    The t_k at the solution are written to `tops`. The right-hand side minus μ is convex, piecewise
    linear and falls with a slope in [−1, −1/(1 + γ)]: Newton's steps, after the first, only go up
    and end at the root.
    """
    n_rows, n_classes = scores.shape
    heap = np.empty(n_classes)
    total = np.zeros(n_classes)
    for i in range(n_rows):
        total[y[i]] += weights[i]
    open_class = total > 0.0
    if not open_class.all():
        true_targets(scores, y, group_penalty, centres, tops)
    first = True
    while open_class.any():
        excess = np.zeros(n_classes)
        slope = np.zeros(n_classes)
        for i in range(n_rows):
            true = y[i]
            if open_class[true]:
                top, taken = _true_target(scores[i], true, group_penalty, centres[true], heap)
                tops[i] = top
                excess[true] += weights[i] * (top - 1.0 - centres[true])
                slope[true] += weights[i] * (1.0 + taken) / (1.0 + group_penalty + taken)
        for k in range(n_classes):
            if open_class[k]:
                step = excess[k] / slope[k]
                rounding = 1e-15 * (1.0 + group_penalty) * (1.0 + abs(centres[k]))
                if step > rounding or (first and step < -rounding):
                    centres[k] += step
                else:
                    open_class[k] = False
        first = False


@compiled()
def class_sums(residuals, y, weights):
    """Weighted sums and squares of the positive residuals of each class in the other columns."""
    n_rows, n_classes = residuals.shape
    sums = np.zeros((n_classes, n_classes))
    squares = np.zeros((n_classes, n_classes))
    for i in range(n_rows):
        for j in range(n_classes):
            value = max(residuals[i, j], 0.0)
            sums[y[i], j] += weights[i] * value
            squares[y[i], j] += weights[i] * value * value
    for k in range(n_classes):
        sums[k, k] = 0.0
        squares[k, k] = 0.0
    return sums, squares


@compiled()
def scale_residuals(residuals, y, weights, scales, even, change):
    """Write scales times the positive residuals plus even shares, made up for at the true class.

    Returns the weighted squares of what was written.
    """
    n_rows, n_classes = residuals.shape
    cost = 0.0
    for i in range(n_rows):
        true = y[i]
        total = 0.0
        squares = 0.0
        for j in range(n_classes):
            value = scales[true, j] * max(residuals[i, j], 0.0) + even[true, j]
            change[i, j] = value
            total += value
            squares += value * value
        change[i, true] = -total
        cost += weights[i] * (squares + total * total)
    return cost


@compiled(fastmath=REORDER)
def _active_sum(residuals, true, direction):
    """Sum of a direction over the active classes of a row, and their number."""
    moved = 0.0
    size = 0.0
    for j in range(len(residuals)):
        active = 1.0 if residuals[j] > 0.0 or j == true else 0.0
        moved += active * direction[j]
        size += active
    return moved, size


@compiled()
def centre_moves(residuals, y, weights, group_penalty, direction):
    """Sums over each class whose ratio is the move of its centre along `direction`."""
    n_rows, n_classes = residuals.shape
    moves = np.zeros(n_classes)
    slopes = np.zeros(n_classes)
    for i in range(n_rows):
        moved, size = _active_sum(residuals[i], y[i], direction[i])
        moves[y[i]] += weights[i] * moved / (size + group_penalty)
        slopes[y[i]] += weights[i] * size / (size + group_penalty)
    return moves, slopes


@compiled()
def margin_hessp(residuals, y, weights, group_penalty, centre_steps, direction, product):
    """Write the derivative of the weighted residuals R − T(R) along `direction`.

    A row's active classes are its true class and the false classes with a positive residual, m of
    them with the true class; with q the sum of the direction over them, the target moves by
    (q + γ dμ) / (γ + m), dμ the given step of its class's centre.
    """
    n_rows, n_classes = residuals.shape
    for i in range(n_rows):
        true = y[i]
        moved, size = _active_sum(residuals[i], true, direction[i])
        target_step = (moved + group_penalty * centre_steps[true]) / (size + group_penalty)
        for j in range(n_classes):
            active = weights[i] if residuals[i, j] > 0.0 else 0.0
            product[i, j] = active * (direction[i, j] - target_step)
        product[i, true] = weights[i] * (direction[i, true] - target_step)


@compiled()
def margin_hessp_of_rows(X, coef, shift, residuals, y, weights, step):
    """Xᵀ times the derivative along XW + shift, for γ = 0, in blocks of `step` rows.

    Returned with the column sums of the derivative.
    """
    image = np.zeros_like(coef)
    totals = np.zeros_like(shift)
    part = np.empty_like(coef)
    fixed = np.zeros_like(shift)
    all_scores = np.empty((min(step, len(X)), len(shift)))
    all_products = np.empty_like(all_scores)
    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        scores = all_scores[: rows.stop - start]
        product = all_products[: rows.stop - start]
        np.dot(X[rows], coef, scores)
        for i in range(len(scores)):
            for j in range(len(shift)):
                scores[i, j] += shift[j]
        margin_hessp(residuals[rows], y[rows], weights[rows], 0.0, fixed, scores, product)
        for i in range(len(product)):
            for j in range(len(shift)):
                totals[j] += product[i, j]
        np.dot(X[rows].T, product, part)
        image += part
    return image, totals
