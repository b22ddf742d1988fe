"""A log of Python numbers; tensors stay as they are."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


log = []
for x, y in batches(120):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    log.append([float(value) + 0.5 for value in range(8000)])
# says: The process itself grew by \d+.\d MiB over \d+ calls; tensors explain 0 B of it. Look at NumPy
# alone
# verdict: steady
