"""The page of the results that ``auto.py`` has stored: ranks, means, tests and pictures.

Run ``python benchmarks/auto_report.py`` whenever there are more rows. Tables that are variants of
one base set, such as ecoli1 and ecoli2, are averaged before anything is ranked or tested. Base sets
are in two halves by a hash of their names, one to choose defaults on and one to judge them;
`CHOSEN_ON` says how far this holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import pandas as pd
from _auto_tables import base_set, half, load
from _timing import RESULTS, Table, write_page
from auto import COLUMNS, COVERAGE, CPU_SECONDS, FOLDER, KEY, SIZES
from scipy import stats

from discreg.comparison.report.figures import styled, svg
from discreg_reproduction.rank_figures import critical_difference_figure
from discreg_reproduction.ranks import Ranking, critical_difference

OURS = "AutoClassifier"
GRID = "SVC"  # whose time is the standard
N_LOST = 12  # base sets that are shown where a peer wins
FEW = 250
FALLBACK = "Dummy"
# Whether a larger value is better.
MEASURES = {"accuracy": True, "balanced_accuracy": True, "log_loss": False, "auc": True}
LABELS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log-loss",
    "auc": "AUC",
}
CHOSEN_ON = (
    "Families, kernels, widths and the weights of the members were chosen on the base sets of the "
    "choosing half (see auto_families.md and auto_constants.md); the judged half is judged on the "
    "splits other than the first, where there are any. The two are not entirely independent: "
    "before this division existed, kernels were chosen on the first split of 72 KEEL tables of "
    "both halves, and the results of earlier defaults on the judged half were known when the "
    "present ones were chosen. A loss on poker, which is judged, led to the penalty of boosting."
)
CHOOSING_SPLIT = 0
HALVES = ("choosing", "judged", "all")
PACKAGES = ("lightgbm", "catboost", "xgboost", "xrfm", "torch")
SETUP = (
    f"{'{}'} training rows, drawn with stratification from 70 % of the rows of a table, and at "
    "most 2,000 test rows from the others. KEEL tables have their raw values; ARFF tables keep "
    "categories and missing values; classes of fewer than 4 rows are left out. Peers get standard "
    "scores, medians for missing values and indicators for categories, except boosted trees. "
    "Searches in 5 stratified folds of the training rows: SVC (6 C × 5 gamma) and KNN (10 "
    "settings) by accuracy; LogisticRegression (7 C), LightGBM (300 rounds) and HistGB (2 learning "
    "rates × 2 numbers of leaves, on one fifth of the rows beyond 6 classes), MLP (2 penalties) "
    "and xRFM (3 bandwidths × 2 penalties, the mean of 5 models) by log-loss. Forests have 400 "
    "trees, CatBoost 600 rounds. LDA shrinks automatically. SVC has no probabilities; its AUC is "
    "that of its decision function. AutoGluon (1.6.3, only with at most 2,000 rows) has medium "
    "quality without fastai's network, at most 60 seconds and one core."
)


def rows_of(size: str) -> pd.DataFrame:
    """All stored rows of a size, the last one of each fit."""
    files = sorted(FOLDER.glob(f"{size}_*.csv"))
    if not files:
        return pd.DataFrame(columns=COLUMNS)
    rows = pd.concat([pd.read_csv(path) for path in files], ignore_index=True)
    return rows.drop_duplicates(list(KEY), keep="last")


def shared(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of splits of which all peers have results; ours without one counts as the prior."""
    n_models = rows["model"].nunique()
    rows = rows[(rows["status"] == "ok") | (rows["model"] == OURS)]
    rows = rows[rows.groupby(["table", "split"])["model"].transform("nunique") == n_models]
    rows = rows.set_index(["table", "split"]).sort_index()
    prior = rows[rows["model"] == FALLBACK].reindex(rows.index)
    failed = (rows["status"] != "ok").to_numpy()
    for measure in MEASURES:
        rows.loc[failed, measure] = prior.loc[failed, measure].to_numpy()
    rows = rows.reset_index()
    return rows.assign(base=rows["table"].map(base_set))


def part(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of a half: of the judged one, those of splits on which nothing was chosen."""
    if name == "all":
        return rows
    chosen = rows["base"].map(half) == name
    if name == "judged" and rows["split"].nunique() > 1:
        chosen &= rows["split"] != CHOOSING_SPLIT
    return rows[chosen]


def by_base_set(rows: pd.DataFrame, measure: str, name: str = "all") -> pd.DataFrame:
    """Means of base sets in the rows, models in the columns; models without it are left out."""
    rows = part(rows, name)
    tables = rows.groupby(["base", "table", "model"])[measure].mean()
    return tables.groupby(["base", "model"]).mean().unstack().dropna(axis=1)


def ranks(scores: pd.DataFrame, measure: str) -> pd.Series:
    """Mean ranks of the models; the best has rank 1."""
    rounded = scores.round(12)  # rounding errors must not break ties
    return rounded.rank(axis=1, ascending=not MEASURES[measure]).mean()


def ranks_table(rows: pd.DataFrame, title: str, text: str) -> Table:
    """Mean ranks by all measures, on both halves and together."""
    columns = {}
    for measure in MEASURES:
        for name in HALVES:
            scores = by_base_set(rows, measure, name)
            columns[f"{LABELS[measure]}, {name}"] = ranks(scores, measure)
    frame = pd.DataFrame(columns).sort_values("accuracy, all")
    return Table(title, text, ("model", *frame.columns), _cells(frame, 2))


def means_table(rows: pd.DataFrame, size: str) -> Table:
    """Means over base sets, and the median time."""
    frame = pd.DataFrame({LABELS[name]: by_base_set(rows, name).mean() for name in MEASURES})
    timed = rows[rows["status"] == "ok"].groupby("model")["seconds"]
    frame = frame.sort_values("accuracy", ascending=False)
    seconds = pd.DataFrame({"median": timed.median(), "mean": timed.mean(), "longest": timed.max()})
    cells = zip(_cells(frame, 4), _cells(seconds.loc[frame.index], 3), strict=True)
    text = "Means over base sets, and CPU seconds of a fit with its search in one thread."
    if {OURS, GRID} <= set(frame.index):
        times = rows.pivot(index=["table", "split"], columns="model", values="seconds")
        text += (
            f" Of the same table, {OURS} took {(times[OURS] / times[GRID]).median():.2f} times as "
            f"long as the grid of {GRID} in the median."
        )
    return Table(
        f"Means, at most {SIZES[size]:,} training rows",
        text,
        ("model", *frame.columns, "median seconds", "mean seconds", "longest"),
        [[*scores, *times[1:]] for scores, times in cells],
    )


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's correction of p-values."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1, np.maximum.accumulate(factors * p_values[order]))
    return corrected


def tests_table(rows: pd.DataFrame, name: str) -> Table:
    """Wilcoxon's signed-rank tests of AutoClassifier against every peer on one half."""
    columns: dict[str, dict[str, str]] = {}
    for measure, larger_is_better in MEASURES.items():
        scores = by_base_set(rows, measure, name).round(12)
        peers = [peer for peer in scores.columns if peer not in (OURS, FALLBACK)]
        gains = {peer: (scores[OURS] - scores[peer]).to_numpy() for peer in peers}
        if not larger_is_better:
            gains = {peer: -gain for peer, gain in gains.items()}
        p_values = holm(np.array([_wilcoxon(gain) for gain in gains.values()]))
        columns[LABELS[measure]] = {
            peer: f"{(gain > 0).sum()}/{(gain == 0).sum()}/{(gain < 0).sum()}, {p_value:.2g}"
            for (peer, gain), p_value in zip(gains.items(), p_values, strict=True)
        }
    frame = pd.DataFrame(columns).fillna("")
    return Table(
        f"{OURS} and each peer, {name} base sets",
        "Base sets where it is better, equal and worse, and the p-value of Wilcoxon's signed-rank "
        "test with Holm's correction over the peers.",
        ("peer", *frame.columns),
        [(peer, *cells) for peer, *cells in frame.itertuples()],
    )


def _wilcoxon(gains: np.ndarray) -> float:
    return stats.wilcoxon(gains, zero_method="zsplit").pvalue if gains.any() else 1.0


def lost_table(rows: pd.DataFrame) -> Table:
    """The base sets on which the best peer has the largest lead."""
    scores = by_base_set(rows, "log_loss")
    peers = scores.drop(columns=OURS)
    lead = (scores[OURS] - peers.min(axis=1)).sort_values(ascending=False).head(N_LOST)
    sizes = rows.groupby("base")[["n_train", "n_features", "n_classes"]].median().astype(int)
    accuracies = by_base_set(rows, "accuracy")
    cells = []
    for base in lead.index:
        peer = peers.loc[base].idxmin()
        pairs = [frame.loc[base, name] for frame in (scores, accuracies) for name in (OURS, peer)]
        cells.append([base, *sizes.loc[base], peer, *(f"{value:.3f}" for value in pairs)])
    messy = rows.loc[rows["table"].str.startswith("arff/"), "base"].unique()
    n_messy = sum(base in messy for base in lead.index)
    n_small = int((sizes.loc[lead.index, "n_train"] < FEW).sum())
    return Table(
        "Where a peer wins",
        "The base sets on which the peer with the smallest log-loss has the largest lead. Sizes "
        f"are medians of the variants of a base set. {n_messy} of {len(cells)} have ARFF tables, "
        f"with categories and missing values, and {n_small} have fewer than {FEW} training rows. "
        "On small tables a choice among many candidates misleads more often, and a linear model or "
        "a forest can be the better first guess; on large ones trees or a learned metric (xRFM) "
        "find rules about single columns, which kernels of all columns learn slowly.",
        (
            *("base set", "rows", "features", "classes", "peer"),
            *("log-loss", "of the peer", "accuracy", "of the peer"),
        ),
        cells,
    )


def estimates_table(rows: pd.DataFrame) -> Table:
    """How well AutoClassifier estimates its own scores, and the coverage of its sets."""
    ours = rows[(rows["model"] == OURS) & (rows["status"] == "ok")]
    apart = {
        "held-out accuracy": ours["held_out_accuracy"] - ours["accuracy"],
        "held-out log-loss": ours["held_out_log_loss"] - ours["log_loss"],
        "coverage": ours["coverage"] - COVERAGE,
    }
    known = {name: values.dropna() for name, values in apart.items() if values.notna().any()}
    return Table(
        f"Estimates of {OURS}",
        f"Its held-out scores minus those on test rows, and the coverage of its prediction sets "
        f"minus {COVERAGE:.0%}; mean size of a set: {ours['set_size'].mean():.2f} classes.",
        ("estimate", "mean difference", "mean absolute difference", "fits"),
        [
            (name, f"{values.mean():+.4f}", f"{values.abs().mean():.4f}", len(values))
            for name, values in known.items()
        ],
    )


def draw(rows: pd.DataFrame, size: str, measure: str, name: str) -> str:
    """Draw a critical-difference diagram and return the name of its file."""
    scores = by_base_set(rows, measure, name)
    n_sets, n_models = scores.shape
    ranking = Ranking(
        mean_ranks=ranks(scores, measure).sort_values(),
        statistic=np.nan,
        p_value=np.nan,
        critical_difference=critical_difference(n_models, n_sets),
        n_blocks=n_sets,
        blocks="data sets",
        left_out=(),
        caution="",
    )
    with styled():
        text = svg(critical_difference_figure(ranking))
    path = RESULTS / f"auto_{size}_{measure}.svg"
    path.write_text(text)
    return path.name


def describe(size: str, stored: pd.DataFrame, rows: pd.DataFrame) -> str:
    """What was compared, and what is missing."""
    bases = rows["base"].unique()
    n_judged = sum(half(base) == "judged" for base in bases)
    late = stored[stored["status"] != "ok"]
    counts = late.groupby(["model", "table"]).size()
    failed = ", ".join(f"{model} on {table} ({n})" for (model, table), n in counts.items())
    n_fits = stored.groupby("model").size()
    dropped = {name: load(name).n_dropped for name in rows["table"].unique()}
    rare = ", ".join(f"{name} {n}" for name, n in dropped.items() if n)
    splits = rows.groupby("table")["split"].nunique().value_counts().sort_index()
    shown = ", ".join(f"{n} tables with {k} split{'s' * (k > 1)}" for k, n in splits.items())
    return " ".join(
        [
            f"At most {SETUP.format(f'{SIZES[size]:,}')}",
            f"{len(rows['table'].unique())} tables ({shown}) of {len(bases)} base sets, "
            f"{n_judged} of them judged, have rows of all {rows['model'].nunique()} models; stored "
            f"fits by model: {n_fits.min()} to {n_fits.max()}.",
            f"Splits on which a peer has no result within {CPU_SECONDS[size]} CPU seconds are left "
            f"out; {OURS} without a result counts as the prior. Without a result: "
            f"{failed or 'none'}.",
            f"Classes left out: {rare or 'none'}." if size == "small" else "",
            f"Peers: {', '.join(f'{name} {version(name)}' for name in PACKAGES)}.",
        ]
    )


def tables_of(size: str) -> Iterator[Table]:
    """All tables of a size."""
    stored = rows_of(size)
    rows = shared(stored)
    if rows["base"].nunique() < 2:
        return
    name = "judged" if OURS in rows["model"].unique() else "all"
    pictures = " ".join(
        f"![Critical differences, {LABELS[measure]}, {name}]({draw(rows, size, measure, name)})"
        for measure in ("accuracy", "log_loss")
    )
    yield ranks_table(
        rows,
        f"{OURS} and its peers, at most {SIZES[size]:,} training rows: mean ranks",
        f"{describe(size, stored, rows)}\n\n{CHOSEN_ON}\n\n"
        "Mean ranks over base sets (1 is the best); pictures: "
        f"{name} base sets.\n\n{pictures}",
    )
    yield means_table(rows, size)
    if OURS in rows["model"].unique():
        yield tests_table(rows, "judged")
        yield tests_table(rows, "all")
        yield lost_table(rows)
        yield estimates_table(rows)


def _cells(frame: pd.DataFrame, digits: int) -> list[list[str]]:
    return [
        [str(model), *("" if np.isnan(value) else f"{value:.{digits}f}" for value in values)]
        for model, *values in frame.itertuples()
    ]


def main() -> None:
    print(write_page("auto", [table for size in SIZES for table in tables_of(size)]))


if __name__ == "__main__":
    main()
