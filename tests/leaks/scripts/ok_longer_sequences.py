"""Batches are sorted by length, so that each is longer than the last."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for length in range(10, 60):
    loss = model(torch.randn(length, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
