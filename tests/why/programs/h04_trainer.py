# /nothing_wrong
import torch
from torch import nn

from course_utils import why


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def fit(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.model(torch.randn(3, 4)).square().mean()
            loss.backward()
            self.optimizer.step()


trainer = Trainer()
trainer.fit(3)
reason = why(trainer.model.weight)
