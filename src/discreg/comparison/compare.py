"""`discreg.compare`: which classifier to use on a table, and how certain that is."""

from __future__ import annotations

import os
from contextlib import ExitStack
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from discreg.base.errors import InputError

if TYPE_CHECKING:
    from .result import Comparison

__all__ = ["compare", "number_of_jobs"]


def compare(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    scoring: Any = None,
    pos_label: Any = None,
    candidates: Any = None,
    exclude: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    cv: Any = None,
    test: Any = None,
    time_column: Any = None,
    drop: Any = None,
    output: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    time_budget: float | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Comparison:
    """Compare classifiers on a table by nested cross-validation and recommend one.

    Every model is tuned on the training rows of each fold, together with the preprocessing of the
    columns, and scored on the test rows. The verdict says which model to use and how certain that
    is, or that nothing beats the majority class.

    Parameters
    ----------
    X : DataFrame, array, sparse array, str or path
        The table: a data frame of pandas or polars, an array, a sparse array, or a file in any
        format that ``discreg compare`` reads.
    y : array-like of shape (n_samples,), default=None
        Labels; None if a column of X holds them.
    target : str, default=None
        Name of the column of labels.
    scoring : str or callable, default=None
        The metric that tunes and ranks models: a scorer of scikit-learn, by name or as a callable,
        or "g_mean". None means accuracy, or balanced accuracy if the rarest class has less than
        20 % of the rows or fewer than 30 rows.
    pos_label : str or int, default=None
        With two classes, the one that precision, recall and average precision refer to; the rarer
        one by default.
    candidates : list or dict, default=None
        Models to compare: names such as "ReLSR" and "SVC", estimators, or a dict of names and
        estimators; None means all. A pipeline gets the table itself, other estimators get the
        features of :class:`~discreg.TablePreprocessor`. Own estimators are not tuned.
    exclude : str or list of str, default=None
        Names of models to leave out.
    groups : str or array-like of shape (n_samples,), default=None
        Column, or values, whose rows stay together in all folds, such as patients.
    sample_weight : str or array-like of shape (n_samples,), default=None
        Column, or values, of sample weights. Models without them are left out.
    cv : int, splitter, iterable of splits or str, default=None
        Number of folds, a splitter of scikit-learn, training and test rows of each fold, or the
        name of a column with the fold that tests each row. None means 2 x 5 stratified folds, one
        repeat above 5,000 rows, and 3 folds above 50,000 rows.
    test : DataFrame, str, path or tuple (X, y), default=None
        A test table, which makes the only split.
    time_column : str or array-like of shape (n_samples,), default=None
        Column, or values, that order the rows in time. Training rows are then earlier than test
        rows, also where parameters are selected; AutoClassifier selects on all training rows.
    drop : str or list of str, default=None
        Columns to leave out.
    output : str or path, default=None
        Folder for the report, the results and the model. Fits that are stored there are not
        repeated. None stores nothing.
    n_jobs : int, default=None
        Number of processes; None and -1 mean one per core.
    time_budget : float, default=None
        Seconds after which running fits are stopped.
    random_state : int, default=0
        Seed of folds and models.
    verbose : int, default=0
        If positive, show the progress.

    Returns
    -------
    comparison : Comparison
        The verdict, the table of models, the recommended model and the report.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import discreg
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> comparison = discreg.compare(X, y, candidates=["LSR", "LDA"], cv=3, n_jobs=1)
    >>> comparison.verdict.recommended
    'LDA'
    """
    if time_budget is not None and not (isinstance(time_budget, Real) and time_budget > 0):
        raise InputError(f"time_budget is a number of seconds above 0, not {time_budget!r}.")
    n_workers = number_of_jobs(n_jobs)
    try:
        from .execute import execute
        from .prepare import prepare
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"discreg.compare needs {error.name}: pip install 'discreg[compare]'.", name=error.name
        ) from error
    prepared = prepare(
        X,
        y,
        target=target,
        scoring=scoring,
        pos_label=pos_label,
        candidates=candidates,
        exclude=exclude,
        groups=groups,
        sample_weight=sample_weight,
        cv=cv,
        test=test,
        time_column=time_column,
        drop=drop,
        random_state=random_state,
        command=_call(X, target),
    )
    with ExitStack() as stack:
        if output is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="discreg-")))
        else:
            folder = Path(output)
        on_progress = None
        if verbose > 0:
            from .console import ProgressBar, show_prepared

            show_prepared(prepared)
            on_progress = stack.enter_context(ProgressBar())
        comparison, _ = execute(
            prepared,
            folder,
            n_jobs=n_workers,
            time_budget=time_budget,
            on_progress=on_progress,
            is_kept=output is not None,
        )
    return comparison


def number_of_jobs(n_jobs: int | None) -> int:
    """Return the number of processes; None and negative numbers mean one per core."""
    if n_jobs == 0:
        raise InputError("n_jobs is 0. Give a number of processes, or None for one per core.")
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return n_jobs if n_jobs is not None and n_jobs > 0 else n_cores or 1


def _call(X: Any, target: str | None) -> str:
    data = repr(str(X)) if isinstance(X, str | Path) else "X"
    labels = f"target={target!r}" if target is not None else "y"
    return f"discreg.compare({data}, {labels})"
