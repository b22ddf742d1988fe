# /unused
import torch
from torch import nn

from course_utils import why


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(3, 1)
        self.spare = nn.Linear(3, 1)

    def forward(self, x):
        return self.used(x)


net = Net()
loss = net(torch.randn(2, 3)).mean()
loss.backward()
reason = why(net.spare.weight, loss)
