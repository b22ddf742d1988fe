"""A trainer of the user's own with a callback that keeps losses and norms as tensors."""

import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, model):
        self.model, self.callbacks = model, {"on_batch_end": []}
        self.optimizer = torch.optim.AdamW(model.parameters())

    def add_callback(self, event, callback):
        self.callbacks[event].append(callback)

    def run(self, steps):
        for self.step in range(steps):
            x = torch.randint(0, 12, (4, 6))
            logits = self.model(x)
            self.loss = F.cross_entropy(logits.flatten(0, 1), x.flatten())
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            for callback in self.callbacks["on_batch_end"]:
                callback(self)


log = {"loss": [], "norm": []}


def keep(trainer):
    log["loss"].append(trainer.loss)  # line
    log["norm"].append(sum(p.grad.norm() for p in trainer.model.parameters()))


trainer = Trainer(nn.Sequential(nn.Embedding(12, 16), nn.Linear(16, 12)))
trainer.add_callback("on_batch_end", keep)
trainer.run(40)
# says: `log\["loss"\].append\(trainer.loss\)` \(\S+:LINE\)
# says: Write `log\["loss"\].append\(trainer.loss.item\(\)\)`
# verdict: growing
