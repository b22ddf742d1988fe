"""An averaged copy of the weights, a log of single numbers, the best weights so far."""

import copy

import torch
from torch import nn

model = nn.Linear(16, 16)
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters())
best, lowest, log = None, float("inf"), []
for _ in range(40):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, 0.1)
    if loss.item() < lowest:
        best, lowest = copy.deepcopy(model.state_dict()), loss.item()
    log.append(loss.detach())
