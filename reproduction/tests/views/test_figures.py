"""Figures of studies: one panel per data set, one colour per method, and the numbers given."""

from itertools import combinations
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from discreg.comparison.report.figures import INK, svg
from discreg_reproduction.views.figures import (
    COLOURS,
    bars_figure,
    coefficients_figure,
    curves_figure,
    histories_figure,
    margins_panels_figure,
    singular_values_figure,
)

KINDS = ["bars", "curves", "histories", "margins", "singular values", "coefficients"]


def figure_of(kind, datasets, methods):
    chance = np.random.default_rng(0)

    def each(make):
        return {dataset: {method: make() for method in methods} for dataset in datasets}

    match kind:
        case "bars":
            scores = each(lambda: (chance.uniform(0.5, 1), 0.02))
            return bars_figure(scores, label="accuracy", from_zero=False)
        case "curves":
            curves = each(lambda: ([1, 2, 3], chance.random(3)))
            return curves_figure(curves, x_label="rank", y_label="accuracy")
        case "histories":
            return histories_figure(each(lambda: 0.8 ** np.arange(300)), label="objective")
        case "margins":
            return margins_panels_figure(each(lambda: chance.normal(size=1_000)))
        case "singular values":
            return singular_values_figure({dataset: [3.0, 2.0, 0.0] for dataset in datasets})
        case "coefficients":
            return coefficients_figure({dataset: chance.random((9, 4)) for dataset in datasets})


@pytest.mark.parametrize("kind", KINDS)
def test_any_name_gives_a_document_that_browsers_read(kind):
    names = ["<script>alert(1)</script>", "$\\frac{$", "a\x00b\nc", "肿瘤"]
    text = svg(figure_of(kind, names, names))
    ElementTree.fromstring(text)
    assert "<script" not in text
    assert "肿瘤" in text
    assert INK not in text.replace(f"svg{{color:{INK}}}", "")


@pytest.mark.parametrize("kind", ["histories", "margins"])
def test_long_curves_are_thinned_and_keep_their_ends(kind):
    for axes in figure_of(kind, ["a", "b"], ["m", "n"]).axes:
        x, y = axes.lines[0].get_data()
        assert 50 < len(x) <= 60
        assert y[-1] == (1 if kind == "margins" else 0.8**299)


@pytest.mark.parametrize("kind", KINDS)
def test_every_data_set_has_a_panel_under_its_name(kind):
    names = [f"data {place}" for place in range(15)]
    assert [axes.get_title() for axes in figure_of(kind, names, ["m"]).axes] == names


@pytest.mark.parametrize("kind", KINDS)
def test_drawing_leaves_no_trace_in_matplotlib(kind):
    before = dict(matplotlib.rcParams)
    svg(figure_of(kind, ["a"], ["m"]))
    assert dict(matplotlib.rcParams) == before


def test_titles_and_legend_of_many_methods_do_not_meet():
    methods = [f"a method with a long name {k}" for k in range(9)]
    figure = figure_of("bars", [f"data set {k}" for k in range(7)], methods)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [axes.title.get_window_extent(renderer) for axes in figure.axes]
    (legend,) = figure.legends
    boxes += [text.get_window_extent(renderer) for text in legend.get_texts()]
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
    assert max(box.x1 for box in boxes) <= figure.bbox.width
    assert not any(legend.get_window_extent(renderer).overlaps(a.bbox) for a in figure.axes)


def test_bars_are_means_and_keep_their_colours_where_a_method_is_missing():
    scores = {"a": {"m": (0.8, 0.1), "n": (0.9, np.nan)}, "b": {"n": (0.7, 0.05)}}
    first, second = bars_figure(scores, label="accuracy", from_zero=False).axes
    assert [bar.get_height() for bar in first.patches] == [0.8, 0.9]
    (alone,) = second.patches
    assert alone.get_height() == 0.7
    assert to_hex(alone.get_facecolor()) == to_hex(first.patches[1].get_facecolor()) == COLOURS[1]
    assert len(first.collections) == 1  # a method of one fit has no deviation


def test_axes_of_shares_show_every_deviation_and_those_of_times_begin_at_zero():
    scores = {"a": {"m": (0.80, 0.02), "n": (0.90, 0.01)}}
    low, high = bars_figure(scores, label="accuracy", from_zero=False).axes[0].get_ylim()
    assert 0.5 < low < 0.78
    assert 0.91 < high < 1
    assert bars_figure(scores, label="seconds", from_zero=True).axes[0].get_ylim()[0] == 0


def test_times_over_decades_have_logarithmic_axes():
    scores = {"a": {"m": (0.02, 0.001), "n": (50.0, 1.0)}}
    axes = bars_figure(scores, label="seconds", from_zero=True).axes[0]
    assert axes.get_yscale() == "log"
    low, high = axes.get_ylim()
    assert low < 0.02 < 50 < high


@pytest.mark.parametrize(
    ("x", "scale"), [([1, 10, 1000], "log"), ([1, 10, 900], "linear"), ([0, 10, 1000], "linear")]
)
def test_three_decades_of_a_parameter_make_its_axis_logarithmic(x, scale):
    y = [0.5, 0.6, 0.7]
    curves = {"a": {"m": (x, y)}}
    axes = curves_figure(curves, x_label="beta", y_label="accuracy").axes[0]
    assert axes.get_xscale() == scale
    assert axes.get_yscale() == "linear"
    assert axes.lines[0].get_xydata().tolist() == np.column_stack([x, y]).tolist()


def test_few_values_of_a_parameter_are_the_ticks():
    curves = {"a": {"m": ([30, 60, 150], [0.1, 0.2, 0.3])}}
    axes = curves_figure(curves, x_label="dimension", y_label="accuracy").axes[0]
    assert axes.get_xticks().tolist() == [30, 60, 150]


def test_ranks_have_whole_ticks():
    curves = {"a": {"m": (np.arange(10, 20), np.linspace(0.1, 0.9, 10))}}
    ticks = curves_figure(curves, x_label="rank", y_label="accuracy").axes[0].get_xticks()
    assert (ticks == ticks.round()).all()


def test_histories_are_drawn_as_they_are():
    history = np.array([5.0, 3.0, 2.5])
    line = histories_figure({"a": {"m": history}}, label="objective").axes[0].lines[0]
    assert line.get_xydata().tolist() == [[0, 5.0], [1, 3.0], [2, 2.5]]


def test_equal_curves_are_all_seen():
    history = [3.0, 2.0, 1.0]
    (axes,) = histories_figure({"a": dict.fromkeys("mno", history)}, label="objective").axes
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


def test_histories_may_be_negative():
    axes = histories_figure({"a": {"m": [1.0, -50.0, -100.0]}}, label="objective").axes[0]
    assert axes.get_yscale() == "linear"


def test_margins_are_a_cumulative_share():
    line = margins_panels_figure({"a": {"m": [2.0, -1.0, 0.5, 1.0]}}).axes[0].lines[0]
    assert line.get_xydata().tolist() == [[-1.0, 0.25], [0.5, 0.5], [1.0, 0.75], [2.0, 1.0]]
    assert line.get_drawstyle() == "steps-post"


def test_singular_values_are_relative_to_the_largest():
    line = singular_values_figure({"a": [4.0, 2.0, 0.0]}).axes[0].lines[0]
    assert line.get_xydata().tolist() == [[1, 1.0], [2, 0.5], [3, 0.0]]


def test_coefficients_of_zero_are_blank():
    matrix = np.array([[0.0, 0.0], [0.0, 0.0], [4.0, -1.0]])  # three features, two classes
    (image,) = coefficients_figure({"a": matrix}).axes[0].images
    opacity = np.asarray(image.get_array())[..., 3]
    assert opacity.tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 0.5]]
    assert list(image.get_extent()) == [0.5, 3.5, 2.5, 0.5]  # the first class at the top


def test_nothing_but_zeros_is_drawn():
    assert singular_values_figure({"a": np.zeros(3)}).axes[0].lines
    (image,) = coefficients_figure({"a": np.zeros((3, 2))}).axes[0].images
    assert (np.asarray(image.get_array())[..., 3] == 0).all()
