# does_not_require_grad/reentrant_checkpoint
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

block = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
x = torch.randn(2, 3)
out = checkpoint(block, x, use_reentrant=True)  # cut
loss = out.sum()
loss.backward()  # needed
