"""Predictions of the last loop are gathered and joined, after training."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


@torch.no_grad()
def predict():
    outs = []
    for x, _ in batches(20):
        outs.append(model(x))
    return torch.cat(outs)


for x, y in batches(30):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
predict()
# never: deque
# verdict: bounded steady
