"""Facts about DRM on imbalanced data sets of its paper, Table VII."""

import numpy as np
import pytest

from discreg import DRMClassifierCV, g_mean_score

DECADES = np.logspace(-3, 3, 7)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "scaled", "mean", "deviation"),
    [
        ("glass4", False, 0.893, 0.137),
        ("cleveland-0_vs_4", True, 0.884, 0.130),
    ],
)
def test_g_mean_on_the_original_folds(load_data, name, scaled, mean, deviation):
    """RBF kernel, the paper's grids, chosen by leave-one-out; the better of its two scalings."""
    data = load_data(f"keel/{name}")
    scores = []
    for fold in range(1, 6):
        train, test = data.fold != fold, data.fold == fold
        largest = np.abs(data.X[train]).max(axis=0) if scaled else np.ones(data.X.shape[1])
        X = data.X / np.where(largest > 0, largest, 1)
        search = DRMClassifierCV(
            alphas=DECADES, betas=DECADES, gammas=1 / (2 * DECADES), scoring="g_mean"
        )
        search.fit(X[train], data.y[train])
        scores.append(g_mean_score(data.y[test], search.predict(X[test])))
    assert np.mean(scores) == pytest.approx(mean, abs=0.005)
    assert np.std(scores, ddof=1) == pytest.approx(deviation, abs=0.005)
