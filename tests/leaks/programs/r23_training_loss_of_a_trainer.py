"""A trainer's running loss, divided for the accumulation of gradients."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


tr_loss = torch.tensor(0.0)
for step, (x, y) in enumerate(batches(75)):
    loss = F.cross_entropy(model(x), y) / 1
    loss.backward()
    tr_loss += loss  # line
    optimizer.step()
    optimizer.zero_grad()
# says: The graph behind `tr_loss \+= loss` \(\S+:LINE\) grows by 9 nodes a call
# never: growing by 0 B
# never: 0 B per call are kept
# verdict: growing
