"""A bank of features takes in every batch: one tensor, which gets longer."""

import torch
from torch import nn


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(16, 32)
        self.register_buffer("bank", torch.zeros(0, 32))

    def remember(self, features):
        self.bank = torch.cat([self.bank, features.detach()])  # makes # keeps: self.bank


model = Contrast()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    features = model.encoder(torch.randn(16, 16))
    optimizer.zero_grad()
    features.square().mean().backward()
    optimizer.step()
    model.remember(features)
