"""LR finder that smooths the loss tensors."""

import torch
from torch import nn


class LRFinder:
    def __init__(self, model, optimizer, criterion, beta=0.98):
        self.model, self.optimizer, self.criterion, self.beta = model, optimizer, criterion, beta
        self.history = {"lr": [], "loss": []}
        self.avg_loss = 0.0

    def range_test(self, loader, start=1e-5, end=1.0, num_iter=60):
        for i in range(num_iter):
            lr = start * (end / start) ** (i / num_iter)
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            loss = self._step(next(loader))
            self.avg_loss = self.beta * self.avg_loss + (1 - self.beta) * loss
            self.history["lr"].append(lr)
            self.history["loss"].append(self.avg_loss / (1 - self.beta ** (i + 1)))  # keeps: self.history["loss"]

    def _step(self, batch):
        x, y = batch
        out = self.model(x)  # makes
        loss = self.criterion(out, y)
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()
        return loss


def data():
    while True:
        x = torch.randn(32, 20)
        yield x, x.sum(1, keepdim=True)


net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
finder = LRFinder(net, torch.optim.SGD(net.parameters(), lr=1e-5), nn.MSELoss())
finder.range_test(data())
best = min(range(60), key=lambda i: finder.history["loss"][i])
print(finder.history["lr"][best])
