"""What the guards report on tables with known faults, and what they leave alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import datasets

from discreg.comparison.command import remedied
from discreg.comparison.flags import repeating_identifiers
from discreg.comparison.prepare import Plan, prepare
from discreg.tables.table import BUNDLED, as_table, bundled_table

RNG = np.random.default_rng(0)


def patients(name="patient_id", values=None):
    """Six rows of each of 60 patients, with a random label per patient."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(60), 6)
    frame = pd.DataFrame(rng.normal(size=(60, 3))[patient] + rng.normal(size=(360, 3)) / 9)
    if values is None:
        values = [f"P{place:03d}" for place in rng.permutation(60)]
    frame[name] = np.array(values)[patient]
    frame["y"] = rng.integers(0, 2, 60)[patient]
    return frame


def clean(n_rows=200, n_classes=2, seed=0):
    """Numbers that predict the label of some rows."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    frame = pd.DataFrame(rng.normal(size=(n_rows, 4)) + y[:, None], columns=[*"abcd"])
    return frame.assign(y=np.array(["ash", "beech", "cedar", "dogwood"])[y])


def flags_of(table, **options):
    """The flags of a table whose rows are not grouped by default."""
    plan = Plan(candidates=["LSR"], group_by_default=False, **options)
    return list(prepare(table, plan).flags)


def kinds(table):
    return [(flag.kind, flag.level, flag.columns) for flag in flags_of(table)]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient_id", None),
        ("unit", None),
        ("subject", list(range(100, 160))),
        ("unit", np.random.default_rng(5).permutation(60).tolist()),
    ],
    ids=["name", "codes", "unit", "numbers"],
)
def test_repeating_identifiers_are_found_with_their_groups(name, values):
    frame = patients(name, values)
    table = as_table(frame, "y")
    assert repeating_identifiers(table) == [name]
    (flag,) = flags_of(table)
    assert (flag.kind, flag.level, flag.columns) == ("repeating identifier", "danger", (name,))
    assert f"Column '{name}' names 60 groups in 360 rows, and all rows with the same" in flag.text
    assert f"--groups '{name}'" in flag.text
    assert flags_of(as_table(frame, "y", groups=name)) == []


def test_groups_that_contain_an_identifier_respect_it():
    frame = patients().assign(hospital=np.repeat([*"abcdef"], 60))
    assert kinds(as_table(frame, "y", groups="hospital")) == []
    halves = np.arange(360) % 2
    assert kinds(as_table(frame, "y", groups=halves))[0][0] == "repeating identifier"


def test_identifiers_whose_rows_have_different_labels_are_notes():
    frame = patients().assign(y=RNG.integers(0, 2, 360))
    assert kinds(as_table(frame, "y")) == [("repeating identifier", "note", ("patient_id",))]


def test_features_with_ties_are_not_identifiers():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 60, 300)
    frame = pd.DataFrame(
        {
            "level": x,
            "noise": rng.integers(0, 60, 300),
            "city": rng.choice([f"city {n}" for n in range(40)], 300),
            "y": np.where(x + rng.normal(size=300) / 9 > 30, "high", "low"),
        }
    )
    assert repeating_identifiers(as_table(frame, "y")) == []


def leaking(column):
    return clean().assign(leak=column)


@pytest.mark.parametrize(
    "column",
    [
        np.where(clean()["y"] == "ash", "D7", "D2"),
        np.where(clean()["y"] == "ash", 3.5, 4) + RNG.uniform(0, 0.1, 200),
        np.where(clean()["y"] == "ash", np.nan, RNG.normal(size=200)),
        np.datetime64("2024-01-01") + np.where(clean()["y"] == "ash", 0, 90).astype("m8[D]"),
        pd.Series(np.where(clean()["y"] == "ash", None, RNG.choice(["u", "v"], 200))),
    ],
    ids=["category", "number", "missing numbers", "date", "missing categories"],
)
def test_a_column_that_repeats_the_target_is_named(column):
    flags = flags_of(as_table(leaking(column), "y"))
    assert [(flag.kind, flag.columns) for flag in flags] == [("predicts the target", ("leak",))]
    assert flags[0].level == "danger"
    assert "Column 'leak' alone predicts 'y' (balanced accuracy 1.000)" in flags[0].text
    assert "--drop 'leak'" in flags[0].text


def test_a_leak_of_four_classes_is_named():
    frame = clean(n_classes=4)
    frame["leak"] = frame["y"].map({"ash": 3, "beech": 1, "cedar": 7, "dogwood": 5})
    assert kinds(as_table(frame, "y")) == [("predicts the target", "danger", ("leak",))]


def test_good_but_honest_columns_are_not_named():
    frame = clean()
    wrong = np.arange(200) % 20 == 0
    frame["test"] = np.where((frame["y"] == "ash") ^ wrong, "positive", "negative")
    assert kinds(as_table(frame, "y")) == []


def test_copied_rows_are_counted():
    frame = clean()
    copied = pd.concat([frame, frame[:30]])
    (flag,) = flags_of(as_table(copied, "y"))
    assert (flag.kind, flag.level) == ("duplicates", "danger")
    assert "are equal to a training row when they are tested" in flag.text
    together = np.r_[np.arange(200), np.arange(30)]
    assert kinds(as_table(copied, "y", groups=together)) == []
    assert kinds(as_table(copied, "y", fold=together % 5)) == []
    assert kinds(as_table(frame, "y", test=frame[:30])) == [("duplicates", "danger", ())]


def test_equal_rows_of_few_categories_are_chance():
    frame = pd.DataFrame(RNG.choice([*"ab"], size=(300, 4))).assign(y=RNG.integers(0, 2, 300))
    assert kinds(as_table(frame, "y")) == []


def dated(y, **columns):
    days = pd.date_range("2023-01-01", periods=len(y))
    return as_table(clean(len(y)).assign(day=days, **columns).assign(y=y), "y")


def test_changes_with_time_are_dangers_and_mere_order_is_a_note():
    rng = np.random.default_rng(3)
    later = np.where(rng.random(300) < np.linspace(0.1, 0.9, 300), "yes", "no")
    (flag,) = flags_of(dated(later))
    assert (flag.kind, flag.level, flag.columns) == ("time order", "danger", ("day",))
    assert flag.text.startswith("The label changes with the date 'day'.")
    assert "--time-column 'day'" in flag.text
    by_chance = rng.choice(["yes", "no"], 300)
    (flag,) = flags_of(dated(by_chance, rate=np.linspace(0, 9, 300) + rng.normal(size=300)))
    assert flag.text.startswith("Column 'rate' changes with the date 'day'.")
    assert kinds(dated(by_chance)) == [("time order", "note", ("day",))]


def test_time_columns_answer_the_question_of_order():
    frame = clean().assign(day=pd.date_range("2023-01-01", periods=200))
    assert kinds(as_table(frame, "y", time="day")) == []


def test_dates_without_order_are_left_alone():
    days = pd.Series(pd.date_range("2023-01-01", periods=200)).sample(frac=1, random_state=0)
    assert kinds(as_table(clean().assign(day=days.to_numpy()), "y")) == []


def test_free_text_is_named():
    words = ["cough", "fever", "pain", "rash", "nausea", "ache", "chill"]
    notes = [" ".join(RNG.choice(words, 5)) + f" {place}" for place in range(200)]
    (flag,) = flags_of(as_table(clean().assign(note=notes), "y"))
    assert (flag.kind, flag.level, flag.columns) == ("free text", "note", ("note",))


def test_rare_classes_and_many_numbers_are_noted():
    frame = clean(100)
    frame.loc[:3, "y"] = "cedar"
    (flag,) = flags_of(as_table(frame, "y"))
    assert flag.kind == "rare class"
    assert "One class has fewer than 10 rows: 'cedar' (4)" in flag.text
    many = as_table(clean(600).assign(y=np.arange(600) % 30), "y")
    assert [kind for kind, *_ in kinds(many)] == ["many classes"]


def test_sparse_data_have_no_columns_to_report():
    X, y = datasets.make_classification(60, random_state=0)
    assert flags_of(as_table(sparse.csr_array(X), y)) == []


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_data_sets_raise_no_alarm(name):
    assert flags_of(bundled_table(name)) == []


def test_rows_of_an_identifier_with_one_label_are_grouped_by_default():
    table = as_table(patients(), "y")
    prepared = prepare(table, Plan(candidates=["LSR"]))
    assert prepared.grouped_by == "patient_id"
    assert prepared.flags == ()
    codes = patients()["patient_id"].to_numpy()
    for train, test in prepared.experiment.folds.parts():
        assert not {*codes[train]} & {*codes[test]}
    assert prepare(table, Plan(candidates=["LSR"], group_by_default=False)).grouped_by == ""


def test_a_flag_that_the_user_accepts_is_a_note():
    table = as_table(patients(), "y")
    for accepted in ("patient_id", "repeating identifier"):
        (flag,) = flags_of(table, accept=[accepted])
        assert flag.level == "note"


def test_the_command_that_respects_a_flag():
    (flag,) = flags_of(as_table(patients("patient id"), "y"))
    call = "discreg compare t.csv --target y"
    remedy = f"{call} --groups 'patient id' --output discreg-comparison-groups"
    assert remedied([flag], call) == remedy
    with_others = f"{call} --fold f --no-groups --output out -- t.csv"
    assert (
        remedied([flag], with_others)
        == f"{call} --groups 'patient id' --output out-groups -- t.csv"
    )
    leaks = [replace(flag, remedy={"drop": name}) for name in "aba"]
    assert remedied([flag, *leaks], f"{call} --drop c") == (
        f"{call} --drop c --groups 'patient id' --drop a --drop b "
        "--output discreg-comparison-groups-drop"
    )
    assert remedied([flag], "discreg.compare(X, y)") == ""  # the text of the flag has the argument
    assert "groups='patient id'" in flag.text
    assert remedied([replace(flag, level="note")], call) == ""
