"""Each round makes a model, and its loss is kept with the graph."""

import torch
from torch import nn

kept = []
for _ in range(60):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    loss = model(torch.randn(8, 16)).mean()
    kept.append(loss)  # line
# says: 60 calls of `Sequential`
# says: `kept.append\(loss\)` \(\S+:LINE\) keeps the graph of every call
# says: kept.append\(loss.item\(\)\)
# verdict: growing
