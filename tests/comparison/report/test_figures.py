"""Figures of a comparison: they show the numbers, in any script, on any background."""

from itertools import combinations
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from discreg.comparison.report.figures import (
    ACCENT,
    INK,
    confusion_figure,
    critical_difference_figure,
    margins_figure,
    scores_figure,
    svg,
)
from discreg.comparison.statistics.ranks import Ranking

LONG_NAMES = [f"HistGradientBoostingClassifier{place}" for place in range(20)]
HOSTILE = ["<script>alert(1)</script>", "$\\frac{$", "肿瘤 ورم", "a\x00b\nc", "x" * 300, "&amp;"]


def ranking_of(ranks, critical_difference):
    return Ranking(
        mean_ranks=pd.Series(ranks),
        statistic=0.0,
        p_value=1.0,
        critical_difference=critical_difference,
        n_blocks=10,
        blocks="folds",
        left_out=(),
        caution="",
    )


def figures_of(names):
    chance = np.random.default_rng(0)
    counts = chance.integers(0, 9, size=(len(names), len(names)))
    return {
        "scores": scores_figure({name: chance.normal(size=5) for name in names}, label="accuracy"),
        "confusion": confusion_figure(counts, names),
        "margins": margins_figure({name: chance.normal(size=50) for name in names}),
        "critical": critical_difference_figure(
            ranking_of({name: float(place + 1) for place, name in enumerate(names)}, 2.5)
        ),
    }


@pytest.mark.parametrize("kind", ["scores", "confusion", "margins", "critical"])
def test_any_name_gives_a_document_that_browsers_read(kind):
    text = svg(figures_of(HOSTILE)[kind])
    ElementTree.fromstring(text)
    assert "<script" not in text
    assert INK not in text.replace(f"svg{{color:{INK}}}", "")
    assert "prefers-color-scheme:dark" in text
    assert "fill: #ffffff" not in text


def test_names_are_drawn_in_their_own_script_and_not_as_formulas():
    text = svg(figures_of(HOSTILE)["scores"])
    assert "肿瘤" in text
    assert "$\\frac{$" in text


def test_text_has_the_fonts_of_the_page():
    text = svg(figures_of(["a", 'style="font-family: mine'])["scores"])
    assert "DejaVu" not in text
    assert "font-family: -apple-system" in text
    assert "font-family: mine" in text


def test_drawing_leaves_no_trace_in_matplotlib():
    before = dict(matplotlib.rcParams)
    for figure in figures_of(["a", "b"]).values():
        svg(figure)
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


def test_the_same_numbers_give_the_same_document():
    first, second = (svg(figures_of(["a", "b"])["margins"]) for _ in range(2))
    assert first == second


# Rows of models


def test_every_score_is_a_point_and_the_mean_a_line():
    scores = {"a": [0.5, np.nan, 0.7], "b": [0.1, 0.2, 0.3]}
    axes = scores_figure(scores, label="accuracy", marked="b").axes[0]
    points = [line.get_xdata().tolist() for line in axes.lines]
    assert points == [[0.5, 0.7], [0.1, 0.2, 0.3]]
    means = [collection.get_segments()[0][0, 0] for collection in axes.collections]
    assert means == pytest.approx([0.6, 0.2])
    assert [to_hex(line.get_color()) == ACCENT for line in axes.lines] == [False, True]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first is at the top


@pytest.mark.parametrize("kind", ["scores", "critical"])
def test_names_of_twenty_models_are_legible(kind):
    figure = figures_of(LONG_NAMES)[kind]
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    assert len(boxes) >= 20
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
    assert max(box.x1 for box in boxes) <= figure.bbox.width


def test_groups_join_the_models_within_the_critical_difference():
    ranks = {"a": 1.0, "b": 1.8, "c": 2.4, "d": 4.8, "e": 5.0, "f": 5.5}  # e and f: within d's
    axes = critical_difference_figure(ranking_of(ranks, 1.0)).axes[0]
    groups = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 3.5]
    assert [(round(low + 0.2), round(high - 0.2)) for low, high in groups] == [
        (0, 1),
        (1, 2),
        (3, 5),
    ]


def test_one_model_has_a_rank_and_no_group():
    axes = critical_difference_figure(ranking_of({"a": 1.0}, 0.5)).axes[0]
    assert not [line for line in axes.lines if line.get_linewidth() == 3.5]


# The confusion matrix


def test_confusion_is_coloured_by_shares_of_the_true_class():
    counts = np.array([[9, 1], [0, 4]])
    axes = confusion_figure(counts, ["a", "b"]).axes[0]
    opacity = np.asarray(axes.images[0].get_array())[..., 3]
    assert opacity == pytest.approx(0.75 * np.sqrt([[0.9, 0.1], [0.0, 1.0]]))
    assert sorted(text.get_text() for text in axes.texts) == ["1", "4", "9"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "b"]


def test_confusion_of_a_class_without_samples_is_drawn():
    axes = confusion_figure(np.array([[0, 0], [1, 4]]), ["a", "b"]).axes[0]
    assert np.isfinite(np.asarray(axes.images[0].get_array())).all()


def test_confusion_of_a_hundred_classes_is_numbered():
    labels = [f"class {place}" for place in range(100)]
    figure = confusion_figure(np.eye(100, dtype=int), labels)
    text = svg(figure)
    assert "class 1" not in text
    assert len(figure.axes[0].texts) == 0
    assert figure.axes[0].get_xlim() == (0.5, 100.5)
    assert len(text) < 100_000


# Curves


def test_margins_at_zero_show_the_share_of_mistakes():
    margins = np.array([-2.0, -1.0, 1.0, 2.0, 4.0])
    line = margins_figure({"a": margins}).axes[0].lines[0]
    assert line.get_xdata() == pytest.approx(margins / 2.0)
    assert line.get_ydata() == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert line.get_drawstyle() == "steps-post"


def test_a_hundred_thousand_margins_make_a_short_curve():
    margins = np.random.default_rng(0).normal(1, 1, size=100_000)
    figure = margins_figure({"a": margins})
    x, y = figure.axes[0].lines[0].get_data()
    assert len(x) <= 400
    wrong = y[np.searchsorted(x, 0) - 1]
    assert wrong == pytest.approx((margins < 0).mean(), abs=1 / 399)


def test_margins_that_are_all_zero_are_drawn():
    assert (margins_figure({"a": np.zeros(5)}).axes[0].lines[0].get_xdata() == 0).all()
