"""A parameter is given an attribute, and that is a list."""

import torch
from torch import nn

model = nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.weight.history = []
for _ in range(30):
    optimizer.zero_grad()
    model(torch.randn(4, 16)).sum().backward()
    optimizer.step()
    model.weight.history.append(model.weight.detach().clone())  # makes # keeps: model.weight.history
