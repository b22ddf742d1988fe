"""Each step's record points at the one before."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Step:
    output: torch.Tensor
    previous: object


def run(model, steps):
    last = None
    for _ in range(steps):
        with torch.no_grad():
            output = model(torch.randn(8, 16))  # makes
        last = Step(output, last)  # keeps: last
    return last


run(nn.Linear(16, 32), 30)
