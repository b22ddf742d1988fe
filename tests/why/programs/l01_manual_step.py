# leaf_in_place/manual_step
# code: with torch.no_grad\(\): w -= lr \* w.grad
import torch

w = torch.zeros(3, requires_grad=True)  # made
lr = 0.1
for _ in range(3):
    loss = (w - 1).pow(2).sum()
    loss.backward()
    w -= lr * w.grad  # edited
