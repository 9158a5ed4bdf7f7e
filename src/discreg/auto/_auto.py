"""A classifier that chooses its model, kernel and penalty on held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.dummy import DummyClassifier
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import validate_data

from discreg.base.calibration import Calibration, Temperature
from discreg.base.callbacks import Task, with_callbacks
from discreg.base.candidates import group_numbers
from discreg.base.classifier import BaseClassifier
from discreg.base.early_checks import check_scorer, is_of_single_samples, scorer_of
from discreg.base.folds import warn_of_classes
from discreg.base.left_out import one_column_if_binary
from discreg.blocks.lazy import lazily
from discreg.blocks.source import BlockSource, open_blocks
from discreg.blocks.validation import (
    CLASS_WEIGHT,
    Choice,
    Number,
    class_weights,
    encode_labels,
    is_streamed,
    new_rows,
    require_fitted,
    row_weights,
    sample_weights,
    training_rows,
)
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, ClassWeight, Indices, MatrixLike, RealArray, Scoring
from discreg.tables.frames import is_frame
from discreg.tables.preprocessor import TablePreprocessor

from ._average import average, member_logs
from ._explanation import PredictionExplanation, explain, one_row, rows_to_keep
from ._machines import FAMILIES
from ._members import fitted_member, n_components_for, warn_of_constant, warn_of_families
from ._rows import sample_of_blocks, samples_of
from ._scaling import fitted_scalers
from ._scoring import HeldOutScorer
from ._search import Clock, Search
from ._selection import Selection
from ._trials import Samples, Trial, constant_trial, results_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AutoClassifier"]

DEFAULT_FAMILIES = ("LSR", "LRRR")  # for few rows; only LSR for many
MANY_ROWS = 500  # from which candidates are first compared on a part of the rows
PART = 350  # rows of this part
MOST_EXACT = 2_000  # rows up to which kernels are exact and all families are tried
MANY_FOR_KERNELS = 1_000_000  # rows from which models are linear


class AutoClassifier(BaseClassifier):
    r"""Classifier that chooses among models, kernels and penalties on held-out samples.

    Least squares regression is tried with linear, RBF and Laplacian kernels of several widths on
    standard scores, and with Laplacian kernels on ranks of the features, with seventeen penalties
    each; one eigendecomposition gives the exact leave-one-out scores of all penalties. Other
    families are tried with the best kernels. Held-out scores become probabilities by one
    temperature, and the best penalty is that of the smallest log-loss. The prediction is the
    weighted mean of the probabilities of up to six such candidates, with weights for which the
    held-out samples are most likely.

    Where no candidate is better than the class frequencies by more than the standard error, the
    class frequencies are the prediction, and a warning says so.

    Parameters
    ----------
    scoring : str or callable, default=None
        The score that decides: any scikit-learn scorer, by name or as a callable, or "g_mean". None
        means the log-loss; ties go to the smaller log-loss. With a scorer, candidates are also
        tried with balanced class weights, and members are added one by one as long as the score of
        the average increases. Scorers other than those of labels, the log-loss and the
        Brier score, such as AUC or a callable, are averaged over five folds.
    families : "auto" or sequence of str, default="auto"
        Families to try, among "LSR", "LRRR", "ReLSR", "DRM" and "ODM"; "auto" means LSR, and LRRR
        up to 500 rows. LSR is always tried, because it selects the kernels. Beyond 2,000 rows, only
        LSR is tried, and a warning names other families that are given.
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
        Weights of the members' probabilities, which sum to 1, the largest first.
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
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    LSRClassifierCV : Selects the penalty of one model by exact leave-one-out.

    Notes
    -----
    Up to 500 rows, all candidates are tried on all rows. With more rows, they are compared on some
    350 rows, and the best three kernels and, if other families are given, their best candidate are
    tried on all rows. From 2,000 rows on, only least squares regression is tried, with kernels
    approximated by up to 1,000 components, and 5,000 rows are judged. From a million rows on,
    models are linear.

    The members for rows that are not in memory (large memory maps and Dask collections) are chosen
    on a sample of at most some 4,000 rows, which has at least ten rows of each class, drawn by a
    hash of their values. The scalers are fitted to the sample, the members to all rows.

    LSR, LRRR and DRM have exact leave-one-out scores. ReLSR and ODM are held out in five folds. On
    the data that the default was chosen on, DRM, ReLSR and ODM improved the average little, and
    took more time.

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
            :class:`~discreg.TablePreprocessor`. Members are chosen on a sample of the rows of a
            large memory map or a Dask collection, and fitted to all rows block by block.
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
        source = None
        if is_streamed(X):
            source, rows, labels, sample_weight = self._rows_of_blocks(X, y, sample_weight, groups)
        else:
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
        sizes = class_sums(indices, weights, len(self.classes_))
        factors = class_weights(self.class_weight, self.classes_, sizes)
        by_folds = scorer is not None and not is_of_single_samples(scorer.scorer)
        scaled = {name: scaler.transform(rows) for name, scaler in scalers.items()}
        samples = samples_of(rows, scaled, indices, weights, factors, numbers, by_folds=by_folds)
        if len(samples.judged):
            given = None if samples.are_duplicates else samples.groups
            warn_of_classes(self.classes_, indices, samples.counted, given, probability=True)
        task = Task.fit(self, rows, labels)
        trials, pool = self._search(samples, scorer, clock, source, task)
        constant = constant_trial(samples, scorer)
        selection = Selection.of(pool, constant, samples, scorer, ensemble=self.ensemble)
        members = task.begin("fit of the members")
        self._fit_members(selection, scalers, samples, source)
        members.end()
        self._rows = rows_to_keep(self.estimators_, seen, indices)
        for name, value in selection.metrics.items():
            setattr(self, f"held_out_{name}_", value)
        self.cv_results_ = results_of([*trials, constant], selection.members, selection.weights)
        task.end()
        return self

    @lazily
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the logarithms of the members' mean probabilities.

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
        if not is_frame(X):
            return training_rows(self, X, y)
        preprocessor = TablePreprocessor()
        rows, labels = check_X_y(preprocessor.fit_transform(X), y)
        validate_data(self, X, y, skip_check_array=True)  # names and number of columns
        self.preprocessor_ = preprocessor
        return rows, labels

    def _rows_of_blocks(
        self, X: Any, y: Any, sample_weight: Any, groups: Any
    ) -> tuple[BlockSource, Any, NDArray[Any], Array]:
        """Draw the rows to choose members on; the members are fitted to all rows of the source."""
        if groups is not None:
            raise ValueError("groups needs X in memory. Pass X and groups as arrays.")
        self.preprocessor_ = None
        source = open_blocks(self, X, y, sample_weight, None)
        rows, indices, weights = sample_of_blocks(source)
        return source, rows, source.layout.classes[indices], weights

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

    def _search(
        self,
        samples: Samples,
        scorer: HeldOutScorer | None,
        clock: Clock,
        source: BlockSource | None,
        task: Task,
    ) -> tuple[list[Trial], list[Trial]]:
        """Try candidates; return all of them, and the best ones that can be members."""
        if not len(samples.judged):
            return [], []
        families = DEFAULT_FAMILIES if self.families == "auto" else tuple(self.families)
        n_rows, n_components, part = len(samples.y), None, None
        if n_rows > MANY_ROWS:
            part = samples.part(PART)
            families = ("LSR",) if self.families == "auto" else families
        if source is not None:
            n_rows = source.n_rows
        if source is not None or n_rows > MOST_EXACT:
            if self.families != "auto":
                warn_of_families(families)
            families = ("LSR",)
            n_components = n_components_for(n_rows)
        tried: list[ClassWeight] = [None]
        if self.class_weight is not None:
            tried = [dict(enumerate(samples.factors.tolist()))]
        elif self.scoring is not None:
            tried.append("balanced")
        linear = n_rows >= MANY_FOR_KERNELS
        search = Search(families, scorer, clock, self.n_jobs, self.verbose, task, linear=linear)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        found = search.run(samples, part, tried, n_components, seed)
        return search.trials, [trial for trial in found if trial.log_probabilities is not None]

    def _fit_members(
        self,
        selection: Selection,
        scalers: dict[str, Any],
        samples: Samples,
        source: BlockSource | None,
    ) -> None:
        """Fit the members to all samples, and keep their held-out mean for prediction sets."""
        if selection.is_constant:
            warn_of_constant(judged=len(samples.judged) > 0)
            weights = samples.copies * samples.factors[samples.y]
            constant = DummyClassifier(strategy="prior")
            self.estimators_ = [constant.fit(samples.y[:, None], samples.y, weights)]
        else:
            self.estimators_ = [
                fitted_member(trial, scalers, samples, source) for trial in selection.members
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
            Temperature(1.0),  # the members are calibrated
        )
