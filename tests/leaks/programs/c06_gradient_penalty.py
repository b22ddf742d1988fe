"""No leak: a gradient of a gradient in every step, by autograd.grad."""

import torch
from torch import nn

critic = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters())
for _ in range(50):
    x = torch.randn(16, 12, requires_grad=True)
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    loss = critic(x.detach()).mean() + (gradient.norm(2, dim=1) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# verdict: bounded steady
