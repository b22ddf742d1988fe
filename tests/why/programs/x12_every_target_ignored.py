# /made_forward
# cure: ignored
import torch
from torch import nn

from course_utils import why

net = nn.Linear(4, 3)
targets = torch.full((5,), -100)
loss = nn.functional.cross_entropy(net(torch.randn(5, 4)), targets)  # made
reason = why(loss)
