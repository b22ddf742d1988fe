# /learning_rate_zero
import torch
from torch import nn

from course_utils import why

net = nn.Linear(2, 1)
optim = torch.optim.AdamW(net.parameters(), lr=0.0)  # optimizer
for _ in range(3):
    optim.zero_grad()
    net(torch.randn(4, 2)).pow(2).mean().backward()
    optim.step()
reason = why(net.weight)
