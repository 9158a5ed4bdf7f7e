"""Figures of one model: what is drawn is what was measured."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from report_findings import HOSTILE_NAMES

from discreg.comparison.report.figures import ACCENT, svg
from discreg.comparison.report.model_figures import (
    MAX_IMPORTANT,
    CurvePoint,
    calibration_figure,
    importance_figure,
    learning_curve_figure,
    one_against_rest_figure,
    precision_recall_figure,
    roc_figure,
)
from discreg.comparison.statistics.curves import CalibrationGroups, RankingCurves

CURVE = (np.array([0.0, 0.2, 1.0]), np.array([0.0, 0.8, 1.0]))
GROUPS = CalibrationGroups(
    *(np.array(each) for each in ([0.1, 0.2], [0.0, 0.3], [0, 0.2], [0.1, 0.4])), np.array([5, 5])
)


def importance_of(features):
    mean = np.linspace(0.2, 0.0, len(features))
    return pd.DataFrame(
        {"feature": features, "mean": mean, "low": mean - 0.01, "high": mean + 0.01}
    )


def test_curves_of_folds_and_of_all_rows_and_marked_points_are_drawn():
    curves = RankingCurves(CURVE, [CURVE, CURVE])
    points = [CurvePoint(0.2, 0.8, "0.8")]
    for figure in (roc_figure(curves, points), precision_recall_figure(curves, points, share=0.1)):
        (axes,) = figure.axes
        lines = [line for line in axes.lines if len(line.get_xdata()) == 3]
        assert len(lines) == 3
        assert lines[-1].get_xydata().tolist() == np.column_stack(CURVE).tolist()
        (dot,) = [line for line in axes.lines if to_hex(line.get_color()) == ACCENT]
        assert dot.get_xydata().tolist() == [[0.2, 0.8]]
        assert [text.get_text() for text in axes.texts] == ["0.8"]


def test_the_share_of_the_class_is_a_line():
    (axes,) = precision_recall_figure(RankingCurves(CURVE, []), share=0.3).axes
    assert [0.3, 0.3] in [list(line.get_ydata()) for line in axes.lines]


def test_the_three_hardest_classes_are_named():
    curves = dict.fromkeys("abcde", CURVE)
    (axes,) = one_against_rest_figure(curves, ["d", "b", "a", "c", "e"]).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["d", "b", "a"]
    assert len(axes.lines) == 6


def test_small_probabilities_fill_the_plot():
    (axes,) = calibration_figure(GROUPS, label="predicted", observed="observed").axes
    assert axes.get_xlim()[1] < 0.5
    assert [0.1, 0.2] in [list(line.get_xdata()) for line in axes.lines]


def test_the_most_important_features_are_shown_first():
    features = [f"f{place}" for place in range(40)]
    shuffled = importance_of(features).sample(frac=1, random_state=0)
    (axes,) = importance_figure(shuffled, label="loss").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == features[:MAX_IMPORTANT]


def test_a_learning_curve_has_a_point_per_size():
    curve = pd.DataFrame({"n": [10, 20], "mean": [0.5, 0.7], "low": [0.4, 0.6], "high": [0.6, 0.8]})
    (axes,) = learning_curve_figure(curve, label="accuracy").axes
    assert axes.lines[0].get_xydata().tolist() == [[10, 0.5], [20, 0.7]]


def test_labels_of_points_stay_inside_the_axes():
    points = [CurvePoint(x, y, "recall 0.9") for x in (0.02, 0.98) for y in (0.02, 0.9)]
    figure = precision_recall_figure(RankingCurves(CURVE, []), points, share=0.1)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    (axes,) = figure.axes
    inside = axes.get_window_extent(renderer)
    for text in axes.texts:
        box = text.get_window_extent(renderer)
        assert inside.x0 <= box.x0 < box.x1 <= inside.x1
        assert inside.y0 <= box.y0 < box.y1 <= inside.y1


@pytest.mark.parametrize(
    "figure",
    [
        importance_figure(importance_of(list(HOSTILE_NAMES)), label=HOSTILE_NAMES[0]),
        one_against_rest_figure(dict.fromkeys(HOSTILE_NAMES, CURVE), HOSTILE_NAMES),
        calibration_figure(GROUPS, label="肿瘤", observed="$\\frac{$"),
    ],
    ids=["importance", "curves", "calibration"],
)
def test_any_name_gives_a_document_that_browsers_read(figure):
    text = svg(figure)
    ElementTree.fromstring(text)
    assert "<script" not in text
