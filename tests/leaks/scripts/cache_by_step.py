"""A module's cache has a new key for every step."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.cache = {}
        self.count = 0

    def forward(self, x):
        h = self.layer(x)  # makes
        self.cache[f"step {self.count}"] = h  # keeps: self.cache
        self.count += 1
        return h.relu()


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    loss = model(torch.randn(8, 16)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
