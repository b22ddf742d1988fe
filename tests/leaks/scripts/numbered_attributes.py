"""Results are set as attributes by name."""

import types
import torch
from torch import nn

run = types.SimpleNamespace(name="baseline")
decoder = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 60))


def sample(step):
    z = torch.randn(10, 6)
    with torch.no_grad():
        return decoder(z)  # makes


def note(step, value):
    setattr(run, f"sample_{step}", value)  # keeps: run


for step in range(80):
    note(step, sample(step))
print(len(vars(run)))
