"""When one call for all models pays: how many times faster it is than a loop, as ratios of interleaved runs.

Four tables: model count against width, for one batch that all models see; the gradients of all samples of a batch,
against a backward pass per sample; and the comparison that PyTorch's tutorial publishes for a GPU (ten perceptrons
784-128-128-10, a batch of 64 for each model, 2.4 times): https://docs.pytorch.org/tutorials/intermediate/ensembling.html
And set-up and call apart: after how many calls stacking the weights of small models has paid.
Run with ``python -m benchmarks.vmap_ensembles``, on a GPU where there is one. On an H200 (PyTorch 2.11) the width did
not matter: 0.45 times for two models, 2.1 for ten, 6 for thirty and 20 for a hundred; the tutorial's ten gained 2.7.
The target is what the lesson says: a hundred small models gain more than twofold, two do not gain, and per-sample
gradients gain more than twofold.
"""

import argparse
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from course_utils.ensembles import (
    all_at_once,
    gain_grid,
    milliseconds,
    mlps,
    times_faster,
    ways_to_differentiate,
    ways_to_predict,
)

COUNTS, WIDTHS, BATCHES = (2, 10, 30, 100), (8, 32, 128, 256), (16, 64, 256)
PUBLISHED = 2.4


@dataclass(frozen=True)
class Row:
    """One comparison: what was run, and how many times faster than the loop the one call was."""

    what: str
    gain: float


def per_sample(batches: Sequence[int], width: int, device: torch.device, **timing: int) -> list[Row]:
    """The gradients of all samples of a batch, for a perceptron with two hidden layers of that width."""
    (model,) = mlps(1, width, width, width, 10, device=device)
    rows = []
    for batch in batches:
        x, y = torch.randn(batch, width, device=device), torch.arange(batch, device=device) % 10
        gain = times_faster(ways_to_differentiate(model, F.cross_entropy, x, y), **timing)
        rows.append(Row(f"per-sample gradients, width {width}, batch {batch}", gain))
    return rows


def published(device: torch.device, **timing: int) -> list[Row]:
    """The tutorial's comparison as it is run there, recording, and two variants of it."""
    models = mlps(10, 784, 128, 128, 10, device=device)
    xs = torch.randn(10, 64, 784, device=device)
    kinds = {
        "a batch each, recorded (the tutorial's)": ways_to_predict(models, xs, each=True, record=True),
        "a batch each": ways_to_predict(models, xs, each=True),
        "one batch for all": ways_to_predict(models, xs[0]),
    }
    return [Row(f"10 models 784-128-128-10, {name}", times_faster(ways, **timing)) for name, ways in kinds.items()]


def set_up(device: torch.device, **timing: int) -> list[str]:
    """For ten and a hundred small models, milliseconds of stacking, of the loop and of one call, as rows of a table."""
    rows = []
    for count in (10, 100):
        models, x = mlps(count, 8, 8, 8, 10, device=device), torch.randn(16, 8, device=device)
        ways = {"set-up": lambda models=models: all_at_once(models)} | dict(ways_to_predict(models, x))
        took = milliseconds(ways, **timing)
        gain = took["loop"] - took["vmap"]
        paid = f"{took['set-up'] / gain:.1f}" if gain > 0 else "never"
        rows.append(f"| {count} | " + " | ".join(f"{took[name]:.2f}" for name in took) + f" | {paid} |")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables; returns 1 where what the lesson says did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=16, help="rows that the models of the first table see")
    parser.add_argument("--threads", type=int, default=1, help="threads of the CPU")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    timing = {"rounds": options.rounds, "threads": options.threads}
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {options.threads} thread(s)"
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {named}, {options.rounds} rounds")
    print("Times of the loop over times of one call with vmap; above 1, vmap is faster.\n")

    grid = gain_grid(COUNTS, WIDTHS, batch=options.batch, device=device, **timing)
    print(f"| models, batch {options.batch} | " + " | ".join(f"width {width}" for width in WIDTHS) + " |")
    print("|---|" + "---:|" * len(WIDTHS))
    for count, row in zip(COUNTS, grid, strict=True):
        print(f"| {count} | " + " | ".join(f"{gain:.2f}" for gain in row) + " |")

    samples = per_sample(BATCHES, 32, device, **timing)
    print("\n| what | times faster |\n|---|---:|")
    for comparison in (*samples, *published(device, **timing)):
        print(f"| {comparison.what} | {comparison.gain:.2f} |")
    print(f"| the tutorial's, as published for a GPU | {PUBLISHED} |")

    print("\n| models, width 8 | set-up, ms | loop, ms | one call, ms | paid after calls |\n|---|---:|---:|---:|---:|")
    print(*set_up(device, **timing), sep="\n")

    held = grid[-1][0] > 2 and grid[0][0] < 1 and samples[1].gain > 2
    print("\nWhat the lesson says held." if held else "\nWhat the lesson says did not hold.")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
