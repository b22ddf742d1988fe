# /nothing_wrong
import torch
from torch import nn

from course_utils import why

body, head = nn.Linear(3, 3), nn.Linear(3, 1)
body.requires_grad_(False)
opt = torch.optim.SGD(head.parameters(), lr=0.1)
loss = head(body(torch.randn(4, 3))).mean()
loss.backward()
opt.step()
reason = why(head.weight)
