"""The outputs of an epoch of training in a list, for its statistics; evaluation follows."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


def train():
    outputs = []
    for x, y in batches(25):
        out = model(x)
        optimizer.zero_grad()
        F.cross_entropy(out, y).backward()
        optimizer.step()
        outputs.append((out, y))  # line
    return len(outputs)


for _ in range(2):
    train()
    with torch.no_grad():
        for x, _ in batches(20):
            model(x)
# says: `outputs.append\(\(out, y\)\)` \(\S+:LINE\) keeps a tensor of every call
# says: given back when `train` returned
# verdict: growing
