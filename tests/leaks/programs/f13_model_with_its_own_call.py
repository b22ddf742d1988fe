"""Means that a model predicts are kept, and the model has a __call__ of its own."""

import torch
from minitrainer import OwnCall
from torch import nn


class Regression(OwnCall):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 64)

    def forward(self, x):
        return self.layer(x)


model, means = Regression(), []
for _ in range(40):
    means.append(model(torch.randn(4, 8)))  # line
# says: `means.append\(model\(torch.randn\(4, 8\)\)\)` \(\S+:LINE\) keeps the graph of every call
# says: 40 calls of `Regression`
# verdict: growing
