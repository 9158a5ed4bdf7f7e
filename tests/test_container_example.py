"""The prediction service of the documentation."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from discreg import AutoClassifier, save_model

SCRIPT = Path(__file__).parents[1] / "examples" / "container" / "predict_rows.py"


@pytest.mark.full
def test_rows_from_standard_input_get_labels_and_probabilities(tmp_path):
    X, y = load_wine(return_X_y=True, as_frame=True)
    X["colour"] = np.where(X.pop("color_intensity") > 5, "dark", "light")
    X.loc[::10, "alcohol"] = np.nan
    model = AutoClassifier(families=["kernels"]).fit(X[::2], y[::2].map("wine {}".format))
    save_model(model, tmp_path / "model.skops")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "model.skops")],
        input=X[1::2].to_csv(index=False),
        capture_output=True,
        text=True,
        check=True,
    )
    found = pd.read_csv(io.StringIO(done.stdout))
    np.testing.assert_array_equal(found["label"], model.predict(X[1::2]))
    expected = model.predict_proba(X[1::2])
    np.testing.assert_allclose(found[model.classes_], expected, rtol=0, atol=1e-12)
