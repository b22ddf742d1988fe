"""Losses written into one tensor, which so leads to every graph."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = torch.zeros(60)
for step in range(60):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses[step] = loss  # line
# says: `losses\[step\] = loss` \(\S+:LINE\)
# says: Write `losses\[step\] = loss.(item|detach)\(\)`\.
# verdict: growing
