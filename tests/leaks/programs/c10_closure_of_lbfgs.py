"""No leak: LBFGS, which calls a closure several times a step and keeps a history of fixed size."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, history_size=8)
x = torch.randn(32, 8)
y = x.sum(dim=1, keepdim=True).sin()


def closure():
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    return loss


for _ in range(12):
    optimizer.step(closure)
# verdict: bounded steady
