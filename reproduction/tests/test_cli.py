"""The command: what it prints, what it writes, and its exit codes."""

import pandas as pd
import pytest

from discreg_reproduction.claims import claims_of
from discreg_reproduction.cli import main
from discreg_reproduction.stored import StoredScores, origin


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_data_sets_are_listed_with_where_they_come_from(capsys, tmp_path):
    assert run("datasets", "--data-dir", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    (iris,) = (line for line in lines if line.startswith("iris "))
    assert "150 x 4" in iris
    assert "scikit-learn" in iris
    assert lines[-1].endswith("of 108 data sets are available.")
    (wdbc,) = (line for line in lines if line.startswith("odm/wdbc "))
    assert wdbc.index("569 x 14") < wdbc.index("569 x 30")
    assert any(
        line.startswith("  odm/wdbc: 569 x 30 here, 569 x 14 in the paper") for line in lines
    )
    assert any(line.startswith("  http://www.keel.es/: keel/haberman, ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "drm/tabel7"), "Did you mean drm/table7?"),
        (("run", "relsr/table1", "--time-budget", "soon"), "Write, for example, 90s, 10m or 1h"),
        (("run", "relsr/table1", "--output", ""), "the path is empty"),
        (("datasets", "--data-dir", "nowhere"), "which is not a directory"),
    ],
)
def test_mistakes_are_told_in_a_sentence(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err


def test_a_study_runs_and_the_same_command_repeats_no_fit(capsys, tmp_path):
    command = ("run", "relsr/table1", "--output", tmp_path, "--n-jobs", 1)
    assert run(*command) == 0
    printed = capsys.readouterr().out
    assert "All 18 fits are done." in printed
    assert str(tmp_path / "report.html") in printed
    assert "## relsr/table1" in (tmp_path / "reproduction.md").read_text()
    results = pd.read_parquet(tmp_path / "results.parquet")
    means = StoredScores.read(tmp_path / "results.csv")
    assert means.of_study("relsr/table1", "fits_done") == 18
    (claim,) = claims_of(means)
    assert f"- {claim.text}" in (tmp_path / "reproduction.md").read_text()
    assert claim.text in (tmp_path / "report.html").read_text()
    assert run(*command) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), results)


def test_means_of_an_earlier_run_are_shown_where_it_has_more_fits(capsys, tmp_path):
    """Of x1 the earlier run has two fits of LSR; of x2 it has one, as many as this run."""
    earlier = tmp_path / "earlier.csv"
    earlier.write_text(
        "study,dataset,method,metric,mean,std,fits,run\n"
        "relsr/table1,x1,LSR,loss,0.777,0.1,2,\n"
        "relsr/table1,x2,LSR,loss,0.888,,1,\n"
    )
    command = ("run", "relsr/table1", "--output", tmp_path, "--n-jobs", 1, "--earlier", earlier)
    assert run(*command) == 0
    text = (tmp_path / "reproduction.md").read_text()
    assert "0.777" in text
    assert "0.888" not in text
    means = StoredScores.read(tmp_path / "results.csv")
    assert means.score("relsr/table1", "x1", "LSR", "loss").earlier
    assert not means.score("relsr/table1", "x2", "LSR", "loss").earlier
    assert means.of_study("relsr/table1", "fits_earlier") == 2
    said = origin(means, "relsr/table1")
    assert said == (
        "Of this run: LSR on x2, x3, x4, x5 and x6 (1 fit each); DLSR and ReLSR on all data sets "
        "(1 fit each). The other numbers are those of an earlier run."
    )
    assert said in text
    assert said in " ".join(capsys.readouterr().out.split())
    assert "earlier run" not in origin(StoredScores(), "relsr/table1")
