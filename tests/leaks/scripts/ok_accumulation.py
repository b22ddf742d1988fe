"""Gradients of four micro-batches, added up as graphs and as gradients."""

import torch
from torch import nn

model = nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(8):
    total = 0
    for _ in range(12):
        total = total + model(torch.randn(8, 16)).square().mean()
    total.backward()
    for _ in range(4):
        (model(torch.randn(8, 16)).square().mean() / 4).backward()
    optimizer.step()
    optimizer.zero_grad()
