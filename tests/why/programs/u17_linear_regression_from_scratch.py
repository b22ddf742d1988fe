# leaf_in_place/manual_step
import torch

X, y = torch.randn(10, 2), torch.randn(10)
w = torch.randn(2, requires_grad=True)
b = torch.zeros(1, requires_grad=True)  # made


def step(lr):
    loss = ((X @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w.sub_(lr * w.grad)
    b.sub_(lr * b.grad)  # edited


step(0.1)
