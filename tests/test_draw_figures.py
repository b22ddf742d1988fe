"""What figures of bars, lines, rows, maps and bytes over time say, in words and on their axes."""

from itertools import pairwise

import matplotlib
import pytest
import torch

matplotlib.use("agg")

from matplotlib.text import Text

from course_utils import plot_lines, plot_memory, plot_trade
from course_utils.draw.bars import plot_maps, plot_panels
from course_utils.draw.lanes import plot_hooks
from course_utils.draw.memory import phase_stem
from course_utils.memory import MemoryTracker
from tests.figures import CALLS, FIGURES, IMAGES, MAPS, TRADE, training_step
from tests.recorded_graphs import leaf

pytestmark = pytest.mark.usefixtures("closed_figures")


def written_in(drawing):
    return [text.get_text() for text in drawing.figure.findobj(Text) if text.get_text().strip()]


SAID = {
    "bars": "What the alternatives cost. FLOPs: both branches, multiplied by the gate afterwards 41.5 M, one "
    "branch 20.6 M, nothing 0. peak bytes: both branches, multiplied by the gate afterwards 1.2 MiB, "
    "one branch 512.2 KiB, nothing 0 B. bytes held with the result: both branches, multiplied by the "
    "gate afterwards 1.1 MiB, one branch 448.8 KiB, nothing 0 B. time: both branches, multiplied by the"
    " gate afterwards 1.00x, one branch 0.36x, nothing 0.00x.",
    "bars_of_bytes": "What a log keeps alive. bytes: list of losses 1.5 MiB, detached 386.5 KiB.",
    "panels": "Two ways. FLOPs a step: all 4 M, half 2 M. bytes held: all 4.0 KiB, half 1.0 KiB. step time: all "
    "1.00, half 0.52. test accuracy: all 0.90, half 0.90.",
    "trade": "A trade. Up: peak bytes. Right: parts, from 1 to 8. measured: from 800 B to 130 B. gradients "
    "alone: 100 B throughout. Up: time (times one batch). Right: parts, from 1 to 8. measured: from 1 "
    "to 2.5.",
    "hooks": "The order of hook calls. forward: 1 forward pre-hook at conv1, 2 forward hook at conv1, 3 forward "
    "hook at head. backward: 4 tensor hook at head's output, 5 post-accumulate grad hook at "
    "head.weight.",
    "maps": "A title that is much wider than what it stands above. Images: a 1, a 7. for 1: from -1.00 to 4.00,"
    " the most at row 1, column 2. for 7: from 0.00 to 2.00, the most at row 2, column 2.",
}


@pytest.mark.parametrize("name", SAID)
def test_a_figure_says_in_words_what_it_shows(name):
    assert FIGURES[name]().description == SAID[name]


def test_rows_follow_the_first_panel_whatever_the_order_of_the_others():
    turned = {"one": {"a": 1.0, "b": 2.0}, "two": {"b": 4.0, "a": 3.0}}
    assert plot_panels(turned, title="Which?").description == "Which? one: a 1.00, b 2.00. two: a 3.00, b 4.00."


@pytest.mark.parametrize(
    ("most", "labels"),
    [
        (1052676, ["0 B", "256 KiB", "512 KiB", "768 KiB", "1 MiB"]),
        (1536, ["0 B", "512 B", "1 KiB", "1.5 KiB"]),
        (3, ["0 B", "1 B", "2 B", "3 B"]),
        (40 * 1024, ["0 B", "10 KiB", "20 KiB", "30 KiB", "40 KiB"]),
    ],
)
def test_bytes_are_counted_in_binary_units_with_round_ticks(most, labels):
    def ticks(y):
        return [label.get_text() for label in plot_lines({"a": [0, most]}, x="", y=y, title="").ax.get_yticklabels()]

    assert ticks("bytes alive") == labels and ticks("ratio")[0] != "0 B"


def test_lines_that_leave_their_ends_say_between_which_values():
    lines = {"kept": [40, 80, 60], "freed": [40, 40, 40]}
    assert plot_lines(lines, x="batch", y="bytes alive", title="Two loops", at=[1, 4, 16]).description == (
        "Two loops. Up: bytes alive. Right: batch, from 1 to 16. kept: from 40 B to 60 B, between 40 B and 80 B. "
        "freed: 40 B throughout."
    )


@pytest.mark.parametrize("doubling", [True, False])
def test_panels_share_their_x_axis_and_doubling_puts_factors_of_two_equally_far_apart(doubling):
    drawing = plot_trade(TRADE, x="parts", at=[1, 2, 4, 8], title="A trade", doubling=doubling)
    drawing.figure.draw_without_rendering()
    upper, lower = drawing.figure.axes
    assert upper.get_xlim() == lower.get_xlim() and upper.get_window_extent().y0 > lower.get_window_extent().y1
    assert [ax.get_ylabel() for ax in (upper, lower)] == list(TRADE)
    assert [label.get_text() for label in lower.get_xticklabels()] == ["1", "2", "4", "8"]
    gaps = [b - a for a, b in pairwise(lower.transData.transform((x, 100))[0] for x in (1, 2, 4, 8))]
    assert (max(gaps) - min(gaps) < 0.5) == doubling


def test_a_phase_without_calls_is_left_out():
    assert "backward" not in plot_hooks(CALLS | {"backward": []}).description


def test_all_maps_have_one_scale_around_zero_and_the_note_gives_it():
    def scale(*rows):
        drawing = plot_maps(IMAGES[:1], *rows, title="")
        (note,) = [text for text in written_in(drawing) if text.startswith("white")]
        return note, {ax.images[0].get_clim() for ax in drawing.figure.axes[1:]}

    assert scale(MAPS[:1], MAPS[1:]) == ("white: 0; full blue: 4.00; full orange: -4.00", {(-4.0, 4.0)})
    assert scale(MAPS[1:]) == ("white: 0; full blue: 2.00", {(-2.0, 2.0)})
    assert scale([("nothing", torch.zeros(2, 3))]) == ("white: 0; full blue: 1.00", {(-1.0, 1.0)})


# Bytes over time.


def test_a_timeline_in_words():
    x = leaf(1000)
    with MemoryTracker(x) as memory:
        with memory.phase("forward"):
            loss = x.exp().sum()
        with memory.phase("backward"):
            loss.backward()
    assert plot_memory(memory, title="One exp").description == (
        "One exp, over 6 allocations and frees: peak 7.8 KiB after aten::mul in backward; 3.9 KiB at the end. "
        "At the peak: gradients 3.9 KiB, saved for backward 3.9 KiB, temporary 4 B, other 4 B. "
        "Left behind by each phase: forward +3.9 KiB, backward 0 B."
    )


def test_the_peak_is_marked_with_its_operation_and_every_category_is_in_the_key():
    timeline = training_step().timeline()
    texts = written_in(FIGURES["step"]())
    assert f"peak {timeline.peak / 1024:.1f} KiB\nafter {timeline.peak_op}" in texts
    assert {*timeline.categories, "forward", "backward", "step"} <= {*texts}


def test_names_of_phases_stand_upright_turn_or_go_into_a_key_of_colours():
    def named(name):
        drawing = FIGURES[name]()
        (above,) = drawing.ax.child_axes
        return {label.get_text(): label.get_rotation() for label in above.get_xticklabels()}, written_in(drawing)

    assert named("step")[0] == {"forward": 0, "backward": 0, "step": 0}
    assert named("four_batches")[0]["forward0"] == 90
    names, texts = named("forty_batches")
    assert names == {} and {"forward (40 phases)", "backward (40 phases)", "step"} <= {*texts}
    assert named("nested")[0] == {"epoch": 0}  # only outer phases
    assert [phase_stem(name) for name in ("forward3", "epoch [2]", "7", "step")] == ["forward", "epoch", "7", "step"]
