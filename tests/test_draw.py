"""What holds of every figure: texts that do not touch, paper of their own, words; and how a notebook shows them."""

import functools
import io
import itertools
import json
import re

import matplotlib
import pytest
import torch

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text

from course_utils import plot_bars, plot_graph, plot_lines, plot_memory, plot_trade
from course_utils.draw.bars import LOOKS, plot_maps, plot_panels
from course_utils.draw.graph import STYLES
from course_utils.draw.lanes import MOST_CALLS, MOST_STEPS, plot_hooks, plot_lanes
from course_utils.draw.memory import CATEGORY_STYLES, SHADES
from course_utils.draw.style import INK, ORANGE, PAPER, QUIET_INK, RULE, SKY, YELLOW, wrapped
from tests.figures import FIGURES, IMAGES, LONG_TITLE, MAPS, NOTES
from tests.recorded_graphs import leaf
from tests.test_card import contrast

pytestmark = pytest.mark.usefixtures("closed_figures")


def own_texts(drawing):
    """The texts that are seen, with their boxes."""
    drawing.figure.draw_without_rendering()
    hidden = set()
    for ax in [one for given in drawing.figure.axes for one in (given, *given.child_axes)]:
        for axis in (ax.xaxis, ax.yaxis):
            if not ax.axison or not axis.get_visible():
                hidden |= {*axis.findobj(Text)}
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():  # a label is made for a tick beyond the end, too, and not drawn
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    texts = drawing.figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible())
    # An annotation's own extent takes its leader line in; here the words alone count.
    return [(text, Text.get_window_extent(text)) for text in texts if text.get_text().strip() and text not in hidden]


@functools.cache
def measured(name):
    """A figure's size, each text in it with its place, and the boxes that texts stand in: drawn once for all tests."""
    drawing = FIGURES[name]()
    texts = own_texts(drawing)
    assert texts
    drawn = [
        patch for patch in drawing.ax.patches if isinstance(patch, (FancyBboxPatch, Rectangle)) and patch.zorder == 3
    ]
    # A graph's y grows downwards: the corners of its boxes are in the order of the page here.
    boxes = [patch.get_transform().transform_path(patch.get_path()).get_extents() for patch in drawn]
    inside = [(text.get_text(), box) for text, box in texts if text in drawing.ax.texts]
    return drawing.figure.bbox.frozen(), [(text.get_text(), box) for text, box in texts], inside, boxes


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_no_text_touches_another(name):
    for (one, first), (other, second) in itertools.combinations(measured(name)[1], 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        # Ascenders of one line may reach by a hair into the room below the line above.
        assert wide <= 0.5 or high <= 1.5, (one, other, wide, high)


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_is_cut_by_the_figure_and_no_figure_is_so_wide_that_the_page_would_shrink_it(name):
    frame, texts, *_ = measured(name)
    for text, box in texts:
        assert box.x0 >= frame.x0 and box.x1 <= frame.x1, text
        assert box.y0 >= frame.y0 and box.y1 <= frame.y1, text
    assert frame.width * 72 / plt.rcParams["figure.dpi"] <= 930


@pytest.mark.parametrize("name", FIGURES)
def test_texts_stay_inside_the_boxes_that_they_stand_in(name):
    *_, texts, boxes = measured(name)
    for text, box in texts:
        middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        for around in boxes:
            if around.contains(*middle):
                assert box.x0 >= around.x0 + 1 and box.x1 <= around.x1 - 1, text
                assert box.y0 >= around.y0 - 0.5 and box.y1 <= around.y1 + 0.5, text


@pytest.mark.parametrize("dpi", [50, 70, 100, 144, 200])
def test_a_saved_figure_has_paper_around_all_that_it_shows_at_every_sharpness(dpi):
    """Letters are wider at some sharpness than at another."""
    file = io.BytesIO()
    plot_lanes({"a": NOTES}, title=LONG_TITLE).figure.savefig(file, dpi=dpi)
    file.seek(0)
    picture = plt.imread(file)[..., :3]
    edge = max(1, int(dpi * 8 / 72))
    paper = torch.tensor(matplotlib.colors.to_rgb(PAPER))
    for side in (picture[:edge], picture[-edge:], picture[:, :edge], picture[:, -edge:]):
        assert (torch.tensor(side) - paper).abs().max() < 0.01


def test_texts_contrast_with_everything_they_stand_on():
    assert all(contrast(INK, ground) >= 7 for ground in [PAPER, *SHADES, *(fill for fill, *_ in STYLES.values())])
    assert all(contrast(INK, fill) >= 4.5 for fill in (SKY, ORANGE, YELLOW))  # boxes of hooks and notes
    assert contrast(QUIET_INK, PAPER) >= 7 and contrast(RULE, PAPER) >= 3
    for fill, border, _, _ in STYLES.values():
        assert contrast(border, PAPER) >= 3 and contrast(border, fill) >= 3


def test_what_a_box_of_a_graph_says_shows_without_colour_too():
    looks = {(role == "leaf", width, str(dashes)) for role, (_, _, width, dashes) in STYLES.items()}  # a leaf is square
    assert len(looks) == len(STYLES)


def test_areas_and_bars_differ_in_hatching_too():
    for looks in (list(CATEGORY_STYLES.values()), [(look["color"], look["hatch"]) for look in LOOKS]):
        assert len({*looks}) == len(looks)
        assert [hatch for _, hatch in looks].count("") <= 2  # the palest and the darkest have none


@pytest.mark.parametrize("name", ["crowded_lines", "trade"])
def test_every_line_is_named_and_differs_from_the_others_in_colour_dashes_and_marker(name):
    for ax in FIGURES[name]().figure.axes:
        assert sorted(text.get_text() for text in ax.texts) == sorted(line.get_label() for line in ax.lines)
        for look in ("get_color", "get_linestyle", "get_marker"):
            assert len({str(getattr(line, look)()) for line in ax.lines}) >= len(ax.lines) - 2
        assert len({(line.get_color(), line.get_marker()) for line in ax.lines}) == len(ax.lines)


@pytest.mark.parametrize("name", ["three_nodes", "step", "bars", "crowded_lines"])
@pytest.mark.parametrize("page", ["#FFFFFF", "#111111"])
def test_figures_bring_their_own_paper_to_light_and_dark_pages_and_leave_the_learners_style(name, page):
    plt.rcParams.update({"axes.facecolor": page, "text.color": "#FF00FF", "figure.facecolor": page})
    before = dict(plt.rcParams)
    try:
        drawing = FIGURES[name]()
        assert dict(plt.rcParams) == before
    finally:
        plt.rcdefaults()
    assert matplotlib.colors.to_hex(drawing.figure.get_facecolor(), keep_alpha=True).upper() == PAPER + "FF"
    assert {matplotlib.colors.to_hex(text.get_color()).upper() for text, _ in own_texts(drawing)} <= {INK, QUIET_INK}


@pytest.mark.parametrize("name", ["gated", "step", "four_batches", "bars"])
def test_words_are_the_same_in_every_run_and_free_of_addresses(name):
    one, other = FIGURES[name]().description, repr(FIGURES[name]())
    assert one == other
    assert not re.search("0x[0-9a-f]{4}", one) and len(one) < 1500


REFUSED = [
    (lambda: plot_memory(3), TypeError, "plot_memory was given 3"),
    (lambda: plot_bars({"a": "many"}), TypeError, "plot_bars was given"),
    (lambda: plot_bars({}), ValueError, "the alternatives none"),
    (lambda: plot_graph(torch.ones(1)), ValueError, "has no history"),
    (lambda: plot_graph(leaf(2).exp().sum(), 3), TypeError, "Names were to be taken"),
    (lambda: plot_panels({}, title=""), ValueError, "0 panels"),
    (lambda: plot_panels({str(number): {"a": 1.0} for number in range(6)}, title=""), ValueError, "6 panels"),
    (lambda: plot_panels({"one": {"a": 1.0}, "two": {"b": 1.0}}, title=""), ValueError, "'two' has the alternatives b"),
    (lambda: plot_panels({"one": {"a": -1.0}}, title=""), ValueError, "negative"),
    (lambda: plot_lines({}, x="", y="", title=""), ValueError, "0 lines"),
    (lambda: plot_lines({"a": []}, x="", y="", title=""), ValueError, "'a' has 0 values"),
    (lambda: plot_lines({str(n): [1] for n in range(7)}, x="", y="", title=""), ValueError, "7 lines"),
    (lambda: plot_lines({"a": [1, 2, 3]}, x="", y="", title="", at=[1, 2]), ValueError, "'a' has 3 values"),
    (lambda: plot_trade({}, x="", at=[1], title=""), ValueError, "no panel"),
    (lambda: plot_trade({"y": {"a": [1, 2]}}, x="", at=[0, 1], title="", doubling=True), ValueError, "above 0"),
    (lambda: plot_hooks({"forward": []}), ValueError, "0 calls"),
    (lambda: plot_hooks({"forward": [("hook", "0")] * (MOST_CALLS + 1)}), ValueError, f"1 to {MOST_CALLS} calls"),
    (lambda: plot_hooks([("hook", "0")]), TypeError, "pairs"),
    (lambda: plot_hooks({"forward": ["hook"]}), TypeError, "pairs"),
    (lambda: plot_lanes({}, title=""), ValueError, "1 to 16 notes"),
    (lambda: plot_lanes({"long": [("caller", True)] * (MOST_STEPS + 1)}, title=""), ValueError, "1 to 16 notes"),
    (lambda: plot_maps([], MAPS, title=""), ValueError, "at least one of each"),
    (lambda: plot_maps(IMAGES, [], title=""), ValueError, "at least one of each"),
    (lambda: plot_maps([("a 1", torch.zeros(1, 2, 2))], MAPS, title=""), ValueError, "'a 1' has shape"),
]


@pytest.mark.parametrize(("refused", "error", "said"), REFUSED)
def test_what_cannot_be_drawn_is_refused_in_words(refused, error, said):
    with pytest.raises(error, match=f"(?s)(?=.*Expected: ).*{said}"):
        refused()


@pytest.mark.parametrize(
    "name", ["MaxPool2DWithIndices", "a.very_long.name.of.a.weight", "supercalifragilistic", "a b"]
)
@pytest.mark.parametrize("limit", [3, 8, 12, 40])
def test_wrapping_never_exceeds_its_limit(name, limit):
    lines = wrapped(name, limit, len)
    assert 1 <= len(lines) <= 2 and all(len(line) <= limit for line in lines)
    assert limit < 40 or lines == (name,)


# In a notebook.

CELLS = [
    "import matplotlib.pyplot as plt\nfrom course_utils import plot_bars",
    "plot_bars({'a': 10, 'b': 20})\nplt.show()",
    "plot_bars({'a': 10, 'b': 20})",
    "plt.plot([1, 2]);",
    "drawing = plot_bars({'a': 10})\nplt.close()",
]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_notebook_shows_each_figure_once_with_its_words(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [[output for output in cell.outputs if output.output_type != "stream"] for cell in notebook.cells]
    for outputs in shown[1:3]:
        picture, words = outputs
        expected = "Bytes. bytes: a 10 B, b 20 B."
        assert picture.data["text/plain"] == expected
        assert picture.metadata["image/png"]["alt"] == expected
        summary = f"<summary>The figure in words</summary><p>{expected}</p>"
        assert words.data["text/html"].startswith(f'<details class="course-words">{summary}</details><style>')
    # A figure of the learner's own is shown as ever; ours set nothing that would keep it from being shown.
    assert "image/png" in shown[3][-1].data and shown[3][-1].data["text/plain"].startswith("<Figure")
    assert shown[4] == []
    json.dumps(notebook)
