# not_a_scalar/forgotten_mean
import torch
from torch import nn

net = nn.Linear(3, 1)


def contrastive(a, b, margin=1.0):
    d = (a - b).pow(2).sum(1)
    return torch.relu(margin - d)


loss = contrastive(net(torch.randn(4, 3)), net(torch.randn(4, 3)))  # made
loss.backward()  # needed
