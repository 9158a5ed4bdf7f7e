"""`discreg.compare`: which classifier to use on a table, and how certain that is."""

from __future__ import annotations

import os
from contextlib import ExitStack
from inspect import Parameter, signature
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from discreg.base.errors import InputError

from .command import PYTHON, how_to_install

if TYPE_CHECKING:
    from .result import Comparison


def compare(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    scoring: Any = None,
    pos_label: Any = None,
    candidates: Any = None,
    exclude: Any = None,
    groups: Any = "auto",
    sample_weight: Any = None,
    cv: Any = None,
    test: Any = None,
    time_column: Any = None,
    drop: Any = None,
    subgroup: str | None = None,
    accept: Any = (),
    recall: float | None = None,
    precision: float | None = None,
    costs: dict[Any, float] | None = None,
    output: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    time_budget: float | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Comparison:
    """Compare classifiers on a table by nested cross-validation and recommend one.

    Every model is tuned on the training rows of each fold, together with the preprocessing of the
    columns, and predicts the test rows. All scores, labels and intervals follow from these held-out
    probabilities. The verdict says which model to use, how good it will be and against what, or
    that nothing is better than the class frequencies, or why the scores are not those of new rows.

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
        or "g_mean". None means log-loss.
    pos_label : str or int, default=None
        With two classes, the one that precision, recall and average precision refer to; the rarer
        one by default.
    candidates : list or dict, default=None
        Models to compare: names such as "ReLSR" and "SVC", estimators, or a dict of names and
        estimators; None means those that `docs/comparison.md` lists. A pipeline gets the table
        itself, other estimators get the features of :class:`~discreg.TablePreprocessor`. Own
        estimators are not tuned; without probabilities they are calibrated.
    exclude : str or list of str, default=None
        Names of models to leave out.
    groups : str, array-like of shape (n_samples,) or None, default="auto"
        Column, or values, whose rows stay together in all folds, such as patients. "auto" groups
        by a repeating identifier all of whose rows have one label, if there is one.
    sample_weight : str or array-like of shape (n_samples,), default=None
        Column, or values, of sample weights. Models without them are left out.
    cv : int, splitter, iterable of splits or str, default=None
        Number of folds, a splitter of scikit-learn, training and test rows of each fold, or the
        name of a column with the fold that tests each row. None means 10 stratified folds, 5 above
        5,000 rows and 3 above 50,000.
    test : DataFrame, str, path or tuple (X, y), default=None
        A test table. The model that is chosen without it is scored on it once.
    time_column : str or array-like of shape (n_samples,), default=None
        Column, or values, that order the rows in time. Training rows are then earlier than test
        rows, also where parameters are selected; AutoClassifier selects on all training rows.
    drop : str or list of str, default=None
        Columns to leave out.
    subgroup : str, default=None
        Column for whose values the recommended model is also measured separately.
    accept : str or list of str, default=()
        Kinds of red flags, or columns, that are no fault; they do not replace the recommendation.
    recall, precision : float, default=None
        With two classes, what the threshold of the positive class is to reach on held-out rows.
    costs : dict, default=None
        By label, the cost of a row of that class with another label (1 if it is not named). At most
        one of `recall`, `precision` and `costs` is given; without them labels are the most probable
        classes or, if one of two classes is rare, follow the threshold of the prior.
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
    call = _call(dict(locals()))
    if time_budget is not None and not (isinstance(time_budget, Real) and time_budget > 0):
        raise InputError(f"time_budget is a number of seconds above 0, not {time_budget!r}.")
    n_workers = number_of_jobs(n_jobs)
    try:
        from discreg.tables.table import as_table

        from .execute import execute
        from .prepare import Decision, Plan, prepare
    except ImportError as error:
        raise ImportError(how_to_install(error), name=error.name) from error
    fold = cv if isinstance(cv, str) else None
    is_auto = isinstance(groups, str) and groups == "auto"
    table = as_table(
        X,
        y,
        target=target,
        drop=drop,
        test=test,
        fold=fold,
        groups=None if is_auto else groups,
        sample_weight=sample_weight,
        time=time_column,
    )
    plan = Plan(
        scoring=scoring,
        pos_label=pos_label,
        candidates=candidates,
        exclude=exclude,
        cv=None if fold is not None else cv,
        group_by_default=is_auto,
        subgroup=subgroup,
        accept=[accept] if isinstance(accept, str) else list(accept),
        decision=Decision(
            recall=recall,
            precision=precision,
            costs=None if costs is None else {str(label): c for label, c in costs.items()},
        ),
        random_state=random_state,
        source=str(X) if isinstance(X, str | Path) else None,
        command=call,
    )
    prepared = prepare(table, plan)
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


def _call(arguments: dict[str, Any]) -> str:
    """Write the call of `compare` that has these arguments; objects are called like arguments."""
    texts = []
    for name, parameter in signature(compare).parameters.items():
        value = arguments[name]
        if isinstance(value, Path):
            value = str(value)
        is_plain = _is_plain(value)
        if value is parameter.default or (is_plain and value == parameter.default):
            continue
        text = repr(value) if is_plain else name
        texts.append(text if parameter.kind is not Parameter.KEYWORD_ONLY else f"{name}={text}")
    return f"{PYTHON}{', '.join(texts)})"


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (str, int, float, bool)
