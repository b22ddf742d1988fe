"""A replay buffer of NumPy arrays, never cut."""

import numpy as np
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
replay = []
for _ in range(120):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    replay.append(np.ones(40_000))
# says: The process itself grew by \d+.\d MiB over \d+ calls; tensors explain 0 B of it
# alone
# verdict: steady
