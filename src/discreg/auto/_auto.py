"""A classifier that chooses its models on held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import validate_data

from discreg.base.calibration import Calibration, Temperature, one_column_if_binary
from discreg.base.caller import Task, warn_user, with_callbacks
from discreg.base.classifier import BaseClassifier
from discreg.base.errors import InputError
from discreg.base.search import group_numbers
from discreg.base.validation import (
    CLASS_WEIGHT,
    Choice,
    Number,
    encode_labels,
    lazily,
    refuse_missing_labels,
    require_fitted,
    sample_weights,
    training_rows,
    validated,
)
from discreg.blocks.opening import open_blocks
from discreg.blocks.source import ArrayBlocks, is_streamed
from discreg.linalg.rows import canonical, class_sums, class_weights, require_weight_in_each_class
from discreg.linalg.types import Array, ClassWeight, MatrixLike, RealArray
from discreg.tables.frames import as_pandas, is_frame
from discreg.tables.preprocessor import TablePreprocessor

from ._candidates import FAMILIES
from ._mixture import Clock, Mixture, Search, log_probabilities
from ._pool import FLOOR
from ._samples import Samples, sample_of_blocks, samples_of

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_FAMILIES = ("kernels", "trees", "boosting", "logistic")
MOST_ROWS = 100_000  # from which on members of trees are fitted to a sample of so many rows
METRICS = ("log_loss", "accuracy", "balanced_accuracy")
WITH_GAPS: dict[str, Any] = {"ensure_all_finite": "allow-nan"}


class AutoClassifier(BaseClassifier):
    r"""Classifier that chooses among many models on held-out samples.

    Each candidate is a model with log-probabilities of samples that it has not seen: least squares
    with linear, polynomial, RBF and Laplacian kernels by exact leave-one-out, retargeted least
    squares (ReLSR), extremely randomised trees out of bag, boosted trees and logistic regression in
    folds. A matrix calibrates the log-probabilities of each one, and the prediction is a weighted
    sum of them with weights for which the held-out samples are most likely.

    Where this is no better than the class frequencies, these are the prediction, and a warning says
    so.

    Parameters
    ----------
    families : "auto" or sequence, default="auto"
        Families to try, among "kernels", "trees", "boosting", "logistic", "DRM", "ODM" and "LRRR";
        "auto" means the first four. A pair of a name and a classifier is a family, too:
        ``["kernels", ("mine", GaussianNB())]``.
    class_weight : dict or "balanced", default=None
        Weights of the classes in decisions: `predict` returns the class with the largest product of
        weight and probability. Probabilities do not depend on it. "balanced" divides by the class
        frequencies.
    time_budget : float, default=None
        Seconds for the search. No candidate starts that is not expected to end in time.
    n_jobs : int, default=None
        Number of parallel jobs, as for joblib.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees; None means 0.
    verbose : int, default=0
        If positive, print one line per round, with the best candidate.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    estimators_ : list
        The members, each with the attributes `family`, `kind`, `scaling`, `model` and `calibrator`.
        Empty if the class frequencies are the prediction.
    weights_ : ndarray of shape (n_members,)
        Weights of the members' log-probabilities, the largest first. Their sum need not be 1.
    preprocessor_ : TablePreprocessor or None
        Converts the columns of a data frame, or of an array with missing values, to numbers;
        ``preprocessor_.left_out_`` names the columns that are not used. None for other arrays.
    cv_results_ : dict
        All candidates, the best first: family, kind, parameters, scaling, held-out metrics, time,
        number of samples, how they were held out, and the weight of members.
    held_out_log_loss_, held_out_accuracy_, held_out_balanced_accuracy_ : float
        Estimates for new samples from held-out training samples. Up to 200 rows, or groups, the fit
        is repeated in five folds for them; otherwise calibrations and weights are.
    held_out_std_error_ : dict
        Standard errors of the three estimates, by metric.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    LSRClassifierCV : Selects the penalty of one model by exact leave-one-out.

    Notes
    -----
    Up to 500 rows, all kernels are tried on all rows. With more rows, their widths are compared on
    some 400 rows; beyond 2,000 rows, kernels are approximated. Up to 5,000 rows, models without
    leave-one-out are held out in five folds, with more rows a quarter of them, at most 5,000 rows.
    Beyond 100,000 rows, and for rows that are not in memory, members are chosen on a sample of
    100,000 rows, and kernels are fitted to all rows.

    Sample weights do not enter the medians and categories of a data frame.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from discreg import AutoClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = AutoClassifier().fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.95
    True
    """

    probability = True
    _log_floor = FLOOR  # of the members' log-probabilities
    kernel = "rbf"  # dense and sparse features are accepted
    _constraints = {
        "class_weight": CLASS_WEIGHT,
        "time_budget": Choice((None,), others=(Number(0),)),
        "n_jobs": Choice((None,), others=(Number(integer=True),)),
        "verbose": Choice((True, False), others=(Number(0, closed="left", integer=True),)),
    }

    def __init__(
        self,
        *,
        families: str | Sequence[Any] = "auto",
        class_weight: ClassWeight = None,
        time_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.families = families
        self.class_weight = class_weight
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose members on held-out samples and fit them to all samples.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame, memory map or dask Array} of shape \
                (n_samples, n_features)
            Training data. The columns of a data frame of pandas or polars, which may contain
            categories, texts, dates and missing values, are converted to numbers by
            :class:`~discreg.TablePreprocessor`, as are arrays with missing values. Large memory
            maps and Dask collections are read block by block.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.
        groups : array-like of shape (n_samples,), default=None
            Group labels of the samples, such as patients, which are held out together. Without
            them, equal rows are held out together, and so is all of the weight of a row. Only in
            a table of counts, where less than half of the rows are distinct and most of them occur
            with several classes, equal rows are different samples.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        clock = Clock(self.time_budget)
        self._check_params()
        families = DEFAULT_FAMILIES if self.families == "auto" else tuple(self.families)
        seed = 0
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        checked = clone(self)  # gets the names of the features; a fit that fails changes nothing
        prepared = checked._prepared(X, y, sample_weight, groups, seed)
        samples, classes, sizes, preprocessor, medians = prepared
        factors = class_weights(self.class_weight, classes, sizes)
        require_weight_in_each_class(sizes * factors, classes, "class_weight")
        task = Task.fit(self, X, y)
        mixture = Search(families, clock, self.n_jobs, self.verbose, task).fit(samples)
        if not mixture.members:
            _warn_of_constant(judged=len(mixture.judged.y) > 0)
        estimates, errors = _estimates(mixture, factors)
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(
            {name: value for name, value in vars(checked).items() if name.endswith("_in_")},
            classes_=classes,
            preprocessor_=preprocessor,
            estimators_=mixture.members,
            weights_=mixture.weights,
            cv_results_=_results(mixture),
            held_out_std_error_=errors,
            _medians=medians,
            _columns=samples.columns,
            _factors=factors,
            _shares=mixture.shares,
            _calibrated=Calibration.of(
                mixture.logs,
                mixture.judged.y,
                mixture.judged.weights,
                len(classes),
                Temperature(1.0),  # the members are calibrated
            ),
            **{f"held_out_{name}_": value for name, value in estimates.items()},
        )
        task.end()
        return self

    @lazily
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the logarithms of the products of class weights and probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes, the value of the second less that of the first.
        """
        return one_column_if_binary(self._log_probabilities(X) + np.log(self._factors))

    @lazily
    def predict_proba(self, X: MatrixLike) -> RealArray:
        """Predict class probabilities, which estimate the population of the training samples.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return np.asarray(softmax(self._log_probabilities(X), axis=1))

    @lazily
    def predict_log_proba(self, X: MatrixLike) -> RealArray:
        """Predict the logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._log_probabilities(X)

    def leaderboard(self, n: int = 10) -> pd.DataFrame:
        """Return the best candidate of each kind with its held-out metrics.

        The metrics of a candidate are not corrected for the choice of the best.

        Parameters
        ----------
        n : int, default=10
            Number of candidates.

        Returns
        -------
        leaderboard : DataFrame
            The best candidate first; `weight` is that of the members of the kind.
        """
        require_fitted(self)
        import pandas as pd  # optional

        found = pd.DataFrame(self.cv_results_)
        weights = found.groupby("kind")["weight"].transform("sum")
        best = found.assign(weight=weights).drop_duplicates("kind")
        return best.head(n).reset_index(drop=True)

    def _check_params(self) -> None:
        super()._check_params()
        is_list = np.iterable(self.families) and not isinstance(self.families, str)
        families = list(self.families) if is_list else []
        if self.families != "auto" and not (families and all(map(_is_family, families))):
            raise ValueError(
                f"families must be 'auto' or a list of names among {', '.join(map(repr, FAMILIES))}"
                " and of pairs of another name and a classifier with predict_proba or "
                f"decision_function; got {self.families!r}."
            )

    def _prepared(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, seed: int
    ) -> tuple[Samples, NDArray[Any], Array, TablePreprocessor | None, Array | None]:
        """Check training data and convert them to samples."""
        if is_streamed(X):
            if groups is not None:
                raise ValueError("groups needs X in memory. Pass X and groups as arrays.")
            source = open_blocks(self, X, y, sample_weight, None)
            is_number = np.zeros(self.n_features_in_, dtype=bool)
            samples = sample_of_blocks(source, MOST_ROWS, is_number, seed)
            return samples, source.layout.classes, source.sizes, None, None
        preprocessor = None
        if is_frame(X):
            refuse_missing_labels(y)
            validate_data(self, X, y, skip_check_array=True)  # names and number of columns
            preprocessor = TablePreprocessor()
            rows = np.asarray(preprocessor.fit_transform(X))
            rows, labels = check_X_y(rows, y, ensure_all_finite=False)
        else:
            rows, labels = training_rows(self, X, y, **WITH_GAPS)
            values = rows.data if sparse.issparse(rows) else rows
            if np.isnan(values).any():
                if sparse.issparse(rows):
                    raise ValueError("X is sparse and contains NaN. Fill in missing values.")
                preprocessor = TablePreprocessor()
                rows = np.asarray(preprocessor.fit_transform(np.asarray(rows)))
        is_plain = preprocessor is None and not sparse.issparse(rows)
        medians = np.median(rows, axis=0) if is_plain else None
        classes, indices = encode_labels(labels)
        weights = sample_weights(sample_weight, len(indices))
        sizes = class_sums(indices, weights, len(classes))
        require_weight_in_each_class(sizes, classes, "sample_weight")
        numbers = group_numbers(groups, rows, weights)
        is_number = np.zeros(rows.shape[1], dtype=bool)
        is_indicator = is_number if preprocessor is None else preprocessor.is_indicator_
        if len(indices) > MOST_ROWS and numbers is None:
            source = ArrayBlocks(rows, indices, weights, None)
            samples = sample_of_blocks(source, MOST_ROWS, is_indicator, seed)
            return samples, classes, sizes, preprocessor, medians
        seen = np.flatnonzero(weights > 0)
        if len(seen) < len(indices):
            rows, indices, weights = rows[seen], indices[seen], weights[seen]
            numbers = None if numbers is None else np.unique(numbers[seen], return_inverse=True)[1]
        samples = samples_of(rows, indices, weights, numbers, len(classes), is_indicator, seed)
        return samples, classes, sizes, preprocessor, medians

    def _log_probabilities(self, X: Any) -> Array:
        rows = self._new_rows(X)
        if self._columns is not None and not sparse.issparse(rows):
            rows = rows[:, self._columns]
        found = log_probabilities(self.estimators_, self.weights_, self._shares, rows)
        if not np.isfinite(found).all():
            raise ValueError(
                "The scores of these samples overflow. Scale the features as in training."
            )
        return found

    def _new_rows(self, X: Any) -> Any:
        """Check samples to predict, and convert them to numbers."""
        require_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if self.preprocessor_ is not None:
            if is_frame(X) and names is not None:
                _warn_of_columns(as_pandas(X), names, self.preprocessor_.categories_)
            return np.asarray(self.preprocessor_.transform(X))
        rows = canonical(validated(self, X, reset=False, **WITH_GAPS))
        if sparse.issparse(rows) or self._medians is None:
            return rows
        missing = np.isnan(rows)
        return np.where(missing, self._medians, rows) if missing.any() else rows

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "classes_" in state and "_factors" not in state:
            raise InputError(
                "This AutoClassifier was fitted by discreg 0.2.0, which combined models in another "
                "way. Predict with that release, or fit it again."
            )
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _warn_of_columns(frame: Any, names: Any, categories: dict[str, list[Any]]) -> None:
    """Warn of columns and categories that the training rows do not have."""
    from discreg.tables.column_types import as_categories  # imports pandas; arrays do not need it

    if extra := [name for name in frame if name not in set(names)]:
        warn_user(f"{_named(extra, 'is', 'are')} not among those of the fit, and ignored.")
    unseen = []
    for name in categories.keys() & set(frame):
        found = {text for text in as_categories(frame[name]) if isinstance(text, str)}
        if not found <= set(map(str, categories[name])):
            unseen.append(name)
    if unseen:
        which = _named(sorted(unseen), "has", "have")
        warn_user(
            f"{which} categories that the training rows do not have. They count as rare ones."
        )


def _named(names: list[str], verb: str, verbs: str) -> str:
    """Write the beginning of a sentence about columns."""
    shown = ", ".join(map(repr, names[:3])) + ", ..." * (len(names) > 3)
    return f"Column {shown} {verb}" if len(names) == 1 else f"Columns {shown} {verbs}"


def _warn_of_constant(*, judged: bool) -> None:
    reason = (
        "No candidate predicts held-out samples better than the class frequencies"
        if judged
        else "Every class has only one sample or group, so that none can be held out"
    )
    warn_user(
        f"{reason}: the class frequencies are the prediction. Check features and labels, or add "
        "samples."
    )


def _is_family(family: Any) -> bool:
    """Return whether an item of `families` is a name, or a pair of a name and a classifier."""
    if isinstance(family, str):
        return family in FAMILIES
    is_pair = isinstance(family, tuple | list) and len(family) == 2
    if not is_pair or not isinstance(family[0], str) or family[0] in FAMILIES:
        return False
    return hasattr(family[1], "fit") and (
        hasattr(family[1], "predict_proba") or hasattr(family[1], "decision_function")
    )


def _estimates(mixture: Mixture, factors: Array) -> tuple[dict[str, float], dict[str, float]]:
    """Estimate the metrics on new samples, and their standard errors over units."""
    judged, logs = mixture.judged, mixture.logs
    if not len(judged.y):
        return dict.fromkeys(METRICS, np.nan), dict.fromkeys(METRICS, np.nan)
    y, weights = judged.y, judged.weights
    right = (logs + np.log(factors)).argmax(axis=1) == y
    sums = class_sums(y, weights, logs.shape[1])
    of_class = weights.sum() / np.count_nonzero(sums) / np.where(sums > 0, sums, np.inf)
    recall = class_sums(y, weights * right, logs.shape[1]) / np.where(sums > 0, sums, 1.0)
    values = {
        "log_loss": (-logs[np.arange(len(y)), y], weights),
        "accuracy": (right.astype(float), weights),
        "balanced_accuracy": (right.astype(float), weights * of_class[y]),
    }
    found, errors = {}, {}
    units = np.unique(judged.units, return_inverse=True)[1]
    for name, (value, each) in values.items():
        mean = float(each @ value / each.sum())
        centre = recall[y] if name == "balanced_accuracy" else mean
        of_units = np.bincount(units, each * (value - centre)) / each.sum()
        found[name], errors[name] = mean, float(np.sqrt(of_units @ of_units))
    return found, errors


def _results(mixture: Mixture) -> dict[str, list[Any]]:
    """Describe candidates, those on most samples and the best first, as the columns of a table."""
    judged = mixture.judged
    pairs: list[tuple[Any, float]] = list(zip(mixture.candidates, mixture.pooled, strict=True))
    pairs.sort(key=lambda pair: (-pair[0].n_samples, pair[0].log_loss))
    names = ("family", "kind", "params", "scaling", "log_loss", "accuracy",
             "balanced_accuracy", "seconds", "n_samples", "held_out")  # fmt: skip
    columns: dict[str, list[Any]] = {
        name: [getattr(each, name) for each, _ in pairs] for name in names
    }
    columns["weight"] = [weight for _, weight in pairs]
    if len(judged.y):
        rows = np.arange(len(judged.y))
        prior = np.log(np.maximum(mixture.shares, 1e-300))
        shares = judged.weights / judged.weights.sum()
        constant: dict[str, Any] = {
            "family": "constant", "kind": "class frequencies", "params": {}, "scaling": "none",
            "log_loss": float(-shares @ prior[judged.y]),
            "accuracy": float(shares @ (judged.y == prior.argmax())),
            "balanced_accuracy": 1 / len(prior),
            "seconds": 0.0, "n_samples": columns["n_samples"][0] if pairs else len(rows),
            "held_out": "not held out", "weight": float(not mixture.members),
        }  # fmt: skip
        for name, value in constant.items():
            columns[name].append(value)
    return columns
