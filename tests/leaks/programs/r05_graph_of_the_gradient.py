"""backward(create_graph=True): the gradient leads to the graph, and the graph to the parameter with the gradient."""

import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore", "Using backward")
for _ in range(40):
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward(create_graph=True)  # line
# says: create_graph
# says: torch.autograd.grad
# verdict: growing
