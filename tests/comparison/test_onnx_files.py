"""``discreg compare --onnx`` writes the recommended model for onnxruntime."""

import html

import numpy as np
import onnxruntime
import pandas as pd
from cli_runs import refused, run

from discreg import Comparison, load_model

N_ROWS = 60
OPTIONS = ("--target", "label", "--candidates", "LSR", "--folds", 2, "--repeats", 1, "--n-jobs", 1)


def written_table(folder, **columns):
    """A file with numbers, categories with leading zeros, booleans, dates and missing values."""
    random = np.random.default_rng(0)
    label = np.arange(N_ROWS) % 2
    size = random.normal(size=N_ROWS) + 4 * label
    frame = pd.DataFrame(
        {
            "size/cm": np.where(np.arange(N_ROWS) % 9, size.round(3), np.nan),
            "code": np.where(
                np.arange(N_ROWS) % 7, random.choice(["007", "7", "10"], N_ROWS), None
            ),
            "smokes": random.random(N_ROWS) < 0.5,
            "day": pd.Timestamp("2024-02-27")
            + pd.to_timedelta(random.integers(900, size=N_ROWS), "D"),
            **columns,
            "label": np.where(label, "ill", "well"),
        }
    )
    frame.loc[::8, "day"] = pd.NaT
    frame.to_csv(folder / "new.csv", index=False)
    return folder / "new.csv"


def test_the_code_in_the_report_predicts_what_the_model_predicts(tmp_path, capsys, monkeypatch):
    path, output = written_table(tmp_path), tmp_path / "out"
    assert run("compare", path, *OPTIONS, "--onnx", "--output", output) == 0
    printed = capsys.readouterr().out
    assert f"{output / 'model.onnx'}\n" in printed
    code = Comparison.load(output).findings.usage_onnx
    assert "\n".join(f"  {line}" for line in code.splitlines()) in printed
    assert code in html.unescape((output / "report.html").read_text())
    (output / "new.csv").write_bytes(path.read_bytes())
    monkeypatch.chdir(output)
    found = {}
    exec(code, found)
    model, frame = load_model(output / "model.skops"), pd.read_csv(path, dtype={"code": str})
    np.testing.assert_array_equal(found["label"], model.predict(frame))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(frame), atol=1e-10)


def test_a_model_without_conversion_is_explained_and_does_not_fail(tmp_path, capsys):
    texts = [f"patient number {k} came in with complaint {k * k % 71}" for k in range(N_ROWS)]
    path, output = written_table(tmp_path, report=texts), tmp_path / "out"
    assert run("compare", path, *OPTIONS, "--onnx", "--output", output) == 0
    reason = "LSR has no ONNX file: The column 'report' contains texts"
    assert reason in capsys.readouterr().out
    assert reason in html.unescape((output / "report.html").read_text())
    assert (output / "model.skops").exists()
    assert not (output / "model.onnx").exists()


def test_without_the_extra_nothing_is_done(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skl2onnx", None)
    output = tmp_path / "out"
    message = refused(capsys, "compare", tmp_path / "no.csv", "--onnx", "--output", output)
    assert 'pip install "discreg[onnx]"' in message
    assert not output.exists()


def test_sparse_tables(tmp_path):
    from scipy import sparse
    from sklearn.datasets import dump_svmlight_file

    random = np.random.default_rng(0)
    y = np.arange(N_ROWS) % 2
    X = sparse.random_array((N_ROWS, 5), density=0.5, rng=random, format="csr") + sparse.csr_array(
        np.column_stack([3.0 * y] + [np.zeros(N_ROWS)] * 4)
    )
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"))
    options = [each for each in OPTIONS if each not in ("--target", "label")]
    output = tmp_path / "out"
    assert run("compare", tmp_path / "rows.svm", *options, "--onnx", "--output", output) == 0
    assert "shape (n_rows, 5)" in Comparison.load(output).findings.usage_onnx
    session = onnxruntime.InferenceSession(output / "model.onnx")
    found = session.run(None, {"X": X.toarray()})[0]
    np.testing.assert_array_equal(found, load_model(output / "model.skops").predict(X))
