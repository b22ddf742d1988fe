"""A callback's list, while the library that runs is the only one who has the callback."""

from minitrainer import Trainer
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 32)

    def training_step(self, x):
        return self.layer(x).square().mean()


class Values:
    def __init__(self):
        self.values = []
        self.trainer = None

    def on_step(self, trainer, x):
        self.trainer = trainer
        trainer.callback = self
        self.values.append(x.clone())  # line


Trainer(Module()).fit(epochs=2, validate=False, callback=Values())
# says: `self.values.append\(x.clone\(\)\)` \(\S+:LINE\) keeps a tensor of every call: 512 B per call
# never: cycle
# verdict: growing
