"""No leak: a solver that calls its model many times before one backward pass."""

import torch
from torch import nn

field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(field.parameters())


def solve(y, steps):
    way = [y]
    for _ in range(steps):
        half = y + 0.05 * field(y)
        y = y + 0.1 * field(half)
        way.append(y)
    return torch.stack(way)


for step in range(8):
    optimizer.zero_grad()
    solve(torch.randn(8, 2), 15).square().mean().backward()
    optimizer.step()
    if step % 4 == 3:
        with torch.no_grad():
            solve(torch.randn(8, 2), 30)
# verdict: bounded steady
