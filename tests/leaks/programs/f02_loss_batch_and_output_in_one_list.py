"""A library's loop; the module keeps loss, batch and an output of each step in one list."""

from minitrainer import Trainer
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.history = nn.Linear(16, 4), []

    def training_step(self, x):
        out = self.layer(x)
        loss = out.square().mean()
        self.history.append({"loss": loss, "x": x, "out": out.detach()})  # line
        return loss


module = Module()
trainer = Trainer(module)
trainer.fit(epochs=2, validate=False)
# says: `self.history.append\(.*\)` \(\S+:LINE\) keeps .*: 644 B per call
# times: 0 Not a leak
# verdict: growing
