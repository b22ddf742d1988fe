"""A callback of a library's keeps the gradients of every step."""

from minitrainer import Trainer
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def training_step(self, x):
        return self.layer(x).square().mean()


class Gradients:
    def __init__(self):
        self.kept = []

    def on_step(self, trainer, x):
        self.kept.append([p.grad.clone() for p in trainer.module.parameters()])  # line


callback = Gradients()
Trainer(Module()).fit(epochs=2, validate=False, callback=callback)
# says: `self.kept.append\(.*\)` \(\S+:LINE\) keeps a tensor of every call: 272 B per call
# verdict: growing
