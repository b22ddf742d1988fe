"""The weights of every epoch are kept."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


import copy

best = []
for _ in range(12):
    for x, y in batches(5):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    best.append(copy.deepcopy(model.state_dict()))  # line
# says: \(\S+:LINE\)
# verdict: growing
