# modified_in_place/indexed_assignment
import torch
from torch import nn


class Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.randn(5, 5))
        self.out = nn.Linear(5, 1)

    def forward(self, a):
        b = torch.mm(self.param, a)  # made
        y = 0
        for i in range(5):
            b[i] = b[i] * 2  # edited
            y = y + torch.mm(self.param, b)
        return self.out(y.t())


net = Rec()
net(torch.randn(5, 3)).mean().backward()  # needed
