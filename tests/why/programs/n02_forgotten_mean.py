# not_a_scalar/forgotten_mean
# code: loss.mean\(\).backward\(\)
import torch

w = torch.randn(3, requires_grad=True)
x, y = torch.randn(6, 3), torch.randn(6)
loss = (x @ w - y) ** 2  # made
loss.backward()  # needed
