"""The result of a comparison: thresholds, plots, files, and reports of other libraries."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_findings import evidence_of, findings_of, hostile
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import auc, recall_score, roc_auc_score

from discreg import save_model
from discreg.base.errors import InputError
from discreg.comparison.result import Comparison
from discreg.comparison.statistics import resampling

TRACKING = Path(__file__).parents[2] / "docs/tracking.md"
FEW = {
    "majority": ("scikit-learn", 0.0),
    "LSR": ("discreg", 0.9),
    "Logistic": ("scikit-learn", 0.8),
    "DRM": ("discreg", 1.2),
}


@pytest.fixture(scope="module", autouse=True)
def few_samples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampling, "N_SAMPLES", 50)
        yield


def comparison_of(findings, **settings):
    return Comparison(
        evidence=findings.evidence,
        verdict=findings.verdict,
        table=findings.table,
        findings=findings,
        **settings,
    )


@pytest.fixture(scope="module")
def two_classes(few_samples):
    evidence = evidence_of(shares=(0.8, 0.2), n=600, models=FEW)
    return comparison_of(findings_of(evidence))


@pytest.fixture(scope="module")
def three_classes(few_samples):
    evidence = evidence_of(("a", "b", "c"), shares=(2, 1, 1), n=300, models=FEW)
    return comparison_of(findings_of(evidence))


@pytest.fixture(scope="module")
def no_recommendation(few_samples):
    models = {name: (origin, 0.02 * (skill > 0)) for name, (origin, skill) in FEW.items()}
    evidence = evidence_of(shares=(0.6, 0.4), n=200, models=models, metric_name="accuracy")
    return comparison_of(findings_of(evidence))


@pytest.fixture(autouse=True)
def closed_figures():
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_printed_comparison_has_the_verdict_and_the_best_models(two_classes):
    text = repr(two_classes)
    assert text.startswith(two_classes.verdict.sentence)
    assert all(name in text for name in FEW)
    assert "balanced accuracy" in text


def test_names_in_notebooks_are_escaped(few_samples):
    page = comparison_of(hostile())._repr_html_()
    assert "<img" not in page
    assert "<script" not in page
    assert "more models in .table" in page


def test_model_at_a_recall_has_it_on_held_out_rows(two_classes):
    """The model is one whose probabilities are those that were held out."""
    evidence = two_classes.evidence
    shares = evidence.held_out[two_classes.verdict.recommended][0].probabilities
    logits = np.log(shares[:, 1] / shares[:, 0])[:, None]
    model = LogisticRegression()
    model.fit(logits, evidence.classes[evidence.y])
    place = list(model.classes_).index("case")
    model.coef_, model.intercept_ = np.array([[2.0 * place - 1]]), np.zeros(1)
    comparison = comparison_of(two_classes.findings, model=model)
    chosen = comparison.model_at(recall=0.9)
    truth = evidence.classes[evidence.y]
    reached = recall_score(truth, chosen.predict(logits), pos_label="case")
    assert reached == pytest.approx(comparison.threshold_at(recall=0.9).recall, abs=0.01)
    assert reached >= 0.89
    assert set(chosen.predict(logits)) == {"case", "control"}


def test_without_a_recommended_model_there_is_no_threshold(no_recommendation):
    with pytest.raises(InputError, match="No model is recommended: nothing beats the majority"):
        no_recommendation.model_at(recall=0.9)


def test_a_comparison_without_a_fitted_model_says_so(two_classes):
    with pytest.raises(InputError, match="no fitted model"):
        two_classes.model_at(recall=0.9)


@pytest.mark.parametrize("kind", ["two_classes", "three_classes"])
def test_every_plot_is_drawn_on_the_given_axes(kind, request):
    from matplotlib import pyplot as plt

    plot = request.getfixturevalue(kind).plot
    for name in ("scores", "confusion", "roc", "precision_recall", "calibration", "importance"):
        ax = plt.subplots()[1]
        assert getattr(plot, name)(ax=ax) is ax
        assert ax.has_data()


def test_roc_curve_has_the_area_of_the_predictions(two_classes):
    evidence = two_classes.evidence
    ax = two_classes.plot.roc(model="LSR")
    shares = evidence.held_out["LSR"][0].probabilities[:, evidence.positive]
    area = roc_auc_score(evidence.y == evidence.positive, shares)
    (line,) = ax.get_lines()
    assert auc(line.get_xdata(), line.get_ydata()) == pytest.approx(area, abs=1e-3)


def test_unknown_models_are_answered_with_those_there_are(two_classes):
    with pytest.raises(InputError, match=r"no predictions of 'XYZ'; the models are .*LSR"):
        two_classes.plot.confusion(model="XYZ")


def test_a_loaded_comparison_is_the_one_that_was_saved(two_classes, tmp_path):
    two_classes.save_state(tmp_path / "comparison.json")
    model = LogisticRegression().fit([[0.0], [1.0]], ["control", "case"])
    save_model(model, tmp_path / "model.skops")
    loaded = Comparison.load(tmp_path)
    assert loaded.verdict == two_classes.verdict
    assert repr(loaded) == repr(two_classes)
    assert list(loaded.model.predict([[0.0], [1.0]])) == ["control", "case"]
    pd.testing.assert_frame_equal(loaded.table, two_classes.table)
    pd.testing.assert_frame_equal(loaded.results, two_classes.results)
    pd.testing.assert_frame_equal(loaded.findings.importance, two_classes.findings.importance)
    assert loaded.findings.columns == two_classes.findings.columns
    assert loaded.findings.evidence is loaded.evidence
    assert loaded.threshold_at(recall=0.9) == two_classes.threshold_at(recall=0.9)


def test_a_folder_without_a_comparison_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"it has no comparison\.json"):
        Comparison.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", '{"class": "os", "fields": {}}', '{"array": "AAAA"}'])
def test_a_damaged_file_is_refused(text, tmp_path):
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        Comparison.load(tmp_path)


def test_report_is_written(two_classes, tmp_path):
    two_classes.report(tmp_path / "report.html")
    assert "balanced accuracy" in (tmp_path / "report.html").read_text(encoding="utf-8")


# A metric that is 0 by definition warns in skore, as in scikit-learn.
@pytest.mark.filterwarnings("ignore")
def test_skore_has_the_scores_of_the_comparison(two_classes):
    skore = pytest.importorskip("skore")
    report = two_classes.to_skore(n_rivals=2)
    assert isinstance(report, skore.ComparisonReport)
    frame = report.metrics.summarize().frame()
    for model in ("LSR", "Logistic", "DRM"):
        expected = two_classes.table.loc[model, ["accuracy", "roc_auc"]].astype(float)
        found = frame.loc[["accuracy", "roc_auc"], f"mean_{model.lower()}"]
        assert list(found) == pytest.approx(list(expected), rel=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_skore_has_one_cross_validation_for_one_model(three_classes):
    skore = pytest.importorskip("skore")
    report = three_classes.to_skore(n_rivals=0)
    assert isinstance(report, skore.CrossValidationReport)
    assert len(report.reports_) == 10


# MLflow warns of deprecations in its own dependencies.
@pytest.mark.filterwarnings("ignore")
def test_example_of_mlflow_logs_verdict_and_scores(two_classes, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # files need no database
    monkeypatch.chdir(tmp_path)
    Path("comparison").mkdir()
    two_classes.save_state(Path("comparison/comparison.json"))
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    code = re.search(r"## MLflow.*?```python\n(.*?)```", TRACKING.read_text(), re.DOTALL)[1]
    exec(compile(code, str(TRACKING), "exec"), {})
    runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
    by_name = {run.info.run_name: run for run in runs}
    assert set(by_name) == {"comparison", *FEW}
    assert by_name["comparison"].data.tags["verdict"] == two_classes.verdict.kind
    logged = by_name["LSR"].data.metrics["balanced_accuracy"]
    assert logged == pytest.approx(two_classes.table.loc["LSR", "mean"])
