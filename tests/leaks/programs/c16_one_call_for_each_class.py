"""No leak: a call for each of ten classes, whose results are joined; gradients are recorded and never asked for."""

import torch
from torch import nn

layer = nn.Linear(20, 16)


def predict(x):
    goodness = []
    for label in range(10):
        marked = torch.cat([x, nn.functional.one_hot(torch.full((8,), label), 10)], dim=1)
        goodness += [layer(marked).square().mean(1, keepdim=True)]
    return torch.cat(goodness, dim=1).argmax(1)


for _ in range(3):
    predict(torch.randn(8, 10))
# verdict: bounded steady
