"""Each step is an object in a reference cycle with its result; the collector frees them."""

import gc
import torch
from torch import nn


class Result:
    def __init__(self, step, output, loss):
        self.step, self.output, self.loss = step, output, loss


class Step:
    def __init__(self, model, x, y):
        self.model, self.x, self.y = model, x, y
        self.result = None

    def run(self):
        output = self.model(self.x)
        loss = nn.functional.mse_loss(output, self.y)
        self.result = Result(self, output, loss)
        return self.result


def train(model, n):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        x = torch.randn(32, 16)
        result = Step(model, x, x.flip(1)).run()
        optimizer.zero_grad()
        result.loss.backward()
        optimizer.step()
        if i % 20 == 19:
            gc.collect()
            print(i, result.loss.item())


train(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)), 120)
