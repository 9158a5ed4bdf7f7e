"""A model on disk: every candidate comes back as it was, and strange files are refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from cli_runs import kept_models, odd_frame
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skops import io

from discreg.base.errors import InputError
from discreg.comparison.candidates import CANDIDATES
from discreg.comparison.nested_cv import NestedCrossValidation
from discreg.model_files import TRUSTED, load_model, save_model
from discreg.tables.columns import ExpectedColumns, expected_columns
from discreg.tables.table import read_table

NAMES = [candidate.name for candidate in CANDIDATES]


@pytest.fixture
def table(tmp_path):
    odd_frame().to_csv(tmp_path / "odd.csv", index=False)
    return read_table(tmp_path / "odd.csv", target="kind")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_comes_back_as_it_was(tmp_path, monkeypatch, table, name):
    experiment = NestedCrossValidation(table, [name], n_repeats=1, n_folds=3)
    path = tmp_path / "model.skops"
    kept = kept_models(monkeypatch)
    pipeline, _ = experiment.final(name)
    sent = pickle.loads(pickle.dumps(pipeline))  # as from the process that fits it
    trusted = save_model(path, sent, expected_columns(table))
    (fitted,) = kept
    read = load_model(path)
    new = pd.read_csv(tmp_path / "odd.csv").drop(columns="kind").iloc[::-1, ::-1]
    rows = table.X.iloc[::-1]
    np.testing.assert_array_equal(read.predict(new), fitted.predict(rows))
    np.testing.assert_array_equal(read.classes_, fitted.classes_)
    assert hasattr(read, "predict_proba") == hasattr(fitted, "predict_proba")
    if hasattr(fitted, "predict_proba"):
        np.testing.assert_array_equal(read.predict_proba(new), fitted.predict_proba(rows))
    assert set(trusted) <= TRUSTED
    assert sorted(io.get_untrusted_types(file=path)) == sorted(trusted)


@pytest.fixture
def small(tmp_path):
    """The path of a model of the columns a and b."""
    X, y = pd.DataFrame({"a": [0.0, 1.0, 0.0, 1.0], "b": [1.0, 1.0, 0.0, 0.0]}), [0, 1, 0, 1]
    both = ColumnTransformer([("both", "passthrough", ["a", "b"])])
    pipeline = make_pipeline(both, LogisticRegression()).fit(X, y)
    path = tmp_path / "model.skops"
    save_model(path, pipeline, ExpectedColumns({"a": "numeric", "b": "numeric"}, 2))
    return path


def test_columns_are_found_by_name(small):
    model = load_model(small)
    frame = pd.DataFrame({"more": ["u", "v"], "b": [0.5, 0.5], "a": [1, 0]})
    assert model.predict(frame).tolist() == [1, 0]


def test_other_columns_are_refused_by_name(small):
    with pytest.raises(InputError, match="1 of 2 columns are missing: 'b'"):
        load_model(small).predict(pd.DataFrame({"a": [1.0]}))
    with pytest.raises(InputError, match="a pandas data frame, not ndarray"):
        load_model(small).predict(np.ones((1, 2)))


def test_a_file_with_a_foreign_type_is_refused_and_nothing_of_it_is_kept(tmp_path):
    steps = make_pipeline(FunctionTransformer(pd.DataFrame.abs), LogisticRegression())
    steps.fit(pd.DataFrame({"a": [0.0, 1.0]}), [0, 1])
    with pytest.raises(InputError, match="not trusted: pandas"):
        save_model(tmp_path / "model.skops", steps, ExpectedColumns({"a": "numeric"}, 1))
    assert not (tmp_path / "model.skops").exists()
    io.dump(steps, tmp_path / "foreign.skops")
    with pytest.raises(InputError, match="not trusted: pandas"):
        load_model(tmp_path / "foreign.skops")


def test_a_function_of_a_trusted_package_is_refused(tmp_path, small):
    """numpy.testing.measure executes the text that it is given."""
    model = load_model(small)
    model.pipeline.steps.insert(0, ("run", FunctionTransformer(np.testing.measure)))
    io.dump(model, tmp_path / "evil.skops")
    with pytest.raises(InputError, match=r"not trusted: numpy\.testing.*measure"):
        load_model(tmp_path / "evil.skops")


def test_what_is_no_model_of_a_comparison_is_refused(tmp_path, table):
    with pytest.raises(InputError, match="There is no file"):
        load_model(tmp_path / "model.skops")
    with pytest.raises(InputError, match="not a model that discreg has written"):
        load_model(tmp_path / "odd.csv")
    io.dump(LogisticRegression(), tmp_path / "plain.skops")
    with pytest.raises(InputError, match="holds a LogisticRegression"):
        load_model(tmp_path / "plain.skops")


def test_a_cut_file_is_refused(small):
    small.write_bytes(small.read_bytes()[:-200])
    with pytest.raises(InputError, match="not a model that discreg has written"):
        load_model(small)


def test_expected_columns_come_back(tmp_path, table):
    path = tmp_path / "model.skops"
    pipeline, _ = NestedCrossValidation(table, ["LSR"]).final("LSR")
    save_model(path, pipeline, expected_columns(table))
    assert load_model(path).expected == expected_columns(table)
