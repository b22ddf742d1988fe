"""A hook that replaces what it kept, and one that counts."""

import torch
from torch import nn

latest, calls = {}, []


def remember(module, args, output):
    latest["features"] = output
    calls.append(output.mean().item())


model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model[0].register_forward_hook(remember)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    loss = model(torch.randn(8, 16)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
