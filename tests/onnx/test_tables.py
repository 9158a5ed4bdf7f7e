"""Converted models of tables: one input per column, categories, dates and missing values."""

import numpy as np
import pandas as pd
import pytest
from onnx_runs import feeds_of, run, run_on_frame, session_of
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from discreg import AutoClassifier, DRMClassifier, TablePreprocessor
from discreg.onnx import to_onnx
from discreg.tables.classifier import TableClassifier

N = 120
RANDOM = np.random.default_rng(0)
Y = np.where(RANDOM.random(N) < 0.5, "ill", "well")


def made_table():
    hours = RANDOM.integers(-70 * 365 * 24, 70 * 365 * 24, N)  # from 1900 to 2040
    frame = pd.DataFrame(
        {
            "size": RANDOM.normal(size=N) + 2 * (Y == "ill"),
            "count": RANDOM.integers(0, 5, N),
            "smokes": RANDOM.random(N) < 0.3,
            "when": pd.Timestamp("1970-01-01") + pd.to_timedelta(hours, "h"),
            "blood type": RANDOM.choice(["A", "B", "AB", "0"], N),
            "zip": RANDOM.choice(["10115", "20095", "9"], N),
            "patient_id": np.arange(N),
            "clinic": "north",
        }
    )
    frame.loc[::7, "size"] = np.nan
    frame.loc[::11, "when"] = pd.NaT
    frame.loc[::5, "blood type"] = None
    frame["asthma"] = np.where(RANDOM.random(N) < 0.2, None, RANDOM.random(N) < 0.5)
    frame["zip"] = frame["zip"].astype("category")
    return frame


TABLE = made_table()


@pytest.mark.parametrize("params", [{}, {"scale": True}, {"max_categories": 3, "scale": True}])
def test_features_are_those_of_the_preprocessor(params):
    preprocessor = TablePreprocessor(**params).fit(TABLE)
    converted = to_onnx(preprocessor, TABLE)
    assert [each.name for each in converted.graph.input] == list(preprocessor.kinds_)
    others = made_table().sample(frac=1, random_state=0)
    others.iloc[0, others.columns.get_loc("blood type")] = "unseen"
    for frame in (TABLE, others):
        found = run_on_frame(preprocessor, TABLE, frame)[0]
        np.testing.assert_allclose(found, preprocessor.transform(frame), atol=1e-10)


def test_every_day_of_the_calendar_has_its_parts():
    days = pd.date_range("1890-01-01", "2110-12-31", freq="37h").to_series()
    turns = pd.date_range("2000-02-27", "2000-03-02", freq="6h").to_series()  # of 400 years
    days = pd.DataFrame({"day": pd.concat([days, turns], ignore_index=True)})
    preprocessor = TablePreprocessor().fit(days)
    assert preprocessor._date_parts == {"day": ["year", "month", "weekday", "hour", "days"]}
    found = run_on_frame(preprocessor, days)[0]
    np.testing.assert_allclose(found, preprocessor.transform(days), atol=1e-9)


NUMBERS = ["0", "-0.0", "0.0", "-0", "1", "1.0", " 1.00 ", "1.5", "+2", "+2.0", "2", "1e3"]
WORDS = ["a", " a", "a\t", "A", "b c", "b  c", "a.c", "abc", "(x|y)*", "2024-01-31", "é\u3000", "7"]
DAYS = ["2024-01-31 00:00:00", "2024-01-31T00:00:00.0", "2024-01-31 12:00:00"]
BLANKS = ["", " ", "?", " NaN ", "NA", "\xa0"]


@pytest.mark.parametrize("max_categories", [50, 4])
def test_categories_are_the_same_strings_in_both(max_categories):
    spellings = np.array([*NUMBERS, *WORDS, *DAYS, *BLANKS], dtype=object)
    random = np.random.default_rng(max_categories)
    frame = pd.DataFrame({"a": random.choice(spellings, 40), "b": random.choice(spellings, 40)})
    kinds = dict.fromkeys(frame, "categorical")
    preprocessor = TablePreprocessor(kinds=kinds, max_categories=max_categories).fit(frame)
    session = session_of(to_onnx(preprocessor, frame))
    new = pd.DataFrame({"a": spellings, "b": spellings[::-1]})
    found = session.run(None, feeds_of(session, new))[0]
    np.testing.assert_array_equal(found, preprocessor.transform(new))
    numbers = pd.DataFrame({"a": [0.0, -0.0, 1.0, 1.5], "b": ["x"] * 4})
    found = session.run(None, feeds_of(session, numbers))[0]
    np.testing.assert_array_equal(found, preprocessor.transform(numbers))


@pytest.mark.parametrize("seed", range(4))
def test_random_tables_have_the_same_probabilities_in_both(seed):
    random = np.random.default_rng(seed)

    def table(n_rows):
        words = [*random.choice(NUMBERS + WORDS + DAYS + BLANKS, 8), "a ", " ", None]
        numbers = np.array([0.0, -0.0, 1.0, 1.5, -2.0, np.nan])
        hours = pd.to_timedelta(random.integers(999, size=n_rows), "h")
        frame = pd.DataFrame(
            {
                "word": random.choice(np.array(words, dtype=object), n_rows),
                "float category": random.choice(numbers, n_rows),
                "number": np.where(random.random(n_rows) < 0.2, np.nan, random.normal(size=n_rows)),
                "day": pd.Timestamp("1969-12-20") + hours,
            }
        )
        frame.loc[random.random(n_rows) < 0.2, "day"] = pd.NaT
        return frame

    train, new = table(60), table(200)
    kinds = {
        "word": "categorical",
        "float category": "categorical",
        "number": "numeric",
        "day": "date",
    }
    preprocessor = TablePreprocessor(kinds=kinds, max_categories=int(random.integers(3, 20)))
    model = make_pipeline(preprocessor, DRMClassifier()).fit(train, random.integers(3, size=60))
    label, probabilities = run_on_frame(model, train, new)
    np.testing.assert_array_equal(label, model.predict(new))
    np.testing.assert_allclose(probabilities, model.predict_proba(new), atol=1e-10)


@pytest.mark.parametrize(
    "model",
    [
        AutoClassifier(families=["kernels"], random_state=0),
        make_pipeline(TablePreprocessor(scale=True), DRMClassifier()),
        make_pipeline(TablePreprocessor(), RandomForestClassifier(5, random_state=0)),
    ],
    ids=["auto", "drm", "forest"],
)
def test_models_of_tables(model):
    model.fit(TABLE, Y)
    label, probabilities = run_on_frame(model, TABLE)
    np.testing.assert_array_equal(label, model.predict(TABLE))
    np.testing.assert_allclose(probabilities, model.predict_proba(TABLE), atol=1e-6)


def test_a_model_of_a_comparison():
    pipeline = make_pipeline(TablePreprocessor(), DRMClassifier()).fit(TABLE, Y)
    model = TableClassifier(pipeline, {"kinds": pipeline[0].kinds_, "n_features": TABLE.shape[1]})
    np.testing.assert_array_equal(run_on_frame(model, TABLE)[0], model.predict(TABLE))


def test_an_array_with_missing_values():
    rows = RANDOM.normal(size=(N, 4))
    rows[::3, 1] = np.nan
    rows[:, 2] = 1.0  # is left out
    model = make_pipeline(TablePreprocessor(), DRMClassifier()).fit(rows, Y)
    np.testing.assert_array_equal(run(model, rows)[0], model.predict(rows))
    frame = pd.DataFrame(rows, columns=list("abcd"))
    model.fit(frame, Y)
    np.testing.assert_array_equal(run(model, rows)[0], model.predict(frame))


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    table = TABLE[["size", "count", "smokes"]].assign(word=np.where(TABLE["smokes"], "a", "b"))
    frame = polars.DataFrame({name: table[name].to_numpy() for name in table})
    model = make_pipeline(TablePreprocessor(), DRMClassifier()).fit(frame, Y)
    found = run_on_frame(model, frame, table)[0]
    assert (found == model.predict(frame)).all()
