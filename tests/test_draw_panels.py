"""Panels of bars: counted and read, not compared by pixels."""

import matplotlib
import pytest

from course_utils.draw.panels import plot_panels

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

COSTS = {
    "FLOPs a step": {"all": 4_000_000, "half": 2_000_000},
    "bytes held": {"all": 4096, "half": 1024},
    "step time": {"all": 1.0, "half": 0.52},
    "test accuracy": {"all": 0.9, "half": 0.9},
}


@pytest.fixture(autouse=True)
def no_figure_is_left_open():
    yield
    plt.close("all")


def bars(ax):
    return [patch for patch in ax.patches if isinstance(patch, Rectangle)]


def test_every_value_has_a_bar_as_long_as_it_is_great():
    drawing = plot_panels(COSTS, title="Two ways")
    widths = [bar.get_width() for bar in bars(drawing.ax)]
    assert len(widths) == 8
    for first, values in enumerate(COSTS.values()):
        all_of_it, half = widths[2 * first : 2 * first + 2]
        assert half / all_of_it == pytest.approx(values["half"] / values["all"])


def test_each_panel_differs_from_its_neighbours_in_colour_and_hatch():
    looks = {(bar.get_facecolor(), bar.get_hatch()) for bar in bars(plot_panels(COSTS, title="Two ways").ax)}
    assert len(looks) == len(COSTS) == len({hatch for _, hatch in looks})


def test_values_are_written_in_the_unit_that_the_heading_names():
    texts = [text.get_text() for text in plot_panels(COSTS, title="Two ways", note="time: of all").ax.texts]
    for text in ("Two ways", "all", "half", *COSTS, "4 M", "2 M", "4.0 KiB", "1.0 KiB", "0.52", "0.90", "time: of all"):
        assert text in texts


def test_the_texts_lie_inside_the_figure():
    drawing = plot_panels(COSTS, title="Two ways", note="a note")
    renderer, page = drawing.figure.canvas.get_renderer(), drawing.figure.bbox
    for text in drawing.ax.texts:
        box = text.get_window_extent(renderer)
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()


def test_the_words_say_the_same_as_the_figure():
    assert plot_panels(COSTS, title="Which is cheaper?").description == (
        "Which is cheaper? FLOPs a step: all 4 M, half 2 M. bytes held: all 4.0 KiB, half 1.0 KiB. "
        "step time: all 1.00, half 0.52. test accuracy: all 0.90, half 0.90."
    )


def test_rows_follow_the_first_panel_whatever_the_order_of_the_others():
    turned = {"one": {"a": 1.0, "b": 2.0}, "two": {"b": 4.0, "a": 3.0}}
    assert plot_panels(turned, title="T").description == "T. one: a 1.00, b 2.00. two: a 3.00, b 4.00."


def test_it_draws_into_axes_that_are_given():
    figure, ax = plt.subplots()
    drawing = plot_panels(COSTS, title="Two ways", ax=ax)
    assert drawing.figure is figure and drawing.ax is ax and len(bars(ax)) == 8


@pytest.mark.parametrize(
    ("panels", "phrase"),
    [
        ({}, "0 panels"),
        ({str(number): {"a": 1.0} for number in range(6)}, "6 panels"),
        ({"one": {"a": 1.0}, "two": {"b": 1.0}}, "'two' has the alternatives b"),
        ({"one": {}}, "the alternatives none"),
        ({"one": {"a": -1.0}}, "negative"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_reason(panels, phrase):
    with pytest.raises(ValueError, match=phrase):
        plot_panels(panels, title="T")
