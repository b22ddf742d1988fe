"""The losses of a training loop are added up as tensors, after backward has freed what their graphs saved."""

import torch
from torch import nn
from torch.nn import functional as F


def train(steps):
    model = nn.Linear(32, 10)
    optimizer = torch.optim.Adam(model.parameters())
    total_loss = 0
    for _ in range(steps):
        x, y = torch.randn(16, 32), torch.randint(0, 10, (16,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss  # keeps: total_loss  # instead: total_loss += loss.item()
        mean_loss = total_loss / steps
    return mean_loss


train(40)
