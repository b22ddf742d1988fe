# does_not_require_grad/not_flagged
# code: w = torch.randn\(3, requires_grad=True\)
import torch

x = torch.randn(5, 3)
w = torch.randn(3)  # cut
loss = (x @ w).pow(2).mean()
loss.backward()  # needed
