"""Batch and loss kept, as a dictionary, under no_grad."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
worst = []


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


for _ in range(2):
    for x, y in batches(20):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in batches(20):
            worst.append({"x": x, "loss": F.cross_entropy(model(x), y)})  # line
# says: `worst.append\(.*\)` \(\S+:LINE\) keeps a tensor of every call: 516 B per call
# says: With backward: steady
# never: what is left of its graph
# never: graph of every call
# verdict: growing
