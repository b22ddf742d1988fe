# not_a_scalar/forgotten_mean
import torch
from torch import nn

model = nn.Linear(3, 2)
out = model(torch.randn(4, 3))
losses = torch.stack([out[:, 0].pow(2).mean(), out[:, 1].abs().mean()])  # made
losses.backward()  # needed
