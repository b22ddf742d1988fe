"""A metric of the user's own keeps predictions and targets in two lists, over epochs."""

import torch
from torch import nn
from torch.nn import functional as F


class Accuracy:
    def __init__(self):
        self.predictions, self.targets = [], []

    def update(self, predictions, targets):
        self.predictions.append(predictions.detach())  # line
        self.targets.append(targets)

    def compute(self):
        return (torch.cat(self.predictions).argmax(-1) == torch.cat(self.targets)).float().mean().item()


model, accuracy = nn.Linear(16, 4), Accuracy()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    for _ in range(15):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        out = model(x)
        optimizer.zero_grad()
        F.cross_entropy(out, y).backward()
        optimizer.step()
        accuracy.update(out, y)
    accuracy.compute()
# says: `self.predictions.append\(predictions.detach\(\)\)` \(\S+:LINE\) keeps a tensor of every call: 128 B per call
# says: `self.targets.append\(targets\)` \(\S+\) keeps a tensor of every call: 64 B per call
# verdict: growing
