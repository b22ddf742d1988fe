"""A recurrent state goes from batch to batch with its history."""

import torch
from torch import nn

cell = nn.GRUCell(16, 32)
state = torch.zeros(8, 32)
for _ in range(40):
    x = torch.randn(8, 16)
    state = cell(x, state)  # makes # keeps: state
