"""A dictionary of each step goes into a list for the epoch's mean, beside backward."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


def train():
    outputs = []
    for x, y in batches(20):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outputs.append({"loss": loss})  # line
    return torch.stack([one["loss"].detach() for one in outputs]).mean().item()


for _ in range(2):
    train()
    with torch.no_grad():
        for x, _ in batches(10):
            model(x)
# says: `outputs.append\(\{"loss": loss\}\)` \(\S+:LINE\) keeps a tensor of every call and what is left of its graph
# says: `\["loss"\]` of each: `.item\(\)`
# says: given back when `train` returned
# verdict: growing
