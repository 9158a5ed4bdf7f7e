"""``discreg predict``: labels and probabilities of new rows, and rows that it refuses."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from cli_runs import odd_frame, refused, run, start
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import dump_svmlight_file
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from discreg import LSRClassifier, TablePreprocessor
from discreg.base.errors import InputError
from discreg.model_files import load_model, save_model
from discreg.tables.classifier import Rule, TableClassifier, expected_columns
from discreg.tables.table import as_table

MODELS = {"LSR": LSRClassifier(), "Logistic": LogisticRegression()}
THRESHOLDS = [
    {"wanted": 0.5, "threshold": 0.7, "recall": 0.56, "low": 0.4, "high": 0.7},
    {"wanted": 0.9, "threshold": 0.3, "recall": 0.95, "low": 0.8, "high": 0.99},
]


def fitted_to(path, model, **columns):
    """The path of a model, beside the file of the rows that it was fitted to."""
    table = as_table(path, **columns)
    kinds = expected_columns(table).kinds
    before = TablePreprocessor(scale=True, kinds=kinds) if kinds else MaxAbsScaler()
    pipeline = make_pipeline(before, MODELS[model]).fit(table.X, table.y)
    is_pair = len(table.class_counts) == 2
    rarer = int(np.unique(table.y, return_counts=True)[1].argmin())
    fitted = TableClassifier.of(
        pipeline,
        table,
        rule=Rule(positive=rarer) if is_pair else None,
        recalls=THRESHOLDS if is_pair else None,
    )
    save_model(fitted, path.with_name(f"{model}.skops"))
    return path.with_name(f"{model}.skops")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "odd.csv"
    odd_frame().to_csv(path, index=False)
    return path


def test_labels_and_probabilities_are_written_row_by_row(table, capsys):
    model = fitted_to(table, "Logistic", target="kind")
    new = odd_frame().drop(columns=["kind", "unit"]).iloc[::-1, ::-1]  # any order will do
    new.to_parquet(table.with_name("new.parquet"))
    output = table.with_name("labels.csv")
    assert run("predict", model, table.with_name("new.parquet"), "--output", output) == 0
    assert capsys.readouterr().out == f"Wrote 60 labels to {output}.\n"
    predicted = pd.read_csv(output)
    classes = [str(label) for label in load_model(model).classes_]
    names = [f"probability of {label}" for label in classes]
    assert list(predicted) == ["row", "label", *names, "note"]
    assert predicted["row"].tolist() == list(range(1, 61))
    assert predicted["label"].tolist() == load_model(model).predict(new).tolist()
    probabilities = predicted[names].to_numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert [classes[place] for place in probabilities.argmax(axis=1)] == [*predicted["label"]]


def test_without_a_file_to_write_the_labels_are_printed_as_csv(table, capsys):
    model = fitted_to(table, "LSR", target="kind")
    assert run("predict", model, table) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert [*printed.columns[:2]] == ["row", "label"]
    np.testing.assert_allclose(printed.iloc[:, 2:-1].sum(axis=1), 1, rtol=1e-12)
    assert {*printed["label"]} <= {*odd_frame()["kind"]}
    assert len(printed) == 60


@pytest.mark.full
def test_a_reader_that_leaves_early_is_no_error(table):
    big = table.with_name("big.csv")
    pd.concat([odd_frame()] * 300).to_csv(big, index=False)
    process = start("predict", fitted_to(table, "Logistic", target="kind"), big)
    assert process.stdout.readline().startswith("row,label,")
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.wait()
    process.stderr.close()


def test_labels_are_spelt_as_in_the_table(tmp_path, capsys):
    chance = np.random.default_rng(0)
    frame = pd.DataFrame({"a": chance.normal(size=20), "label": chance.normal(size=20)})
    for spelt, expected in (([0.0, 1.0], {"0", "1"}), ([True, False], {"True", "False"})):
        frame["kind"] = np.where(frame["a"] > 0, *spelt).astype(type(spelt[0]))
        frame.to_csv(tmp_path / "table.csv", index=False)
        model = fitted_to(tmp_path / "table.csv", "LSR", target="kind")
        assert run("predict", model, tmp_path / "table.csv") == 0
        printed = pd.read_csv(io.StringIO(capsys.readouterr().out), dtype=str)
        assert {*printed["label"]} == expected
        assert list(printed)[2:] == [f"probability of {label}" for label in sorted(expected)]


def test_a_category_and_a_gap_that_were_never_seen_are_no_error(table, capsys):
    new = odd_frame()
    new.loc[0, "colour"] = "ultraviolet"
    new.loc[0, "Größe (cm)"] = np.nan
    new.to_csv(table.with_name("new.csv"), index=False)
    assert run("predict", fitted_to(table, "LSR", target="kind"), table.with_name("new.csv")) == 0
    printed = capsys.readouterr()
    found = pd.read_csv(io.StringIO(printed.out))
    assert len(found) == 60
    assert found["note"][0] == "unseen category in colour; missing Größe (cm)"
    assert found["note"][3] == "missing a b"
    assert found["note"].notna().sum() >= 2
    assert (
        "column 'colour' has categories that the model was not fitted to in 1 of 60 rows: "
        "'ultraviolet'\n"
    ) in printed.err
    assert "of 60 rows have missing cells" in printed.err


def test_a_long_unseen_category_is_cut(table, capsys):
    new = odd_frame()
    new.loc[0, "colour"] = "x" * 5_000_000
    new.to_csv(table.with_name("new.csv"), index=False)
    assert run("predict", fitted_to(table, "LSR", target="kind"), table.with_name("new.csv")) == 0
    said = capsys.readouterr().err
    assert "'... (5,000,000 characters)" in said
    assert len(said) < 1_000


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(["0", "1", "2"] * 20),
        pd.to_datetime(["2024-01-03", "2024-01-04", "2024-01-05"] * 20),
    ],
    ids=["digits", "days"],
)
def test_columns_are_the_same_in_any_format(tmp_path, capsys, column):
    size = [1.0, 2.0, 3.0, 2.0] * 15
    frame = pd.DataFrame({"c": column, "size": size, "kind": ["x", "y", "z"] * 20})
    frame.to_parquet(tmp_path / "table.parquet")
    model = fitted_to(tmp_path / "table.parquet", "LSR", target="kind")
    frame["c"] = frame["c"].astype(str).replace({"0": "0.0", "1": "1.0"})
    frame.to_csv(tmp_path / "new.csv", index=False)
    printed = []
    for name in ("table.parquet", "new.csv"):
        assert run("predict", model, tmp_path / name) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    assert printed[0].err == ""
    assert set(pd.read_csv(io.StringIO(printed[0].out))["label"]) <= set(frame["kind"])


def test_labels_that_cannot_be_written_are_told_in_a_sentence(table, capsys):
    model = fitted_to(table, "LSR", target="kind")
    nowhere = table.with_name("no folder") / "labels.csv"
    assert f"{nowhere} cannot be written" in refused(
        capsys, "predict", model, table, "--output", nowhere
    )


LABELS = ["=cmd|' /C calc'!A0", "'=x", "+1+1", "-a;=b", "@SUM(A1)", "-1.50", "a=b;=c", "+"]


def test_labels_that_are_formulas_begin_with_an_apostrophe_in_the_file(tmp_path, capsys):
    chance = np.random.default_rng(0)
    kind = np.arange(80) % 8
    frame = pd.DataFrame(chance.normal(size=(80, 8)) + 9 * np.eye(8)[kind], columns=[*"abcdefgh"])
    frame["kind"] = np.array(LABELS)[kind]
    frame.to_csv(tmp_path / "table.csv", index=False)
    model = fitted_to(tmp_path / "table.csv", "Logistic", target="kind")
    output = tmp_path / "labels.csv"
    arguments = ("predict", model, tmp_path / "table.csv")
    assert run(*arguments, "--output", output) == 0
    told = capsys.readouterr().err
    assert "begin with an apostrophe" in told
    assert "--raw" in told
    read = pd.read_csv(output, dtype=str)
    assert [*read["label"][:8]] == [
        label if label in LABELS[5:] else f"'{label}" for label in read_labels(model, frame)[:8]
    ]
    for line in output.read_text().splitlines()[1:]:  # one cell, whichever sign separates cells
        assert line.partition(",")[2].startswith(("\"'", '"-1.50"', '"a=b;=c",', '"+",'))
    assert run(*arguments, "--output", output, "--raw") == 0
    assert capsys.readouterr().err == ""
    assert [*pd.read_csv(output, dtype=str)["label"]] == read_labels(model, frame)
    assert run(*arguments) == 0
    printed = capsys.readouterr()
    assert [*pd.read_csv(io.StringIO(printed.out), dtype=str)["label"]] == read_labels(model, frame)
    assert printed.err == ""


def read_labels(model, frame):
    labels = load_model(model).predict(frame).tolist()
    assert {*labels} == {*LABELS}
    return labels


def test_whole_numbers_are_written_as_numbers(tmp_path, capsys):
    frame = pd.DataFrame({"a": np.arange(40) // 2, "kind": np.repeat([-1, 1], 20)})
    frame.to_csv(tmp_path / "table.csv", index=False)
    model = fitted_to(tmp_path / "table.csv", "LSR", target="kind")
    output = tmp_path / "labels.csv"
    assert run("predict", model, tmp_path / "table.csv", "--output", output) == 0
    lines = output.read_text().splitlines()
    assert [line.split(",")[1] for line in lines] == ['"label"', *frame["kind"].astype(str)]
    assert capsys.readouterr().err == ""


def test_the_limit_of_a_model_file_can_be_raised(table, capsys):
    model = fitted_to(table, "LSR", target="kind")
    message = refused(capsys, "predict", model, table, "--max-bytes", 1000)
    size = re.search(r"--max-bytes (\d+)", message)[1]
    assert int(size) > 1000
    assert run("predict", model, table, "--max-bytes", int(size) * 50) == 0


def test_control_characters_in_names_do_not_reach_the_terminal(table, capsys):
    model = fitted_to(table, "LSR", target="kind")
    output = table.with_name("labels\x1b[2J\n.csv")
    assert run("predict", model, table, "--output", output) == 0
    assert capsys.readouterr().out == f"Wrote 60 labels to {table.parent}/labels\\x1b[2J\\n.csv.\n"
    frame = odd_frame()
    frame.loc[0, "colour"] = "ultra\x1b[2J"
    frame.to_csv(table, index=False)
    assert run("predict", model, table, "--output", output) == 0
    assert r"'ultra\x1b[2J'" in capsys.readouterr().err


def with_text(frame):
    frame["a b"] = frame["a b"].astype(object)
    frame.loc[4, "a b"] = "?!"
    return frame


MISFITS = {
    "missing": (
        lambda frame: frame.drop(columns=["a b", "smokes"]),
        "2 of 4 columns are missing: 'a b', 'smokes'",
    ),
    "renamed": (
        lambda frame: frame.rename(columns={"a b": "a_b"}),
        "is 'a_b' the column 'a b'?",
    ),
    "text": (with_text, "column 'a b' contains text '?!' in data row 5"),
    "no truth": (
        lambda frame: frame.assign(smokes="often"),
        "column 'smokes' contains text 'often' in data row 1",
    ),
    "infinite": (
        lambda frame: frame.assign(**{"a b": np.inf}),
        "column 'a b' is infinite in data row 1",
    ),
    "empty": (lambda frame: frame[:0], "no rows"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_rows_that_do_not_fit_are_refused(table, capsys, case):
    change, complaint = MISFITS[case]
    model = fitted_to(table, "LSR", target="kind")
    new = table.with_name("new.csv")
    change(odd_frame()).to_csv(new, index=False)
    output = table.with_name("labels.csv")
    message = refused(capsys, "predict", model, new, "--output", output)
    assert message.startswith(str(new))
    assert complaint in message
    assert not output.exists()


def test_a_file_that_is_no_model_is_refused(table, capsys):
    assert "not a model file of discreg" in refused(capsys, "predict", table, table)
    assert "There is no file" in refused(capsys, "predict", table.with_name("none.skops"), table)


def test_sparse_rows_are_labelled_and_others_refused(tmp_path, table, capsys):
    y = np.arange(40) % 2
    X = sparse.csr_array(sparse.random(40, 5, density=0.5, random_state=0))
    X = sparse.csr_array(X + sparse.csr_array(np.outer(y, np.eye(5)[0])))
    dump_svmlight_file(X, y, str(tmp_path / "table.svm"), zero_based=False)
    model = fitted_to(tmp_path / "table.svm", "LSR", target=None)
    assert run("predict", model, tmp_path / "table.svm") == 0
    labels = pd.read_csv(io.StringIO(capsys.readouterr().out))["label"].tolist()
    assert labels == load_model(model).predict(X).tolist()
    assert "takes 5 sparse features" in refused(capsys, "predict", model, table)
    wide = sparse.csr_array(np.c_[X.toarray(), np.eye(40)])  # further features are ignored
    dump_svmlight_file(wide, y, str(tmp_path / "wide.svm"), zero_based=False)
    assert run("predict", model, tmp_path / "wide.svm") == 0
    assert pd.read_csv(io.StringIO(capsys.readouterr().out))["label"].tolist() == labels


@pytest.fixture
def cases(tmp_path):
    """A file of two classes, with identifiers, of which the rarer is 'case'."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3 == 0
    frame = pd.DataFrame(
        {
            "patient": [f"{place:03d}" for place in range(90)],
            "a": rng.normal(size=90) + y,
            "b": rng.normal(size=90) + y,
            "label": np.where(y, "case", "control"),
        }
    )
    frame.to_csv(tmp_path / "cases.csv", index=False)
    return tmp_path / "cases.csv"


def predictions(capsys, *arguments):
    assert run("predict", *arguments) == 0
    printed = capsys.readouterr()
    return pd.read_csv(io.StringIO(printed.out), dtype={"patient": str}), printed.err


def test_columns_of_the_file_are_kept(cases, capsys):
    model = fitted_to(cases, "LSR", target="label")
    keep = ("--keep", "patient", "--keep", "label", "--keep", "a")
    found, _ = predictions(capsys, model, cases, *keep)
    assert list(found)[:5] == ["row", "patient", "label (file)", "a", "label"]
    given = pd.read_csv(cases, dtype={"patient": str})
    assert found["patient"].tolist() == given["patient"].tolist()
    assert found["label (file)"].tolist() == given["label"].tolist()
    np.testing.assert_array_equal(found["a"], given["a"])
    said = refused(capsys, "predict", model, cases, "--keep", "patients")
    assert "no column 'patients' in the file; did you mean 'patient'?" in said


def test_kept_formulas_begin_with_an_apostrophe(cases, capsys):
    model = fitted_to(cases, "LSR", target="label")
    text = cases.read_text().replace("000,", "=1+1,")
    cases.write_text(text)
    output = cases.with_name("labels.csv")
    assert run("predict", model, cases, "--keep", "patient", "--output", output) == 0
    assert "'=1+1'" in capsys.readouterr().err
    assert pd.read_csv(output, dtype=str)["patient"][0] == "'=1+1"


@pytest.mark.parametrize(("recall", "threshold"), [(0.9, 0.3), (0.8, 0.3), (0.5, 0.7)])
def test_labels_at_a_recall(cases, capsys, recall, threshold):
    model = fitted_to(cases, "Logistic", target="label")
    found, told = predictions(capsys, model, cases, "--recall", recall)
    is_case = found["probability of case"] >= threshold
    assert found["label"].tolist() == np.where(is_case, "case", "control").tolist()
    assert 0 < is_case.sum() < 90
    reached = "0.560" if recall == 0.5 else "0.950"
    assert f"at least {threshold} are labelled 'case'" in told
    assert f"reached a recall of {reached} (95 % interval" in told


def test_recalls_without_a_threshold_are_refused(cases, table, capsys):
    model = fitted_to(cases, "LSR", target="label")
    assert "the largest stored recall is 0.9" in refused(
        capsys, "predict", model, cases, "--recall", 0.95
    )
    assert "between 0 and 1, not 90" in refused(capsys, "predict", model, cases, "--recall", 90)
    three = fitted_to(table, "Logistic", target="kind")
    assert "has no thresholds" in refused(capsys, "predict", three, table, "--recall", 0.9)


def test_prediction_sets(cases, capsys):
    model = fitted_to(cases, "LSR", target="label")
    found, _ = predictions(capsys, model, cases, "--confidence-level", 0.9)
    fitted = load_model(model)
    sets = fitted.predict_set(pd.read_csv(cases), 0.9)
    assert {*found["prediction set"]} <= {"case", "control", "case | control"}
    for place, label in enumerate(fitted.classes_):
        parts = found["prediction set"].str.split(" | ", regex=False)
        assert [label in each for each in parts] == sets[:, place].tolist()
    said = refused(capsys, "predict", model, cases, "--confidence-level", 90)
    assert "between 0 and 1, not 90" in said
    other = fitted_to(cases, "Logistic", target="label")
    said = refused(capsys, "predict", other, cases, "--confidence-level", 0.9)
    assert "LogisticRegression has no prediction sets" in said


def test_files_of_others_are_not_replaced(cases, capsys):
    model = fitted_to(cases, "LSR", target="label")
    mine = cases.with_name("mine.csv")
    mine.write_text("row,label\n1,precious\n")
    said = refused(capsys, "predict", model, cases, "--output", mine)
    assert "exists and was not written by discreg predict" in said
    assert mine.read_text() == "row,label\n1,precious\n"
    assert "is read by this command" in refused(capsys, "predict", model, cases, "--output", cases)
    output = cases.with_name("labels.csv")
    for _ in range(2):  # its own file is replaced
        assert run("predict", model, cases, "--output", output) == 0


def test_the_help_tells_what_model_files_contain(capsys):
    assert run("predict", "--help") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "kernel models and DRM keep training rows in the model file" in told


def test_a_pipeline_of_the_user_predicts_tables_as_any_other(table, capsys):
    read = as_table(table, target="kind")
    numbers = [name for name, kind in expected_columns(read).kinds.items() if kind == "numeric"]
    pipeline = make_pipeline(
        ColumnTransformer([("numbers", SimpleImputer(), numbers)]),
        StandardScaler(),
        LogisticRegression(),
    )
    own = TableClassifier.of(pipeline.fit(read.X, read.y), read)
    save_model(own, table.with_name("own.skops"))
    assert run("predict", table.with_name("own.skops"), table) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert printed["label"].tolist() == own.predict(odd_frame().iloc[:, ::-1]).tolist()
    with pytest.raises(InputError, match=re.escape(f"are missing: '{numbers[0]}'")):
        own.predict(odd_frame().drop(columns=numbers[0]))


def test_a_fitted_model_works_with_tools_of_scikit_learn(table):
    frame = odd_frame().query("kind != 'rare'")
    frame.to_csv(table, index=False)
    model = load_model(fitted_to(table, "Logistic", target="kind"))
    check_is_fitted(model)
    label = model.classes_[model.decision.positive]
    at = FixedThresholdClassifier(
        FrozenEstimator(model), threshold=0.3, pos_label=label, response_method="predict_proba"
    ).fit(frame, frame["kind"])
    assert at.predict(frame).tolist() == model.predict_at(frame, 0.9).tolist()
    again = clone(model)
    assert again.get_params(deep=False)["recalls"] == model.recalls


def test_an_evaluation_has_the_numbers_of_the_labels_and_probabilities(cases, capsys):
    model = fitted_to(cases, "Logistic", target="label")
    new = pd.read_csv(cases, dtype={"patient": str})
    new["site"] = np.where(np.arange(90) < 45, "north", "south")
    new.loc[0, "label"] = None
    path = cases.with_name("labelled.csv")
    new.to_csv(path, index=False)
    page = cases.with_name("page.html")
    arguments = ("evaluate", model, path, "--subgroup", "site", "--output", page)
    assert run(*arguments) == 0
    printed = capsys.readouterr()
    assert "1 rows without a label were left out" in printed.err
    known = new.dropna()
    fitted = load_model(model)
    right = fitted.predict(known) == known["label"]
    assert f"{right.sum()} of 89 rows labelled right" in printed.out
    area = roc_auc_score(known["label"] == "case", fitted.predict_proba(known)[:, 0])
    assert f"{area:.4f}" in printed.out
    assert "site north: 44 rows" in printed.out
    assert f"{right.sum()} of 89 rows labelled right" in page.read_text()
    assert "page.html exists" in refused(capsys, *arguments)
    new["label"] = new["label"].replace("case", "unheard of")
    new.to_csv(path, index=False)
    assert "labels that the model does not know: 'unheard of'" in refused(
        capsys, "evaluate", model, path
    )
