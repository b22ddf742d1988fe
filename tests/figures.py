"""Figures of every kind, for the tests that hold of all of them; each takes the axes to draw into."""

import torch
from torch import nn

from course_utils.draw import plot_bars, plot_graph, plot_history, plot_lines, plot_memory, plot_trade
from course_utils.draw.heat_map import plot_heat_map
from course_utils.draw.hooks import plot_hooks
from course_utils.draw.lanes import plot_lanes
from course_utils.draw.maps import plot_maps
from course_utils.draw.owners import plot_owners
from course_utils.draw.panels import plot_panels
from course_utils.draw.stacked import plot_stacked
from course_utils.measure.compare import Comparison, Cost
from course_utils.memory import MemoryTracker
from tests.recorded_graphs import GRAPHS, GatedNet, gated_loss, leaf


def gated(ax=None):
    torch.manual_seed(0)
    model = GatedNet()
    return plot_graph(gated_loss(model), model, ax=ax)


def three_nodes(ax=None):
    x = leaf(10)
    return plot_graph((x * 2).sum(), x=x, ax=ax)


def with_numbers(ax=None):
    x, w = leaf(2, 2), torch.tensor([[0.12345678, -2e-9], [3.0, 1e6 / 7]], requires_grad=True)
    product = x * w
    return plot_graph((product.tanh() * product).sum(), x=x, product=product, values=True, ax=ax)


def twenty_steps(ax=None):
    loss, model = GRAPHS["recurrent_cell_of_twenty_steps"]()
    return plot_graph(loss, model, ax=ax)


def two_hundred_nodes(ax=None):
    x = y = leaf(5)
    for _ in range(50):
        y = (y.sin() + y * 2).exp()
    return plot_graph(y.sum(), {"x": x}, ax=ax)


def encoder(ax=None):
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4, enable_nested_tensor=False
    )
    return plot_graph(model(torch.randn(2, 8, 16)).sum(), model, ax=ax)


def long_names(ax=None):
    tensors = {f"a_rather_long_prefix.block_{n}.self_attention.projection_weight": leaf(3, 3) for n in range(4)}
    product = torch.linalg.multi_dot(list(tensors.values()))
    return plot_graph(
        product.sum(), tensors, title="A title that is longer than the drawing of this graph is wide " * 2, ax=ax
    )


def sparse_names(ax=None):
    loss, _keep = GRAPHS["gated_convolutions"]()
    return plot_graph(loss, ax=ax)


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


def step(ax=None):
    return plot_memory(training_step(), title="One step", ax=ax)


def four_batches(ax=None):
    return plot_memory(training_step(4), ax=ax)


def forty_batches(ax=None):
    return plot_memory(training_step(40), ax=ax)


def in_time(ax=None):
    return plot_memory(training_step(), x="time", ax=ax)


def peak_at_the_right_edge(ax=None):
    return plot_memory(tracked(("a", 40), ("the last phase of them all", 1)), ax=ax)


def peak_at_the_left_edge(ax=None):
    with MemoryTracker() as memory:
        big = torch.empty(10_000)
        del big
        kept = [torch.empty(10) for _ in range(200)]
    assert kept
    return plot_memory(memory, ax=ax)


def many_names(ax=None):
    return plot_memory(tracked(*((f"phase number {n} with a long name", 3 + n % 4) for n in range(12))), ax=ax)


def narrow_phase(ax=None):
    return plot_memory(tracked(("forward", 30), ("zero_grad", 0), ("backward", 30)), ax=ax)


def nothing_happened(ax=None):
    return plot_memory(tracked(), ax=ax)


def below_the_start(ax=None):
    big, x = torch.ones(10_000), leaf(100)
    with MemoryTracker(big, x) as memory:
        with memory.phase("free"):
            del big
        with memory.phase("work"):
            x.exp().sum().backward()
    return plot_memory(memory, ax=ax)


def nested(ax=None):
    with MemoryTracker() as memory, memory.phase("epoch"):
        kept = []
        for number in range(3):
            with memory.phase(f"batch {number}"):
                kept += [torch.empty(10) for _ in range(4)]
    assert kept
    return plot_memory(memory, ax=ax)


def owners(ax=None):
    with MemoryTracker() as memory:
        kept = []
        for number in range(8):
            with memory.phase(f"batch {number}"):
                kept.append(torch.ones(10 * (number + 1)))
    return plot_owners(memory, title="Eight owners", ax=ax)


COSTS = Comparison(
    (
        Cost("both branches, multiplied by the gate afterwards", 41_486_848, 1_278_464, 1_180_676, 1.0, 0.02),
        Cost("one branch", 20_646_400, 524_544, 459_524, 0.358, 0.01),
        Cost("nothing", 0, 0, 0, 0.0, 0.0),
    ),
    "both branches, multiplied by the gate afterwards",
    15,
)


PANELS = {
    "FLOPs a step": {"all": 4_000_000, "half": 2_000_000},
    "bytes held": {"all": 4096, "half": 1024},
    "step time": {"all": 1.0, "half": 0.52},
    "test accuracy": {"all": 0.9, "half": 0.9},
}
BILLS = {
    "nothing frozen": {"activations": 1408, "gradients": 1542, "optimizer state": 3084},
    "five of six layers frozen, the last one trains": {"activations": 256, "gradients": 257, "optimizer state": 514},
    "no training": {"activations": 0, "gradients": 0, "optimizer state": 0},
}
CROWDED = {f"line number {number}": [number, 5 + 0.001 * number] for number in range(6)}
RATIOS = [[0.25, 0.5, 1.0], [1.1, 8.0, 120.0]]
ROWS, COLUMNS = ("number of models", (2, 100)), ("width of a layer", (8, 64, 512))
FORWARD = [("forward pre-hook", "conv1"), ("forward hook", "conv1"), ("forward hook", "head")]
BACKWARD = [("tensor hook", "head's output"), ("post-accumulate grad hook", "head.weight")]
CALLS = {"forward": FORWARD, "backward": BACKWARD}
LONG_CALLS = {"forward": [("forward hook", "encoder.layers.10.self_attn.out_proj")] * 3}
MANY_CALLS = {"backward": [("post-accumulate grad hook", "0.weight")] * 24}
NOTES = [("caller", True), ("generator", False), ("caller", False)]
TRADE = {
    "peak bytes": {"measured": [800, 420, 230, 130], "gradients alone": [100, 100, 100, 100]},
    "time (times one batch)": {"measured": [1.0, 1.1, 1.4, 2.5]},
}
IMAGES = [("a 1", torch.eye(2)), ("a 7", torch.ones(2, 2))]
MAPS = [("for 1", torch.tensor([[0.0, 4.0], [-1.0, 0.5]])), ("for 7", torch.tensor([[0.0, 0.0], [0.0, 2.0]]))]
LONG_TITLE = "A title that is much wider than what it stands above"


def bars(ax=None):
    return plot_bars(COSTS, ax=ax)


def bars_of_bytes(ax=None):
    return plot_bars({"list of losses": 1583136, "detached": 395784}, title="What a log keeps alive", ax=ax)


def panels(ax=None):
    return plot_panels(PANELS, title="Two ways", note="time: as a multiple of all", ax=ax)


def stacked(ax=None):
    return plot_stacked(BILLS, title="The bill", ax=ax)


def crowded_lines(ax=None):
    return plot_lines(CROWDED, x="step", y="loss", title="Close ends", ax=ax)


def lines_at_zero(ax=None):
    values = {"kept": [100, 200], "cut": [4, 4], "number": [0, 0]}
    return plot_lines(values, x="step", y="bytes alive", title="At zero", ax=ax)


def large_numbers(ax=None):
    return plot_lines({"one": [1e8, 4e8], "other": [2e8, 1e8]}, x="step", y="operations", title="Large numbers", ax=ax)


def one_point(ax=None):
    return plot_lines({"one": [1.0]}, x="step", y="loss", title=LONG_TITLE, ax=ax)


def heat_map(ax=None):
    words = {"title": "Times faster", "below": "the loop is faster", "above": "one call is faster"}
    return plot_heat_map(RATIOS, rows=ROWS, columns=COLUMNS, ax=ax, **words)


def one_cell(ax=None):
    return plot_heat_map([[2.0]], rows=("a", [1]), columns=("b", [1]), title=LONG_TITLE, ax=ax)


def hooks(ax=None):
    return plot_hooks(CALLS, ax=ax)


def hooks_with_long_names(ax=None):
    return plot_hooks(LONG_CALLS, title=LONG_TITLE, ax=ax)


def lanes(ax=None):
    return plot_lanes({"a long name, longer than its notes are wide": NOTES, "b": NOTES[:1]}, title=LONG_TITLE, ax=ax)


def history(ax=None):
    return plot_history(ax=ax)


def many_hooks():
    return plot_hooks(MANY_CALLS)


def trade():
    return plot_trade(TRADE, x="parts", at=[1, 2, 4, 8], title="A trade", doubling=True)


def maps():
    return plot_maps(IMAGES, MAPS, title=LONG_TITLE)


def maps_with_long_names():
    images = [("a digit with a long name", torch.eye(2)), ("another with a long one", torch.eye(2))]
    return plot_maps(images, MAPS[:1], title="Two")


GRAPH_FIGURES = [gated, three_nodes, with_numbers, twenty_steps, two_hundred_nodes, encoder, long_names, sparse_names]
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
    owners,
]
OTHERS = [
    bars,
    bars_of_bytes,
    panels,
    stacked,
    crowded_lines,
    lines_at_zero,
    large_numbers,
    one_point,
    heat_map,
    one_cell,
    hooks,
    hooks_with_long_names,
    lanes,
    history,
]
OF_THEIR_OWN = [many_hooks, trade, maps, maps_with_long_names]  # drawn into no axes that are given
