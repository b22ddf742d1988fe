"""Batches grow over the first half and then plateau."""

import torch
from torch import nn


class Curriculum:
    def __init__(self, start, stop, steps):
        self.start, self.stop, self.steps = start, stop, steps

    def size(self, step):
        f = min(step / self.steps, 1.0)
        return int(self.start + f * (self.stop - self.start))


class Runner:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
        self.opt = torch.optim.Adam(self.model.parameters())
        self.curriculum = Curriculum(4, 64, 60)
        self.last = {}

    def step(self, i):
        x = torch.randn(self.curriculum.size(i), 32)
        out = self.model(x)
        loss = (out - x).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.last = {"out": out, "loss": loss}


r = Runner()
for i in range(120):
    r.step(i)
print(tuple(r.last["out"].shape))
