"""Figures, tested by what is in them: texts that do not touch, boxes that no line crosses, colours, words."""

import doctest
import functools
import itertools
import json
import re
import sys

import matplotlib
import pytest
import torch
from torch import nn

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from course_utils.draw.graph_axes import STYLES
from course_utils.draw.graph_picture import graph_picture
from course_utils.draw.memory_axes import CATEGORY_STYLES, SHADES
from course_utils.draw.timeline_picture import Span, byte_unit, nested_levels, phase_stem, phase_strip
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from course_utils import draw
from course_utils.draw import fold, graph_card, labels, plot_bars, plot_graph, plot_memory, timeline_picture
from course_utils.draw.fold import folded
from course_utils.draw.labels import ELLIPSIS, shortened, wrapped
from course_utils.draw.layout import layered
from course_utils.draw.style import INK, PAPER, QUIET_INK, RULE, Drawing, contrast, text_width
from course_utils.graph import graph_memory
from course_utils.graph.names import tensor_names
from course_utils.measure.compare import Comparison, Cost
from course_utils.memory import MemoryTracker
from tests.recorded_graphs import GRAPHS, GatedNet, gated_loss, leaf, perceptron_model


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


# Graphs and timelines of the kinds that lessons show.


def gated():
    model = GatedNet()
    return plot_graph(gated_loss(model), model)


def three_nodes():
    x = leaf(10)
    return plot_graph((x * 2).sum(), x=x)


def twenty_steps():
    loss, model = GRAPHS["recurrent_cell_of_twenty_steps"]()
    return plot_graph(loss, model)


def two_hundred_nodes():
    x = y = leaf(5)
    for _ in range(50):
        y = (y.sin() + y * 2).exp()
    return plot_graph(y.sum(), {"x": x})


def encoder():
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4, enable_nested_tensor=False
    )
    return plot_graph(model(torch.randn(2, 8, 16)).sum(), model)


def long_names():
    tensors = {f"a_rather_long_prefix.block_{n}.self_attention.projection_weight": leaf(3, 3) for n in range(4)}
    product = torch.linalg.multi_dot(list(tensors.values()))
    return plot_graph(
        product.sum(), tensors, title="A title that is longer than the drawing of this graph is wide " * 2
    )


def in_given_axes():
    _, axes = plt.subplots(1, 2, figsize=(10, 4))
    model = GatedNet()
    return plot_graph(gated_loss(model), model, ax=axes[0])


def sparse_names():
    loss, _keep = GRAPHS["gated_convolutions"]()
    return plot_graph(loss)


GRAPH_FIGURES = [gated, three_nodes, twenty_steps, two_hundred_nodes, encoder, long_names, in_given_axes, sparse_names]


def tracked(*phases, size=100):
    """A tracker that saw so many tensors made, and kept, in each phase."""
    kept = []
    with MemoryTracker() as memory:
        for name, count in phases:
            with memory.phase(name):
                kept += [torch.empty(size) for _ in range(count)]
    return memory


def training_step(batches=1):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    with MemoryTracker(model, optimizer) as memory:
        for number in range(batches):
            suffix = str(number) if batches > 1 else ""
            with memory.phase(f"forward{suffix}"):
                loss = model(torch.randn(8, 64)).logsumexp(1).mean()
            with memory.phase(f"backward{suffix}"):
                loss.backward()
        with memory.phase("step"):
            optimizer.step()
    return memory


def step():
    return plot_memory(training_step(), title="One step")


def four_batches():
    return plot_memory(training_step(4))


def forty_batches():
    return plot_memory(training_step(40))


def in_time():
    return plot_memory(training_step(), x="time")


def peak_at_the_right_edge():
    return plot_memory(tracked(("a", 40), ("the last phase of them all", 1)))


def peak_at_the_left_edge():
    with MemoryTracker() as memory:
        big = torch.empty(10_000)
        del big
        kept = [torch.empty(10) for _ in range(200)]
    assert kept
    return plot_memory(memory)


def many_names():
    return plot_memory(tracked(*((f"phase number {n} with a long name", 3 + n % 4) for n in range(12))))


def narrow_phase():
    return plot_memory(tracked(("forward", 30), ("zero_grad", 0), ("backward", 30)))


def nothing_happened():
    return plot_memory(tracked())


def below_the_start():
    big, x = torch.ones(10_000), leaf(100)
    with MemoryTracker(big, x) as memory:
        with memory.phase("free"):
            del big
        with memory.phase("work"):
            x.exp().sum().backward()
    return plot_memory(memory)


def nested():
    with MemoryTracker() as memory, memory.phase("epoch"):
        kept = []
        for number in range(3):
            with memory.phase(f"batch {number}"):
                kept += [torch.empty(10) for _ in range(4)]
    assert kept
    return plot_memory(memory)


def timeline_in_given_axes():
    _, axes = plt.subplots(1, 2, figsize=(11, 4))
    return plot_memory(training_step(), ax=axes[1])


def in_a_subfigure():
    left, _ = plt.figure(figsize=(12, 4)).subfigures(1, 2)
    return plot_memory(training_step(), ax=left.subplots())


TIMELINES = [
    step,
    four_batches,
    forty_batches,
    in_time,
    peak_at_the_right_edge,
    peak_at_the_left_edge,
    many_names,
    narrow_phase,
    nothing_happened,
    below_the_start,
    nested,
    timeline_in_given_axes,
    in_a_subfigure,
]

COSTS = Comparison(
    (
        Cost("both branches, multiplied by the gate afterwards", 41_486_848, 1_278_464, 1_180_676, 1.0, 0.02),
        Cost("one branch", 20_646_400, 524_544, 459_524, 0.358, 0.01),
        Cost("nothing", 0, 0, 0, 0.0, 0.0),
    ),
    "both branches, multiplied by the gate afterwards",
    15,
)


def bars():
    return plot_bars(COSTS)


def bars_of_bytes():
    return plot_bars({"list of losses": 1583136, "detached": 395784}, title="What a log keeps alive")


def bars_in_given_axes():
    _, ax = plt.subplots(figsize=(6, 2))
    return plot_bars(COSTS, ax=ax)


ALL = [*GRAPH_FIGURES, *TIMELINES, bars, bars_of_bytes, bars_in_given_axes]


def texts(drawing):
    return [text for text in drawing.figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


def own_texts(drawing):
    """Texts with their boxes, without the empty axes that a given figure has beside ours."""
    drawing.figure.canvas.draw()
    others = {text for ax in drawing.figure.axes if ax is not drawing.ax for text in ax.findobj(Text)}
    hidden = set() if drawing.ax.axison else {*drawing.ax.xaxis.findobj(Text), *drawing.ax.yaxis.findobj(Text)}
    for axis in (drawing.ax.xaxis, drawing.ax.yaxis):  # a label is made for a tick beyond the end, too, and not drawn
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if not low <= tick.get_loc() <= high:
                hidden |= {tick.label1, tick.label2}
    return [(text, text.get_window_extent()) for text in texts(drawing) if text not in others | hidden]


@functools.cache
def measured(make):
    """The size of a figure, and each text in it with its box: drawn once for the tests that ask."""
    drawing = make()
    texts = [(text.get_text(), box) for text, box in own_texts(drawing)]
    assert texts
    return drawing.figure.bbox.frozen(), texts


@pytest.mark.parametrize("make", ALL)
def test_no_text_touches_another(make):
    _, boxes = measured(make)
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        # Ascenders of one line may reach by a hair into the room below the line above.
        assert wide <= 0.5 or high <= 1.5, (one, other, wide, high)


@pytest.mark.parametrize("make", ALL)
def test_no_text_is_cut_by_the_figure(make):
    frame, boxes = measured(make)
    for text, box in boxes:
        assert box.x0 >= frame.x0 and box.x1 <= frame.x1, text
        assert box.y0 >= frame.y0 and box.y1 <= frame.y1, text


@pytest.mark.parametrize("make", GRAPH_FIGURES)
def test_texts_stay_inside_their_boxes(make):
    drawing = make()
    boxes = own_texts(drawing)
    to_pixels = drawing.ax.transData
    patches = [patch for patch in drawing.ax.patches if isinstance(patch, FancyBboxPatch)]
    # y grows downwards in the data.
    corners = [to_pixels.transform_bbox(patch.get_bbox()).corners() for patch in patches]
    extents = [Bbox([points.min(axis=0), points.max(axis=0)]) for points in corners]
    inside = 0
    for text, box in boxes:
        middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
        around = [extent for extent in extents if extent.contains(*middle)]
        if around:
            extent, inside = around[-1], inside + 1
            assert box.x0 >= extent.x0 + 1 and box.x1 <= extent.x1 - 1, text.get_text()
            assert box.y0 >= extent.y0 - 0.5 and box.y1 <= extent.y1 + 0.5, text.get_text()
    assert inside


def picture_of(make):
    """The picture behind a figure of a graph."""
    seen = []

    def remember(*arguments, **keywords):
        seen.append(graph_picture(*arguments, **keywords))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("course_utils.draw.figures.graph_picture", remember)
        make()
    return seen[-1]


@pytest.mark.parametrize("make", GRAPH_FIGURES)
def test_no_line_runs_through_a_box_and_no_box_over_another(make):
    picture = picture_of(make)
    boxes = picture.boxes[: picture.count]
    for one, other in itertools.combinations(boxes, 2):
        apart = (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )
        assert apart
    for line in picture.lines:
        for step in range(21):
            share = step / 20
            # The curve as it is drawn: a cubic that leaves and arrives vertically.
            x = line.x0 + (line.x1 - line.x0) * share**2 * (3 - 2 * share)
            y = line.y0 + (line.y1 - line.y0) * share
            for box in boxes:
                inside = box.x + 1 < x < box.x + box.width - 1 and box.y + 1 < y < box.y + box.height - 1
                assert not inside, (line, box)


def test_every_node_has_a_box_and_every_leaf_its_name_and_shape():
    torch.manual_seed(0)
    model = GatedNet()
    loss = gated_loss(model)
    memory = graph_memory(loss)
    drawing = plot_graph(loss, model)
    picture = picture_of(lambda: plot_graph(loss, model))
    assert picture.count == len(memory.nodes) == 40
    # A box for each node, and one for each kind in the legend.
    roles = {box.role for box in picture.boxes[:40]}
    assert len([patch for patch in drawing.ax.patches if isinstance(patch, FancyBboxPatch)]) == 40 + len(roles)
    words = [text.get_text() for text in texts(drawing)]
    for name, parameter in model.named_parameters():
        assert name in words
        assert str(list(parameter.shape)) in words
    assert not any("Backward" in word for word in words)
    assert len([box for box in picture.boxes[:40] if box.shape == "square"]) == len(list(model.parameters()))


def test_the_bytes_in_the_boxes_are_those_of_the_graph():
    x = leaf(1024)
    h = x.exp()
    loss = (h.sin() * h).sum()
    words = [text.get_text() for text in texts(plot_graph(loss, x=x, h=h))]
    assert [word for word in words if word.startswith(("keeps", "same", "shares")) and ":" not in word] == [
        "keeps 4.0 KiB",  # the product saved sin(h), which no variable holds
        "shares 4.0 KiB",  # sin saved h
        "shares 4.0 KiB",  # exp saved its result, h
    ]
    assert "h = Exp" in words
    assert "4 nodes" not in words[1] and words[1].startswith("5 nodes; the graph alone keeps 4.0 KiB")


def test_what_a_box_says_shows_without_colour_too():
    """Border width and dashes differ, and so do shapes and words."""
    looks = {(role == "leaf", width, str(dashes)) for role, (_, _, width, dashes) in STYLES.items()}  # a leaf is square
    assert len(looks) == len(STYLES)
    hatches = [hatch for _, hatch in CATEGORY_STYLES.values()]
    assert sorted(hatches).count("") == 2  # plain sky and plain grey: the palest and the darkest without hatching
    assert len(set(CATEGORY_STYLES.values())) == len(CATEGORY_STYLES)


def test_texts_contrast_with_everything_they_stand_on():
    grounds = [PAPER, *SHADES, *(fill for fill, *_ in STYLES.values())]
    assert all(contrast(INK, ground) >= 7 for ground in grounds)
    assert contrast(QUIET_INK, PAPER) >= 7 and contrast(RULE, PAPER) >= 3


def test_borders_contrast_with_fills_and_paper():
    for fill, border, _, _ in STYLES.values():
        assert contrast(border, PAPER) >= 3 and contrast(border, fill) >= 3


@pytest.mark.parametrize("page", ["#FFFFFF", "#111111", "#1E1E1E"])
def test_figures_bring_their_own_paper_to_light_and_dark_pages(page):
    """JupyterLab's pages: what is read stands on the paper, whatever is around it."""
    plt.rcParams.update({"axes.facecolor": page, "text.color": "#FF00FF", "figure.facecolor": page})
    try:
        drawing = three_nodes()
    finally:
        plt.rcdefaults()
    assert matplotlib.colors.to_hex(drawing.figure.get_facecolor(), keep_alpha=True).upper() == PAPER + "FF"
    assert {matplotlib.colors.to_hex(text.get_color()).upper() for text, _ in own_texts(drawing)} <= {INK, QUIET_INK}


def test_axes_in_a_dark_figure_get_paper_under_them():
    with plt.style.context("dark_background"):
        _, axes = plt.subplots(1, 2, figsize=(10, 4))
    x = leaf(3)
    plot_graph(x.exp().sum(), ax=axes[0])
    drawing = plot_memory(training_step(), ax=axes[1])
    papers = [
        artist
        for artist in drawing.figure.artists + drawing.figure.patches
        if isinstance(artist, Rectangle) and matplotlib.colors.to_hex(artist.get_facecolor()).upper() == PAPER
    ]
    assert len(papers) == 2
    colors = {matplotlib.colors.to_hex(label.get_color()).upper() for label in axes[1].get_xticklabels()}
    assert colors == {INK}


def test_the_learners_style_is_left_as_it_was():
    before = dict(plt.rcParams)
    three_nodes()
    step()
    bars()
    assert dict(plt.rcParams) == before


# The figure in words.


def test_a_graph_in_words():
    x = leaf(256)
    drawing = plot_graph((x.exp() * 2).sum(), x=x)
    assert drawing.description == repr(drawing)
    assert drawing.description == (
        "Recorded graph: 4 nodes; the graph alone keeps 1.0 KiB. It starts at Sum and ends at x. "
        "Most is kept by Exp 1.0 KiB; Mul 8 B."
    )


def test_a_graph_after_backward_in_words():
    x = leaf(256)
    loss = x.exp().sum()
    loss.backward()
    assert "backward has freed what they had saved" in plot_graph(loss).description


def test_a_timeline_in_words():
    x = leaf(1000)
    with MemoryTracker(x) as memory:
        with memory.phase("forward"):
            loss = x.exp().sum()
        with memory.phase("backward"):
            loss.backward()
    words = plot_memory(memory, title="One exp").description
    assert words.startswith("One exp, over 6 allocations and frees: peak 7.8 KiB after aten::mul in backward; ")
    assert "At the peak: gradients 3.9 KiB, saved for backward 3.9 KiB" in words
    assert words.endswith("Left behind by each phase: forward +3.9 KiB, backward 0 B.")


def test_bars_in_words():
    assert bars_of_bytes().description == ("What a log keeps alive. bytes: list of losses 1.5 MiB, detached 386.5 KiB.")
    assert "FLOPs: both branches, multiplied by the gate afterwards 41.5 M, one branch 20.6 M" in bars().description


@pytest.mark.parametrize("make", [gated, step, four_batches, bars])
def test_words_are_the_same_in_every_run_and_free_of_addresses(make):
    one, other = make().description, make().description
    assert one == other
    assert not re.search("0x[0-9a-f]{4}", one) and len(one) < 1500


# Timelines.


def test_the_peak_is_marked_with_its_operation():
    drawing = step()
    memory = training_step().timeline()
    (marker,) = [line for line in drawing.ax.lines if line.get_marker() == "o"]
    assert list(marker.get_xdata()) == [memory.peak_event]
    assert [text.get_text() for text in drawing.ax.texts if text.get_text().startswith("peak")] == [
        f"peak {memory.peak / 1024:.1f} KiB\nafter {memory.peak_op}"
    ]


def test_an_area_for_each_category_and_a_band_for_each_phase():
    memory = training_step(2)
    drawing = plot_memory(memory)
    assert len(drawing.ax.collections) == len(memory.timeline().categories)
    bands = [patch for patch in drawing.ax.patches if isinstance(patch, Rectangle)]
    assert [(band.get_x(), band.get_x() + band.get_width()) for band in bands] == [
        (phase.first_event, phase.last_event) for phase in memory.phases
    ]


def test_only_outer_phases_are_shaded():
    assert len([patch for patch in nested().ax.patches if isinstance(patch, Rectangle)]) == 1


def test_names_of_phases_stand_upright_turn_or_go_into_a_key():
    def strip(width, *names):
        return phase_strip([Span(name, n * width, (n + 1) * width) for n, name in enumerate(names)], len)

    wide = strip(20, "forward0", "backward0")
    assert [(label.text, label.upwards) for label in wide.labels] == [("forward0", False), ("backward0", False)]
    narrow = strip(12, "forward0", "backward0")
    assert [(label.text, label.upwards) for label in narrow.labels] == [("forward0", True), ("backward0", True)]
    thin = strip(5, "forward0", "backward0", "forward1", "backward1", "step")
    assert thin.labels == () and thin.key == (("forward", 2), ("backward", 2), ("step", 1))
    mixed = phase_strip([Span("a", 0, 40), Span("b", 40, 80), Span("zero", 80, 80), Span("c", 80, 120)], len)
    assert mixed.left_out == ("zero",) and len(mixed.labels) == 3


def test_small_decisions():
    assert [phase_stem(name) for name in ("forward3", "epoch [2]", "7", "step")] == ["forward", "epoch", "7", "step"]
    assert nested_levels([(0, 9), (0, 4), (4, 9), (9, 12)]) == [0, 1, 1, 0]
    assert [byte_unit(size) for size in (0, 1023, 1024, 10**7)] == [
        ("B", 1), ("B", 1), ("KiB", 1024), ("MiB", 1024**2),
    ]  # fmt: skip


def test_what_cannot_be_drawn_is_refused_in_words():
    with pytest.raises(TypeError, match="plot_memory was given 3"):
        plot_memory(3)
    with pytest.raises(ValueError, match='x is "event" or "time"'):
        plot_memory(tracked(), x="seconds")
    with pytest.raises(TypeError, match="plot_bars was given"):
        plot_bars({"a": "many"})
    with pytest.raises(ValueError, match="empty dictionary"):
        plot_bars({})
    with pytest.raises(ValueError, match="has no history"):
        plot_graph(torch.ones(1))
    with pytest.raises(TypeError, match="Names were to be taken"):
        plot_graph(leaf(2).exp().sum(), 3)


@pytest.mark.parametrize(
    "module", [sys.modules["course_utils.measure.compare"], draw, fold, graph_card, labels, timeline_picture]
)
def test_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


# Names that have to fit, layers, folding.


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


def test_layers_follow_the_longest_path():
    layout = layered([(10.0, 10.0)] * 4, [(0, 1), (1, 2), (0, 3), (2, 3)])
    assert [box.y for box in layout.boxes] == sorted({box.y for box in layout.boxes})
    assert all(line.y0 < line.y1 for line in layout.lines)


def test_a_circle_cannot_be_layered():
    with pytest.raises(ValueError, match="form a circle"):
        layered([(1.0, 1.0)] * 2, [(0, 1), (1, 0)])


def test_a_chain_is_drawn_straight():
    layout = layered([(float(10 + n), 10.0) for n in range(6)], [(n, n + 1) for n in range(5)])
    assert len({round(box.x, 6) for box in layout.boxes}) == 1


@pytest.mark.parametrize("make", [twenty_steps, two_hundred_nodes, encoder])
def test_large_graphs_are_folded_and_lose_no_byte(make):
    picture = picture_of(make)
    assert picture.count <= 40
    assert "boxes" in picture.description


@pytest.mark.parametrize("name", ["recurrent_cell_of_twenty_steps", "gru_of_two_layers", "gated_convolutions"])
def test_folding_keeps_every_node_once_and_never_runs_in_a_circle(name):
    loss, model = GRAPHS[name]()
    memory = graph_memory(loss, names=tensor_names(model))
    folding = folded(memory)
    assert sorted(node.index for group in folding.groups for node in group.nodes) == list(range(len(memory.nodes)))
    assert sum(group.kept for group in folding.groups) == memory.exclusive
    assert all(upper < lower for upper, lower in folding.edges)


def test_layers_of_a_model_fold_into_one_box_each():
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(4)]
    model = nn.Sequential(*layers)
    loss = model(torch.randn(2, 8, 16)).sum()
    folding = folded(graph_memory(loss, names=tensor_names(model)))
    assert [group.module for group in folding.groups] == ["3", "2", "1", "0"]


def test_a_module_called_in_a_loop_is_cut_where_it_repeats():
    loss, model = GRAPHS["recurrent_cell_of_twenty_steps"]()
    folding = folded(graph_memory(loss, names=tensor_names(model)))
    repeats = [call for group in folding.groups for call in group.calls]
    assert sorted(repeats) == list(range(1, 21)) and repeats[0] == 19
    # The four parameters that all steps share stay outside, so that sharing is seen.
    assert [group.nodes[0].tensor_name for group in folding.groups[-4:]] == sorted(dict(model.named_parameters()))


def test_fold_can_be_asked_for_and_refused():
    model = perceptron_model()
    loss = model(torch.randn(2, 32)).sum()
    assert picture_of(lambda: plot_graph(loss, model, fold=True)).count < 10
    assert picture_of(lambda: plot_graph(loss, model)).count == 15


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
        assert words.data["text/html"] == (
            f"<details><summary>The figure in words</summary><p>{expected}</p></details>"
        )
    # A figure of the learner's own is shown as ever; ours set nothing that would keep it from being shown.
    assert "image/png" in shown[3][-1].data and shown[3][-1].data["text/plain"].startswith("<Figure")
    assert shown[4][0].data["text/plain"] == "Bytes. bytes: a 1 B. Bytes. bytes: b 2 B."
    assert len(shown[4]) == 2 and shown[5] == []
    json.dumps(notebook)


def test_a_terminal_gets_the_words():
    drawing = bars_of_bytes()
    assert isinstance(drawing, Drawing)
    assert repr(drawing) == "What a log keeps alive. bytes: list of losses 1.5 MiB, detached 386.5 KiB."
