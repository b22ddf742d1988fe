"""Draws ``docs/figure.png``, the figure of the README: four micro-batches and a step, measured as it is drawn.

python docs/figure.py
"""

from pathlib import Path

import matplotlib
import torch
from torch import nn

from course_utils import MemoryTracker, plot_memory


def main() -> None:
    matplotlib.use("agg")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    images, labels = torch.randn(4, 512, 256), torch.randint(10, (4, 512))
    with MemoryTracker(model, optimizer, images, labels) as mem:
        for x, y in zip(images, labels, strict=True):
            with mem.phase("forward"):
                loss = nn.functional.cross_entropy(model(x), y) / 4
            with mem.phase("backward"):
                loss.backward()
        with mem.phase("step"):
            optimizer.step()
    drawing = plot_memory(mem, title="What autograd keeps alive: four micro-batches, then a step")
    drawing.figure.savefig(Path(__file__).with_name("figure.png"), dpi=110)
    print(drawing.description)


if __name__ == "__main__":
    main()
