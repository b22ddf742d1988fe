"""Each epoch's evaluation keeps its graphs to its end, then lets them go."""

import torch
from torch import nn


def evaluate(model):
    losses = []
    for _ in range(15):
        loss = model(torch.randn(8, 16)).square().mean()  # makes
        losses.append(loss)  # keeps: losses
    return torch.stack(losses).mean().item()


def train(model, optimizer):
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 16)).sum().backward()
        optimizer.step()


model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    train(model, optimizer)
    evaluate(model)
