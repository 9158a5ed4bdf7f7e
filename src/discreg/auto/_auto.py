"""A classifier that chooses its model, kernel and penalty on held-out samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import validate_data

from discreg.base.calibration import Calibration, Temperature
from discreg.base.caller import user_stacklevel
from discreg.base.candidates import group_numbers
from discreg.base.classifier import BaseClassifier
from discreg.base.early_checks import check_scorer, is_of_single_samples, scorer_of
from discreg.base.folds import warn_of_classes
from discreg.base.left_out import one_column_if_binary
from discreg.blocks.validation import (
    CLASS_WEIGHT,
    Choice,
    Number,
    class_weights,
    encode_labels,
    is_out_of_core,
    new_rows,
    require_fitted,
    row_weights,
    sample_weights,
    training_rows,
)
from discreg.linalg.kernel_approximation import hash_rows
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, ClassWeight, Indices, MatrixLike, RealArray, Scoring
from discreg.tables.frames import is_frame
from discreg.tables.preprocessor import TablePreprocessor

from ._average import average, member_logs
from ._explanation import PredictionExplanation, explain, one_row, rows_to_keep
from ._machines import FAMILIES
from ._scaling import fitted_scalers
from ._scoring import HeldOutScorer
from ._search import Clock, Search
from ._selection import Selection
from ._trials import Samples, Trial, constant_trial, results_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AutoClassifier"]

DEFAULT_FAMILIES = ("LSR", "LRRR", "DRM")  # they have exact leave-one-out scores
MANY_ROWS = 500  # from which candidates are first compared on a part of the rows
PART = 350  # rows of this part
MOST_EXACT = 2_000  # rows up to which kernels are exact and all families are tried
MOST_COMPONENTS, LARGEST_FEATURES = 1_000, 1 << 27  # components, and their number for all rows
POOL = 60  # best candidates that can become members
FEWEST_DISTINCT = 0.5  # share of distinct rows from which equal rows are copies
FEWEST_MIXED = 0.5  # share of rows that occur with several classes in a table of counts


class AutoClassifier(BaseClassifier):
    r"""Classifier that chooses among models, kernels and penalties on held-out samples.

    Least squares regression is tried with linear, RBF and Laplacian kernels of several widths, on
    standard scores and on ranks of the features, with seventeen penalties each; one
    eigendecomposition gives the exact leave-one-out scores of all penalties. Other families are
    tried with the best kernels. Held-out scores become probabilities by one temperature, and
    candidates are compared by their log-loss. Then the probabilities of several candidates are
    averaged as long as the held-out log-loss decreases.

    Where no candidate is better than the class frequencies by more than the standard error, the
    class frequencies are the prediction, and a warning says so.

    Parameters
    ----------
    scoring : str or callable, default=None
        The score that decides: any scikit-learn scorer, by name or as a callable, or "g_mean". None
        means the log-loss; ties go to the smaller log-loss. With a scorer, candidates are also
        tried with balanced class weights. Scorers other than those of labels, the log-loss and the
        Brier score, such as AUC or a callable, are averaged over five folds.
    families : "auto" or sequence of str, default="auto"
        Families to try, among "LSR", "LRRR", "ReLSR", "DRM" and "ODM"; "auto" means LSR, LRRR and
        DRM. LSR is always tried, because it selects the kernels.
    ensemble : bool, default=True
        Whether candidates are averaged; otherwise the best one is the model.
    class_weight : dict or "balanced", default=None
        Weights of the classes. Probabilities and held-out metrics refer to the weighted population.
    time_budget : float, default=None
        Seconds for the search. No candidate starts that is not expected to end in time.
    n_jobs : int, default=None
        Number of parallel jobs, as for joblib.
    random_state : int, RandomState instance or None, default=None
        Draws the rows that approximate a kernel.
    verbose : int, default=0
        If positive, print one line per round, with the best candidate.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    estimators_ : list of Pipeline
        The members, each a scaler and a classifier of the class indices. If the class frequencies
        are the prediction, a :class:`~sklearn.dummy.DummyClassifier`.
    weights_ : ndarray of shape (n_members,)
        Weights of the members' probabilities, which sum to 1.
    preprocessor_ : TablePreprocessor or None
        Converts the columns of a data frame to numbers; ``preprocessor_.left_out_`` names the
        columns that are not used. None for arrays.
    cv_results_ : dict
        All candidates, the best first: family, kernel, parameters, scaling, class weights, held-out
        metrics, time, how samples were held out, and the weight in the average.
    held_out_log_loss_, held_out_accuracy_, held_out_balanced_accuracy_ : float
        Estimates for new samples from held-out training samples. They are corrected by a bootstrap
        for the choice of the best among many candidates.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    LSRClassifierCV : Selects the penalty of one model by exact leave-one-out.

    Notes
    -----
    Up to 500 rows, all candidates are tried on all rows. With more rows, they are compared on some
    350 rows, and the best three kernels and the best candidate of the other families are tried on
    all rows. From 2,000 rows on, only least squares regression is tried, with kernels approximated
    by up to 1,000 components, and 5,000 rows are judged.

    The default families LSR, LRRR and DRM have exact leave-one-out scores. ReLSR and ODM are held
    out in five folds; on the data of the benchmark they did not improve the average.

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
    kernel = "rbf"  # dense and sparse features are accepted
    _constraints = {
        "scoring": Choice(
            (None,),
            test=lambda value: isinstance(value, str) or callable(value),
            described="the name of a scorer or a callable",
        ),
        "ensemble": Choice((True, False)),
        "class_weight": CLASS_WEIGHT,
        "time_budget": Choice((None,), others=(Number(0),)),
        "n_jobs": Choice((None,), others=(Number(integer=True),)),
        "verbose": Choice((True, False), others=(Number(0, closed="left", integer=True),)),
    }

    def __init__(
        self,
        *,
        scoring: Scoring = None,
        families: str | Sequence[str] = "auto",
        ensemble: bool = True,
        class_weight: ClassWeight = None,
        time_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.scoring = scoring
        self.families = families
        self.ensemble = ensemble
        self.class_weight = class_weight
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Training data. The columns of a data frame of pandas or polars, which may contain
            categories, texts, dates and missing values, are converted to numbers by
            :class:`~discreg.TablePreprocessor`.
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
        rows, labels = self._training_rows(X, y)
        self.classes_, indices = encode_labels(labels)
        row_weights(sample_weight, self.class_weight, self.classes_, indices)  # checks all classes
        weights = sample_weights(sample_weight, len(indices))
        numbers = group_numbers(groups, rows, weights)
        seen = np.flatnonzero(weights > 0)
        if len(seen) < len(indices):
            rows, indices, weights = rows[seen], indices[seen], weights[seen]
            numbers = None if numbers is None else np.unique(numbers[seen], return_inverse=True)[1]
        scorer = self._scorer(indices, weights)
        indicators = getattr(self.preprocessor_, "is_indicator_", None)
        scalers = fitted_scalers(rows, weights, indicators)
        samples = self._samples(rows, indices, weights, numbers, scalers, scorer)
        if len(samples.judged):
            given = None if samples.are_duplicates else samples.groups
            warn_of_classes(self.classes_, indices, samples.counted, given, probability=True)
        trials, pool = self._search(samples, scorer, clock)
        constant = constant_trial(samples, scorer)
        selection = Selection.of(pool, constant, samples, scorer, ensemble=self.ensemble)
        self._fit_members(selection, scalers, samples)
        self._rows = rows_to_keep(self.estimators_, seen, indices)
        for name, value in selection.metrics.items():
            setattr(self, f"held_out_{name}_", value)
        self.cv_results_ = results_of([*trials, constant], selection.members, selection.weights)
        return self

    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the logarithms of the members' mean probabilities, before the last calibration.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes, the value of the second less that of the first.
        """
        rows = self._new_rows(X)
        found = [
            member_logs(member, temperature, rows)
            for member, temperature in zip(self.estimators_, self._temperatures, strict=True)
        ]
        return one_column_if_binary(average(found, self.weights_))

    def explain_prediction(self, x: MatrixLike) -> PredictionExplanation:
        """Explain the prediction of one sample by the members' votes and by training rows.

        Parameters
        ----------
        x : {array-like, sparse matrix, DataFrame} of shape (n_features,) or (1, n_features)
            The sample: a row of an array or of a data frame.

        Returns
        -------
        explanation : PredictionExplanation
            Label, probabilities, what each member predicts, and, if members have exact kernels,
            the training rows that speak for and against the prediction. Print it to read it.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from discreg import AutoClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> explanation = AutoClassifier().fit(X[1:], y[1:]).explain_prediction(X[0])
        >>> explanation.label, explanation.rows_for(1)[0].label
        (0, 0)
        """
        row = one_row(x)
        return explain(self, self.predict_log_proba(row)[0], self._new_rows(row))

    def leaderboard(self, n: int = 10) -> pd.DataFrame:
        """Return the best candidates with their held-out metrics.

        The metrics of a candidate are not corrected for the choice of the best.

        Parameters
        ----------
        n : int, default=10
            Number of candidates.

        Returns
        -------
        leaderboard : DataFrame
            The best candidate first; `weight` is that in the average.
        """
        require_fitted(self)
        try:
            import pandas as pd
        except ImportError as error:
            message = "leaderboard needs pandas: pip install pandas. cv_results_ does not."
            raise ImportError(message) from error
        return pd.DataFrame(self.cv_results_).head(n)

    def _check_params(self) -> None:
        super()._check_params()
        is_list = np.iterable(self.families) and not isinstance(self.families, str)
        families = list(self.families) if is_list else []
        unknown = [name for name in families if name not in FAMILIES]
        if unknown or (self.families != "auto" and not families):
            raise ValueError(
                "families must be 'auto' or a list of names among "
                f"{', '.join(map(repr, FAMILIES))}; got {self.families!r}."
            )

    def _training_rows(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Check training data, and convert the columns of a data frame to numbers."""
        self.preprocessor_ = None
        if is_out_of_core(X):
            raise ValueError(
                "AutoClassifier holds rows out and needs them in memory. Fit it to a sample of the "
                "rows, and fit a member of estimators_ to all rows."
            )
        if not is_frame(X):
            return training_rows(self, X, y)
        preprocessor = TablePreprocessor()
        rows, labels = check_X_y(preprocessor.fit_transform(X), y)
        validate_data(self, X, y, skip_check_array=True)  # names and number of columns
        self.preprocessor_ = preprocessor
        return rows, labels

    def _new_rows(self, X: Any) -> Any:
        """Check samples to predict, and convert the columns of a data frame to numbers."""
        require_fitted(self)
        if self.preprocessor_ is None:
            return new_rows(self, X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return self.preprocessor_.transform(X)

    def _scorer(self, y: Indices, weights: Array) -> HeldOutScorer | None:
        if self.scoring is None:
            return None
        scorer = scorer_of(self.scoring, self, self.classes_)
        check_scorer(scorer, self.scoring, self.classes_, y, weights)
        return HeldOutScorer(scorer, self.classes_)

    def _samples(
        self,
        rows: Any,
        y: Indices,
        weights: Array,
        groups: Indices | None,
        scalers: dict[str, Any],
        scorer: HeldOutScorer | None,
    ) -> Samples:
        """Scale the samples and decide how they are held out."""
        sizes = class_sums(y, weights, len(self.classes_))
        hashes, are_duplicates = hash_rows(rows, 0), False
        if groups is None:
            numbers = np.unique(hashes, return_inverse=True)[1]
            are_duplicates = _are_copies(numbers, y, weights)
            groups = numbers if are_duplicates else None
        return Samples.of(
            {name: scaler.transform(rows) for name, scaler in scalers.items()},
            y,
            weights,
            class_weights(self.class_weight, self.classes_, sizes),
            hashes,
            groups,
            are_duplicates=are_duplicates,
            by_folds=scorer is not None and not is_of_single_samples(scorer.scorer),
        )

    def _search(
        self, samples: Samples, scorer: HeldOutScorer | None, clock: Clock
    ) -> tuple[list[Trial], list[Trial]]:
        """Try candidates; return all of them, and the best ones that can be members."""
        if not len(samples.judged):
            return [], []
        families = DEFAULT_FAMILIES if self.families == "auto" else tuple(self.families)
        n_rows, n_components, part = len(samples.y), None, None
        if n_rows > MANY_ROWS:
            part = samples.part(PART)
        if n_rows > MOST_EXACT:
            families = ("LSR",)
            n_components = min(MOST_COMPONENTS, max(1, LARGEST_FEATURES // n_rows))
        tried: list[ClassWeight] = [None]
        if self.class_weight is not None:
            tried = [dict(enumerate(samples.factors.tolist()))]
        elif self.scoring is not None:
            tried.append("balanced")
        search = Search(families, scorer, clock, self.n_jobs, self.verbose)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        found = search.run(samples, part, tried, n_components, seed)
        pool = [trial for trial in found if trial.log_probabilities is not None]
        return search.trials, pool[:POOL]

    def _fit_members(self, selection: Selection, scalers: dict[str, Any], samples: Samples) -> None:
        """Fit the members to all samples, and calibrate their average."""
        if selection.is_constant:
            _warn_of_constant(judged=len(samples.judged) > 0)
            weights = samples.copies * samples.factors[samples.y]
            constant = DummyClassifier(strategy="prior")
            self.estimators_ = [constant.fit(samples.y[:, None], samples.y, weights)]
        else:
            self.estimators_ = [
                self._member(trial, scalers, samples) for trial in selection.members
            ]
        self.weights_ = selection.weights
        self._temperatures = [trial.temperature for trial in selection.members]
        copies = np.maximum(samples.copies[samples.judged], 1.0)
        self._calibrated = Calibration.of(
            selection.log_probabilities,
            samples.y[samples.judged],
            samples.weights,
            samples.weights / copies,
            len(self.classes_),
            Temperature(1.0) if selection.is_constant else None,
        )

    def _member(self, trial: Trial, scalers: dict[str, Any], samples: Samples) -> Pipeline:
        machine = trial.machine
        classifier = machine.classifier(**trial.params)
        classifier.fit(samples.X[machine.scaling], samples.y, samples.copies)
        return Pipeline([("scaler", scalers[machine.scaling]), ("classifier", classifier)])


def _are_copies(numbers: Indices, y: Indices, weights: Array) -> bool:
    """Return whether rows with the same number are copies of one sample.

    A row of a weight above 1 counts as copies. In a table of counts, few rows are distinct and most
    of them occur with several classes: there equal rows are different samples.
    """
    n_distinct, n_classes = int(numbers.max()) + 1, int(y.max()) + 1
    if n_distinct == 1 or (n_distinct == len(y) and weights.max() <= 1):
        return False
    counts = np.zeros((n_distinct, n_classes))
    np.add.at(counts, (numbers, y), weights)
    is_mixed = np.count_nonzero(counts, axis=1) > 1
    share = counts[is_mixed].sum() / weights.sum()
    return bool(n_distinct >= FEWEST_DISTINCT * weights.sum() or share < FEWEST_MIXED)


def _warn_of_constant(*, judged: bool) -> None:
    reason = (
        "No candidate predicts held-out samples better than the class frequencies by more than the "
        "standard error"
        if judged
        else "Every class has only one sample or group, so that none can be held out"
    )
    warnings.warn(
        f"{reason}: the class frequencies are the prediction. Check features and labels, or add "
        "samples.",
        UserWarning,
        stacklevel=user_stacklevel(),
    )
