"""Quick forms of the papers' studies give the stored values on the data at hand.

``quick_studies.json`` holds the values of fits by their study and data set, method, repeat and
fold. After a change that is meant to move them, write it anew with
``python tests/shared_data/test_quick_studies.py DATA_FOLDER``.
"""

import json
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from discreg_reproduction.run import reproduce

STORED = Path(__file__).with_name("quick_studies.json")
STUDIES = ("drm/table7", "odm/table2", "lowrank/fig2")
METRICS = ("accuracy", "g_mean")


def quick_values(study: str, data_folder: Path, output: Path) -> dict[str, float]:
    """Accuracies and G-means of the quick form of a study."""
    result = reproduce(study, output, data_dir=data_folder, quick=True, n_jobs=2)
    assert result.progress.n_left == 0
    results = pd.read_parquet(output / "results.parquet")
    named = results["metric"].str.split("[").str[0].isin(METRICS)
    return {
        " | ".join(map(str, row[:5])): round(float(row[5]), 6)
        for row in results[named].itertuples(index=False)
    }


@pytest.mark.parametrize("study", STUDIES)
def test_quick_forms_give_the_stored_values(study, tmp_path):
    from conftest import DATA_FOLDER

    stored = json.loads(STORED.read_text())
    expected = {name: value for name, value in stored.items() if name.startswith(f"{study}/")}
    assert quick_values(study, DATA_FOLDER, tmp_path) == expected
    assert f"## {study}" in (tmp_path / "reproduction.md").read_text()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        values = [
            quick_values(study, Path(sys.argv[1]), Path(folder) / study.replace("/", "-"))
            for study in STUDIES
        ]
    merged = {name: value for each in values for name, value in each.items()}
    STORED.write_text(json.dumps(merged, indent=0, sort_keys=True) + "\n")
