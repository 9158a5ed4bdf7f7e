"""Model files that releases have written, in ``tests/data/models``.

``python tests/stored_models.py`` writes those of this version, in an environment with the oldest
dependencies, ``.ci/oldest.txt``. Files of released versions are never written again.
"""

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

import discreg

FOLDER = Path(__file__).parent / "data" / "models"
N_NEW = 12  # rows whose predictions are stored


def made_table():
    """Numbers, categories, dates and missing values of three classes."""
    random = np.random.default_rng(0)
    kind = np.arange(36) % 3
    frame = pd.DataFrame(
        {
            "size": (random.normal(size=36) + 3 * kind).round(3),
            "weight": random.normal(size=36).round(3),
            "colour": random.choice(["red", "green"], 36),
            "day": pd.Timestamp("2024-01-31") + pd.to_timedelta(random.integers(500, size=36), "D"),
        }
    )
    frame.loc[::7, "weight"] = np.nan
    return frame, np.array(["ash", "beech", "cedar"])[kind]


def made_models():
    """One model of each kind of state: coefficients, a kernel, a representation, a table."""
    return {
        "relsr": discreg.ReLSRClassifier(),
        "odm": discreg.ODMClassifier(kernel="rbf"),
        "drm": discreg.DRMClassifier(),
        "table": make_pipeline(
            discreg.TablePreprocessor(scale=True), discreg.LSRClassifier(kernel="laplacian")
        ),
    }


def rows_for(name, frame):
    """The rows that a model takes: the table, or its first two columns without gaps."""
    return frame if name == "table" else frame[["size", "weight"]].fillna(0.0).to_numpy()


def compress(path):
    """Compress the members of a file, which `load_model` accepts; the repository stays small."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in members.items():
            file.writestr(name, content)


def write(folder):
    """Fit the models and write their files and predictions."""
    frame, labels = made_table()
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in made_models().items():
        rows = rows_for(name, frame)
        model.fit(rows, labels)
        discreg.save_model(model, folder / f"{name}.skops")
        compress(folder / f"{name}.skops")
        new = rows[:N_NEW]
        expected = {
            "labels": model.predict(new).tolist(),
            "probabilities": model.predict_proba(new).tolist(),
        }
        (folder / f"{name}.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    write(FOLDER / discreg.__version__)
