"""A gradient hook is registered on a weight in each step; its closure has the step's output."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 50))
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def scale_by_output(weight, output):
    def clip(grad):
        return grad / output.abs().mean().clamp(min=1)

    weight.register_hook(clip)  # keeps: model.2.weight._backward_hooks


for _step in range(40):
    x = torch.randn(16, 10)
    out = model(x)  # makes
    loss = (out - 1).square().mean()
    scale_by_output(model[2].weight, out.detach())
    opt.zero_grad()
    loss.backward()
    opt.step()
