"""Probabilities as the documentation defines them, from the attributes of a fitted model."""

import numpy as np
from scipy.special import softmax


def columns(scores):
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def probabilities_by_definition(model, scores, weights=None, shares=1.0):
    """Softmax of scores times τ asinh(x) / x, for spreads x in units of their median.

    The median is that of the held-out scores, weighted with `weights`. Class offsets are added, but
    the class of the largest score stays the most probable one, in relation to `shares`.
    """
    spreads = np.ptp(columns(model.held_out_decision_function_), axis=1)
    weights = np.ones(len(spreads)) if weights is None else weights
    order = np.argsort(spreads)
    reached = np.cumsum(weights[order]) >= weights.sum() / 2 * (1 - 1e-9)
    scores = columns(scores)
    x = np.ptp(scores, axis=1, keepdims=True) / spreads[order][reached.argmax()]
    logits = model.inverse_temperature_ * np.arcsinh(x) / x * scores
    if not hasattr(model, "class_offsets_"):
        return softmax(logits, axis=1)
    logits += model.class_offsets_ - np.log(shares)
    fitted = getattr(model, "best_estimator_", model)
    if model.inverse_temperature_ > 0 and fitted.class_weight is None:
        winners = np.eye(scores.shape[1], dtype=bool)[scores.argmax(axis=1)]
        largest = logits[winners][:, None]
        logits = np.where(winners, largest, np.minimum(logits, largest - 1e-6))
    return softmax(logits + np.log(shares), axis=1)
