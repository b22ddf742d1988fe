"""A Trainer class keeps what its validation step returns in a dictionary of lists."""

import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.history = {"loss": [], "accuracy": []}

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def validate(self, x, y):
        loss = F.mse_loss(self.model(x), y)  # makes
        self.history["loss"].append(loss)  # keeps: self.history["loss"]
        self.history["accuracy"].append(loss.item())

    def fit(self, epochs):
        for _ in range(epochs):
            for _ in range(4):
                self.step(torch.randn(8, 64), torch.randn(8, 64))
            self.validate(torch.randn(8, 64), torch.randn(8, 64))


Trainer(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))).fit(24)
