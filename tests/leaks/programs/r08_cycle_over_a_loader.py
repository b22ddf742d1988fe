"""itertools.cycle over a loader keeps every batch."""

import itertools

import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loader():
    for _ in range(200):
        yield torch.randn(8, 16)


data = itertools.cycle(loader())  # line
for _ in range(60):
    loss = model(next(data)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# says: 512 B per call
# verdict: growing
