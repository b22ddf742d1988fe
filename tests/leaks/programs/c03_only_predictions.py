"""Nothing but predictions, gathered for one array that NumPy joins."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


import numpy


def predict_proba():
    with torch.no_grad():
        return numpy.concatenate([model(x).softmax(-1).numpy() for x, _ in batches(8)])


for x, y in batches(40):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
predict_proba()
# verdict: bounded steady
