"""Panels over one x axis: counted and read, not compared by pixels."""

import doctest
from itertools import pairwise

import matplotlib

matplotlib.use("agg")

import pytest
from course_utils.draw.trade import plot_trade
from matplotlib import pyplot as plt
from matplotlib.text import Text

from course_utils.draw import trade

AT = [1, 2, 4, 8]
PANELS = {
    "peak bytes": {"measured": [800, 420, 230, 130], "gradients alone": [100, 100, 100, 100]},
    "time (times one batch)": {"measured": [1.0, 1.1, 1.4, 2.5]},
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def drawn(panels=PANELS, **options):
    drawing = plot_trade(panels, **{"x": "parts", "at": AT, "title": "A trade", "doubling": True} | options)
    drawing.figure.canvas.draw()
    return drawing


def test_each_quantity_has_a_panel_of_its_own_with_its_unit_and_its_lines():
    axes = drawn().figure.axes
    assert [ax.get_ylabel() for ax in axes] == list(PANELS)
    for ax, lines in zip(axes, PANELS.values(), strict=True):
        assert [list(line.get_ydata()) for line in ax.lines] == list(lines.values())
        assert sorted(text.get_text() for text in ax.texts) == sorted(lines)


def test_the_panels_share_their_x_axis_and_name_it_once():
    upper, lower = drawn().figure.axes
    assert upper.get_xlim() == lower.get_xlim()
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("", "parts")
    assert (upper.get_title(loc="left"), lower.get_title(loc="left")) == ("A trade", "")
    assert [label.get_text() for label in lower.get_xticklabels()] == ["1", "2", "4", "8"]


@pytest.mark.parametrize("doubling", [True, False])
def test_doubling_puts_factors_of_two_equally_far_apart(doubling):
    ax = drawn(doubling=doubling).ax
    places = [ax.transData.transform((x, 100))[0] for x in AT]
    gaps = [b - a for a, b in pairwise(places)]
    assert (max(gaps) - min(gaps) < 0.5) == doubling


def test_no_text_is_cut_off_and_the_panels_do_not_touch():
    drawing = drawn()
    page = drawing.figure.bbox
    renderer = drawing.figure.canvas.get_renderer()
    for ax in drawing.figure.axes:
        for text in (*ax.texts, ax.title, ax.yaxis.label, ax.xaxis.label, *ax.get_yticklabels()):
            box = Text.get_window_extent(text, renderer)
            assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()
    upper, lower = (ax.get_window_extent(renderer) for ax in drawing.figure.axes)
    assert upper.y0 > lower.y1


def test_the_words_name_the_figure_once_and_every_panel():
    drawing = drawn()
    assert drawing.description.count("A trade") == 1
    assert "Up: peak bytes. Right: parts, from 1 to 8. measured: from 800 B to 130 B." in drawing.description
    assert "Up: time (times one batch)." in drawing.description
    assert drawing.figure._course_words == (drawing.description,)


@pytest.mark.parametrize(
    ("panels", "options"),
    [({}, {}), ({"y": {}}, {}), ({"y": {"a": [1, 2]}}, {}), (PANELS, {"at": [0, 1, 2, 4]})],
    ids=["no panels", "no lines", "another length", "zero does not double"],
)
def test_what_cannot_be_drawn_is_refused(panels, options):
    with pytest.raises(ValueError, match="Expected"):
        drawn(panels, **options)


def test_the_example_in_the_docstring_is_right():
    assert doctest.testmod(trade).failed == 0
