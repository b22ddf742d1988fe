"""Figures of every kind, for the tests that hold of all of them."""

import torch
from torch import nn

from course_utils import plot_bars, plot_graph, plot_lines, plot_memory, plot_trade
from course_utils.draw.bars import plot_maps, plot_panels
from course_utils.draw.lanes import plot_hooks, plot_lanes
from course_utils.measure.compare import Comparison, Cost
from course_utils.memory import MemoryTracker
from tests.recorded_graphs import GRAPHS, GatedNet, gated_loss, leaf

LONG_TITLE = "A title that is much wider than what it stands above"
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
CROWDED = {f"line number {number}": [number, 5 + 0.001 * number] for number in range(6)}
CALLS = {
    "forward": [("forward pre-hook", "conv1"), ("forward hook", "conv1"), ("forward hook", "head")],
    "backward": [("tensor hook", "head's output"), ("post-accumulate grad hook", "head.weight")],
}
LONG_CALLS = {"forward": [("forward hook", "encoder.layers.10.self_attn.out_proj")] * 3}
MANY_CALLS = {"backward": [("post-accumulate grad hook", "0.weight")] * 24}
NOTES = [("caller", True), ("generator", False), ("caller", False)]
TRADE = {
    "peak bytes": {"measured": [800, 420, 230, 130], "gradients alone": [100, 100, 100, 100]},
    "time (times one batch)": {"measured": [1.0, 1.1, 1.4, 2.5]},
}
IMAGES = [("a 1", torch.eye(2)), ("a 7", torch.ones(2, 2))]
MAPS = [("for 1", torch.tensor([[0.0, 4.0], [-1.0, 0.5]])), ("for 7", torch.tensor([[0.0, 0.0], [0.0, 2.0]]))]
LONG_NAMED_IMAGES = [("a digit with a long name", torch.eye(2)), ("another with a long one", torch.eye(2))]


def gated():
    torch.manual_seed(0)
    model = GatedNet()
    return plot_graph(gated_loss(model), model)


def with_numbers():
    x, w = leaf(2, 2), torch.tensor([[0.12345678, -2e-9], [3.0, 1e6 / 7]], requires_grad=True)
    product = x * w
    return plot_graph((product.tanh() * product).sum(), x=x, product=product, values=True)


def two_hundred_nodes():
    x = y = leaf(5)
    for _ in range(50):
        y = (y.sin() + y * 2).exp()
    return plot_graph(y.sum(), {"x": x})


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return plot_graph(model(torch.randn(2, 8, 16)).sum(), model)


def long_names():
    tensors = {f"a_rather_long_prefix.block_{n}.self_attention.projection_weight": leaf(3, 3) for n in range(4)}
    product = torch.linalg.multi_dot(list(tensors.values()))
    return plot_graph(product.sum(), tensors, title="A title longer than the drawing of this graph is wide " * 2)


def tracked(*phases):
    """A tracker that saw so many tensors made, and kept, in each phase."""
    kept = []
    with MemoryTracker() as memory:
        for name, count in phases:
            with memory.phase(name):
                kept += [torch.empty(100) for _ in range(count)]
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


def peak_at_the_left_edge():
    with MemoryTracker() as memory:
        big = torch.empty(10_000)
        del big
        kept = [torch.empty(10) for _ in range(200)]
    assert kept
    return plot_memory(memory)


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


GRAPHS_DRAWN = {
    "gated": gated,
    "three_nodes": lambda: plot_graph((leaf(10) * 2).sum()),
    "with_numbers": with_numbers,
    "twenty_steps": lambda: plot_graph(*GRAPHS["recurrent_cell_of_twenty_steps"]()),
    "two_hundred_nodes": two_hundred_nodes,
    "encoder": encoder,
    "long_names": long_names,
    "without_names": lambda: plot_graph(GRAPHS["gated_convolutions"]()[0]),
}
FIGURES = GRAPHS_DRAWN | {
    "step": lambda: plot_memory(training_step(), title="One step"),
    "four_batches": lambda: plot_memory(training_step(4)),
    "forty_batches": lambda: plot_memory(training_step(40)),
    "peak_at_the_right_edge": lambda: plot_memory(tracked(("a", 40), ("the last phase of them all", 1))),
    "peak_at_the_left_edge": peak_at_the_left_edge,
    "many_names": lambda: plot_memory(tracked(*((f"phase {n} with a very long name", 3 + n % 4) for n in range(12)))),
    "narrow_phase": lambda: plot_memory(tracked(("forward", 30), ("zero_grad", 0), ("backward", 30))),
    "nothing_happened": lambda: plot_memory(tracked()),
    "below_the_start": below_the_start,
    "nested": nested,
    "bars": lambda: plot_bars(COSTS),
    "bars_of_bytes": lambda: plot_bars({"list of losses": 1583136, "detached": 395784}, title="What a log keeps alive"),
    "panels": lambda: plot_panels(PANELS, title="Two ways", note="time: as a multiple of all"),
    "crowded_lines": lambda: plot_lines(CROWDED, x="step", y="loss", title="Close ends"),
    "lines_at_zero": lambda: plot_lines(
        {"kept": [100, 200], "cut": [4, 4], "number": [0, 0]}, x="step", y="bytes alive", title="At zero"
    ),
    "large_numbers": lambda: plot_lines({"one": [1e8, 4e8], "other": [2e8, 1e8]}, x="step", y="operations", title="T"),
    "one_point": lambda: plot_lines({"one": [1.0]}, x="step", y="loss", title=LONG_TITLE),
    "trade": lambda: plot_trade(TRADE, x="parts", at=[1, 2, 4, 8], title="A trade", doubling=True),
    "hooks": lambda: plot_hooks(CALLS),
    "hooks_with_long_names": lambda: plot_hooks(LONG_CALLS, title=LONG_TITLE),
    "many_hooks": lambda: plot_hooks(MANY_CALLS),
    "lanes": lambda: plot_lanes({"a name longer than its notes are wide": NOTES, "b": NOTES[:1]}, title=LONG_TITLE),
    "maps": lambda: plot_maps(IMAGES, MAPS, title=LONG_TITLE),
    "maps_with_long_names": lambda: plot_maps(LONG_NAMED_IMAGES, MAPS[:1], title="Two"),
}
