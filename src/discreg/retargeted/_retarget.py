"""Function that computes the best targets for given scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from discreg.blocks.validation import (
    Number,
    sample_weights,
)
from discreg.linalg.types import Array, Indices

from ._dlsr import DraggedTargets
from ._margin_targets import MarginTargets

__all__ = ["retarget"]


def retarget(
    scores: ArrayLike,
    y: ArrayLike,
    *,
    rule: str = "relsr",
    group_penalty: float = 0.0,
    centres: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> NDArray[Any]:
    """Compute the targets nearest to the scores that a rule allows.

    For a row of scores :math:`r` with true class :math:`k`, ``rule="relsr"`` returns the minimiser
    of

    .. math:: \\|r - t\\|^2 + \\gamma (t_k - 1 - \\mu_k)^2
              \\quad\\text{subject to}\\quad t_k - t_j \\ge 1,\\; j \\ne k,

    which is the retargeting of ReLSR, equations (17) to (23) of [1]_, for :math:`\\gamma = 0` and
    equation (22) of GReLSR [2]_ otherwise. ``rule="dlsr"`` returns DLSR's targets, equation (8) of
    [1]_: :math:`t_k = \\max(r_k, 1)` and :math:`t_j = \\min(r_j, 0)`.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_classes)
        Scores :math:`XW + b`.
    y : array-like of shape (n_samples,)
        Index of the true class of each sample, from 0 to n_classes - 1.
    rule : {"relsr", "dlsr"}, default="relsr"
        Rule that defines the allowed targets.
    group_penalty : float, default=0.0
        GReLSR's weight :math:`\\gamma` of the squared distance between the translation
        :math:`t_k - 1` of a sample and the centre :math:`\\mu_k` of its class.
    centres : array-like of shape (n_classes,), default=None
        The centres :math:`\\mu`; None means the optimal centres for these scores.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample in the centres.

    Returns
    -------
    targets : ndarray of shape (n_samples, n_classes)

    References
    ----------
    .. [1] X.-Y. Zhang, L. Wang, S. Xiang, C.-L. Liu, "Retargeted Least Squares Regression
           Algorithm", IEEE TNNLS 26 (2015).
    .. [2] L. Wang, C. Pan, "Groupwise Retargeted Least-Squares Regression", IEEE TNNLS 29 (2018).

    Examples
    --------
    Two rows of Table I of [1]_. The targets of the first are its scores, because its margin is 1:

    >>> from discreg.retargeted import retarget
    >>> retarget([[0.5, 1.5, 0.5], [0.2, 0.2, 0.8]], [1, 2]).round(4)
    array([[0.5   , 1.5   , 0.5   ],
           [0.0667, 0.0667, 1.0667]])
    >>> retarget([[0.5, 1.5, 0.5], [0.2, 0.2, 0.8]], [1, 2], rule="dlsr")
    array([[0. , 1.5, 0. ],
           [0. , 0. , 1. ]])
    """
    given = check_array(scores, dtype=[np.float64, np.float32], input_name="scores")
    matrix = np.ascontiguousarray(given, dtype=np.float64)
    classes = _class_indices(y, matrix)
    if rule == "dlsr":
        if group_penalty != 0 or centres is not None:
            raise ValueError(
                "group_penalty and centres are for rule='relsr'. Omit them with rule='dlsr'."
            )
        return DraggedTargets().targets(matrix, classes).astype(given.dtype, copy=False)
    if rule != "relsr":
        raise ValueError(f"rule must be 'relsr' or 'dlsr', got {rule!r}.")
    if not Number(0, closed="left").accepts(group_penalty):
        raise ValueError(f"group_penalty must be a finite number >= 0, got {group_penalty!r}.")
    if centres is None:
        weights = sample_weights(sample_weight, len(matrix))
        targets = MarginTargets(float(group_penalty)).evaluate(matrix, classes, weights).targets
    else:
        best = np.array(
            check_array(centres, ensure_2d=False, dtype=np.float64, input_name="centres")
        )
        if best.shape != (matrix.shape[1],):
            raise ValueError(
                f"centres must contain one number for each of the {matrix.shape[1]} classes; "
                f"got shape {best.shape}."
            )
        targets = MarginTargets(float(group_penalty)).targets_for(matrix, classes, best)
    return targets.astype(given.dtype, copy=False)


def _class_indices(y: ArrayLike, scores: Array) -> Indices:
    indices = np.asarray(y)
    check_consistent_length(scores, indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iub":
        raise ValueError("y must be a one-dimensional array of integer class indices.")
    if indices.min() < 0 or indices.max() >= scores.shape[1]:
        raise ValueError(
            f"y must contain class indices from 0 to {scores.shape[1] - 1}, the columns of scores; "
            f"got values from {indices.min()} to {indices.max()}."
        )
    return indices.astype(np.intp, copy=False)
