"""A trainer smooths its loss beside backward; the average remembers every loss before."""

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.smooth = 0.0

    def step(self, x):
        loss = self.model(x).square().mean()
        self.smooth = 0.9 * self.smooth + 0.1 * loss  # keeps: self.smooth  # instead: 0.1 * loss.item()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


trainer = Trainer()
for _ in range(60):
    trainer.step(torch.randn(8, 16))
