# modified_in_place/inplace_operation
# code: out = out \+ identity
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x):
        identity = x
        out = self.relu(self.conv1(x))  # made
        out += identity  # edited
        out = self.conv2(out)
        return out


net = nn.Sequential(Block(2), Block(2))
y = net(torch.randn(1, 2, 4, 4))
loss = y.mean()
loss.backward()  # needed
