"""A meter adds up losses as they come, in training and validation."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum += val * n  # line
        self.count += n


for _ in range(2):
    meter = AverageMeter()
    for x, y in batches(20):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss, len(x))
# says: The graph behind `self.sum \+= val \* n` \(\S+:LINE\) grows by 9 nodes a call
# says: \(val \* n\).item\(\)|val.item\(\)
# verdict: growing
