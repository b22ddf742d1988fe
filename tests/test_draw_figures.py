"""What stands in bars, lines, maps, rows and columns: counted and read, not compared by pixels."""

from itertools import pairwise

import matplotlib
import pytest
import torch
from torch import nn, ones

matplotlib.use("agg")

from matplotlib.colors import to_rgb
from matplotlib.patches import Polygon, Rectangle

from course_utils.draw import plot_history, plot_lines, plot_trade
from course_utils.draw.heat_map import colour, plot_heat_map, written
from course_utils.draw.history import ERAS, RELEASES
from course_utils.draw.hooks import plot_hooks
from course_utils.draw.lanes import plot_lanes
from course_utils.draw.maps import plot_maps
from course_utils.draw.panels import plot_panels
from course_utils.draw.style import INK, PAPER, contrast
from tests import figures
from tests.figures import BILLS, COLUMNS, CROWDED, FORWARD, IMAGES, MAPS, NOTES, PANELS, RATIOS, ROWS, TRADE

pytestmark = pytest.mark.usefixtures("closed_figures")


def written_in(drawing):
    """Every text of a figure."""
    return [text.get_text() for text in drawing.figure.findobj(matplotlib.text.Text) if text.get_text()]


def looks(bars):
    return [(bar.get_facecolor(), bar.get_hatch()) for bar in bars]


# Bars.


def test_every_value_has_a_bar_as_long_as_it_is_great():
    panels = figures.panels().ax.containers
    assert len(panels) == len(PANELS)
    for bars, values in zip(panels, PANELS.values(), strict=True):
        all_of_it, half = (bar.get_width() for bar in bars)
        assert half / all_of_it == pytest.approx(values["half"] / values["all"])


def test_each_panel_differs_from_its_neighbours_in_colour_and_hatch():
    found = {look for bars in figures.panels().ax.containers for look in looks(bars)}
    assert len(found) == len(PANELS) == len({hatch for _, hatch in found})


def test_values_are_written_in_the_unit_that_the_heading_names():
    texts = written_in(figures.panels())
    for text in ("Two ways", "all", "half", *PANELS, "4 M", "2 M", "4.0 KiB", "1.0 KiB", "0.52", "0.90"):
        assert text in texts
    assert "time: as a multiple of all" in texts


def test_the_words_of_panels_say_the_same_as_the_figure():
    assert plot_panels(PANELS, title="Which is cheaper?").description == (
        "Which is cheaper? FLOPs a step: all 4 M, half 2 M. bytes held: all 4.0 KiB, half 1.0 KiB. "
        "step time: all 1.00, half 0.52. test accuracy: all 0.90, half 0.90."
    )


def test_rows_follow_the_first_panel_whatever_the_order_of_the_others():
    turned = {"one": {"a": 1.0, "b": 2.0}, "two": {"b": 4.0, "a": 3.0}}
    assert plot_panels(turned, title="T").description == "T. one: a 1.00, b 2.00. two: a 3.00, b 4.00."


def test_bars_in_words():
    words = figures.bars_of_bytes().description
    assert words == "What a log keeps alive. bytes: list of losses 1.5 MiB, detached 386.5 KiB."
    words = figures.bars().description
    assert "FLOPs: both branches, multiplied by the gate afterwards 41.5 M, one branch 20.6 M" in words


def test_every_part_of_a_bill_begins_where_the_one_before_ends():
    parts = figures.stacked().ax.containers
    for row, bill in enumerate(BILLS.values()):
        ends = 0
        for bars, size in zip(parts, bill.values(), strict=True):
            assert (bars[row].get_x(), bars[row].get_width()) == (ends, size)
            ends += size


def test_parts_differ_in_colour_and_hatch_and_are_named_with_their_sums():
    drawing = figures.stacked()
    found = [looks(bars)[0] for bars in drawing.ax.containers]
    assert len({color for color, _ in found}) == len({hatch for _, hatch in found}) == 3
    for text in ("The bill", "activations", "gradients", "optimizer state", "5.9 KiB", "1.0 KiB", "0 B"):
        assert text in written_in(drawing)


# Lines.


def drawn_lines(lines, **options):
    return plot_lines(lines, **{"x": "batch", "y": "bytes alive", "title": "Two loops"} | options)


@pytest.mark.parametrize("make", [figures.crowded_lines, figures.lines_at_zero, figures.one_point])
def test_every_line_is_named(make):
    ax = make().ax
    assert sorted(text.get_text() for text in ax.texts) == sorted(line.get_label() for line in ax.lines)


def test_lines_differ_in_colour_dashes_and_marker():
    lines = drawn_lines(CROWDED).ax.lines
    for look in ("get_color", "get_linestyle", "get_marker"):
        assert len({str(getattr(line, look)()) for line in lines}) >= 4
    assert len({(str(line.get_color()), line.get_marker()) for line in lines}) == 6


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
    assert [label.get_text() for label in drawn_lines({"a": [0, most]}).ax.get_yticklabels()] == labels
    assert drawn_lines({"a": [0, most]}, y="ratio").ax.get_yticklabels()[0].get_text() != "0 B"


def test_lines_say_in_words_what_they_show():
    words = drawn_lines({"kept": [40, 80, 60], "freed": [40, 40, 40]}).description
    assert "Two loops." in words and "Right: batch, from 1 to 3." in words
    assert "kept: from 40 B to 60 B, between 40 B and 80 B." in words and "freed: 40 B throughout." in words


def test_x_positions_can_be_given():
    assert list(drawn_lines({"a": [1, 2, 3]}, at=[1, 4, 16]).ax.lines[0].get_xdata()) == [1, 4, 16]


def test_each_quantity_has_a_panel_of_its_own_with_its_unit_and_its_lines():
    axes = figures.trade().figure.axes
    assert [ax.get_ylabel() for ax in axes] == list(TRADE)
    for ax, lines in zip(axes, TRADE.values(), strict=True):
        assert [list(line.get_ydata()) for line in ax.lines] == list(lines.values())
        assert sorted(text.get_text() for text in ax.texts) == sorted(lines)


def test_the_panels_share_their_x_axis_and_name_it_once():
    drawing = figures.trade()
    drawing.figure.draw_without_rendering()
    upper, lower = drawing.figure.axes
    assert upper.get_xlim() == lower.get_xlim() and upper.get_window_extent().y0 > lower.get_window_extent().y1
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("", "parts")
    assert (upper.get_title(loc="left"), lower.get_title(loc="left")) == ("A trade", "")
    assert [label.get_text() for label in lower.get_xticklabels()] == ["1", "2", "4", "8"]


@pytest.mark.parametrize("doubling", [True, False])
def test_doubling_puts_factors_of_two_equally_far_apart(doubling):
    ax = plot_trade(TRADE, x="parts", at=[1, 2, 4, 8], title="A trade", doubling=doubling).ax
    gaps = [b - a for a, b in pairwise(ax.transData.transform((x, 100))[0] for x in (1, 2, 4, 8))]
    assert (max(gaps) - min(gaps) < 0.5) == doubling


def test_the_words_name_the_trade_once_and_every_panel():
    drawing = figures.trade()
    assert drawing.description.count("A trade") == 1
    assert "Up: peak bytes. Right: parts, from 1 to 8. measured: from 800 B to 130 B." in drawing.description
    assert "Up: time (times one batch)." in drawing.description
    assert drawing.figure._course_words == (drawing.description,)


# The heat map of ratios.


def test_every_ratio_stands_in_its_cell_and_the_first_row_on_top():
    ax = figures.heat_map().ax
    texts = {text.get_position(): text.get_text() for text in ax.texts}
    assert texts == {(x, y): written(ratio) for y, row in enumerate(RATIOS) for x, ratio in enumerate(row)}
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert len([patch for patch in ax.patches if isinstance(patch, Rectangle)]) == 6


def test_ratios_are_written_with_two_digits_that_count():
    words = {0.0123: "0.012x", 0.25: "0.25x", 0.994: "0.99x", 0.996: "1.0x", 2.34: "2.3x", 9.96: "10x", 120.0: "120x"}
    assert {ratio: written(ratio) for ratio in words} == words


def test_one_is_paper_and_the_sides_of_it_have_colours_of_their_own():
    assert colour(1.0) == pytest.approx(to_rgb(PAPER))
    assert colour(8.0) == colour(500.0) and colour(1 / 8) == colour(0.001)
    red, _, blue = colour(4.0)
    assert blue > red
    red, _, blue = colour(0.25)
    assert red > blue


def test_equal_factors_are_equally_far_from_paper():
    paper, below, above = (to_rgb(c) for c in (PAPER, colour(1 / 8), colour(8.0)))
    half = [
        [(c - p) / (f - p) for c, p, f in zip(colour(ratio), paper, full, strict=True)]
        for ratio, full in ((8**-0.5, below), (8**0.5, above))
    ]
    assert half[0] == pytest.approx([0.5] * 3) and half[1] == pytest.approx([0.5] * 3)


def test_the_number_reads_on_its_colour():
    ratios = [0.01, 0.125, 0.2, 0.35, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 50.0]
    drawing = plot_heat_map([ratios], rows=("models", [1]), columns=("width", ratios), title="")
    for ratio, text in zip(ratios, drawing.ax.texts, strict=True):
        assert contrast(text.get_color(), colour(ratio)) >= 4.5


def test_axes_are_named_and_the_legend_says_what_the_colours_mean():
    ax = figures.heat_map().ax
    assert (ax.get_ylabel(), ax.get_xlabel()) == (ROWS[0], COLUMNS[0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["the loop is faster", "one call is faster"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["2", "100"]


def test_the_words_of_the_heat_map_say_the_same_as_the_figure():
    assert figures.heat_map().description == (
        "Times faster. Down: number of models. Right: width of a layer. Below 1: the loop is faster; above 1: one call "
        "is faster. number of models 2: 0.25x at 8, 0.50x at 64, 1.0x at 512. number of models 100: 1.1x at 8, 8.0x at "
        "64, 120x at 512."
    )


# Grad control through the versions.


def test_every_era_is_drawn_with_what_it_did():
    ax = plot_history().ax
    filled = [patch for patch in ax.patches if isinstance(patch, Polygon) and patch.get_facecolor()[3]]
    assert len(filled) == len(ERAS)
    assert [text.get_text() for text in ax.texts] == [era.effect for era in ERAS]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(dict.fromkeys(era.row for era in ERAS))


def test_what_no_longer_works_is_hatched_too_so_that_colour_is_not_the_only_sign():
    assert len([patch for patch in plot_history().ax.patches if patch.get_hatch()]) == sum(era.lapsed for era in ERAS)


def test_releases_have_their_line_and_their_date_above_it():
    ax = plot_history().ax
    assert ax.get_title(loc="left") and ax.get_xlabel() == "year"
    assert [line.get_xdata()[0] for line in ax.lines] == [when for when, *_ in RELEASES]
    (above,) = ax.child_axes
    dates = [(label.get_position()[0], label.get_text()) for label in above.get_xticklabels()]
    assert dates == [(when, f"{version}\n{date}") for when, version, date in RELEASES]


def test_the_effects_lie_inside_their_bars():
    drawing = plot_history()
    drawing.figure.draw_without_rendering()
    for era, text in zip(ERAS, drawing.ax.texts, strict=True):
        if era.end is not None:
            assert text.get_window_extent().x1 < drawing.ax.transData.transform((era.end, 0))[0]


def test_the_words_of_the_history_say_the_same_as_the_figure():
    words = plot_history(title="Then and now").description
    assert words.startswith("Then and now. ")
    for _, version, date in RELEASES:
        assert f"{version} ({date})" in words
    assert "volatile=True, from 0.1 (January 2017) to 0.4 (April 2018): an input's flag" in words


def test_eras_of_a_row_follow_each_other_and_start_at_releases():
    dates = {when for when, *_ in RELEASES}
    for era in ERAS:
        assert era.start in dates and (era.end is None or (era.end in dates and era.start < era.end))


# The order of hooks, and a switch with a lane for each who looks at it.


def boxes(drawing, zorder=3):
    """The boxes by their middle: without the shades of the phases."""
    found = [patch for patch in drawing.ax.patches if isinstance(patch, Rectangle) and patch.get_zorder() == zorder]
    return [(box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2) for box in found]


def test_every_call_has_its_box_in_the_column_of_its_number_and_the_row_of_its_kind():
    drawing = figures.hooks()
    assert boxes(drawing) == [pytest.approx(place) for place in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 3))]
    assert [tuple(point) for point in drawing.ax.lines[0].get_xydata()] == [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3)]
    rows = [label.get_text() for label in drawing.ax.get_yticklabels()]
    assert rows == ["forward pre-hook", "forward hook", "tensor hook", "post-accumulate grad hook"]
    assert [label.get_text() for label in drawing.ax.get_xticklabels()] == ["1", "2", "3", "4", "5"]


def test_what_a_hook_really_said_is_what_is_drawn():
    calls, layer = [], nn.Linear(2, 2)
    layer.register_forward_pre_hook(lambda *_: calls.append(("pre", "layer")))
    layer.register_forward_hook(lambda *_: calls.append(("after", "layer")))
    layer(ones(1, 2))
    words = plot_hooks({"forward": calls}, title="One layer").description
    assert words == "One layer. forward: 1 pre at layer, 2 after at layer."


def test_each_phase_has_its_name_and_a_shade_from_its_first_to_its_last_call():
    ax = figures.hooks().ax
    (above,) = ax.child_axes
    assert [text.get_text() for text in above.get_xticklabels()] == ["forward", "backward"]
    shades = [
        patch.get_path().get_extents(patch.get_patch_transform()) for patch in ax.patches if not patch.get_zorder()
    ]
    assert [(shade.x0, shade.x1) for shade in shades] == [(0.5, 3.5), (3.5, 5.5)]


def test_a_phase_without_calls_is_left_out():
    assert "backward" not in plot_hooks({"forward": FORWARD, "backward": []}).description


@pytest.mark.parametrize("make", [figures.hooks, figures.hooks_with_long_names, figures.many_hooks])
def test_names_lie_inside_their_boxes_and_read_well_there(make):
    drawing = make()
    drawing.figure.draw_without_rendering()
    frames = [patch for patch in drawing.ax.patches if patch.get_zorder() == 3]
    for text, frame in zip(drawing.ax.texts, frames, strict=True):
        box, around = text.get_window_extent(), frame.get_window_extent()
        assert around.x0 <= box.x0 and box.x1 <= around.x1 and around.y0 <= box.y0 and box.y1 <= around.y1, text
        assert contrast(INK, frame.get_facecolor()) >= 4.5


def test_every_note_has_its_box_in_the_column_of_its_step_and_the_lane_of_who_made_it():
    drawing = plot_lanes({"leak": NOTES, "none": NOTES[:1]}, title="Modes")
    lanes = [label.get_text() for label in drawing.ax.get_yticklabels()]
    assert lanes == ["caller", "generator", "caller"]
    heights = list(drawing.ax.get_yticks())
    assert heights == sorted(set(heights))
    upper, lower = heights[:2], heights[2]
    places = (1, upper[0]), (2, upper[1]), (3, upper[0]), (1, lower)
    assert boxes(drawing, zorder=4) == [pytest.approx(place) for place in places]


def test_on_and_off_differ_in_word_colour_and_hatch_and_the_words_read_well():
    ax = plot_lanes({"leak": NOTES}, title="Modes").ax
    words = [text.get_text() for text in ax.texts if text.get_text() in ("on", "off")]
    assert words == ["on", "off", "off"]
    fills = [patch for patch in ax.patches if patch.get_zorder() == 3]
    assert [bool(fill.get_hatch()) for fill in fills] == [False, True, True]
    assert len({fill.get_facecolor() for fill in fills}) == 2
    assert all(contrast(INK, fill.get_facecolor()) >= 4.5 for fill in fills)


def test_what_a_thread_and_its_caller_really_saw_is_what_is_said():
    with torch.no_grad():
        notes = [("caller", torch.is_grad_enabled())]
    notes.append(("caller", torch.is_grad_enabled()))
    assert plot_lanes({"one block": notes}, title="Modes").description == "Modes. one block: 1 caller off, 2 caller on."


# Images and maps.


def drawn_maps(images=IMAGES, *rows):
    return plot_maps(images, *(rows or (MAPS,)), title="Where it looks")


def test_images_stand_above_the_maps_each_under_its_name():
    axes = drawn_maps().figure.axes
    assert [ax.child_axes[0].get_xticklabels()[0].get_text() for ax in axes] == ["a 1", "a 7", "for 1", "for 7"]
    tops = [ax.get_position().y0 for ax in axes]
    assert tops[0] == tops[1] > tops[2] == tops[3]
    for ax, (_, grid) in zip(axes, IMAGES + MAPS, strict=True):
        assert torch.equal(torch.from_numpy(ax.images[0].get_array().data).float(), grid)


def test_all_maps_have_one_scale_around_zero_and_the_note_gives_it():
    drawing = drawn_maps()
    assert {ax.images[0].get_clim() for ax in drawing.figure.axes[2:]} == {(-4.0, 4.0)}
    assert "white: 0; full blue: 4.00; full orange: -4.00" in written_in(drawing)


def test_orange_is_not_spoken_of_where_nothing_is_below_zero():
    assert "white: 0; full blue: 2.00" in written_in(drawn_maps(IMAGES, MAPS[1:]))


def test_maps_of_zeros_are_white():
    drawing = drawn_maps(IMAGES[:1], [("nothing", torch.zeros(2, 3))])
    assert drawing.figure.axes[1].images[0].get_clim() == (-1.0, 1.0)


def test_the_words_of_maps_say_the_range_and_the_place_of_the_most():
    assert drawn_maps().description == (
        "Where it looks. Images: a 1, a 7. for 1: from -1.00 to 4.00, the most at row 1, column 2. "
        "for 7: from 0.00 to 2.00, the most at row 2, column 2."
    )
