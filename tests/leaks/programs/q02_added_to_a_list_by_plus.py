"""A list that grows by ``+=``."""

import torch
from torch import nn

model, losses = nn.Linear(16, 4), []
for _ in range(30):
    loss = model(torch.randn(8, 16)).square().mean()
    losses += [loss]  # line
# says: `losses \+= \[loss\]` \(\S+:LINE\) keeps the graph of every call
# says: Write `losses \+= \[loss.item\(\)\]`
# verdict: growing
