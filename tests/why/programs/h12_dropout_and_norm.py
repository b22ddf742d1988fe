# /nothing_wrong
import torch
from torch import nn

from course_utils import why

net = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Dropout(), nn.Linear(144, 2)
)
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for _ in range(2):
    loss = nn.functional.cross_entropy(net(torch.randn(4, 1, 8, 8)), torch.tensor([0, 1, 0, 1]))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
reason = why(net[0].weight)
