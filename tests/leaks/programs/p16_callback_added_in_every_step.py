"""A callback added anew in every step, each with gradients in its closure."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model, self.callbacks = model, {"on_batch_end": []}

    def add_callback(self, event, callback):
        self.callbacks[event].append(callback)  # line

    def run(self, steps):
        for _ in range(steps):
            self.model.zero_grad()
            self.model(torch.randn(4, 16)).square().mean().backward()
            for callback in list(self.callbacks["on_batch_end"]):
                callback(self)


trainer = Trainer(nn.Linear(16, 16))


def watch_gradients(trainer):
    gradients = [p.grad.clone() for p in trainer.model.parameters()]
    trainer.add_callback("on_batch_end", lambda trainer: len(gradients))


trainer.add_callback("on_batch_end", watch_gradients)
trainer.run(40)
# says: `self.callbacks\[event\].append\(callback\)` \(\S+:LINE\)
# says: `gradients`, in the closure of `watch_gradients
# says: 1.1 KiB per call
# verdict: growing
