# modified_in_place/inplace_activation
# code: nn.ReLU\(\)
import torch
from torch import nn

net = nn.Sequential(
    nn.Linear(4, 8),
    nn.Tanh(),
    nn.ReLU(inplace=True),  # asked
    nn.Linear(8, 1),
)
out = net(torch.randn(5, 4))
out.mean().backward()  # needed
