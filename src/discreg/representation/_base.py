"""Base class of DRM: prediction with a fitted solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreg.base.classifier import BaseClassifier
from discreg.base.full_sets import Augmented
from discreg.base.left_out import one_column_if_binary
from discreg.blocks.lazy import lazily
from discreg.blocks.validation import new_rows
from discreg.linalg.types import Array, Indices, Labels, MatrixLike, RealArray

from ._augmented import augmented_scores
from ._iterative import Iterations
from ._problem import require_squares
from ._rejection import unknown_label
from ._solvers import IterativeSolver, Solver

__all__ = ["RepresentationClassifier"]


class RepresentationClassifier(BaseClassifier):
    """Base class of DRMClassifier with the methods that use a fitted solver."""

    alpha: float
    probability: bool
    reject_above: float | None
    unknown_label: Any
    solver_: str
    fit_order_: Indices
    _solver: Solver
    _dtype: np.dtype[Any]
    _n_training: int

    @lazily
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the negative residuals −δ of (11).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; with ``kernel="precomputed"`` the kernel matrix between these and the training
            samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class; for two classes, the score of the second minus that of the first.
        """
        delta = self._residuals(self._rows(X))
        if len(self.classes_) > 2:
            return -_rounded(delta, self._dtype)
        with np.errstate(over="ignore"):
            exact = one_column_if_binary(-delta)
            scores = exact.astype(self._dtype)
        _require_finite(scores)
        # Rounding leaves the sign, so that predict agrees.
        scores[(exact > 0) & (scores == 0)] = np.finfo(self._dtype).smallest_subnormal
        return scores

    @lazily
    def class_residuals(self, X: MatrixLike) -> RealArray:
        """Compute the residuals δ of (11); the smallest is that of the predicted class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        residuals : ndarray of shape (n_samples, n_classes)
            Residuals without the term k(x, x), which is the same for all classes.
        """
        return _rounded(self._residuals(self._rows(X)), self._dtype)

    @lazily
    def predict(self, X: MatrixLike) -> Labels:
        """Predict the class with the smallest residual, equation (12).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        rows = self._rows(X)
        delta = self._residuals(rows)
        labels = self.classes_[delta.argmin(axis=1)]
        if self.reject_above is None:
            return np.asarray(labels)
        with np.errstate(over="ignore"):
            norms = self._solver.training.source_kernel.diagonal(rows)  # exact k(x, x)
            smallest = delta.min(axis=1) + norms
            rejected = smallest > self.reject_above * norms
        return np.where(rejected, self._label_of_rejected(), labels)

    def _label_of_rejected(self) -> NDArray[Any]:
        """Return the label that rejected samples get."""
        return unknown_label(self.unknown_label, self.classes_)

    def representation(self, X: MatrixLike) -> RealArray:
        """Compute the coefficients w* of the training samples that represent each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        weights : ndarray of shape (n_samples, n_training_samples)
            One column per training sample. The coefficient of a sample of weight k is the sum of
            the coefficients of k repeated samples.
        """
        rows = self._rows(X)
        if not hasattr(self, "fit_order_"):
            raise ValueError(
                "A representation needs the training rows, which partial_fit and fits to Dask "
                "collections or memory maps do not keep. Fit to rows in memory."
            )
        weights = np.zeros((rows.shape[0], self._n_training), dtype=self._dtype)
        with _overflow_is_checked():
            weights[:, self.fit_order_] = self._solver.represent(rows)
        _require_finite(weights)
        return weights

    def convergence(self, X: ArrayLike) -> Iterations:
        """Run the iterative solver and record its convergence: Figures 3 and 4 of the paper.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        iterations : Iterations
            `objective_history` has one row per iteration and one column per sample; `n_iter`,
            `converged` and `gap` have one entry per sample.
        """
        rows = self._rows(X)
        if not isinstance(self._solver, IterativeSolver):
            raise ValueError(
                f"solver={self.solver_!r} does not iterate. Use solver='gd', 'ppa' or 'apg'."
            )
        training = self._solver.training
        with _overflow_is_checked():
            points = training.points(rows)
            outcome = self._solver.run(training.cross(points), training.self_kernel(points))
        _require_finite(outcome.coef)
        return outcome

    def _augmented(self, X: MatrixLike) -> tuple[Array, Augmented]:
        if not hasattr(self, "_labels"):
            return super()._augmented(X)
        rows = self._rows(X)
        augmented = augmented_scores(self._solver.training, self._labels, float(self.alpha), rows)
        return -self._residuals(rows), augmented

    def _rows(self, X: ArrayLike) -> Any:
        """Check new samples."""
        rows = new_rows(self, X)
        require_squares(rows, self._solver.training.source_kernel)
        return rows

    def _residuals(self, rows: Any) -> Array:
        """Compute δ of checked samples."""
        with _overflow_is_checked():
            delta = self._solver.residuals(rows)
        _require_finite(delta)
        return delta


def _overflow_is_checked() -> np.errstate:
    """Silence NumPy where the results are checked by `_require_finite`."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _require_finite(values: RealArray) -> None:
    if not np.all(np.isfinite(values)):
        raise ValueError(
            "The residuals of these samples overflow. Scale the features as in training, for "
            "example with sklearn.preprocessing.StandardScaler."
        )


def _rounded(delta: Array, dtype: np.dtype[Any]) -> RealArray:
    """Round residuals to the dtype of the samples; the smallest of a row stays the smallest."""
    with np.errstate(over="ignore"):
        rounded = delta.astype(dtype)
    _require_finite(rounded)
    smallest = delta.argmin(axis=1)
    tied = np.flatnonzero(rounded.argmin(axis=1) != smallest)
    below = np.nextafter(rounded[tied].min(axis=1), -np.inf, dtype=dtype)
    rounded[tied, smallest[tied]] = below
    return rounded
