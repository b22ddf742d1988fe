"""Figures of recorded graphs: what is in the boxes, where they stand, and what is folded into one."""

import itertools

import matplotlib
import pytest
import torch
from torch import nn

matplotlib.use("Agg")

from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from course_utils import plot_graph
from course_utils.draw.boxes import folded
from course_utils.draw.graph import graph_plan
from course_utils.draw.layout import layered
from course_utils.graph.walk import graph_memory, tensor_names
from tests.figures import GRAPHS_DRAWN
from tests.recorded_graphs import GRAPHS, GatedNet, gated_loss, leaf, perceptron_model

pytestmark = pytest.mark.usefixtures("closed_figures")


def texts(drawing):
    return [text.get_text() for text in drawing.figure.findobj(Text) if text.get_text().strip()]


def plan_of(make):
    """The plan behind a figure of a graph."""
    seen = []

    def remember(*arguments):
        seen.append(graph_plan(*arguments))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("course_utils.draw.graph.graph_plan", remember)
        make()
    return seen[-1]


def sides(box):
    """Left, right, top and bottom of a box of a layout."""
    return box.x - box.width / 2, box.x + box.width / 2, box.y - box.height / 2, box.y + box.height / 2


@pytest.mark.parametrize("make", GRAPHS_DRAWN.values(), ids=GRAPHS_DRAWN)
def test_no_line_runs_through_a_box_and_no_box_over_another(make):
    layout = plan_of(make).layout
    boxes = [sides(box) for box in layout.boxes]
    for one, other in itertools.combinations(boxes, 2):
        assert one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
    for line in layout.lines:
        for step in range(21):
            share = step / 20
            # The curve as it is drawn: a cubic that leaves and arrives vertically.
            x = line.x0 + (line.x1 - line.x0) * share**2 * (3 - 2 * share)
            y = line.y0 + (line.y1 - line.y0) * share
            for left, right, top, bottom in boxes:
                assert not (left + 1 < x < right - 1 and top + 1 < y < bottom - 1), line


def test_every_node_has_a_box_and_every_leaf_its_name_and_shape():
    torch.manual_seed(0)
    model = GatedNet()
    loss = gated_loss(model)
    drawing, plan = plot_graph(loss, model), plan_of(lambda: plot_graph(loss, model))
    boxes = [patch for patch in drawing.ax.patches if isinstance(patch, FancyBboxPatch)]
    assert len(plan.labels) == len(boxes) == len(graph_memory(loss).nodes) == 40
    words = texts(drawing)
    for name, parameter in model.named_parameters():
        assert name in words
        assert str(list(parameter.shape)) in words
    assert not any("Backward" in word for word in words)
    assert len([card for card in plan.labels if card.is_leaf]) == len(list(model.parameters()))


def test_the_legend_names_the_kinds_of_boxes_that_there_are():
    x = leaf(10)
    signs = [text.get_text() for text in plot_graph((x * 2).sum(), x=x).ax.get_legend().get_texts()]
    assert [sign.split(":")[0] for sign in signs] == [
        "keeps",
        "operation that keeps nothing",
        "leaf",
        "the way gradients go in backward",
    ]


def test_the_bytes_in_the_boxes_are_those_of_the_graph():
    x = leaf(1024)
    h = x.exp()
    loss = (h.sin() * h).sum()
    words = texts(plot_graph(loss, x=x, h=h))
    assert [word for word in words if word.startswith(("keeps", "same", "shares")) and ":" not in word] == [
        "keeps 4.0 KiB",  # the product saved sin(h), which no variable holds
        "shares 4.0 KiB",  # sin saved h
        "shares 4.0 KiB",  # exp saved its result, h
    ]
    assert "h = Exp" in words
    assert any(word.startswith("5 nodes; the graph alone keeps 4.0 KiB") for word in words)


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


def test_a_chain_is_drawn_straight():
    layout = layered([(float(10 + n), 10.0) for n in range(6)], [(n, n + 1) for n in range(5)])
    assert len({round(box.x, 6) for box in layout.boxes}) == 1


@pytest.mark.parametrize("name", ["twenty_steps", "two_hundred_nodes", "encoder"])
def test_large_graphs_are_folded_into_few_boxes(name):
    assert 4 <= len(plan_of(GRAPHS_DRAWN[name]).labels) <= 40
    assert "boxes" in GRAPHS_DRAWN[name]().description


@pytest.mark.parametrize("name", ["recurrent_cell_of_twenty_steps", "gru_of_two_layers", "gated_convolutions"])
def test_folding_keeps_every_node_once_and_never_runs_in_a_circle(name):
    loss, model = GRAPHS[name]()
    memory = graph_memory(loss, names=tensor_names(model))
    groups, edges = folded(memory)
    assert sorted(node.index for group in groups for node in group.nodes) == list(range(len(memory.nodes)))
    assert sum(group.kept for group in groups) == memory.exclusive
    assert all(upper < lower for upper, lower in edges)


def test_layers_of_a_model_fold_into_one_box_each():
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(4)]
    model = nn.Sequential(*layers)
    loss = model(torch.randn(2, 8, 16)).sum()
    groups, _ = folded(graph_memory(loss, names=tensor_names(model)))
    assert [group.module for group in groups] == ["3", "2", "1", "0"]


def test_fold_can_be_asked_for_and_refused():
    model = perceptron_model()
    loss = model(torch.randn(2, 32)).sum()
    assert len(plan_of(lambda: plot_graph(loss, model, fold=True)).labels) < 10
    assert len(plan_of(lambda: plot_graph(loss, model)).labels) == 15
