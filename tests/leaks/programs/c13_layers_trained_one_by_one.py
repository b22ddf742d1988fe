"""No leak: layers that are trained one after the other, each on what the one before makes of all data."""

import torch
from torch import nn

layers = [nn.Linear(16, 16) for _ in range(3)]
x = torch.randn(32, 16)
for layer in layers:
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.03)
    for _ in range(30):
        good, bad = layer(x).relu().square().mean(1), layer(x.flip(0)).relu().square().mean(1)
        optimizer.zero_grad()
        torch.log(1 + torch.exp(torch.cat([2 - good, bad - 2]))).mean().backward()
        optimizer.step()
    x = layer(x).relu().detach()
# verdict: bounded steady
