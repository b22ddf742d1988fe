"""The figure of hook calls: counted and read, not compared by pixels."""

import matplotlib
import pytest
from torch import nn, ones

from course_utils.draw.hooks import MOST_CALLS, plot_hooks
from course_utils.draw.style import contrast

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

FORWARD = [("forward pre-hook", "conv1"), ("forward hook", "conv1"), ("forward hook", "head")]
BACKWARD = [("tensor hook", "head's output"), ("post-accumulate grad hook", "head.weight")]
CALLS = {"forward": FORWARD, "backward": BACKWARD}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def boxes(drawing):
    """The boxes of the calls by their middle: without the shades of the phases."""
    found = [patch for patch in drawing.ax.patches if isinstance(patch, Rectangle) and patch.get_zorder() == 3]
    return {
        (round(box.get_x() + box.get_width() / 2, 6), round(box.get_y() + box.get_height() / 2, 6)) for box in found
    }


def test_every_call_has_its_box_in_the_column_of_its_number_and_the_row_of_its_kind():
    drawing = plot_hooks(CALLS)
    assert boxes(drawing) == {(1, 0), (2, 1), (3, 1), (4, 2), (5, 3)}
    rows = [label.get_text() for label in drawing.ax.get_yticklabels()]
    assert rows == ["forward pre-hook", "forward hook", "tensor hook", "post-accumulate grad hook"]
    assert [label.get_text() for label in drawing.ax.get_xticklabels()] == ["1", "2", "3", "4", "5"]


def test_the_line_goes_through_the_calls_in_their_order():
    line = plot_hooks(CALLS).ax.lines[0]
    assert [tuple(point) for point in line.get_xydata()] == [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3)]


def test_what_a_hook_really_said_is_what_is_drawn():
    calls, layer = [], nn.Linear(2, 2)
    layer.register_forward_pre_hook(lambda *_: calls.append(("pre", "layer")))
    layer.register_forward_hook(lambda *_: calls.append(("after", "layer")))
    layer(ones(1, 2))
    words = plot_hooks({"forward": calls}, title="One layer").description
    assert words == "One layer. forward: 1 pre at layer, 2 after at layer."


def test_each_phase_has_its_name_and_a_shade_from_its_first_to_its_last_call():
    drawing = plot_hooks(CALLS)
    assert [text.get_text() for text in drawing.ax.texts if text.get_weight() == "bold"] == ["forward", "backward"]
    shades = [patch for patch in drawing.ax.patches if patch.get_zorder() == 0]
    edges = [(shade.get_x(), shade.get_x() + shade.get_width()) for shade in shades]
    assert edges == [(0.5, 3.5), (3.5, 5.5)]


def test_a_phase_without_calls_is_left_out():
    assert "backward" not in plot_hooks({"forward": FORWARD, "backward": []}).description


@pytest.mark.parametrize(
    "calls",
    [
        CALLS,
        {"forward": [("forward hook", "encoder.layers.10.self_attn.out_proj")] * 3},
        {"backward": [("post-accumulate grad hook", "0.weight")] * 24},
    ],
    ids=["usual", "long names", "many"],
)
def test_the_texts_lie_inside_the_figure_and_their_boxes(calls):
    drawing = plot_hooks(calls, title="Where every text has its place")
    drawing.figure.canvas.draw()
    page = drawing.figure.bbox
    assert page.width * 72 / drawing.figure.dpi <= 900
    title = drawing.ax.title if drawing.ax.get_title() else drawing.ax._left_title
    for text in (*drawing.ax.texts, *drawing.ax.get_yticklabels(), *drawing.ax.get_xticklabels(), title):
        box = text.get_window_extent()
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()
    names = [text for text in drawing.ax.texts if text.get_weight() != "bold"]
    frames = [patch.get_window_extent() for patch in drawing.ax.patches if patch.get_zorder() == 3]
    assert len(names) == len(frames)
    for text, frame in zip(names, frames, strict=True):
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1, text.get_text()


def test_names_read_well_on_their_boxes():
    for patch in plot_hooks(CALLS).ax.patches:
        assert contrast("#1B1B1B", to_rgb(patch.get_facecolor())) >= 4.5


def test_it_draws_into_given_axes():
    _, ax = plt.subplots(figsize=(8, 3))
    drawing = plot_hooks(CALLS, ax=ax)
    assert drawing.ax is ax and len(boxes(drawing)) == 5


def test_nothing_and_too_much_are_refused():
    with pytest.raises(ValueError, match="0 calls"):
        plot_hooks({"forward": []})
    with pytest.raises(ValueError, match=f"1 to {MOST_CALLS} calls"):
        plot_hooks({"forward": [("hook", "0")] * (MOST_CALLS + 1)})


@pytest.mark.parametrize("calls", [[("hook", "0")], {"forward": ["hook"]}, {"forward": [("hook", 0)]}])
def test_what_is_no_list_of_calls_is_refused_with_an_example(calls):
    with pytest.raises(TypeError, match="pairs"):
        plot_hooks(calls)
