"""What holds of every figure: texts that do not touch, paper of their own, words; and how a notebook shows them."""

import ast
import doctest
import functools
import importlib
import itertools
import json
import pkgutil
import re
import subprocess
import sys

import matplotlib
import pytest
import torch

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from course_utils import draw
from course_utils.draw import Drawing, plot_bars, plot_graph, plot_lines, plot_memory, plot_trade
from course_utils.draw.graph import STYLES
from course_utils.draw.heat_map import plot_heat_map
from course_utils.draw.hooks import MOST_CALLS, plot_hooks
from course_utils.draw.labels import ELLIPSIS, byte_unit, shortened, wrapped
from course_utils.draw.lanes import MOST_STEPS, plot_lanes
from course_utils.draw.maps import plot_maps
from course_utils.draw.memory import SHADES
from course_utils.draw.panels import plot_panels
from course_utils.draw.stacked import plot_stacked
from course_utils.draw.style import INK, PAPER, QUIET_INK, RULE, contrast, text_width
from tests import figures
from tests.figures import GRAPH_FIGURES, OF_THEIR_OWN, OTHERS, TIMELINES
from tests.recorded_graphs import leaf

pytestmark = pytest.mark.usefixtures("closed_figures")

EVERY = [*GRAPH_FIGURES, *TIMELINES, *OTHERS]


def in_half_a_dark_figure(make):
    """A figure of a learner's own, in a style of their own, drawn into beside something else."""

    def drawn():
        with plt.style.context("dark_background"):
            figure, axes = plt.subplots(1, 2, figsize=(12, 5))
        axes[1].set_axis_off()
        drawing = make(ax=axes[0])
        assert drawing.ax is axes[0] and drawing.figure is figure and plt.get_fignums() == [figure.number]
        return drawing

    drawn.__name__ = f"{make.__name__}_in_given_axes"
    return drawn


def in_a_subfigure():
    left, _ = plt.figure(figsize=(12, 4)).subfigures(1, 2)
    return figures.step(ax=left.subplots())


def two_in_one_figure():
    _, axes = plt.subplots(1, 2, figsize=(14, 5))
    figures.step(ax=axes[0])
    return figures.bars(ax=axes[1])


_HALVED = (
    figures.gated,
    figures.three_nodes,
    figures.long_names,
    figures.step,
    figures.many_names,
    figures.narrow_phase,
)
# In half of a figure the eras of two years are too short for their words.
HALVES = [in_half_a_dark_figure(make) for make in (*_HALVED, *OTHERS) if make is not figures.history]
ALL = [*EVERY, *OF_THEIR_OWN, *HALVES, in_a_subfigure, two_in_one_figure]


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
def measured(make):
    """A figure's size, each text in it with its box, and its papers: drawn once for the tests that ask."""
    drawing = make()
    texts = own_texts(drawing)
    assert texts
    papers = [artist.get_window_extent() for artist in drawing.figure.artists if isinstance(artist, Rectangle)]
    inks = {matplotlib.colors.to_hex(text.get_color()) for text, _ in texts if text not in drawing.ax.texts}
    return drawing.figure.bbox.frozen(), [(text.get_text(), box) for text, box in texts], papers, inks


@pytest.mark.parametrize("make", ALL)
def test_no_text_touches_another(make):
    _, boxes, *_ = measured(make)
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        # Ascenders of one line may reach by a hair into the room below the line above.
        assert wide <= 0.5 or high <= 1.5, (one, other, wide, high)


@pytest.mark.parametrize("make", ALL)
def test_no_text_is_cut_by_the_figure(make):
    frame, boxes, *_ = measured(make)
    for text, box in boxes:
        assert box.x0 >= frame.x0 and box.x1 <= frame.x1, text
        assert box.y0 >= frame.y0 and box.y1 <= frame.y1, text


@pytest.mark.parametrize("make", [*EVERY, *OF_THEIR_OWN])
def test_no_figure_is_so_wide_that_the_page_would_shrink_it(make):
    assert measured(make)[0].width * 72 / plt.rcParams["figure.dpi"] <= 930


def test_texts_contrast_with_everything_they_stand_on():
    grounds = [PAPER, *SHADES, *(fill for fill, *_ in STYLES.values())]
    assert all(contrast(INK, ground) >= 7 for ground in grounds)
    assert contrast(QUIET_INK, PAPER) >= 7 and contrast(RULE, PAPER) >= 3


@pytest.mark.parametrize("make", [figures.three_nodes, figures.step, figures.bars, figures.crowded_lines])
@pytest.mark.parametrize("page", ["#FFFFFF", "#111111", "#1E1E1E"])
def test_figures_bring_their_own_paper_to_light_and_dark_pages(make, page):
    """JupyterLab's pages: what is read stands on the paper, whatever is around it."""
    plt.rcParams.update({"axes.facecolor": page, "text.color": "#FF00FF", "figure.facecolor": page})
    try:
        drawing = make()
    finally:
        plt.rcdefaults()
    assert matplotlib.colors.to_hex(drawing.figure.get_facecolor(), keep_alpha=True).upper() == PAPER + "FF"
    assert {matplotlib.colors.to_hex(text.get_color()).upper() for text, _ in own_texts(drawing)} <= {INK, QUIET_INK}


@pytest.mark.parametrize("make", HALVES)
def test_axes_in_a_dark_figure_get_paper_under_all_that_is_drawn(make):
    _, texts, (under,), inks = measured(make)
    for text, box in texts:
        assert under.x0 <= box.x0 and box.x1 <= under.x1 and under.y0 <= box.y0 and box.y1 <= under.y1, text
    assert all(contrast(ink, PAPER) >= 7 for ink in inks)


def test_the_learners_style_is_left_as_it_was():
    before = dict(plt.rcParams)
    figures.three_nodes()
    figures.step()
    figures.bars()
    assert dict(plt.rcParams) == before


@pytest.mark.parametrize("make", [figures.gated, figures.step, figures.four_batches, figures.bars])
def test_words_are_the_same_in_every_run_and_free_of_addresses(make):
    one, other = make().description, make().description
    assert one == other
    assert not re.search("0x[0-9a-f]{4}", one) and len(one) < 1500


@pytest.mark.parametrize(
    ("refused", "error", "said"),
    [
        (lambda: plot_memory(3), TypeError, "plot_memory was given 3"),
        (lambda: plot_memory(figures.tracked(), x="seconds"), ValueError, 'x is "event" or "time"'),
        (lambda: plot_bars({"a": "many"}), TypeError, "plot_bars was given"),
        (lambda: plot_bars({}), ValueError, "empty dictionary"),
        (lambda: plot_graph(torch.ones(1)), ValueError, "has no history"),
        (lambda: plot_graph(leaf(2).exp().sum(), 3), TypeError, "Names were to be taken"),
        *(
            (lambda panels=panels: plot_panels(panels, title=""), ValueError, said)
            for panels, said in [
                ({}, "0 panels"),
                ({str(number): {"a": 1.0} for number in range(6)}, "6 panels"),
                ({"one": {"a": 1.0}, "two": {"b": 1.0}}, "'two' has the alternatives b"),
                ({"one": {}}, "the alternatives none"),
                ({"one": {"a": -1.0}}, "negative"),
            ]
        ),
        *(
            (lambda bills=bills: plot_stacked(bills, title=""), ValueError, "bill")
            for bills in [{}, {"one": {}}, {"one": dict.fromkeys("abcde", 1)}, {"one": {"a": 1}, "two": {}}]
        ),
        *(
            (lambda lines=lines, at=at: plot_lines(lines, x="", y="", title="", at=at), ValueError, said)
            for lines, at, said in [
                ({}, None, "Expected"),
                ({"a": []}, None, "Expected"),
                ({str(n): [1] for n in range(7)}, None, "Expected"),
                ({"a": [1, 2, 3]}, [1, 2], "'a' has 3 values"),
            ]
        ),
        *(
            (
                lambda panels=panels, at=at: plot_trade(panels, x="", at=at, title="", doubling=True),
                ValueError,
                "Expected",
            )
            for panels, at in [({}, [1]), ({"y": {}}, [1]), ({"y": {"a": [1, 2]}}, [1]), ({"y": {"a": [1, 2]}}, [0, 1])]
        ),
        *(
            (
                lambda given=given: plot_heat_map(given[0], rows=given[1], columns=figures.COLUMNS, title=""),
                ValueError,
                said,
            )
            for *given, said in [
                ([], ("a", []), "at least one row"),
                ([[1.0, 2.0]], ("a", [1]), "1 rows of 3"),
                ([[1.0, 2.0, 3.0]], ("a", [1, 2]), "2 rows of 3"),
                ([[1.0, 0.0, 3.0]], ("a", [1]), "above 0"),
                ([[1.0, float("nan"), 3.0]], ("a", [1]), "above 0"),
                ([[1.0, -2.0, 3.0]], ("a", [1]), "above 0"),
            ]
        ),
        (lambda: plot_hooks({"forward": []}), ValueError, "0 calls"),
        (lambda: plot_hooks({"forward": [("hook", "0")] * (MOST_CALLS + 1)}), ValueError, f"1 to {MOST_CALLS} calls"),
        *(
            (lambda calls=calls: plot_hooks(calls), TypeError, "pairs")
            for calls in ([("hook", "0")], {"forward": ["hook"]}, {"forward": [("hook", 0)]})
        ),
        *(
            (lambda strips=strips: plot_lanes(strips, title=""), ValueError, "1 to 16 notes")
            for strips in ({}, {"empty": []}, {"long": [("caller", True)] * (MOST_STEPS + 1)})
        ),
        *(
            (lambda given=given: plot_maps(given[0], *given[1], title=""), ValueError, "at least one of each")
            for given in (([], (figures.MAPS,)), (figures.IMAGES, ()), (figures.IMAGES, ([],)))
        ),
        (lambda: plot_maps([("a 1", torch.zeros(1, 2, 2))], figures.MAPS, title=""), ValueError, "'a 1' has shape"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(refused, error, said):
    with pytest.raises(error, match=said):
        refused()


MODULES = [importlib.import_module(found.name) for found in pkgutil.iter_modules(draw.__path__, "course_utils.draw.")]


@pytest.mark.parametrize("module", [sys.modules["course_utils.measure.compare"], *MODULES])
def test_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


# Names that have to fit.


def test_shortening_keeps_both_ends():
    assert shortened("encoder.layers.0.weight", 12, len) == f"encode{ELLIPSIS}eight"
    assert shortened("weight", 6, len) == "weight"
    assert shortened("weight", 0, len) == ELLIPSIS


@pytest.mark.parametrize(
    "name", ["MaxPool2DWithIndices", "a.very_long.name.of.a.weight", "supercalifragilistic", "a b"]
)
@pytest.mark.parametrize("limit", [3, 8, 12, 40])
def test_wrapping_never_exceeds_its_limit(name, limit):
    lines = wrapped(name, limit, len)
    assert 1 <= len(lines) <= 2
    assert all(len(line) <= limit for line in lines)
    if limit == 40:
        assert lines == (name,)


def test_wrapping_breaks_between_words():
    assert wrapped("MaxPool2DWithIndices", 12, len) == ("MaxPool2D", "WithIndices")


def test_bytes_have_the_greatest_unit_that_they_fill():
    assert [byte_unit(size) for size in (0, 1023, 1024, 10**7)] == [
        ("B", 1), ("B", 1), ("KiB", 1024), ("MiB", 1024**2),
    ]  # fmt: skip


def test_text_widths_are_those_of_matplotlib():
    figure = plt.figure(dpi=100)
    text = figure.text(0, 0, "MaxPool2DWithIndices", fontsize=8.5, fontweight="bold", family="DejaVu Sans")
    drawn = text.get_window_extent().width * 72 / 100
    assert text_width("MaxPool2DWithIndices", 8.5, True) == pytest.approx(drawn, abs=1.0)


# In a notebook.

CELLS = [
    "import matplotlib.pyplot as plt\nimport torch\nfrom course_utils.draw import plot_bars, plot_graph",
    "plot_bars({'a': 10, 'b': 20})\nplt.show()",
    "plot_bars({'a': 10, 'b': 20})",
    "plt.plot([1, 2]);",
    "_, axes = plt.subplots(1, 2)\nplot_bars({'a': 1}, ax=axes[0])\nplot_bars({'b': 2}, ax=axes[1])",
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
        folded = (
            f'<details class="course-words"><summary>The figure in words</summary><p>{expected}</p></details><style>'
        )
        assert words.data["text/html"].startswith(folded)
    # A figure of the learner's own is shown as ever; ours set nothing that would keep it from being shown.
    assert "image/png" in shown[3][-1].data and shown[3][-1].data["text/plain"].startswith("<Figure")
    assert shown[4][0].data["text/plain"] == "Bytes. bytes: a 1 B. Bytes. bytes: b 2 B."
    assert len(shown[4]) == 2 and shown[5] == []
    json.dumps(notebook)


def test_a_terminal_gets_the_words():
    drawing = figures.bars_of_bytes()
    assert isinstance(drawing, Drawing)
    assert repr(drawing) == "What a log keeps alive. bytes: list of losses 1.5 MiB, detached 386.5 KiB."


def test_importing_draws_nothing_and_loads_no_matplotlib():
    code = (
        "import sys, course_utils.draw\nprint([m for m in ('matplotlib', 'IPython', 'numpy.f2py') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ast.literal_eval(result.stdout) == []
