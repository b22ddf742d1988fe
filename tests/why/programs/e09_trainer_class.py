# modified_in_place/inplace_operation
# code: hidden = hidden.mul\(self.scale\)
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.scale = 0.5
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def compute_loss(self, batch):
        hidden = torch.exp(self.model(batch))  # made
        hidden.mul_(self.scale)  # edited
        return hidden.mean()

    def fit(self, batches):
        for batch in batches:
            self.opt.zero_grad()
            loss = self.compute_loss(batch)
            loss.backward()  # needed
            self.opt.step()


Trainer(nn.Linear(3, 3)).fit([torch.randn(2, 3) for _ in range(2)])
