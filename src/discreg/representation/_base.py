"""Base class of DRM: prediction with a fitted solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from discreg.base.calibration import probabilities
from discreg.base.classifier import BaseClassifier
from discreg.blocks.lazy import lazily
from discreg.blocks.validation import new_rows
from discreg.linalg.types import Labels, MatrixLike, RealArray

from ._iterative import Iterations
from ._problem import require_squares
from ._solvers import IterativeSolver, Solver

__all__ = ["RepresentationClassifier", "one_column_if_binary", "unknown_label"]


def _has_probability(estimator: Any) -> bool:
    if not estimator.probability:
        raise AttributeError(
            "predict_proba is only available with probability=True, because fit must also compute "
            "held-out scores. Set probability=True before fit."
        )
    return True


class RepresentationClassifier(BaseClassifier):
    """Base class of DRMClassifier with the methods that use a fitted solver."""

    probability: bool
    reject_above: float | None
    unknown_label: Any
    solver_: str
    inverse_temperature_: float
    fit_order_: NDArray[np.intp]
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
        return one_column_if_binary(-self._residuals(self._points(X))).astype(self._dtype)

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
        return self._residuals(self._points(X)).astype(self._dtype)

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
        delta = self._residuals(self._solver.training.points(rows))
        labels = self.classes_[delta.argmin(axis=1)]
        if self.reject_above is None:
            return np.asarray(labels)
        norms = self._solver.training.source_kernel.diagonal(rows)  # exact k(x, x)
        smallest = delta.min(axis=1) + norms
        rejected = smallest > self.reject_above * norms
        # As an array, so that np.where promotes the dtype if the unknown label needs it.
        return np.where(rejected, np.asarray(unknown_label(self, self.classes_)), labels)

    @available_if(_has_probability)
    @lazily
    def predict_proba(self, X: MatrixLike) -> RealArray:
        """Predict class probabilities; the predicted class has the largest.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        if not hasattr(self, "inverse_temperature_"):
            raise NotFittedError("The model has no probabilities. Fit it with probability=True.")
        scores = -self._residuals(self._points(X))
        return probabilities(scores, self.inverse_temperature_, self._dtype.type)

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
        points = self._points(X)
        if not hasattr(self, "fit_order_"):
            raise ValueError(
                "A representation needs the training rows, which partial_fit and fits to Dask "
                "collections or memory maps do not keep. Fit to rows in memory."
            )
        V = self._solver.represent(points)
        weights = np.zeros((len(V), self._n_training), dtype=self._dtype)
        weights[:, self.fit_order_] = V
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
        points = self._points(X)
        if not isinstance(self._solver, IterativeSolver):
            raise ValueError(
                f"solver={self.solver_!r} does not iterate. Use solver='gd', 'ppa' or 'apg'."
            )
        training = self._solver.training
        return self._solver.run(training.cross(points), training.self_kernel(points))

    def _rows(self, X: ArrayLike) -> Any:
        """Check new samples."""
        check_is_fitted(self, "_solver")
        rows = new_rows(self, X)
        require_squares(rows, self._solver.training.source_kernel)
        return rows

    def _points(self, X: ArrayLike) -> Any:
        """Check new samples and convert them to the coordinates of the solver."""
        rows = self._rows(X)
        return self._solver.training.points(rows)

    def _residuals(self, points: Any) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):  # residuals are checked below
            delta = self._solver.residuals(points)
        if not np.all(np.isfinite(delta)):
            raise ValueError(
                "The residuals of these samples overflow. Scale the features as in training, for "
                "example with sklearn.preprocessing.StandardScaler."
            )
        return delta


def one_column_if_binary(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert to scikit-learn's shape of decision values: one column for two classes."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def unknown_label(estimator: Any, classes: NDArray[Any]) -> Any:
    """Return the label of rejected samples; check that it has the type of y and is not in y."""
    if estimator.reject_above is None:
        return None
    if estimator.kernel == "precomputed":
        raise ValueError(
            "reject_above needs k(x, x) of new samples, which a precomputed kernel matrix does not "
            "contain. Use reject_above=None or another kernel."
        )
    strings = classes.dtype.kind in "OUS"
    label = estimator.unknown_label
    if label is None:
        label = "unknown" if strings else -1
    if isinstance(label, str) != strings or label in classes.tolist():
        raise ValueError(
            f"unknown_label must be {'a string' if strings else 'a number'} like the labels in y, "
            f"and must not be one of them; got {label!r}."
        )
    return label
