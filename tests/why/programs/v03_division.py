# /made_forward
import torch
from torch import nn

from course_utils import why

net = nn.Linear(3, 3)
with torch.no_grad():
    net.weight.zero_()
    net.bias.zero_()
out = net(torch.ones(2, 3))
normed = out / out.norm(dim=1, keepdim=True)  # made
loss = normed.sum()
reason = why(loss)
