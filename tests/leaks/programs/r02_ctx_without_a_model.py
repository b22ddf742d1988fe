"""A custom Function keeps its output on ctx, and no model is called."""

import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.y = y  # line
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


import gc

gc.disable()
x = torch.ones(1000, requires_grad=True)
for _ in range(60):
    y = Double.apply(x)
gc.enable()
# says: A cycle through `ctx.y` of `Double` \(\S+:LINE\) keeps
# says: save_for_backward
# verdict: growing
