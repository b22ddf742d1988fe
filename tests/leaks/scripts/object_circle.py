"""Two objects point at each other, so that neither goes when the loop lets them go."""

import gc

import torch
from torch import nn


class Sample:
    def __init__(self, output):
        self.output = output  # keeps: self.output
        self.view = View(self)


class View:
    def __init__(self, sample):
        self.sample = sample


gc.disable()
model = nn.Linear(16, 32)
for _ in range(30):
    with torch.no_grad():
        out = model(torch.randn(8, 16))  # makes
    Sample(out)
gc.enable()
