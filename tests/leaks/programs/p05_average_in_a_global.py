"""An exponential average of the loss, a global, remembers every loss before."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


average = None


def train():
    global average
    for x, y in batches(30):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average = loss if average is None else 0.9 * average + 0.1 * loss  # line


for _ in range(2):
    train()
# says: The graph behind `average = [^`]*` \(\S+:LINE\) grows by 1\d nodes a call
# verdict: growing
