"""AutoClassifier and its peers, each as a function that makes a model for one table.

All run in one thread. A grid is searched in five stratified folds, or in as many as the rarest
class has rows; that of boosted trees on one fifth of the rows if there are more than six classes.
The criterion is log-loss; accuracy for SVC and nearest neighbours. Imputation, scales and
indicators of categories are learned from all training rows, before the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import torch
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from xgboost import XGBClassifier
from xrfm import xRFM

Rows = np.ndarray | pd.DataFrame
Maker = Callable[[Rows, np.ndarray], Any]
N_FOLDS = 5
MOST_CLASSES = 6  # for folds of boosted trees


def folds(y: np.ndarray) -> StratifiedKFold:
    """Five stratified folds, or as many as the rarest class has rows."""
    return StratifiedKFold(min(N_FOLDS, np.bincount(y).min()), shuffle=True, random_state=0)


def booster_folds(y: np.ndarray) -> StratifiedKFold | StratifiedShuffleSplit:
    """One fifth as test rows if there are many classes, because each has its own trees."""
    if y.max() < MOST_CLASSES:
        return folds(y)
    return StratifiedShuffleSplit(1, test_size=1 / N_FOLDS, random_state=0)


def indicators(X: Rows, *, standardise: bool) -> list[Any]:
    """Steps that impute medians, encode categories as indicators and standardise numbers."""
    scale = [StandardScaler()] if standardise else []
    if isinstance(X, np.ndarray):
        return scale
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), *scale)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    is_category = make_column_selector(dtype_include="category")
    is_number = make_column_selector(dtype_exclude="category")
    return [make_column_transformer((numbers, is_number), (one_hot, is_category))]


def prepared(model: BaseEstimator, *, standardise: bool = True) -> Maker:
    """A model behind indicators of categories."""
    return lambda X, y: make_pipeline(*indicators(X, standardise=standardise), model)


def tuned(
    model: BaseEstimator, grid: Mapping[str, Sequence[Any]], scoring: str = "neg_log_loss"
) -> Maker:
    """A grid search of a model behind indicators."""

    def make(X: Rows, y: np.ndarray) -> Pipeline:
        search = GridSearchCV(model, grid, scoring=scoring, cv=folds(y))
        return make_pipeline(*indicators(X, standardise=True), search)

    return make


def tuned_booster(model: BaseEstimator, grid: Mapping[str, Sequence[Any]]) -> Maker:
    """A grid search of boosted trees, which take categories and missing values as they are."""
    return lambda X, y: GridSearchCV(model, grid, scoring="neg_log_loss", cv=booster_folds(y))


class CatBoost(ClassifierMixin, BaseEstimator):
    """CatBoost with categories as texts, because it takes no missing categories."""

    def fit(self, X: Rows, y: np.ndarray) -> CatBoost:
        texts = [] if isinstance(X, np.ndarray) else list(X.columns[X.dtypes == "category"])
        self.model_ = CatBoostClassifier(
            iterations=600,
            cat_features=texts or None,
            thread_count=1,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
        )
        self.model_.fit(self._with_texts(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Rows) -> np.ndarray:
        return self.model_.predict_proba(self._with_texts(X))

    def predict(self, X: Rows) -> np.ndarray:
        return self.model_.predict(self._with_texts(X)).ravel()

    @staticmethod
    def _with_texts(X: Rows) -> Rows:
        if isinstance(X, np.ndarray):
            return X
        texts = X.columns[X.dtypes == "category"]
        # Newer versions of pandas keep missing values when they convert to texts.
        return X.assign(**{name: [str(value) for value in X[name]] for name in texts})


class XRFM(ClassifierMixin, BaseEstimator):
    """xRFM of the best bandwidth and penalty: the mean of the models of all folds.

    A fit needs samples apart from the training samples, on which it chooses its iteration.
    """

    bandwidths, penalties = (3.0, 10.0, 30.0), (1e-3, 1e-1)

    def fit(self, X: np.ndarray, y: np.ndarray) -> XRFM:
        torch.set_num_threads(1)
        self.classes_ = np.unique(y)
        best = np.inf
        for bandwidth, penalty in product(self.bandwidths, self.penalties):
            models, held_out = [], np.empty((len(y), len(self.classes_)))
            for train, test in folds(y).split(X, y):
                model = self._model(bandwidth, penalty)
                model.fit(*self._rows(X, y, train), *self._rows(X, y, test))
                held_out[test] = model.predict_proba(self._rows(X, y, test)[0])
                models.append(model)
            loss = log_loss(y, held_out, labels=self.classes_)
            if loss < best:
                best, self.models_ = loss, models
                self.best_params_ = {"bandwidth": bandwidth, "reg": penalty}
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        X = X.astype(np.float32)
        return np.mean([model.predict_proba(X) for model in self.models_], axis=0, dtype=float)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @staticmethod
    def _model(bandwidth: float, penalty: float) -> Any:
        kernel = {"kernel": "l2", "bandwidth": bandwidth, "exponent": 1.0, "diag": False}
        params = {
            "model": kernel | {"bandwidth_mode": "constant"},
            "fit": {"reg": penalty, "iters": 5, "verbose": False, "early_stop_rfm": True},
        }
        return xRFM(
            rfm_params=params,
            device=torch.device("cpu"),
            tuning_metric="logloss",
            n_threads=1,
            verbose=False,
            random_state=0,
        )

    @staticmethod
    def _rows(X: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return X[rows].astype(np.float32), y[rows]


class AutoGluon(ClassifierMixin, BaseEstimator):
    """AutoGluon at medium quality in at most one minute; its package needs its own environment."""

    def fit(self, X: Rows, y: np.ndarray) -> AutoGluon:
        from autogluon.tabular import TabularPredictor

        self.classes_ = np.unique(y)
        self.model_ = TabularPredictor(
            "label", eval_metric="log_loss", path=mkdtemp(), verbosity=0
        ).fit(
            self._frame(X).assign(label=y),
            presets="medium_quality",
            time_limit=60,
            num_cpus=1,
            num_gpus=0,
        )
        return self

    def predict_proba(self, X: Rows) -> np.ndarray:
        return self.model_.predict_proba(self._frame(X))[self.classes_].to_numpy()

    def predict(self, X: Rows) -> np.ndarray:
        return self.model_.predict(self._frame(X)).to_numpy()

    @staticmethod
    def _frame(X: Rows) -> pd.DataFrame:
        return pd.DataFrame(X).rename(columns=str)


def auto_classifier(X: Rows, y: np.ndarray) -> Any:
    from discreg import AutoClassifier

    return AutoClassifier()


LIGHTGBM = {"n_jobs": 1, "random_state": 0, "verbosity": -1, "deterministic": True}
MODELS: dict[str, Maker] = {
    "AutoClassifier": auto_classifier,
    "Dummy": prepared(DummyClassifier(strategy="prior")),
    "LDA": prepared(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")),
    "LogisticRegression": tuned(
        LogisticRegression(max_iter=500), {"C": np.logspace(-3, 3, 7).tolist()}
    ),
    "KNN": tuned(
        KNeighborsClassifier(),
        {"n_neighbors": [1, 3, 5, 9, 15], "weights": ["uniform", "distance"]},
        "accuracy",
    ),
    "SVC": tuned(
        SVC(),
        {"C": np.logspace(-1, 3, 6).tolist(), "gamma": np.logspace(-4, 0, 5).tolist()},
        "accuracy",
    ),
    "RandomForest": prepared(RandomForestClassifier(400, random_state=0), standardise=False),
    "ExtraTrees": prepared(ExtraTreesClassifier(400, random_state=0), standardise=False),
    "LightGBM": lambda X, y: LGBMClassifier(**LIGHTGBM),
    "XGBoost": lambda X, y: XGBClassifier(n_jobs=1, random_state=0, enable_categorical=True),
    "LightGBM tuned": tuned_booster(
        LGBMClassifier(n_estimators=300, **LIGHTGBM),
        {"learning_rate": [0.01, 0.03], "num_leaves": [4, 15]},
    ),
    "HistGB tuned": tuned_booster(
        HistGradientBoostingClassifier(early_stopping=False, random_state=0),
        {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 15]},
    ),
    "CatBoost": lambda X, y: CatBoost(),
    "MLP": tuned(MLPClassifier(random_state=0), {"alpha": [1e-3, 1.0]}),
    "xRFM": prepared(XRFM()),
    "AutoGluon": lambda X, y: AutoGluon(),
}
PEERS = tuple(name for name in MODELS if name != "AutoClassifier")
PEERS_OF = {
    "small": tuple(name for name in PEERS if name != "AutoGluon"),
    "large": PEERS,
    "all": (
        *("Dummy", "LogisticRegression", "RandomForest", "ExtraTrees", "LightGBM", "XGBoost"),
        *("LightGBM tuned", "CatBoost"),
    ),
}
