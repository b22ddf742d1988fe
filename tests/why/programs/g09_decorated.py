# does_not_require_grad/no_grad_mode
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)

    @torch.no_grad()
    def features(self, x):
        return self.body(x)  # cut

    def forward(self, x):
        return self.features(x).sum()


model = Model()
loss = model(torch.randn(2, 3))
loss.backward()  # needed
