"""The figure of a switch with a lane for each who looks at it: counted and read, not compared by pixels."""

import matplotlib
import pytest
import torch

from course_utils.draw.lanes import MOST_STEPS, plot_lanes
from course_utils.draw.style import contrast

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

NOTES = [("caller", True), ("generator", False), ("caller", False)]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_every_note_has_its_box_in_the_column_of_its_step_and_the_lane_of_who_made_it():
    drawing = plot_lanes({"leak": NOTES, "none": NOTES[:1]}, title="Modes")
    lanes = [label.get_text() for label in drawing.ax.get_yticklabels()]
    assert lanes == ["caller", "generator", "caller"]
    heights = list(drawing.ax.get_yticks())
    assert heights == sorted(set(heights))
    frames = [patch for patch in drawing.ax.patches if isinstance(patch, Rectangle) and patch.get_zorder() == 4]
    places = [(box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2) for box in frames]
    upper, lower = heights[:2], heights[2]
    assert places == [pytest.approx(place) for place in ((1, upper[0]), (2, upper[1]), (3, upper[0]), (1, lower))]


def test_on_and_off_differ_in_word_colour_and_hatch_and_the_words_read_well():
    ax = plot_lanes({"leak": NOTES}, title="Modes").ax
    words = [text.get_text() for text in ax.texts if text.get_text() in ("on", "off")]
    assert words == ["on", "off", "off"]
    fills = [patch for patch in ax.patches if patch.get_zorder() == 3]
    assert [bool(fill.get_hatch()) for fill in fills] == [False, True, True]
    assert len({fill.get_facecolor() for fill in fills}) == 2
    assert all(contrast("#1B1B1B", fill.get_facecolor()) >= 4.5 for fill in fills)


def test_what_a_thread_and_its_caller_really_saw_is_what_is_said():
    with torch.no_grad():
        notes = [("caller", torch.is_grad_enabled())]
    notes.append(("caller", torch.is_grad_enabled()))
    assert plot_lanes({"one block": notes}, title="Modes").description == "Modes. one block: 1 caller off, 2 caller on."


@pytest.mark.parametrize("name", ["a", "a long name, longer than all of the columns of its notes are wide"])
def test_names_and_title_have_room(name):
    drawing = plot_lanes({name: NOTES}, title="A title that is quite a bit longer than three columns")
    drawing.figure.canvas.draw()
    for text in (*drawing.ax.texts, drawing.ax._left_title):
        assert text.get_window_extent().x1 <= drawing.figure.bbox.x1
        assert text.get_window_extent().x0 >= 0


def test_it_draws_into_axes_that_are_given():
    figure, ax = plt.subplots()
    drawing = plot_lanes({"leak": NOTES}, title="Modes", ax=ax)
    assert (drawing.figure, drawing.ax) == (figure, ax)


@pytest.mark.parametrize("strips", [{}, {"empty": []}, {"long": [("caller", True)] * (MOST_STEPS + 1)}])
def test_nothing_and_too_much_are_refused(strips):
    with pytest.raises(ValueError, match="1 to 16 notes"):
        plot_lanes(strips, title="Modes")
