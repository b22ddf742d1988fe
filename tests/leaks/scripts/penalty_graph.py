"""A running penalty of gradients keeps the graphs of backward passes."""

import torch
from torch import nn


class Penalty:
    def __init__(self):
        self.running = torch.zeros(())

    def add(self, loss, parameters):
        (grad,) = torch.autograd.grad(loss, parameters, create_graph=True)  # makes
        self.running = self.running + grad.square().sum()  # keeps: self.running


net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
penalty = Penalty()
for _ in range(30):
    loss = net(torch.randn(8, 16)).square().mean()  # makes
    penalty.add(loss, net[0].weight)
