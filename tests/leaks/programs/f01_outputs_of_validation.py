"""A trainer's user gathers the outputs of validation steps, never clears them, and tests at the end."""

from minitrainer import Trainer
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 32)
        self.validation_step_outputs = []

    def training_step(self, x):
        return self.layer(x).square().mean()

    def validation_step(self, x):
        out = self.layer(x)
        self.validation_step_outputs.append(out)  # line

    def test_step(self, x):
        return self.layer(x).mean()


trainer = Trainer(Module())
trainer.fit(epochs=2)
trainer.test()
# says: `self.validation_step_outputs.append\(out\)` \(\S+:LINE\) keeps a tensor of every call: 1.0 KiB per call
# never: Not a leak: `self.validation_step_outputs`
# verdict: growing
