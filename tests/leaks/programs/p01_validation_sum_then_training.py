"""A loss is added up in validation, without no_grad, between epochs of training."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


def train():
    for x, y in batches(20):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def validate():
    total = 0
    for x, y in batches(20):
        total += F.cross_entropy(model(x), y)  # line
    return total.item()


for _ in range(2):
    train()
    validate()
# says: `total \+= F.cross_entropy\(model\(x\), y\)` \(\S+:LINE\) keeps the graph of every call
# says: total \+= F.cross_entropy\(model\(x\), y\).item\(\)
# says: With backward: steady
# verdict: growing
