"""Two leaks, one in training and one in evaluation."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    return ((torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(count))


train_out, val_out = [], []
for _ in range(3):
    for x, y in batches(15):
        out = model(x)
        optimizer.zero_grad()
        F.cross_entropy(out, y).backward()
        optimizer.step()
        train_out.append(out.detach())
    with torch.no_grad():
        for x, _ in batches(15):
            val_out.append(model(x)[:1])
# says: With backward: growing by 128 B per call \(128 bytes, the same in each of
# says: Without backward: growing by 128 B per call \(128 bytes, the same in each of
# says: `train_out`, a list
# says: `val_out`, a list
# times: 2 kept by
# verdict: growing
