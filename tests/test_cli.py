"""The command: what it prints, where, and with which exit code; mistakes that it tells about."""

import gzip
import io
import re
import shlex
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from cli_runs import PROGRAM, easy_frame, refused, run, start

import discreg
from discreg.base.errors import InputError
from discreg.cli import main
from discreg.tables.classifier import TableClassifier
from discreg.tables.table import BUNDLED

HEAVY = {"jinja2", "joblib", "matplotlib", "numba", "numpy", "pandas", "scipy", "sklearn"}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    easy_frame().to_csv(path, index=False)
    return path


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"discreg {discreg.__version__}\n"


def test_without_arguments_it_prints_its_help(capsys):
    run()
    printed = capsys.readouterr()
    assert all(job in printed.out + printed.err for job in ("compare", "predict"))


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from discreg.cli import main\n"
        "try: main(['compare', '--help'])\n"
        f"finally: print('loaded:', *{HEAVY} & set(sys.modules))"
    )
    process = start(program=program)
    out, err = process.communicate()
    assert out.splitlines()[-1] == "loaded:"
    assert "Usage: discreg" in out
    assert "Traceback" not in out
    assert (process.returncode, err) == (0, "")


def test_without_the_extra_it_says_what_to_install():
    process = start(program="import sys; sys.modules['typer'] = None; import discreg.cli")
    _, err = process.communicate()
    assert process.returncode != 0
    assert err == "The discreg command needs additional packages: pip install 'discreg[compare]'\n"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("pandas", "pandas is missing: pip install 'discreg[compare]'"),
        ("numpy.exceptions", "too old"),
        ("scipy.stats", "too old (import of scipy.stats halted"),
    ],
)
def test_without_a_package_of_the_command_it_says_what_to_install(module, message):
    process = start("compare", program=f"import sys; sys.modules['{module}'] = None; {PROGRAM}")
    _, err = process.communicate()
    assert process.returncode == 2
    assert message in err
    assert "Traceback" not in err


def test_an_error_inside_discreg_is_told_in_two_lines(monkeypatch, capsys, table):
    def broken(*arguments, **options):
        raise RuntimeError("wheel came off")

    monkeypatch.setattr("discreg.tables.table.as_table", broken)
    monkeypatch.delenv("DISCREG_TRACEBACK", raising=False)
    assert run("compare", table, "--target", "kind") == 1
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    first, second = printed.err.splitlines()
    assert first == "An error inside discreg: RuntimeError: wheel came off"
    assert "DISCREG_TRACEBACK=1" in second
    monkeypatch.setenv("DISCREG_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="wheel came off"):
        main(["compare", str(table), "--target", "kind"])


def test_signs_that_a_terminal_cannot_show_are_no_error(monkeypatch, table):
    frame = easy_frame()
    frame["kind"] = frame["kind"].str.replace("beech", "hêtre")
    frame.to_csv(table, index=False)
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    assert run("compare", table, "--target", "kind", "--output", table) == 2
    screen.flush()
    assert rb"h\xeatre (30)" in screen.buffer.getvalue()


def write_ragged(path):
    path.write_text("a,b,y\n1,2,u\n1,2,3,v\n")


def write_short(path):
    path.write_text("a,b,y\n1,2,u\n1\n")


def write_unclosed(path):
    path.write_text('a,b,y\n1,"2,u\n1,2,v\n')


def write_cut_gzip(path):
    path.write_bytes(gzip.compress(b"a,b,y\n1,2,u\n" * 50)[:-20])


def write_binary(path):
    path.write_bytes(np.random.default_rng(0).bytes(500))


def write_cut_parquet(path):
    easy_frame().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])


def write_npz_without_X(path):
    np.savez(path, data=np.zeros(3), y=np.zeros(3))


MODEL = TableClassifier(None, {"kinds": {"a": "numeric"}, "n_features": 1})
MALFORMED = {
    "ragged.csv": (write_ragged, "line 3 should have 3 cells"),
    "short.csv": (write_short, "line 3 should have 3 cells"),
    "unclosed.csv": (write_unclosed, "quote"),
    "empty.csv": (lambda path: path.write_text(""), "empty"),
    "blank.csv": (lambda path: path.write_text("\n\n"), "empty"),
    "header.csv": (lambda path: path.write_text("a,b,y\n"), "no rows|no data"),
    "cut.csv.gz": (write_cut_gzip, "gzip"),
    "binary.csv": (write_binary, "the file is not text"),
    "ragged.tsv": (lambda path: path.write_text("a\ty\n1\tu\n1\t2\tv\n"), "line 3"),
    "cut.parquet": (write_cut_parquet, "not a valid Parquet"),
    "text.parquet": (lambda path: path.write_text("a,b\n"), "not a valid Parquet"),
    "broken.arff": (lambda path: path.write_text("@relation r\n@attribute a\n@data\n1\n"), "line"),
    "broken.svm": (lambda path: path.write_text("1 1:2\n1 x:2\n"), "line 2"),
    "words.txt": (lambda path: path.write_text("some words\n"), "no rows of data"),
    "without.npz": (write_npz_without_X, "'X'"),
    "text.npz": (lambda path: path.write_text("a,b\n"), "npz"),
    "book.xlsx": (lambda path: path.write_text("a,b\n"), "not a valid Excel file"),
    "book.xls": (lambda path: path.write_text("a,b\n"), r"save the sheet as \.xlsx or \.csv"),
    "nothing": (lambda path: path.write_text("a,b\n"), r"\.csv"),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("job", ["compare", "predict"])
def test_a_malformed_file_is_refused_in_a_sentence(tmp_path, capsys, monkeypatch, job, name):
    write, expected = MALFORMED[name]
    write(tmp_path / name)
    if job == "predict":
        monkeypatch.setattr("discreg.comparison.predict.load_model", lambda path, **limit: MODEL)
        message = refused(capsys, "predict", "model.skops", tmp_path / name)
    else:
        named = [] if name.endswith(("npz", "svm", "txt")) else ["--target", "y"]
        output = tmp_path / "out"
        message = refused(capsys, "compare", tmp_path / name, *named, "--output", output)
        assert not output.exists()
    assert message.startswith(str(tmp_path / name))
    assert re.search(expected, message)


def test_a_folder_and_a_missing_file_are_refused(tmp_path, table, capsys):
    assert "folder" in refused(capsys, "compare", tmp_path, "--target", "kind")
    message = refused(capsys, "compare", tmp_path / "tabel.csv", "--target", "kind")
    assert "no such file" in message
    assert "did you mean" in message
    assert "table.csv" in message


MISTAKES = {
    "target misspelt": (["--target", "knid"], "did you mean 'kind'?"),
    "no target": ([], "Name one of 'x1'"),
    "no such fold": (["--target", "kind", "--fold", "x9"], "no column 'x9' for the fold"),
    "one fold": (["--target", "kind", "--fold", "one"], "'a' in every row"),
    "one column for both": (["--target", "kind", "--fold", "kind"], "cannot be both"),
    "folds that are classes": (
        ["--target", "two", "--fold", "two as well"],
        "All rows outside fold 1 of 2 belong to class",
    ),
    "one class": (["--target", "one"], "only one class, 'a'"),
    "regression": (["--target", "x2"], "looks like a measured quantity, not classes"),
    "gaps in the target": (["--target", "gaps"], "missing in 2 of 90 rows: data rows 3, 7"),
    "both sources": (["--target", "kind", "--dataset", "iris"], "FILE or --dataset, not both"),
    "model misspelt": (["--target", "kind", "--candidates", "LSR,ReLS"], "Did you mean ReLSR?"),
    "empty model": (["--target", "kind", "--candidates", "LSR,"], "There is no model ''"),
    "no such module": (["--target", "kind", "--candidates", "no:model"], "cannot be imported"),
    "excluded misspelt": (["--target", "kind", "--exclude", "LSRR"], "Did you mean LSR?"),
    "metric misspelt": (["--target", "kind", "--scoring", "acuracy"], "Did you mean accuracy?"),
    "metric of two classes": (["--target", "kind", "--scoring", "f1"], "cannot be used"),
    "no such class": (
        ["--target", "two", "--scoring", "f1", "--pos-label", "maybe"],
        "they are 'no', 'yes'",
    ),
    "no such groups": (["--target", "kind", "--groups", "x9"], "no column 'x9' for the groups"),
    "no such weights": (["--target", "kind", "--sample-weight", "x9"], "no column 'x9'"),
    "no such time": (["--target", "kind", "--time-column", "x9"], "no column 'x9' for the time"),
    "nothing to drop": (["--target", "kind", "--drop", "x9"], "x9"),
    "two kinds of folds": (
        ["--target", "kind", "--fold", "two", "--time-column", "x1"],
        "--fold and --time-column cannot be combined",
    ),
    "groups and none": (
        ["--target", "kind", "--groups", "two", "--no-groups"],
        "--groups and --no-groups cannot be combined",
    ),
    "two rules": (
        ["--target", "two", "--recall", "0.9", "--precision", "0.9"],
        "are two decision rules",
    ),
    "rule of two classes": (["--target", "kind", "--recall", "0.9"], "two classes"),
    "costs of nobody": (["--target", "two", "--costs", "maybe=2"], "no class 'maybe'"),
    "costs misspelt": (["--target", "two", "--costs", "yes:2"], "LABEL=COST"),
    "no such subgroup": (["--target", "kind", "--subgroup", "x9"], "no column 'x9'"),
    "no time": (["--target", "kind", "--time-budget", "soon"], "90s, 10m or 1h"),
    "negative time": (["--target", "kind", "--time-budget", "-3s"], "90s, 10m or 1h"),
    "no process": (["--target", "kind", "--n-jobs", "0"], "--n-jobs"),
    "one part": (["--target", "kind", "--folds", "1"], "--folds"),
    "unknown option": (["--target", "kind", "--quick"], "--quick"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_refused_in_a_sentence(tmp_path, capsys, case):
    frame = easy_frame()
    frame["one"] = "a"
    frame["two"] = np.where(frame["kind"] == "ash", "yes", "no")
    frame["two as well"] = frame["two"]
    frame["gaps"] = frame["kind"].where(~frame.index.isin([2, 6]))
    frame.to_csv(tmp_path / "table.csv", index=False)
    arguments, expected = MISTAKES[case]
    output = tmp_path / "out"
    message = refused(capsys, "compare", tmp_path / "table.csv", "--output", output, *arguments)
    assert expected in message
    assert not output.exists()


def test_a_duplicated_column_is_refused(tmp_path, capsys):
    (tmp_path / "table.csv").write_text("a,b,a,y\n1,2,3,u\n")
    message = refused(capsys, "compare", tmp_path / "table.csv", "--target", "y")
    assert "columns 1 and 3 have the same name 'a'" in message


def test_an_output_that_is_a_file_is_refused(table, capsys):
    message = refused(capsys, "compare", table, "--target", "kind", "--output", table)
    assert f"{table} is a file" in message


def test_columns_without_a_file_and_unknown_data_sets_are_refused(capsys):
    assert "discreg compare FILE" in refused(capsys, "compare", "--target", "kind")
    message = refused(capsys, "compare", "--dataset", "irsi")
    assert "There are breast_cancer, wine, iris, digits" in message
    assert all(name in message for name in BUNDLED)


@pytest.mark.parametrize("job", ["compare", "predict"])
def test_an_empty_path_is_refused(table, capsys, job):
    model = [table] if job == "predict" else []
    for arguments in ([*model, table, "--output", ""], [*model, table, "--output="], [*model, ""]):
        assert "the path is empty" in refused(capsys, job, *arguments)
    assert list(table.parent.iterdir()) == [table]


NASTY = "\x1b[2J\x1b]0;title\a"


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", NASTY, "--target", "kind"],
        ["compare", f"{NASTY}.csv", "--target", "kind"],
        ["compare", "a\nb.csv", "--target", "kind"],
        ["compare", "--dataset", NASTY],
        ["compare", f"--{NASTY}"],
        ["predict", NASTY, NASTY],
        ["predict", NASTY, NASTY, NASTY],
        [NASTY],
    ],
)
def test_control_characters_of_arguments_do_not_reach_the_terminal(capsys, arguments):
    message = refused(capsys, *arguments)
    assert not {"\x1b", "\a"} & {*message}
    assert r"\x1b[2J" in message or r"a\nb.csv" in message


def test_control_characters_of_errors_and_warnings_do_not_reach_the_terminal(
    monkeypatch, capsys, table
):
    def broken(*arguments, **options):
        print(warnings.formatwarning(NASTY, UserWarning, "table.py", 1), file=sys.stderr)
        raise RuntimeError(NASTY)

    monkeypatch.setattr("discreg.tables.table.as_table", broken)
    monkeypatch.delenv("DISCREG_TRACEBACK", raising=False)
    streams = sys.stdout, sys.stderr
    assert run("compare", table, "--target", "kind") == 1
    assert (sys.stdout, sys.stderr) == streams
    message = capsys.readouterr().err
    assert not {"\x1b", "\a"} & {*message}
    assert message.count(r"\x1b[2J\x1b]0;title\x07") == 2


# Exit codes: 0 and 130 also occur in the tests of comparisons and predictions


@pytest.mark.parametrize("job", ["compare", "predict"])
def test_exit_codes_are_documented(capsys, job):
    assert run(job, "--help") == 0
    printed = " ".join(capsys.readouterr().out.split())
    documented = (Path(__file__).parents[1] / "docs" / "comparison.md").read_text()
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in printed
        assert f"| {code} | {meaning}" in documented


EXIT_CODES = {0: "done", 1: "failed", 2: "wrong use", 130: "interrupted"}
ENDS = {
    "memory": (MemoryError("9 GB"), 1, "There is not enough memory. 9 GB\n"),
    "disk": (
        OSError(28, "No space left on device", "a.csv"),
        1,
        "a.csv: No space left on device\n",
    ),
    "failure": (OSError("no room"), 1, "no room\n"),
    "worker": (ChildProcessError("could not start"), 1, "could not start\n"),
    "mistake": (InputError("no such column"), 2, "no such column\n"),
    "Ctrl-C": (KeyboardInterrupt(), 130, "Interrupted. The same command continues from here.\n"),
}


@pytest.mark.parametrize("case", ENDS)
def test_errors_have_their_exit_code(monkeypatch, capsys, table, case):
    error, code, message = ENDS[case]

    def broken(*arguments, **options):
        raise error

    monkeypatch.setattr("discreg.tables.table.as_table", broken)
    monkeypatch.delenv("DISCREG_TRACEBACK", raising=False)
    assert run("compare", table, "--target", "kind") == code
    assert capsys.readouterr().err == message


@pytest.mark.full
def test_the_command_beside_red_flags_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    chance = np.random.default_rng(0)
    frame = easy_frame(60).drop(columns="kind")
    frame["unit no"] = np.repeat([f"P{place:02d}" for place in range(20)], 3)
    frame["ill"] = np.repeat(chance.permutation(20) % 2, 3)
    frame["code"], frame["copy"] = 3 - frame["ill"], np.where(frame["ill"], "x y", "z")
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ("--candidates", "LSR", "--folds", "3", "--no-groups", "--output", "out")
    process = start("compare", "t.csv", "--target", "ill", *options, folder=tmp_path)
    printed, err = process.communicate()
    assert (process.returncode, "red flag" in err) == (0, False), err
    (command,) = (line for line in printed.splitlines() if line.startswith("  discreg compare"))
    monkeypatch.chdir(tmp_path)
    assert command.strip() in (tmp_path / "out" / "report.html").read_text().replace("&#39;", "'")
    assert run(*shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    assert "No model is better than the class frequencies" in printed
    assert (tmp_path / "out-groups-drop" / "report.html").exists()
