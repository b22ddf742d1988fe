"""Graphs over several calls that end: a sum of micro-batches, a carried state, a sum for the log. Averages without."""

import torch
from torch import nn

cell, head = nn.GRUCell(8, 16), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
average, logged = torch.zeros(()), 0
for _ in range(5):
    state, total = torch.zeros(4, 16), 0
    for _ in range(28):
        state = cell(torch.randn(4, 8), state)
        total = total + head(state).square().mean()
    total.backward()
    optimizer.step()
    optimizer.zero_grad()
    average = 0.9 * average + 0.1 * total.detach()
for step in range(100):
    loss = head(cell(torch.randn(4, 8))).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    logged += loss
    if step % 10 == 9:
        logged = 0
    average.mul_(0.9).add_(loss.detach(), alpha=0.1)
