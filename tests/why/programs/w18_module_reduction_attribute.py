# not_a_scalar/unreduced_loss
import torch
from torch import nn


class Learner:
    def __init__(self):
        self.model = nn.Linear(3, 2)
        self.criterion = nn.MSELoss(reduction="none")  # asked

    def step(self, x, y):
        loss = self.criterion(self.model(x), y)  # made
        loss.backward()  # needed


Learner().step(torch.randn(4, 3), torch.randn(4, 2))
