"""Probabilities as the documentation defines them, from the attributes of a fitted model."""

import numpy as np
from scipy.special import softmax


def columns(scores):
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def probabilities_by_definition(model, scores, weights=None):
    """Softmax of the scores times τ asinh(x) / x with the spreads x in units of their median.

    The median is that of the held-out scores, weighted with `weights`.
    """
    spreads = np.ptp(columns(model.loo_decision_function_), axis=1)
    weights = np.ones(len(spreads)) if weights is None else weights
    order = np.argsort(spreads)
    reached = np.cumsum(weights[order]) >= weights.sum() / 2 * (1 - 1e-9)
    scores = columns(scores)
    x = np.ptp(scores, axis=1, keepdims=True) / spreads[order][reached.argmax()]
    return softmax(model.inverse_temperature_ * np.arcsinh(x) / x * scores, axis=1)
