"""Default penalties by measurement on real data. Run as ``python benchmarks/defaults.py``.

The data are read from the folder that DISCREG_DATA names, or from ``../shared/data`` beside the
repository; what is missing there is skipped and named on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
from _timing import RESULTS, machine
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from discreg import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier
from discreg.retargeted import _base
from discreg.retargeted._path import fit_path

BETA, GROUPWISE = 0.3, 0.1  # the choice that the page explains
BETAS = (100, 30, 10, 3, 1, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
GROUPWISES = (0.01, 0.1, 1, 10)  # 0 is ReLSR
SMALLEST = 1e-3  # beta for the other values of groupwise: fits below it are slow and no better
MODELS = ("LSR", "DLSR", "ReLSR", "GReLSR")
CLASSES = dict(
    zip(MODELS, (LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier), strict=True)
)
PEERS = {
    "RidgeClassifier": RidgeClassifier(),
    "LinearSVC": LinearSVC(random_state=0),
    "LogisticRegression": LogisticRegression(max_iter=1000),
}
KERNEL_PEERS = {"SVC": SVC()}
SCALINGS = ("raw", "standardised")
REPEATS, REPEATS_LONG = 5, 3  # the second where rows are long and classes many
TRAIN_SHARE, MAX_TRAIN, MAX_TRAIN_WIDE, MAX_TEST = 0.4, 800, 250, 2000
WIDE = 200  # features
SMALL = 1000  # rows
STOP = {"tol": 1e-3, "max_iter": 50}
GROUPS = {
    "few features": ("iris", "wine", "glass", "vowel", "vehicle", "tic-tac-toe", "shuttle"),
    "digits, letters, DNA": (
        *("dna", "optdigits_1797", "pendigits", "usps_9298", "mnist", "binalpha36"),
    ),
    "faces and objects": ("coil20_16x16", "att_28x23", "umist_28x23", "jaffe_26x26"),
    "gene expression": ("colon", "leukemia_golub38", "lung_gordon", "nci9"),
    "two classes": tuple(
        f"odm/{name}"
        for name in (
            *("echocardiogram", "balloons", "hepatitis", "promoters", "planning", "colic"),
            *("parkinsons", "sonar", "house-votes", "heart-h", "heart-c", "breast"),
            *("cylinder-bands", "liverDisorders", "clean1", "wdbc", "isolet", "credit-a"),
            *("australian", "diabetes", "fourclass", "german"),
        )
    ),
    "imbalanced (KEEL)": tuple(
        f"keel/{name}"
        for name in (
            *("haberman", "ecoli1", "ecoli2", "ecoli3", "ecoli4", "glass2", "glass4", "glass6"),
            *("new-thyroid2", "yeast3", "yeast-2_vs_4", "yeast-0-5-6-7-9_vs_4", "yeast-1_vs_7"),
            *("cleveland-0_vs_4", "page-blocks-1-3_vs_4"),
        )
    ),
}
DRAWN = {"usps_9298": 2000, "mnist": 2000, "shuttle": 2000}  # rows drawn first
BALANCED_DRAW = {"usps_9298"}  # as many rows of every class, as in the ReLSR paper


# Data ------------------------------------------------------------------------------------------


def data_folder():
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("DISCREG_DATA", beside))


def load(name, folder):
    """Features and labels, or None where the file is missing."""
    packed, table = folder / f"{name}.npz", folder / f"{name}.csv.gz"
    if packed.exists():
        with np.load(packed) as arrays:
            return arrays["X"].astype(np.float64), arrays["y"].astype(str)
    if table.exists():
        frame = pd.read_csv(table)
        features = frame.drop(columns=["y", "fold", "split"], errors="ignore")
        return features.to_numpy(np.float64), frame["y"].to_numpy().astype(str)
    return None


def draw(name, X, y, seed):
    """Training and test rows of one repeat: a stratified split of 40 % to 60 %, capped."""
    random = np.random.default_rng(seed)
    rows = np.arange(len(y))
    if name in BALANCED_DRAW:
        classes = np.unique(y)
        size = DRAWN[name] // len(classes)
        rows = np.concatenate(
            [random.choice(np.flatnonzero(y == k), size, replace=False) for k in classes]
        )
    elif name in DRAWN:
        rows = random.choice(rows, DRAWN[name], replace=False)
    classes, counts = np.unique(y[rows], return_counts=True)
    rows = rows[np.isin(y[rows], classes[counts > 1])]  # a single row cannot be split
    most = MAX_TRAIN_WIDE if X.shape[1] >= WIDE else MAX_TRAIN
    n_train = min(round(TRAIN_SHARE * len(rows)), most)
    n_test = min(len(rows) - round(TRAIN_SHARE * len(rows)), MAX_TEST)
    train, test = train_test_split(
        rows, train_size=n_train, test_size=n_test, stratify=y[rows], random_state=seed
    )
    return X[train], y[train], X[test], y[test]


# Measurement -----------------------------------------------------------------------------------


def scores(y, predicted):
    """Accuracy and the mean recall of the classes, in per cent."""
    right = y == predicted
    recalls = [right[y == label].mean() for label in np.unique(y)]
    return 100 * float(right.mean()), 100 * float(np.mean(recalls))


def along_grid(classifier, X, y, X_test, y_test, smallest=0.0):
    """Scores and seconds of CPU for every beta."""
    grid = [{"beta": float(beta)} for beta in BETAS if beta >= smallest]
    fits = fit_path(classifier, X, y, None, grid)
    found = []
    before = process_time()
    for fit in fits:
        seconds = process_time() - before
        found.append((*scores(y_test, fit.predict(X_test)), seconds))
        before = process_time()
    return found


def measure(name, X, y, scaling, seed):
    """Scores of all models and peers on one split."""
    X, y, X_test, y_test = draw(name, X, y, seed)
    if scaling != "raw":
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    kernel = scaling == "rbf"
    options = {"kernel": "rbf"} if kernel else {}
    values, counts = np.unique(y, return_counts=True)
    constant = np.full(len(y_test), values[counts.argmax()])
    found = {"majority": [scores(y_test, constant)]}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        _base.NEXT_TO_NOTHING = 0  # small problems stop there too
        data = (X, y, X_test, y_test)
        found["LSR"] = along_grid(LSRClassifier(**options), *data)
        for model in ("DLSR", "ReLSR"):
            found[model] = along_grid(CLASSES[model](**STOP, **options), *data)
        for groupwise in (GROUPWISE,) if kernel else GROUPWISES:
            classifier = GReLSRClassifier(groupwise=groupwise, **STOP, **options)
            smallest = 0.0 if groupwise == GROUPWISE else SMALLEST
            found[_grelsr(groupwise)] = along_grid(classifier, *data, smallest=smallest)
        for peer, classifier in (KERNEL_PEERS if kernel else PEERS).items():
            found[peer] = [scores(y_test, classifier.fit(X, y).predict(X_test))]
    return found


def _grelsr(groupwise):
    return f"GReLSR {groupwise:g}"


def run(folder, n_jobs):
    """Measure everything; the scores by kind of features and data set, averaged over repeats."""
    start = perf_counter()
    result = {"missing": [], "shapes": {}, "scores": {}, "machine": machine()}
    for name in (name for group in GROUPS.values() for name in group):
        data = load(name, folder)
        if data is None:
            result["missing"].append(name)
            print(f"{name}: missing", flush=True)
            continue
        X, y = data
        before = perf_counter()
        result["shapes"][name] = (*X.shape, len(np.unique(y)))
        kinds = SCALINGS if X.shape[1] >= WIDE or len(y) > SMALL else (*SCALINGS, "rbf")
        long = X.shape[1] >= WIDE and len(np.unique(y)) >= 10
        repeats = REPEATS_LONG if long else REPEATS
        for kind in kinds:
            parts = Parallel(n_jobs=n_jobs)(
                delayed(measure)(name, X, y, kind, seed) for seed in range(repeats)
            )
            result["scores"].setdefault(kind, {})[name] = {
                key: np.mean([part[key] for part in parts], axis=0).tolist() for key in parts[0]
            }
        print(
            f"{name}: {perf_counter() - before:.1f} s",
            flush=True,
        )
    result["seconds"] = perf_counter() - start
    return result


# Reading the scores ------------------------------------------------------------------------------


def table(result, kind, model, column=0):
    """Scores of a model, one row a data set and one column a beta."""
    key = _grelsr(GROUPWISE) if model == "GReLSR" else model
    sets = result["scores"][kind].values()
    return np.array([[setting[column] for setting in found[key]] for found in sets])


def regret(values):
    return values.max(axis=1, keepdims=True) - values


def summary(regrets, names):
    """Mean regret, mean rank and worst regret with its data set, for every beta."""
    ranks = rankdata(regrets.round(9), axis=1).mean(axis=0)
    worst = regrets.argmax(axis=0)
    return [
        (f"{mean:.2f}", f"{rank:.1f}", f"{regrets[row, i]:.1f} ({names[row % len(names)]})")
        for i, (mean, rank, row) in enumerate(
            zip(regrets.mean(axis=0), ranks, worst, strict=True)
        )
    ]


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def short(name):
    return name.partition("/")[2] or name


def bold(beta):
    return f"**{beta:g}**" if beta == BETA else f"{beta:g}"


def by_model(result, model, names):
    """Table of one model: regret on raw and standardised features, rank and worst case."""
    raw, standardised = (regret(table(result, kind, model)) for kind in SCALINGS)
    both = summary(np.vstack([raw, standardised]), names)
    seconds = sum(table(result, kind, model, 2).mean(axis=0) for kind in SCALINGS) / 2
    rows = [
        (bold(b), f"{r:.2f}", f"{s:.2f}", *cells, f"{1e3 * t:.0f}")
        for b, r, s, cells, t in zip(
            BETAS, raw.mean(axis=0), standardised.mean(axis=0), both, seconds, strict=True
        )
    ]
    header = ("beta", "raw", "standardised", "both", "mean rank", "worst", "ms a fit")
    return markdown(header, rows)


def all_models(result, kinds, models=MODELS):
    """Regret of each data set at every beta, averaged over models and kinds of features."""
    return np.mean([regret(table(result, k, m)) for k in kinds for m in models], axis=0)


def one_for_all(result):
    """Table of the mean over the four models, with the distance to the best beta."""
    rows = []
    parts = [all_models(result, (kind,)).mean(axis=0) for kind in SCALINGS]
    both = all_models(result, SCALINGS)
    columns = {"both": both, "standardised": all_models(result, SCALINGS[1:])}
    above = {name: _above_best(values) for name, values in columns.items()}
    for i, beta in enumerate(BETAS):
        means = (f"{part[i]:.2f}" for part in parts)
        median = f"{np.median(both[:, i]):.2f}"
        rows.append((bold(beta), *means, f"{both[:, i].mean():.2f}", median,
                     *(above[name][i] for name in columns)))
    header = ("beta", "raw", "standardised", "both", "median of both",
              "above best, both", "above best, standardised")
    return markdown(header, rows)


def _above_best(regrets):
    extra = regrets - regrets[:, [regrets.mean(axis=0).argmin()]]
    errors = extra.std(axis=0, ddof=1) / np.sqrt(len(extra))
    return [f"{m:.2f} ± {e:.2f}" for m, e in zip(extra.mean(axis=0), errors, strict=True)]


def by_group(result):
    """Table of the best beta in each group of data sets, and the regret at the default."""
    names = list(result["shapes"])
    rows = []
    for group, members in GROUPS.items():
        index = [i for i, name in enumerate(names) if name in members]
        for kind in SCALINGS:
            cells = []
            for model in MODELS:
                means = regret(table(result, kind, model))[index].mean(axis=0)
                at = means[BETAS.index(BETA)]
                cells.append(f"{BETAS[means.argmin()]:g}: {means.min():.2f}, {at:.2f}")
            rows.append((group, len(index), kind, *cells))
    return markdown(("data sets", "number", "features", *MODELS), rows)


def by_groupwise(result):
    """Table of GReLSR's mean regret against the best of all its settings."""
    betas = [beta for beta in BETAS if beta >= SMALLEST]
    total = 0
    for kind in SCALINGS:
        sets = result["scores"][kind].values()
        keys = ("ReLSR", *(_grelsr(value) for value in GROUPWISES))
        cube = np.array([[[s[0] for s in f[key]][: len(betas)] for key in keys] for f in sets])
        total = total + cube.max(axis=(1, 2), keepdims=True) - cube
    mean = total.mean(axis=0) / len(SCALINGS)
    rows = [
        (f"{value:g}", *(f"{cell:.2f}" for cell in line))
        for value, line in zip((0, *GROUPWISES), mean, strict=True)
    ]
    return markdown(("groupwise", *(bold(beta) for beta in betas)), rows)


def kernel_part(result):
    regrets = {model: regret(table(result, "rbf", model)) for model in MODELS}
    above = _above_best(all_models(result, ("rbf",)))
    rows = [
        (bold(beta), *(f"{r[:, i].mean():.2f}" for r in regrets.values()), above[i],
         f"{max(r[:, i].max() for r in regrets.values()):.1f}")
        for i, beta in enumerate(BETAS)
    ]
    return markdown(("beta", *MODELS, "above best, all four", "worst"), rows)


def balanced_part(result):
    """Regret in balanced accuracy on the imbalanced sets, raw and standardised together."""
    members = GROUPS["imbalanced (KEEL)"]
    index = [i for i, name in enumerate(result["shapes"]) if name in members]
    rows = []
    parts = [
        sum(regret(table(result, kind, model, column)[index]) for kind in SCALINGS).mean(axis=0) / 2
        for column in (0, 1)
        for model in MODELS
    ]
    for i, beta in enumerate(BETAS):
        rows.append((bold(beta), *(f"{part[i]:.2f}" for part in parts)))
    names = (*(f"{model}, acc." for model in MODELS), *(f"{model}, bal." for model in MODELS))
    return markdown(("beta", *names), rows)


def defaults_of(result, kind, column=0):
    """Scores with the defaults, models and peers, one row a data set."""
    at = BETAS.index(BETA)
    peers = KERNEL_PEERS if kind == "rbf" else PEERS
    columns = {model: table(result, kind, model, column)[:, at] for model in MODELS}
    return columns | {p: table(result, kind, p, column)[:, 0] for p in ("majority", *peers)}


def elsewhere(result):
    """Accuracies with the beta that is best for all four models on the other data sets."""
    both = all_models(result, SCALINGS)
    rest = both.sum(axis=0) - both
    chosen = rest.argmin(axis=1)
    return {
        kind: {m: table(result, kind, m)[np.arange(len(both)), chosen].mean() for m in MODELS}
        for kind in SCALINGS
    }


def peers_part(result):
    found = {kind: defaults_of(result, kind) for kind in SCALINGS}
    honest = elsewhere(result)
    rows = []
    for name in (*MODELS, *PEERS, "majority"):
        means = [found[kind][name].mean() for kind in SCALINGS]
        wins = [
            sum(_beats(found[kind], name, peer) for kind in SCALINGS) if name in MODELS else ""
            for peer in PEERS
        ]
        more = ("", "")
        if name in MODELS:
            best = [table(result, kind, name).max(axis=1).mean() for kind in SCALINGS]
            more = (
                " / ".join(f"{honest[kind][name]:.2f}" for kind in SCALINGS),
                " / ".join(f"{value:.2f}" for value in best),
            )
        wins = [f"{w[0]}:{w[1]}" if len(w) else "" for w in wins]
        rows.append((name, *(f"{mean:.2f}" for mean in means), *more, *wins))
    versus = (f"against {peer}" for peer in PEERS)
    header = ("", *SCALINGS, "beta chosen on the other sets", "best beta of each set", *versus)
    return markdown(header, rows)


def _beats(columns, name, peer):
    difference = columns[name] - columns[peer]
    return np.array([np.sum(difference > 1e-9), np.sum(difference < -1e-9)])


def by_set(result):
    found = {kind: defaults_of(result, kind) for kind in SCALINGS}
    rows = []
    for i, (name, shape) in enumerate(result["shapes"].items()):
        cells = (
            " / ".join(f"{found[kind][key][i]:.1f}" for kind in SCALINGS)
            for key in (*MODELS, *PEERS)
        )
        majority = f"{found['raw']['majority'][i]:.1f}"
        rows.append((short(name), " x ".join(map(str, shape)), majority, *cells))
    header = ("data set", "rows x features x classes", "majority", *MODELS, *PEERS)
    return markdown(header, rows)


def page(result):
    names = [short(name) for name in result["shapes"]]
    kernel = defaults_of(result, "rbf")
    linear = defaults_of(result, "standardised")
    small = [list(result["shapes"]).index(name) for name in result["scores"]["rbf"]]
    kernel_means = ", ".join(
        f"{name} {values.mean():.2f}" for name, values in kernel.items() if name != "majority"
    )
    linear_means = ", ".join(f"{m} {linear[m][small].mean():.2f}" for m in MODELS)
    parts = [TEXT.format(**result, n_sets=len(names), beta=BETA, groupwise=GROUPWISE,
        minutes=result["seconds"] / 60, skipped=", ".join(map(short, result["missing"])) or "none")]
    parts += ["## One value for the four models", one_for_all(result)]
    parts += ["## Each model"]
    for model in MODELS:
        parts += [f"### {model}", by_model(result, model, names)]
    parts += ["## Groups of data sets", by_group(result)]
    parts += ["## The group weight of GReLSR", by_groupwise(result)]
    parts += ["## Kernel rbf", f"{len(small)} {kernel_means} {linear_means}", kernel_part(result)]
    parts += ["## Imbalanced", balanced_part(result)]
    parts += ["## Peers", peers_part(result)]
    parts += ["## Data sets", by_set(result)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


TEXT = """
# Default penalties
{n_sets} {beta:g} {groupwise:g} {minutes:.0f} {skipped} {machine}
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-jobs", type=int, default=1, help="repeats measured at once")
    parser.add_argument("--scores", type=Path, help="file of scores: read if it exists")
    arguments = parser.parse_args()
    if arguments.scores and arguments.scores.exists():
        result = json.loads(arguments.scores.read_text())
    else:
        with threadpool_limits(1):
            result = run(data_folder(), arguments.n_jobs)
        if arguments.scores:
            arguments.scores.write_text(json.dumps(result))
    text = page(result)
    (RESULTS / "defaults.md").write_text(text)
    print(text)
