"""The result of a comparison: what it prints, saves and chooses."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_findings import HOSTILE, comparison_of, evidence_of, flagged, hostile, rare
from sklearn.metrics import roc_auc_score

from discreg import Comparison
from discreg.base.errors import InputError

TRACKING = Path(__file__).parents[2] / "docs" / "tracking.md"


def test_a_printed_comparison_has_the_verdict_and_the_best_models():
    printed = repr(rare())
    assert printed.startswith(rare().verdict.sentence)
    assert "ReLSR" in printed
    assert HOSTILE not in hostile()._repr_html_()


def test_the_threshold_reaches_the_wanted_recall_or_precision():
    for wanted in ({"recall": 0.8}, {"precision": 0.3}):
        ((name, least),) = wanted.items()
        assert getattr(rare().threshold_at(**wanted), name).value >= least
    with pytest.raises(InputError, match="either recall or precision"):
        rare().threshold_at()
    with pytest.raises(InputError, match="no fitted model: red flag"):
        flagged().model_at(recall=0.8)


def test_probabilities_are_those_of_the_scores():
    frame = rare().probabilities()
    area = roc_auc_score(frame["class"] == "case", frame["case"])
    assert area == pytest.approx(rare().table.loc["Auto", "roc_auc"], abs=0.02)
    assert len(frame) == len(rare().evidence.rows)
    with pytest.raises(InputError, match="no predictions of 'KNN'; the models are Auto, ReLSR"):
        rare().probabilities("KNN")


def test_a_loaded_comparison_is_the_one_that_was_saved(tmp_path):
    weights = np.random.default_rng(0).random(900)
    evidence = replace(rare().evidence, weights=weights, groups=np.arange(900) // 3)
    saved = comparison_of(evidence, model_file=None)
    saved.save(tmp_path)
    loaded = Comparison.load(tmp_path)
    assert repr(loaded) == repr(saved)
    assert loaded.verdict == saved.verdict
    assert loaded.evidence.rule == saved.evidence.rule
    np.testing.assert_array_equal(loaded.evidence.groups, evidence.groups)
    np.testing.assert_array_equal(loaded.evidence.held_out["Auto"], evidence.held_out["Auto"])
    assert loaded.table.equals(saved.table)


def test_classes_of_numbers_and_booleans_survive_saving(tmp_path):
    for classes in ((False, True), (3, 7)):
        saved = comparison_of(evidence_of({"A": 1.0}, classes=classes))
        saved.save(tmp_path)
        assert Comparison.load(tmp_path).evidence.classes.tolist() == list(classes)


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", '{"evidence": 3}', "[" * 100_000])
def test_damaged_and_missing_files_are_refused(text, tmp_path):
    with pytest.raises(InputError, match="no finished comparison"):
        Comparison.load(tmp_path)
    rare().save(tmp_path)
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        Comparison.load(tmp_path)


def test_example_of_mlflow_logs_verdict_and_scores(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # files need no database
    monkeypatch.chdir(tmp_path)
    Path("comparison").mkdir()
    rare().save(Path("comparison"))
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    code = re.search(r"## MLflow.*?```python\n(.*?)```", TRACKING.read_text(), re.DOTALL)[1]
    exec(compile(code, str(TRACKING), "exec"), {})
    runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
    by_name = {run.info.run_name: run for run in runs}
    assert set(by_name) == {"comparison", "Auto", "ReLSR", "majority"}
    assert by_name["comparison"].data.tags["verdict"] == rare().verdict.kind
