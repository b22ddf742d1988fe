"""Predictions are joined to one tensor in training, and evaluation follows."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


all_preds = torch.empty(0)


def train():
    global all_preds
    for x, y in batches(30):
        out = model(x)
        optimizer.zero_grad()
        F.cross_entropy(out, y).backward()
        optimizer.step()
        all_preds = torch.cat([all_preds, out.detach()])  # line


def evaluate():
    with torch.no_grad():
        return sum(model(x).sum().item() for x, _ in batches(30))


train()
evaluate()
# says: `all_preds = torch.cat\(\[all_preds, out.detach\(\)\]\)` \(\S+:LINE\) keeps a tensor that takes in more with every call: 128 B
# says: all_preds = all_preds\[-size:\]
# verdict: growing
