"""Ways to convert tables to numbers: missing values, scales of indicators, rare categories, texts.

Run ``python benchmarks/table_preprocessing.py``; it takes about eight minutes on one core. The
tables are the ARFF files in the folder named by ``DISCREG_DATA``, or in ``../shared/data`` beside
the repository. The texts are the first sentences of the docstrings of installed packages. Where
skrub is installed, its TableVectorizer is a peer.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from _timing import Table, one_thread, write_page
from default_penalties import DATA
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from discreg import LSRClassifier, LSRClassifierCV, TablePreprocessor
from discreg.tables.column_types import checked_cells
from discreg.tables.formats import read_contents

MODELS = {
    "LSR, rbf": LSRClassifierCV(LSRClassifier(kernel="rbf")),
    "LSR, laplacian": LSRClassifierCV(LSRClassifier(kernel="laplacian")),
    "random forest": RandomForestClassifier(random_state=0),
}
SPLITS, MOST_ROWS, MOST_TESTED = 3, 500, 2000
SMALLEST_CLASS = 4
LEAST_PROBABILITY = 1e-3
DEFAULT = "TablePreprocessor(scale=True)"
PACKAGES = ("dask", "matplotlib", "numpy", "pandas", "scipy", "sklearn")
N_TEXTS = 400, 1000  # for training and for testing

Parts = tuple[pd.DataFrame, pd.DataFrame]


def default(parts: Parts, **params) -> tuple[TablePreprocessor, list[np.ndarray]]:
    """The fitted preprocessor, and the features of the training rows and of the test rows."""
    preprocessor = TablePreprocessor(scale=True, **params).fit(parts[0])
    return preprocessor, [preprocessor.transform(part) for part in parts]


def most_frequent(parts: Parts) -> Parts:
    """Replace missing categories by the most frequent one."""
    kinds = TablePreprocessor().fit(parts[0]).kinds_
    kinds = {name: kind for name, kind in kinds.items() if kind == "categorical"}
    # "?" is missing, too
    train, test = (pd.DataFrame(checked_cells(part, kinds)) for part in parts)
    for name in kinds:
        for part in (test, train):
            part[name] = pd.Categorical(part[name].fillna(train[name].mode()[0]))
    return tuple(
        part.assign(**{name: filled[name].array for name in kinds})
        for part, filled in zip(parts, (train, test), strict=True)
    )


def without_missing_indicators(parts: Parts) -> list[np.ndarray]:
    preprocessor, features = default(parts)
    names = preprocessor.get_feature_names_out()
    kept = [not name.startswith("missingindicator_") for name in names]
    return [part[:, kept] for part in features]


def indicators_scaled(
    parts: Parts, factor: Callable[[np.ndarray], np.ndarray | float]
) -> list[np.ndarray]:
    """Multiply the indicators of each categorical column by a factor of their frequencies."""
    preprocessor, features = default(parts)
    end = features[0].shape[1]  # no table has texts, whose features would be the last
    for categories in reversed(preprocessor.categories_.values()):
        start = end - min(len(categories), preprocessor.max_categories)
        frequencies = features[0][:, start:end].mean(axis=0)
        for part in features:
            part[:, start:end] *= factor(frequencies)
        end = start
    return features


def all_standardised(parts: Parts) -> list[np.ndarray]:
    _, (train, test) = default(parts)
    scaler = StandardScaler().fit(train)
    return [scaler.transform(train), scaler.transform(test)]


def with_order(parts: Parts) -> list[np.ndarray]:
    """Add the place of each category in the order of the file, standardised."""
    preprocessor, features = default(parts)
    names = [name for name, values in preprocessor.categories_.items() if 2 < len(values) <= 20]
    if not names:
        return features
    orders = [[str(value) for value in parts[0][name].cat.categories] for name in names]
    coded = make_pipeline(
        OrdinalEncoder(categories=orders, handle_unknown="use_encoded_value", unknown_value=np.nan),
        SimpleImputer(strategy="median", keep_empty_features=True),
        StandardScaler(),
    )
    strings = [part[names].astype(object) for part in parts]
    coded.fit(strings[0])
    return [
        np.hstack([each, coded.transform(part)])
        for each, part in zip(features, strings, strict=True)
    ]


def skrub(parts: Parts) -> list[np.ndarray]:
    from skrub import TableVectorizer

    imputer = SimpleImputer(keep_empty_features=True)
    vectorizer = make_pipeline(TableVectorizer(), imputer, StandardScaler()).fit(parts[0])
    return [np.asarray(vectorizer.transform(part)) for part in parts]


def spread(frequencies: np.ndarray) -> np.ndarray:
    return np.maximum(frequencies * (1 - frequencies), 1e-9)


WAYS = {
    DEFAULT: lambda parts: default(parts)[1],
    "missing categories: the most frequent one": lambda parts: default(most_frequent(parts))[1],
    "without indicators of missing numbers": without_missing_indicators,
    "both of these": lambda parts: without_missing_indicators(most_frequent(parts)),
    "indicators / √2": partial(indicators_scaled, factor=lambda p: np.sqrt(0.5)),
    "indicators · √2": partial(indicators_scaled, factor=lambda p: np.sqrt(2)),
    "indicators / √(number of categories)": partial(
        indicators_scaled, factor=lambda p: 1 / np.sqrt(len(p))
    ),
    "indicators: variance 1 per column of the table": partial(
        indicators_scaled, factor=lambda p: 1 / np.sqrt(spread(p).sum())
    ),
    "indicators standardised": partial(indicators_scaled, factor=lambda p: 1 / np.sqrt(spread(p))),
    "all features standardised": all_standardised,
    "at most 10 categories": lambda parts: default(parts, max_categories=10)[1],
    "places of categories as numbers too": with_order,
    "skrub.TableVectorizer, standardised": skrub,
}
TEXT = (
    "Mean log-loss and accuracy (in percent) on the other rows of {} random splits of {} tables "
    f"with at most {MOST_ROWS} training rows: of two kernels of `LSRClassifierCV`, and of a random "
    "forest, which is not affected by scales. Differences of the log-loss to the first line, with "
    "their standard errors over tables, are over the tables on which the features differ. Two "
    "tables, anneal and anneal.orig, have the same contents. One, trains, has ten rows: its large "
    "differences are part of the means, and the counts of tables do not depend on their size. The "
    "defaults were chosen beforehand among 23 ways, on 14 of the tables with 250 training rows."
)


def tables() -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Yield names, features and labels of the tables; one label is in the first column."""
    for path in sorted((DATA / "arff").glob("*.arff*")):
        frame = read_contents(path).X
        is_last = isinstance(frame.dtypes.iloc[-1], pd.CategoricalDtype)
        target = frame.columns[-1 if is_last else 0]
        y = frame[target].astype(str)
        kept = y.map(y.value_counts()) >= SMALLEST_CLASS
        yield path.name, frame[kept].drop(columns=target), y[kept].to_numpy()


def scores_of(features, labels) -> np.ndarray:
    """Log-loss and accuracy of each model."""
    (X, X_test), (y, y_test) = features, labels
    scores = []
    for model in MODELS.values():
        model = clone(model).fit(X, y)
        found = np.maximum(model.predict_proba(X_test), LEAST_PROBABILITY)
        loss = log_loss(y_test, found / found.sum(axis=1, keepdims=True), labels=model.classes_)
        scores.append((loss, 100 * model.score(X_test, y_test)))
    return np.array(scores)


def on_splits(X, y, ways, **sizes) -> np.ndarray:
    """Scores by split, way, model and metric; equal features are scored once."""
    scores = []
    for seed in range(SPLITS):
        train, test = train_test_split(np.arange(len(y)), stratify=y, random_state=seed, **sizes)
        test = test[:MOST_TESTED]
        known: dict[bytes, np.ndarray] = {}
        for way in ways.values():
            features = way((X.iloc[train], X.iloc[test]))
            key = b"".join(part.tobytes() for part in features)
            if key not in known:
                known[key] = scores_of(features, (y[train], y[test]))
            scores.append(known[key])
    return np.reshape(scores, (SPLITS, len(ways), len(MODELS), 2))


def rows_of(ways, scores: np.ndarray) -> Iterator[list[str]]:
    """Lines of a page: scores are by table, way, model and metric."""
    for place, way in enumerate(ways):
        cells = [way]
        for model in range(len(MODELS)):
            loss, accuracy = scores[:, place, model].mean(axis=0)
            apart = scores[:, place, model, 0] - scores[:, 0, model, 0]
            apart = apart[apart != 0]
            error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
            counts = f"{(apart > 0).sum()} worse, {(apart < 0).sum()} better"
            written = f"{apart.mean():+.4f} ± {error:.4f} ({counts})" if len(apart) > 1 else ""
            cells += [f"{loss:.4f}", written, f"{accuracy:.2f}"]
        yield cells


def header(first: str) -> list[str]:
    parts = ("log-loss", "difference", "accuracy")
    return [first, *(f"{model}: {part}" for model in MODELS for part in parts)]


def sentences() -> tuple[pd.DataFrame, np.ndarray]:
    """The first sentences of docstrings, without the name of the package, and the packages."""
    found: dict[str, str] = {}
    site = Path(np.__file__).parents[1]
    for package in PACKAGES:
        for path in sorted((site / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                is_documented = isinstance(node, ast.FunctionDef | ast.ClassDef)
                words = ((is_documented and ast.get_docstring(node)) or "").split("\n\n")[0].split()
                words = [word for word in words if package not in word.lower()]
                if len(words) >= 3:
                    found.setdefault(" ".join(words), package)
    return pd.DataFrame({"text": list(found)}), np.array(list(found.values()))


def words(parts: Parts, **params) -> list[np.ndarray]:
    vectorizer = TfidfVectorizer(sublinear_tf=True, **params).fit(parts[0]["text"])
    return [vectorizer.transform(part["text"]).toarray() for part in parts]


def analysed(parts: Parts, n_components: int, **params) -> list[np.ndarray]:
    vectorizer = TfidfVectorizer(sublinear_tf=True, **params)
    reduced = make_pipeline(vectorizer, TruncatedSVD(n_components, random_state=0))
    reduced.fit(parts[0]["text"])
    return [reduced.transform(part["text"]) for part in parts]


N_GRAMS = {"analyzer": "char_wb", "ngram_range": (3, 4)}
WAYS_OF_TEXTS = {
    DEFAULT: WAYS[DEFAULT],
    "10 features": lambda parts: default(parts, max_text_features=10)[1],
    "20 features": lambda parts: default(parts, max_text_features=20)[1],
    "not scaled": partial(analysed, n_components=30, **N_GRAMS),
    "every feature standardised": all_standardised,
    "words instead of n-grams, not scaled": partial(analysed, n_components=30),
    "50 most frequent words": partial(words, max_features=50),
    "50 most frequent words but stop words": partial(words, max_features=50, stop_words="english"),
    "200 most frequent n-grams": partial(words, max_features=200, **N_GRAMS),
}
TEXT_OF_TEXTS = (
    "The same for texts: from the first sentence of a docstring to its package, one of "
    f"{', '.join(PACKAGES)}; {{}} splits with {N_TEXTS[0]} training texts. The standard errors are "
    "over splits."
)


@one_thread
def on_table(name: str, X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Mean scores of a table by way, model and metric."""
    warnings.simplefilter("ignore")
    scores = on_splits(X, y, WAYS, train_size=min(MOST_ROWS, len(y) // 2)).mean(axis=0)
    print(name, len(y), scores[:, :, 0].round(4).tolist(), flush=True)
    return scores


@one_thread
def main() -> None:
    warnings.simplefilter("ignore")
    scores = [on_table(*each) for each in tables()]
    X, y = sentences()
    of_texts = on_splits(X, y, WAYS_OF_TEXTS, train_size=N_TEXTS[0], test_size=N_TEXTS[1])
    page = [
        Table(
            "Tables to numbers",
            TEXT.format(SPLITS, len(scores)),
            header("features"),
            rows_of(WAYS, np.array(scores)),
        ),
        Table(
            "Texts to numbers",
            TEXT_OF_TEXTS.format(SPLITS),
            header("features"),
            rows_of(WAYS_OF_TEXTS, of_texts),
        ),
    ]
    print(write_page("table_preprocessing", page))


if __name__ == "__main__":
    main()
