"""A running loss is reset at each epoch, beside backward; evaluation follows."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


def train():
    running_loss = 0.0
    for step, (x, y) in enumerate(batches(30), 1):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss  # line
    return running_loss.item() / step


@torch.no_grad()
def test():
    return sum(F.cross_entropy(model(x), y).item() for x, y in batches(10))


for _ in range(3):
    train()
    test()
# says: The graph behind `running_loss \+= loss` \(\S+:LINE\) grows by 8 nodes a call
# says: running_loss \+= loss.item\(\)
# says: given back
# verdict: growing
