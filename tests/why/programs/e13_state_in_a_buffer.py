# modified_in_place/indexed_assignment
# cure: torch.stack
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, xs):
        states = torch.zeros(len(xs) + 1, 3)
        for t, x in enumerate(xs):
            states[t + 1] = torch.tanh(self.cell(x) * states[t])  # edited
        return states[1:]


net = Memory()
loss = net(torch.randn(3, 3)).sum()
loss.backward()  # needed
