"""A custom Function keeps its own output on ctx: a circle."""

import gc

import torch
from torch import nn


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x * torch.sigmoid(x)  # makes # keeps: ctx.y
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.y


gc.disable()
layer = nn.Linear(32, 32)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(30):
    loss = Swish.apply(layer(torch.randn(16, 32))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
gc.enable()
