"""What LRLR, LRRR and SLRR share: normalised class indicators, the rank, the fitted projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from discreg.base.classifier import Prepared, RegressionClassifier, in_precision
from discreg.base.validation import CLASS_WEIGHT, Boolean, Choice, Number, lazily
from discreg.linalg.types import Array, MatrixLike, RealArray

DIGITS = 12  # of the logarithms of shares, so that classes of equal weight have equal ones
SAME = 1e-6  # relative difference below which entries count as equal


@dataclass(frozen=True)
class Indicators:
    """The matrix Y with Y_ij = 1/√n_j for samples i of class j, else 0, stored by class.

    n_j is the sum of the sample weights of class j. Class weights multiply the weights of the rows
    of Y; they do not change Y.

    Attributes
    ----------
    sizes : ndarray of shape (n_classes,)
        n_j, the sums of the sample weights.
    weights : ndarray of shape (n_classes,)
        Sums of the sample weights times the class weights.
    centred : bool
        Whether the features are centred.
    """

    sizes: Array
    weights: Array
    centred: bool

    @classmethod
    def of(cls, prepared: Prepared) -> Indicators:
        """Create the indicators of training data."""
        return cls(prepared.sizes, prepared.class_weights, prepared.regression.centred)

    @property
    def scale(self) -> float:
        """√(n/c) for n samples of c classes, the factor of the model's scores.

        Times this factor, the entries of Y are 1 for classes of equal size, so that the scores do
        not shrink as the number of samples grows.
        """
        return float(self.scale_of(self.sizes)[0])

    @staticmethod
    def scale_of(sizes: Array) -> Array:
        """Compute the scale for other n_j, possibly one row per sample."""
        return np.asarray(np.sqrt(sizes.mean(axis=-1, keepdims=True)))

    @property
    def entries(self) -> Array:
        """1/√n_j."""
        return 1 / np.sqrt(self.sizes)

    @property
    def mean(self) -> Array:
        """Weighted mean of the rows; zero without centring."""
        return np.asarray(self.weights * self.entries / self.weights.sum() * self.centred)

    @property
    def shift(self) -> Array:
        """Change of the mean by class weights, added to the scores; zero without class weights.

        Equation (38) omits the mean of Y, which assumes that no class is weighted. The shift
        restores the influence of the class weights on the decision.
        """
        return self.shift_of(self.mean, self.sizes)

    def shift_of(self, mean: Array, sizes: Array) -> Array:
        """Compute the shift for other means of Y and other n_j, possibly one row per sample."""
        if not self.centred or np.array_equal(self.weights, self.sizes):
            return np.zeros_like(sizes)
        return np.asarray(mean - np.sqrt(sizes) / sizes.sum(axis=-1, keepdims=True))

    def offset(self, coef: Array) -> Array:
        """Compute what a model adds to its scores: the shift, times the scale.

        Without coefficients it is the logarithms of the shares of the classes, so that the largest
        class is predicted and its probability is its share. It is zero without centring, because
        there is no intercept then.
        """
        if coef.any():
            return self.shift * self.scale
        logs = np.log(self.weights)
        return np.asarray(np.round((logs - logs.mean()) * self.centred, DIGITS))

    @property
    def second(self) -> Array:
        """YᵀSY, with Y centred if the features are."""
        mean = self.mean
        return np.asarray(
            np.diag(self.weights / self.sizes) - self.weights.sum() * np.outer(mean, mean)
        )

    @property
    def constant(self) -> float:
        """Decrease of ‖Y‖² by centring, which does not depend on the features (Theorem 2)."""
        return float(self.weights.sum() * self.mean @ self.mean)


def largest_rank(prepared: Prepared) -> int:
    """Compute the largest possible rank; centring removes one direction of the classes."""
    of_classes = len(prepared.classes) - int(prepared.regression.centred)
    if prepared.kernel is not None:
        return of_classes
    return int(min(of_classes, prepared.regression.n_features or prepared.regression.size))


def signs_of(directions: Array) -> Array:
    """Compute signs that make the first of the largest entries of every direction positive."""
    sizes = np.abs(directions)
    first = np.argmax(sizes >= (1 - SAME) * sizes.max(axis=0), axis=0)
    return np.where(directions[first, np.arange(len(first))] < 0, -1.0, 1.0)


class LowRankClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RegressionClassifier):
    r"""Base class of the classifiers that project onto a few directions.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to centre X, so that scores are those of :math:`x - \bar x` (38). Without centring
        the largest rank is min(n_features, n_classes).
    class_weight : dict or "balanced", default=None
        Class weights, which multiply the weights of the rows. Unlike the same factors in
        `sample_weight`, they do not change Y, and the scores are shifted by what they change in
        the mean of Y. "balanced" gives every class the same total weight, taking sample weights
        into account.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features)
        Coefficients for the linear kernel, or of the components of an approximated kernel; for two
        classes, those of the second minus those of the first.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts :math:`-\sqrt{n/c}\, W^\top \bar x`, plus the shift of class weights.
    rank_ : int
        Rank of the model.
    scalings_ : ndarray of shape (n_features, `rank_`) or (n_samples, `rank_`)
        The projection A of `transform`, of the features or of the kernel functions.
    directions_ : ndarray of shape (n_classes, `rank_`)
        Orthonormal directions V of the classes, with :math:`\sqrt{n/c}\, W = A V^\top`.
    inverse_temperature_ : float
        Factor of the decision values in `predict_proba`, fitted to held-out scores. This and the
        next three attributes are only set with ``probability=True``.
    class_offsets_ : ndarray of shape (n_classes,)
        What `predict_proba` adds to the logits of the classes, because the scores do not depend on
        how frequent the classes are.
    held_out_by_ : str
        How training samples were held out: "one row at a time", "5 folds" or "2,000 rows".
    held_out_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples, each from a model without the sample; only set if
        all samples were held out.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.
    """

    _constraints: dict[str, Any] = {
        "rank": Choice((None,), others=(Number(1, closed="left", integer=True),)),
        "fit_intercept": Boolean(),
        "class_weight": CLASS_WEIGHT,
        "probability": Boolean(),
    }
    _ignores_class_shares = True
    rank: int | None
    scalings_: RealArray

    @lazily
    def transform(self, X: MatrixLike) -> RealArray:
        """Project samples onto the discriminative subspace.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        projected : ndarray of shape (n_samples, `rank_`)
            The samples, centred if `fit_intercept`, times `scalings_`. Components are in decreasing
            order of how well they separate the classes.
        """
        return np.asarray(self._linear_scores(self._new_samples(X), self.scalings_.T, -self._means))

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])

    def _checked_rank(self, prepared: Prepared) -> int:
        """Check the parameter `rank`; None means the largest rank."""
        largest = largest_rank(prepared)
        if self.rank is None or self.rank <= largest:
            return largest if self.rank is None else self.rank
        what = f"{len(prepared.classes)} classes"
        if prepared.regression.centred:
            what += ", whose centred targets have one direction fewer,"
        if prepared.features is not None:
            what += f" and {prepared.features.n_components} components"
        elif prepared.kernel is None:
            what += f" and {prepared.regression.n_features} features"
        raise ValueError(
            f"rank={self.rank} is too large: with {what} the largest rank is {largest}. Use a rank "
            f"from 1 to {largest}, or None for the largest."
        )

    def _store_subspace(
        self, prepared: Prepared, projected: Array, directions: Array, shift: Array
    ) -> None:
        """Set the fitted attributes from the projection A and the directions V of equation (3)."""
        signs, scale = signs_of(directions), Indicators.of(prepared).scale
        directions = directions * signs
        scalings, means = prepared.regression.predictor(projected * signs * scale)
        self.rank_ = projected.shape[1]
        self.directions_ = directions.astype(prepared.dtype)
        self.scalings_ = in_precision(scalings, prepared.dtype)
        self._means = in_precision(means, prepared.dtype)
        self._shift = in_precision(shift, prepared.dtype)
        self._set_coefficients(prepared, scalings @ directions.T, shift - directions @ means)
