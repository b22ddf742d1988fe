"""A library's evaluation joins all outputs to one tensor."""

from minitrainer import Trainer
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 64)

    def training_step(self, x):
        return self.layer(x).square().mean()


trainer = Trainer(Module())
trainer.fit(epochs=1, validate=False)
trainer.predict(40)  # line
trainer.fit(epochs=1, validate=False)
# says: :LINE
# says: 80.0 KiB at most
# verdict: bounded growing
