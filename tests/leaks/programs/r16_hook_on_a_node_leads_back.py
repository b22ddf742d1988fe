"""A hook on a node of a graph that leads back to what has the graph."""

import functools

import torch
from torch import nn


class Strategy:
    def __init__(self, out):
        self.cache = out
        out.grad_fn.register_hook(functools.partial(clear, self))  # line


def clear(strategy, grad_input, grad_output):
    strategy.cache = None


model = nn.Linear(16, 32)
for _ in range(40):
    strategy = Strategy(model(torch.randn(8, 16)))
# says: hook
# verdict: growing
