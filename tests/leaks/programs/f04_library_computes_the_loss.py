"""A library's loop calls the user's ``compute_loss``, which keeps logits on the class."""

import torch
from minitrainer import Trainer
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def training_step(self, x):
        logits = self.layer(x)
        Module.seen.append(logits)  # line
        return logits.square().mean()

    def validation_step(self, x):
        return self.layer(x)


Module.seen = []
torch.manual_seed(0)
Trainer(Module()).fit(epochs=2)
# says: `Module.seen.append\(logits\)` \(\S+:LINE\) keeps
# says: Write `Module.seen.append\(logits.detach\(\)\)`
# says: Without backward: steady
# verdict: growing
