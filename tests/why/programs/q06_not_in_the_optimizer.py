# /not_in_optimizer
import torch
from torch import nn

from course_utils import why

body, head = nn.Linear(3, 3), nn.Linear(3, 1)
opt = torch.optim.Adam(head.parameters(), lr=1e-3)  # optimizer
for _ in range(2):
    opt.zero_grad()
    loss = head(body(torch.randn(4, 3))).mean()
    loss.backward()
    opt.step()
reason = why(body.weight)
