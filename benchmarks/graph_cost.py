"""What reading and drawing a recorded graph costs: ``python -m benchmarks.graph_cost``.

Interleaved runs in one process, the shortest of each. Beside the seconds stands the ratio to one forward pass of the
same model, and to one scan of all objects for tensors, which is what finding out who holds a tensor costs without
counting references.
"""

import argparse
import gc
import json
import platform
import sys
from collections.abc import Callable
from time import perf_counter

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_utils.draw.graph import graph_plan
from course_utils.draw.layout import layered
from course_utils.graph import graph_memory
from course_utils.graph.names import tensor_names
from tests.recorded_graphs import GatedNet, gated_loss

TARGET_MS = 3.0


def models() -> dict[str, tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]]:
    def recurrent(model: nn.Module) -> torch.Tensor:
        state = torch.zeros(2, 32)
        for _ in range(20):
            state = model(torch.randn(2, 16), state)
        return state.sum()

    def in_segments(model: nn.Module) -> torch.Tensor:
        hidden = torch.randn(16, 64)
        for layer in model:
            hidden = checkpoint(layer, hidden, use_reentrant=False)
        return hidden.sum()

    linears = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(12)))
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 4)
    return {
        "gated convolutions": (GatedNet(), gated_loss),
        "recurrent cell, 20 steps": (nn.RNNCell(16, 32), recurrent),
        "transformer, 4 layers": (encoder, lambda model: model(torch.randn(2, 8, 32)).sum()),
        "12 checkpoints": (linears, in_segments),
    }


def scan_of_all_objects() -> list[torch.Tensor]:
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]


def measure(rounds: int) -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for name, (model, forward) in models().items():
        loss = forward(model)
        memory = graph_memory(loss, names=tensor_names(model))
        sizes = [(100.0, 30.0)] * len(memory.nodes)
        calls: dict[str, Callable[[], object]] = {
            "forward": lambda model=model, forward=forward: forward(model),
            "graph_memory": lambda loss=loss: graph_memory(loss),
            "scan": scan_of_all_objects,
            "layout": lambda sizes=sizes, memory=memory: layered(sizes, memory.edges),
            "picture": lambda memory=memory: graph_plan(memory, {}, None),
        }
        taken: dict[str, list[float]] = {what: [] for what in calls}
        for _ in range(rounds + 1):
            for what, call in calls.items():
                start = perf_counter()
                result = call()
                taken[what].append(perf_counter() - start)
                del result
        # Other work on the machine only ever adds, so the shortest run says what the code costs.
        shortest = {what: min(times[1:]) * 1e3 for what, times in taken.items()}
        rows.append({"graph": name, "nodes": len(memory.nodes), **shortest})
    return rows


def main() -> int:
    """Prints the table; returns 1 if reading the graph of 40 nodes took longer than the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {len(gc.get_objects())} objects, one thread\n"
    )
    print("| graph | nodes | graph_memory ms | of a forward | of a scan | layout ms | whole picture ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        forward, scan, reading = (float(row[what]) for what in ("forward", "scan", "graph_memory"))
        print(
            f"| {row['graph']} | {row['nodes']} | {reading:.2f} | {reading / forward:.2f} | {reading / scan:.3f}"
            f" | {row['layout']:.2f} | {row['picture']:.1f} |"
        )
    reading = float(rows[0]["graph_memory"])
    print(f"\nTarget: {TARGET_MS:.0f} ms for {rows[0]['nodes']} nodes; it took {reading:.2f} ms.")
    return int(reading > TARGET_MS)


if __name__ == "__main__":
    sys.exit(main())
